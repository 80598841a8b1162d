//! The local platform: a cluster of the small cloud on this host, asked for over its socket.

mod ask;
mod check;
mod images;
mod machine;

pub use images::{ArtifactFile, BaseImage, Images};

use std::time::Duration;

use windlass_cloud_api::{
    BalancerSpec, Channel, Check, Client, ClusterSpec, Daemon, ForwardSpec, Label, LabelError, ObjectKey, RecordChange,
    RecordKind, RecordName, Tag, TargetState,
};
use windlass_spec::CompleteSpec;
use windlass_spec::file::Platform as PlatformSpec;
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::reason;
use windlass_steps::wait::Wait;

use crate::seen::{Backend, Executed, Provisioned, Receipt, Retirement, SeenMachine, Task};
use crate::{BOOTSTRAP, Order, Platform, PlatformError};
use ask::{act, is_unknown};

/// The ports that the balancer fronts: the API and the machine-config server.
const PORTS: [u16; 2] = [6443, 22623];
const API: &str = "api";
const CONFIG: &str = "bootstrap.ign";
/// How long a daemon may take to leave.
const LEAVING: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(20);

/// One cluster of the local cloud.
#[derive(Debug, Clone)]
pub struct Local {
    daemon: Daemon,
    client: Client,
    cluster: Label,
    images: Option<Images>,
}

impl Local {
    /// The cluster of this infra-id, of the cloud that this daemon is or will be.
    pub fn new(daemon: Daemon, infra_id: &str) -> Result<Self, LabelError> {
        let client = daemon.client();
        Ok(Local { daemon, client, cluster: Label::parse(infra_id)?, images: None })
    }

    /// With what machines are made from; only making them needs it.
    pub fn with_images(self, images: Images) -> Self {
        Local { images: Some(images), ..self }
    }

    /// Sees to it that the daemon runs if it has something of this cluster, as after a reboot of the host.
    pub async fn wake(&self) -> Result<(), PlatformError> {
        if self.has_traces() { self.start().await } else { Ok(()) }
    }

    fn tag(&self) -> Tag {
        Tag { key: format!("kubernetes.io/cluster/{}", self.cluster), value: "owned".to_owned() }
    }

    async fn start(&self) -> Result<(), PlatformError> {
        let reach = |source| PlatformError::Reach { platform: "local", source: Box::new(source) };
        self.daemon.start().await.map(drop).map_err(reach)
    }

    fn cluster_spec(&self, spec: &CompleteSpec) -> ClusterSpec {
        let Tag { key, value } = self.tag();
        let network = &spec.spec.network;
        let next = self.images.as_ref().and_then(Images::next);
        ClusterSpec {
            domain: spec.spec.domain.to_string(),
            subnet: network.machine_cidr.net(),
            mtu: u16::try_from(network.mtu).unwrap_or(u16::MAX),
            tags: [(key, value)].into(),
            egress: check::egress(spec),
            channel: Channel { next },
            public: Vec::new(),
        }
    }

    /// The names that machines and the host ask for, with what each stands for.
    async fn put_records(&self, order: &Order<'_>) -> Result<(), PlatformError> {
        let network = &order.spec.spec.network;
        let mut records = vec![
            ("api".to_owned(), network.balancer),
            ("api.internal".to_owned(), network.balancer),
            ("objects.internal".to_owned(), network.gateway),
        ];
        let members = order.machines();
        let members = members.iter().filter_map(|m| Some((format!("etcd-{}.internal", m.etcd_index?), m.address)));
        records.extend(members);
        for (name, address) in records {
            let record = RecordName::parse(&name).map_err(|error| PlatformError::act("name the API", error))?;
            let change =
                RecordChange { kind: RecordKind::A, values: vec![address.to_string()], only_if: Default::default() };
            let put = self.client.put_record(&self.cluster, &record, &change).await;
            put.map_err(act(format!("write the record {name}")))?;
        }
        Ok(())
    }

    async fn put_balancer(&self, order: &Order<'_>, targets: Vec<String>) -> Result<(), PlatformError> {
        let spec = BalancerSpec {
            address: Some(order.spec.spec.network.balancer),
            ports: PORTS.to_vec(),
            targets: targets.iter().map(|name| label(name)).collect::<Result<_, _>>()?,
            check: Check::Https {
                path: "/readyz".to_owned(),
                ca: order.authorities.to_owned(),
                name: order.spec.api_name(),
            },
        };
        let put = self.client.put_balancer(&self.cluster, &label(API)?, &spec).await;
        put.map(drop).map_err(act("make the balancer"))
    }

    async fn put_config(&self, order: &Order<'_>) -> Result<(), PlatformError> {
        let config = order.config("assets/bootstrap.ign")?;
        let put = self.client.put_object(&self.cluster, &config_key()?, config.as_bytes().to_vec()).await;
        put.map(drop).map_err(act("keep the bootstrap machine's config"))
    }
}

impl Platform for Local {
    async fn problems(&self, order: &Order<'_>) -> Vec<String> {
        check::problems(self, order.spec).await
    }

    async fn provision(&self, order: &Order<'_>) -> Result<Provisioned, PlatformError> {
        self.start().await?;
        let images = self.images.as_ref();
        let images = images.ok_or_else(|| PlatformError::act("make machines", "there is nothing to make them from"))?;
        for (name, spec) in images.specs()? {
            self.client.put_image(&name, &spec).await.map_err(act(format!("name the image {name}")))?;
        }
        let put = self.client.put_cluster(&self.cluster, &self.cluster_spec(order.spec)).await;
        let cluster = put.map_err(act(format!("make the network of {}", self.cluster)))?;
        self.put_records(order).await?;
        self.put_balancer(order, order.names_behind_balancer()).await?;
        if order.has_bootstrap() {
            self.put_config(order).await?;
        }
        let balancer = order.spec.spec.network.balancer;
        Ok(Provisioned { gateway: cluster.gateway, balancer, token_key: cluster.token_key })
    }

    async fn network_trouble(&self) -> Result<Option<String>, PlatformError> {
        let cluster = self.client.cluster(&self.cluster).await.map_err(act("look at the network"))?;
        let waits = || cluster.trouble.unwrap_or_else(|| "it is being made".to_owned());
        Ok((!cluster.ready).then(waits))
    }

    async fn open_api(&self, order: &Order<'_>) -> Result<u16, PlatformError> {
        let port = match &order.spec.spec.platform {
            PlatformSpec::Local(local) => Some(local.api_port),
            _ => None,
        };
        let spec = ForwardSpec { port, address: order.spec.spec.network.balancer, to: PORTS[0] };
        let put = self.client.put_forward(&self.cluster, &label(API)?, &spec).await;
        put.map(|forward| forward.port).map_err(act("open the way to the API"))
    }

    async fn create_machines(&self, order: &Order<'_>) -> Result<(), PlatformError> {
        self.start().await?;
        machine::create(self, order).await
    }

    async fn machines(&self) -> Result<Vec<SeenMachine>, PlatformError> {
        match self.client.machines(&self.cluster).await {
            Ok(machines) => Ok(machines.into_iter().map(machine::seen).collect()),
            Err(error) if is_unknown(&error) => Ok(Vec::new()),
            Err(error) => Err(act("look at the machines")(error)),
        }
    }

    async fn backends(&self) -> Result<Vec<Backend>, PlatformError> {
        let balancer = self.client.balancer(&self.cluster, &label(API)?).await.map_err(act("look at the balancer"))?;
        let backend = |target: windlass_cloud_api::Target| Backend {
            machine: target.machine.to_string(),
            port: target.port,
            trouble: match target.state {
                TargetState::Up => None,
                TargetState::Draining => Some("it keeps only the connections it has".to_owned()),
                TargetState::Down => Some(target.reason.unwrap_or_else(|| "it is down".to_owned())),
            },
        };
        Ok(balancer.targets.into_iter().map(backend).collect())
    }

    async fn exec(&self, machine: &str, task: &Task) -> Result<Executed, PlatformError> {
        machine::exec(self, machine, task).await
    }

    async fn console(&self, machine: &str) -> Result<String, PlatformError> {
        let console = self.client.console(&self.cluster, &label(machine)?).await;
        console.map(|console| console.text).map_err(act(format!("read the console of {machine}")))
    }

    async fn retire_bootstrap(&self, order: &Order<'_>) -> Result<Retirement, PlatformError> {
        self.put_balancer(order, order.masters()).await?;
        match self.client.delete_machine(&self.cluster, &label(BOOTSTRAP)?).await {
            Err(error) if !is_unknown(&error) => return Err(act("remove the bootstrap machine")(error)),
            Ok(()) | Err(_) => {}
        }
        let proof = self.client.delete_object(&self.cluster, &config_key()?).await;
        let proof = proof.map_err(act("delete the bootstrap machine's config"))?;
        match proof.key_gone && proof.bytes_gone {
            true => Ok(Retirement { config_digest: proof.digest }),
            false => Err(PlatformError::act(
                "delete the bootstrap machine's config",
                format!("key gone: {}, bytes gone: {}", proof.key_gone, proof.bytes_gone),
            )),
        }
    }

    async fn bootstrap_remains(&self) -> Result<Vec<String>, PlatformError> {
        let mut remains = Vec::new();
        let machines = self.machines().await?;
        remains.extend(machines.iter().filter(|m| m.name == BOOTSTRAP).map(|m| format!("machine {}", m.name)));
        let objects = self.client.objects(&self.cluster).await.map_err(act("look at the objects"))?;
        let config = config_key()?;
        remains.extend(objects.iter().filter(|o| o.key == config).map(|o| format!("object {}", o.key)));
        let backends = self.backends().await?;
        remains.extend(backends.iter().filter(|b| b.machine == BOOTSTRAP).map(|b| format!("target {}", b.port)));
        Ok(remains)
    }

    async fn is_there(&self) -> Result<bool, PlatformError> {
        let status = self.daemon.status().await;
        let status = status.map_err(|source| PlatformError::Reach { platform: "local", source: Box::new(source) })?;
        let tag = self.tag();
        let known = match status {
            None => false,
            Some(_) => {
                let clusters = self.client.clusters().await.map_err(act("look at the clusters"))?;
                clusters.iter().any(|cluster| cluster.name == self.cluster || tag.is_among(&cluster.spec.tags))
            }
        };
        Ok(known || self.has_traces())
    }

    async fn destroy(&self) -> Result<Receipt, PlatformError> {
        if !self.is_there().await? {
            return Ok(Receipt::default());
        }
        self.start().await?;
        let attempt = || format!("destroy {}", self.cluster);
        let tag = self.tag();
        let clusters = self.client.clusters().await.map_err(act(attempt()))?;
        let receipt = match clusters.iter().any(|cluster| tag.is_among(&cluster.spec.tags)) {
            true => self.client.destroy_tagged(&tag).await,
            // Things of it may be on this host all the same: then they are found by its name.
            false => self.client.destroy(&self.cluster).await,
        };
        let receipt = receipt.map(told).map_err(act(attempt()))?;
        self.daemon_settled().await;
        Ok(receipt)
    }
}

impl Local {
    /// Waits until a daemon that leaves with its last cluster has left: whoever asks next is not to meet it on its way out.
    async fn daemon_settled(&self) {
        let settled = Criterion::new("the daemon has left, or has other clusters", || async {
            Ok(match self.daemon.status().await? {
                Some(status) if status.clusters.is_empty() => Observation::NotYet(reason!("it is leaving")),
                Some(_) | None => Observation::Holds,
            })
        });
        let wait = Wait::stalled_for(LEAVING).poll_every(GLANCE);
        // The clusters are gone in any case; a daemon that stays is found again by the next request.
        let _ = wait.until(&[settled], |_| Ok::<(), std::convert::Infallible>(())).await;
    }

    /// Whether files of this cluster are on this host; they are there before anything else of it is.
    fn has_traces(&self) -> bool {
        let below = |place: &std::path::Path| place.join("clusters").join(self.cluster.as_str()).exists();
        below(&self.daemon.state) || below(&self.daemon.run)
    }
}

impl Order<'_> {
    fn names_behind_balancer(&self) -> Vec<String> {
        let bootstrap = self.has_bootstrap().then(|| BOOTSTRAP.to_owned());
        bootstrap.into_iter().chain(self.masters()).collect()
    }
}

fn told(receipt: windlass_cloud_api::Receipt) -> Receipt {
    let thing = |thing: &windlass_cloud_api::Thing| format!("{} {}", thing.kind, thing.what);
    let left = |residue: &windlass_cloud_api::Residue| match &residue.reason {
        Some(reason) => format!("{}: {reason}", thing(&residue.thing)),
        None => thing(&residue.thing),
    };
    Receipt { before: receipt.before.iter().map(thing).collect(), left: receipt.left.iter().map(left).collect() }
}

fn label(name: &str) -> Result<Label, PlatformError> {
    Label::parse(name).map_err(|error| PlatformError::act(format!("call a thing of the local cloud {name}"), error))
}

fn config_key() -> Result<ObjectKey, PlatformError> {
    ObjectKey::parse(CONFIG).map_err(|error| PlatformError::act("name an object", error))
}
