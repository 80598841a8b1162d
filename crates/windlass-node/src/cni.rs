//! The pod network of a machine (a container of the flannel pods): flannel says which subnet is the machine's, and here that
//! becomes a plain bridge for the container runtime. If flannel is slow, the Node's own range is a good first word.

mod conflist;
mod subnet;

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use thiserror::Error;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::{debug, info, warn};
use windlass_cluster::access::Access;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};
use windlass_steps::interrupt::Interrupt;

use crate::exit::{Exit, Failure};
use crate::places::Places;

pub use conflist::render;
pub use subnet::{Subnet, SubnetError};

const LIMIT: u64 = 64 << 10;
const NAME: &str = "10-windlass.conflist";
/// How often to look while pods wait for their network, and how often afterwards.
const HURRY: Duration = Duration::from_millis(100);
const CALM: Duration = Duration::from_secs(2);
/// How long flannel may take before the Node is asked instead.
const PATIENCE: Duration = Duration::from_secs(5);
const ASK_LIMIT: Duration = Duration::from_secs(3);
/// What vxlan leaves of a packet, until flannel says it better.
const FIRST_MTU: u32 = 1450;

/// Why the network is not configured.
#[derive(Debug, Error)]
pub enum CniError {
    /// SIGTERM and SIGINT cannot be seen.
    #[error("cannot wait for signals")]
    HandleSignals {
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The configuration cannot be written.
    #[error("cannot write the pod network's configuration")]
    Write {
        /// What happened.
        source: HostError,
    },
}

/// Writes the configuration when the subnet is known and again when it changes, until told to end.
pub async fn run(places: &Places) -> Result<(), Failure> {
    let signals = Interrupt::on_signals().map_err(|source| CniError::HandleSignals { source });
    let done = match signals {
        Ok(interrupt) => tokio::select! {
            ended = follow(places, crate::checkpoint::node_name()) => ended,
            () = interrupt.raised() => Ok(()),
        },
        Err(error) => Err(error),
    };
    done.map_err(|error| Failure::of(Exit::TryAgain, &error, "see that /etc/cni/net.d can be written"))
}

async fn follow(places: &Places, node: Option<String>) -> Result<(), CniError> {
    let started = Instant::now();
    let mut written = None;
    let mut asking = Asking::new(node);
    let mut ticks = ticks(HURRY);
    loop {
        ticks.tick().await;
        let mut subnet = from_flannel(places);
        if subnet.is_none() && written.is_none() && started.elapsed() >= PATIENCE {
            subnet = asking.ask().await;
        }
        let Some(subnet) = subnet.filter(|subnet| written.as_ref() != Some(subnet)) else { continue };
        write(places, &subnet)?;
        info!(subnet = %subnet.range, mtu = subnet.mtu, "pod network configured");
        written = Some(subnet);
        ticks = self::ticks(CALM);
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// What flannel says, if it says anything whole: it replaces the file in one motion, so half of one is somebody else's.
fn from_flannel(places: &Places) -> Option<Subnet> {
    let bytes = read_file(places.flannel_subnet(), LIMIT).ok()?;
    match subnet::parse(&String::from_utf8_lossy(&bytes)) {
        Ok(subnet) => Some(subnet),
        Err(error) => {
            debug!(%error, "subnet of flannel not understood");
            None
        }
    }
}

/// Replaced in one motion: the runtime reads the folder whenever something in it changes.
fn write(places: &Places, subnet: &Subnet) -> Result<(), CniError> {
    let folder = places.cni();
    let made = make_dir(&folder, Mode::PUBLIC_DIR);
    let written = made.and_then(|_| write_file(folder.join(NAME), render(subnet), Mode::PUBLIC));
    written.map_err(|source| CniError::Write { source })
}

/// The API, asked only if flannel says nothing.
struct Asking {
    node: Option<String>,
    client: Option<Client>,
}

impl Asking {
    fn new(node: Option<String>) -> Self {
        Asking { node, client: None }
    }

    /// The range that the Node was given, if it was.
    async fn ask(&mut self) -> Option<Subnet> {
        let node = self.node.clone()?;
        if self.client.is_none() {
            self.client = match Access::InCluster.client().await {
                Ok(client) => Some(client),
                Err(error) => {
                    // It will not be there later either; flannel is waited for all the same.
                    warn!(%error, "Node not asked for its range");
                    self.node = None;
                    None
                }
            };
        }
        let nodes: Api<Node> = Api::all(self.client.clone()?);
        let answered = timeout(ASK_LIMIT, nodes.get(&node)).await.ok()?;
        let range = answered.inspect_err(|error| debug!(%error, "Node not read")).ok()?.spec?.pod_cidr?;
        Subnet::of_range(&range, FIRST_MTU).inspect_err(|error| warn!(%error, "range of the Node not understood")).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn the_configuration_follows_flannel() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let file = places.cni().join(NAME);
        let read = || -> Option<Value> { serde_json::from_slice(&read_file(&file, LIMIT).ok()?).ok() };
        let watching = async {
            let mut ticks = interval(Duration::from_millis(20));
            make_dir(places.flannel_subnet().parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
            ticks.tick().await;
            assert!(read().is_none());
            let says = |number: u32| format!("FLANNEL_SUBNET=10.244.{number}.1/24\nFLANNEL_MTU=1450\n");
            for number in [1, 2] {
                write_file(places.flannel_subnet(), says(number), Mode::PUBLIC).unwrap();
                let want = format!("10.244.{number}.0/24");
                while read().is_none_or(|v| v["plugins"][0]["ipam"]["ranges"][0][0]["subnet"] != want.as_str()) {
                    ticks.tick().await;
                }
            }
        };
        let both = async {
            tokio::select! {
                ended = follow(&places, None) => panic!("it ended: {ended:?}"),
                () = watching => {}
            }
        };
        timeout(Duration::from_secs(10), both).await.unwrap();
    }
}
