//! What the flow works with: this machine, the masters that are expected, and a way to ask each of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kube::Client;
use thiserror::Error;
use windlass_spec::CompleteSpec;
use windlass_spec::complete::{Flags, Machine, machines};
use windlass_spec::file::Role;
use windlass_spec::flags::scalar_text;
use windlass_steps::clock::Clock;

use super::reach::{self, Answers, ReachError};
use crate::facts::{Facts, FactsError};
use crate::machine_token::{JudgeError, read_spec};
use crate::places::Places;

const API_PORT: u16 = 6443;

/// This machine and the masters.
pub(super) struct Site {
    pub places: Places,
    pub spec: CompleteSpec,
    /// This machine's name.
    pub name: String,
    /// This machine's address, as the API tells it.
    pub address: Ipv4Addr,
    /// The API server on this machine.
    pub api: Client,
    /// The same, for the approver's watches.
    pub watch: Client,
    pub masters: Vec<Master>,
    pub ports: Ports,
    pub clock: Arc<dyn Clock>,
}

/// A master that is expected, and how it is asked.
pub(super) struct Master {
    pub name: String,
    pub etcd: Client,
    pub api: Client,
}

/// Where the temporary control plane listens on this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub api: SocketAddr,
    pub controller_manager: SocketAddr,
    pub scheduler: SocketAddr,
}

/// Why there is nothing to work with.
#[derive(Debug, Error)]
pub(super) enum SiteError {
    #[error("cannot tell which cluster this is")]
    KnowCluster { source: JudgeError },
    #[error("cannot tell which machine this is")]
    KnowMachine { source: FactsError },
    #[error("cannot reach {whom}")]
    Reach { whom: String, source: ReachError },
}

impl Site {
    /// Reads what the installer left on this machine; nobody is asked yet.
    pub(super) async fn open(places: &Places, clock: Arc<dyn Clock>) -> Result<Self, SiteError> {
        let spec = read_spec(places.cluster()).map_err(|source| SiteError::KnowCluster { source })?;
        let facts = Facts::read(places).map_err(|source| SiteError::KnowMachine { source })?;
        let ports = Ports::of(&spec);
        let api = api_at(places, ports.api, "the API on this machine", Answers::AtOnce).await?;
        let watch = api_at(places, ports.api, "the API on this machine", Answers::AsTheyCome).await?;
        let mut masters = Vec::new();
        for machine in machines(&spec).iter().filter(|machine| machine.role == Role::Master) {
            masters.push(Master::of(machine, &spec, places).await?);
        }
        let address = spec.spec.network.bootstrap;
        Ok(Site { places: places.clone(), spec, name: facts.name, address, api, watch, masters, ports, clock })
    }
}

impl Master {
    async fn of(machine: &Machine, spec: &CompleteSpec, places: &Places) -> Result<Self, SiteError> {
        let member = spec.etcd_name(machine.etcd_index.unwrap_or_default());
        let etcd = reach::etcd(places, &member).map_err(|source| SiteError::Reach { whom: member, source })?;
        let name = machine.name.to_string();
        let api = api_at(places, (machine.address, API_PORT).into(), &name, Answers::AtOnce).await?;
        Ok(Master { name, etcd, api })
    }
}

impl Ports {
    fn of(spec: &CompleteSpec) -> Self {
        let components = &spec.spec.components;
        let here = |flags: &Flags, usual| (Ipv4Addr::LOCALHOST, secure_port(flags).unwrap_or(usual)).into();
        Ports {
            api: (Ipv4Addr::LOCALHOST, API_PORT).into(),
            controller_manager: here(&components.kube_controller_manager.flags, 10257),
            scheduler: here(&components.kube_scheduler.flags, 10259),
        }
    }
}

async fn api_at(places: &Places, address: SocketAddr, whom: &str, answers: Answers) -> Result<Client, SiteError> {
    let client = reach::api_at(&places.kubeconfig("admin"), address, answers).await;
    client.map_err(|source| SiteError::Reach { whom: whom.to_owned(), source })
}

fn secure_port(flags: &Flags) -> Option<u16> {
    scalar_text(flags.get("secure-port")?).parse().ok()
}

/// How many of so many masters are a quorum.
pub(super) fn quorum(masters: usize) -> usize {
    masters / 2 + 1
}
