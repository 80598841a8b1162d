//! The local platform: a cluster of the small cloud on this host, asked for over its socket.

mod ask;
mod check;
mod images;
mod machine;

pub use images::{BaseImage, Images};

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_assets::SshKeys;
use windlass_cloud_api::{
    BalancerSpec, Channel, Check, Client, ClusterSpec, Daemon, ForwardSpec, Label, LabelError, NewObject,
    ObjectContent, ObjectKey, RecordChange, RecordKind, RecordName, Tag, TargetState,
};
use windlass_spec::CompleteSpec;
use windlass_spec::file::{LocalChannel, Platform as PlatformSpec};
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::reason;
use windlass_steps::wait::Wait;

use crate::seen::{Backend, Executed, Provisioned, Receipt, Retirement, SeenMachine, Task};
use crate::{ArtifactFile, BOOTSTRAP, BUCKET, BucketContent, BucketFile, Order, Platform, PlatformError};
use ask::{act, is_unknown};

/// The ports that the balancer fronts: the API and the machine-config server.
const PORTS: [u16; 2] = [6443, 22623];
const API: &str = "api";
const CONFIG: &str = "bootstrap.ign";
const ASSETS: &str = "bootstrap-assets.json";
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

    fn cluster_spec(&self, spec: &CompleteSpec) -> Result<ClusterSpec, PlatformError> {
        let Tag { key, value } = self.tag();
        let network = &spec.spec.network;
        let next = match LocalChannel::parse(&spec.spec.os_update.channel) {
            Some(LocalChannel::Beta) => self.images.as_ref().and_then(Images::next),
            // A complete spec for this platform has one of the two.
            Some(LocalChannel::Stable) | None => None,
        };
        Ok(ClusterSpec {
            domain: spec.spec.domain.to_string(),
            subnet: network.machine_cidr.net(),
            mtu: u16::try_from(network.mtu).unwrap_or(u16::MAX),
            tags: [(key, value)].into(),
            egress: check::egress(spec),
            channel: Channel { next },
            public: vec![object_key(BUCKET)?],
        })
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

    /// One request for all files: the daemon takes large ones from where they lie on this host.
    async fn put_bucket(&self, order: &Order<'_>) -> Result<(), PlatformError> {
        let object = |file: &BucketFile| {
            let content = match &file.content {
                BucketContent::Text(text) => ObjectContent::Text(text.clone()),
                BucketContent::File(ArtifactFile { path, digest }) => {
                    ObjectContent::File { path: path.clone(), digest: digest.clone() }
                }
            };
            Ok(NewObject { key: object_key(&format!("{BUCKET}/{}", file.key))?, content })
        };
        let objects: Vec<NewObject> = order.bucket.iter().map(object).collect::<Result<_, PlatformError>>()?;
        let put = self.client.put_objects(&self.cluster, &objects).await;
        put.map(drop).map_err(act("fill the cluster's bucket"))
    }

    /// What the bootstrap machine fetches: its config at its first boot, and then its assets.
    async fn put_objects(&self, order: &Order<'_>) -> Result<(), PlatformError> {
        let config = order.config("assets/bootstrap.ign")?;
        for (name, text) in [(CONFIG, Some(config)), (ASSETS, order.pulled_assets())] {
            if let Some(text) = text {
                let put = self.client.put_object(&self.cluster, &object_key(name)?, text.as_bytes().to_vec()).await;
                put.map_err(act(format!("keep the object {name}")))?;
            }
        }
        Ok(())
    }

    /// Deletes an object, sees that it is gone, and says what it was.
    async fn delete_object(&self, name: &str) -> Result<Option<String>, PlatformError> {
        let attempt = || format!("delete the object {name}");
        let proof = self.client.delete_object(&self.cluster, &object_key(name)?).await.map_err(act(attempt()))?;
        match proof.key_gone && proof.bytes_gone {
            true => Ok(proof.digest),
            false => Err(PlatformError::act(
                attempt(),
                format!("key gone: {}, bytes gone: {}", proof.key_gone, proof.bytes_gone),
            )),
        }
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
        let put = self.client.put_cluster(&self.cluster, &self.cluster_spec(order.spec)?).await;
        let cluster = put.map_err(act(format!("make the network of {}", self.cluster)))?;
        self.put_records(order).await?;
        self.put_balancer(order, order.names_behind_balancer()).await?;
        self.put_bucket(order).await?;
        if order.has_bootstrap() {
            self.put_objects(order).await?;
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

    async fn exec_over_ssh(&self, machine: &str, keys: &SshKeys, task: &Task) -> Result<Executed, PlatformError> {
        machine::exec_over_ssh(self, machine, keys, task).await
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
        // A push that was killed leaves its way open.
        machine::close_ssh(self, BOOTSTRAP).await?;
        let config_digest = self.delete_object(CONFIG).await?;
        Ok(Retirement { config_digest, assets_digest: self.delete_object(ASSETS).await? })
    }

    async fn bootstrap_remains(&self) -> Result<Vec<String>, PlatformError> {
        let mut remains = Vec::new();
        let machines = self.machines().await?;
        remains.extend(machines.iter().filter(|m| m.name == BOOTSTRAP).map(|m| format!("machine {}", m.name)));
        let objects = self.client.objects(&self.cluster).await.map_err(act("look at the objects"))?;
        let own = [object_key(CONFIG)?, object_key(ASSETS)?];
        remains.extend(objects.iter().filter(|o| own.contains(&o.key)).map(|o| format!("object {}", o.key)));
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
    // Most say themselves what they are.
    let thing = |thing: &windlass_cloud_api::Thing| match thing.what.starts_with(&thing.kind) {
        true => thing.what.clone(),
        false => format!("{} {}", thing.kind, thing.what),
    };
    let mut counts = BTreeMap::new();
    receipt.before.iter().for_each(|thing| *counts.entry(thing.kind.clone()).or_default() += 1);
    let left = |residue: &windlass_cloud_api::Residue| match &residue.reason {
        Some(reason) => format!("{}: {reason}", thing(&residue.thing)),
        None => thing(&residue.thing),
    };
    let (before, left) = (receipt.before.iter().map(thing).collect(), receipt.left.iter().map(left).collect());
    Receipt { before, counts, left }
}

fn label(name: &str) -> Result<Label, PlatformError> {
    Label::parse(name).map_err(|error| PlatformError::act(format!("call a thing of the local cloud {name}"), error))
}

fn object_key(text: &str) -> Result<ObjectKey, PlatformError> {
    ObjectKey::parse(text).map_err(|error| PlatformError::act("name an object", error))
}

#[cfg(test)]
mod tests {
    use windlass_cloud_api::World;
    use windlass_spec::file::read_and_complete;

    use super::*;

    fn local() -> Local {
        let place = std::path::PathBuf::from("/nonexistent");
        let daemon = Daemon { program: place.clone(), run: place.clone(), state: place, world: World::Simulated };
        let tree = ArtifactFile { path: "/tree".into(), digest: "sha256:00".to_owned() };
        let base = |os: &str| BaseImage { name: format!("base-{os}"), os_version: os.to_owned(), tree: tree.clone() };
        let (bases, ignition) = (vec![base("1"), base("2")], "/ignition".into());
        let images = Images { bases, ignition, preload: tree.clone(), extensions: tree.clone() };
        Local::new(daemon, "demo-00000").unwrap().with_images(images)
    }

    fn asked(channel: &str) -> ClusterSpec {
        let text = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: demo}}\nspec: {{osUpdate: {{channel: {channel}}}}}\n"
        );
        let (_, spec) = read_and_complete(text.as_bytes()).unwrap();
        local().cluster_spec(&spec).unwrap()
    }

    #[test]
    fn the_next_system_is_offered_on_the_channel_that_has_one() {
        for (channel, next) in [("stable", None), ("beta", Some("base-2"))] {
            let offered = asked(channel).channel.next.map(|next| next.to_string());
            assert_eq!(offered.as_deref(), next, "{channel}");
        }
    }

    #[test]
    fn machines_may_read_the_bucket_and_nothing_else_without_a_signed_url() {
        let public: Vec<String> = asked("stable").public.iter().map(ToString::to_string).collect();
        assert_eq!(public, ["addons"]);
    }
}
