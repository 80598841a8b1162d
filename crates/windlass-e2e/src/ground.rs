//! A network with a bucket and nothing else, and machines in it that are masters without a cluster: what the node flow does
//! can be seen on them without anybody else's part in it.

mod bucket;
mod config;
mod lone;

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windlass_cloud_api::{Channel, ClusterSpec, ImageSpec, Label, MachineSpec, NewObject, ObjectKey};

use crate::host::Traces;
use crate::{Installation, Shape, until};

pub use bucket::Bucket;
pub use config::{Config, Keys, OnApi};
pub use lone::Lone;

/// How long the last of a cluster may take to go.
const TRACES: Duration = Duration::from_secs(20);
const SHAPE: Shape = Shape { masters: 3, workers: 0 };
/// Below this objects are everybody's.
const PUBLIC: &str = "addons";

/// The network.
pub struct Ground {
    cluster: Installation,
    stranger: Installation,
    before: Traces,
    numbers: AtomicU32,
}

impl Ground {
    /// A launch that goes as far as its network, with this channel of operating systems.
    pub async fn with_channel(channel: &str) -> Self {
        let before = Traces::take();
        let cluster = Installation::new("node", SHAPE).await;
        cluster.edit("cluster.yaml", "spec:\n", &format!("spec:\n  osUpdate:\n    channel: {channel}\n"));
        cluster.windlass(&["prepare"]).await.ended(0);
        let mut launch = cluster.start(&["launch", "--killed-at", "create-network/finished"]);
        let status = launch.wait().await.expect("a child ends");
        assert_eq!(status.signal(), Some(9), "{}", cluster.said());
        let stranger = Installation::new("stranger", SHAPE).await;
        stranger.windlass(&["prepare"]).await.ended(0);
        Ground { cluster, stranger, before, numbers: AtomicU32::new(0) }
    }

    /// Has the channel lead to an operating system whose image is damaged.
    pub async fn break_channel(&self) {
        let (cloud, infra_id) = (self.cluster.cloud(), self.cluster.infra_id());
        self.cluster.put("damaged.tar", "this is no archive");
        let name = Label::parse("damaged").expect("a name");
        let spec = ImageSpec {
            tree: self.cluster.directory().join("damaged.tar"),
            digest: format!("sha256:{}", "d".repeat(64)),
            os_version: "2".to_owned(),
            ignition: None,
            seeds: Vec::new(),
        };
        cloud.put_image(&name, &spec).await.expect("an image can be named");
        let cluster = cloud.cluster(&infra_id).await.expect("the cloud answers");
        let spec = ClusterSpec { channel: Channel { next: Some(name) }, ..cluster.spec };
        cloud.put_cluster(&infra_id, &spec).await.expect("a channel can be changed");
    }

    /// Makes a machine.
    pub async fn machine(&self, name: &str, change: impl FnOnce(Config) -> Config) -> Lone<'_> {
        let config = change(Config::of(&self.cluster));
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (cloud, infra_id, name) =
            (self.cluster.cloud(), self.cluster.infra_id(), Label::parse(name).expect("a name"));
        let images = cloud.images().await.expect("the cloud answers");
        let image = images.iter().find(|image| image.spec.os_version == "1").expect("there is a first system");
        let spec = MachineSpec {
            image: image.name.clone(),
            role: "master".to_owned(),
            address: None,
            memory: Some(2 << 30),
            cpus: None,
            user_data: Some(config.text()),
            tags: [("windlass.dev/etcd-index".to_owned(), number.to_string())].into(),
        };
        cloud.put_machine(&infra_id, &name, &spec).await.expect("a machine can be made");
        Lone { cloud, infra_id, name, ground: std::marker::PhantomData }
    }

    /// The keys of another cluster.
    pub fn stranger(&self) -> Keys {
        Keys::of(&self.stranger)
    }

    /// A file of another cluster's, such as a certificate.
    pub fn of_stranger(&self, path: &str) -> String {
        self.stranger.read(path)
    }

    /// A bucket that this host publishes, signed with the host's own keys; each has a higher version than the one before.
    pub async fn publish(&self) -> Bucket {
        let folder = self.cluster.directory().join("published");
        let words = ["artifacts", "publish", folder.to_str().expect("the target directory is text")];
        self.cluster.windlass(&words).await.ended(0);
        Bucket::read(&folder)
    }

    /// Those keys.
    pub fn own_keys(&self) -> Keys {
        Keys::of_cache(self.cluster.cache())
    }

    /// The host's private OpenPGP key, in armour.
    pub fn own_private_key(&self) -> PathBuf {
        self.cluster.cache().join("keys/signing.asc")
    }

    /// Where a test may keep files of its own.
    pub fn place(&self) -> PathBuf {
        self.cluster.directory()
    }

    /// Puts a bucket where machines with this prefix look for theirs.
    pub async fn put_bucket(&self, prefix: &str, bucket: &Bucket) {
        let object = |(path, content): (&String, &windlass_cloud_api::ObjectContent)| {
            let key = ObjectKey::parse(&format!("{PUBLIC}/{prefix}/{path}")).expect("a key");
            NewObject { key, content: content.clone() }
        };
        let objects: Vec<NewObject> = bucket.objects.iter().map(object).collect();
        let put = self.cluster.cloud().put_objects(&self.cluster.infra_id(), &objects).await;
        put.expect("objects can be put");
    }

    /// Everything goes, without a trace.
    pub async fn leave(self) {
        self.cluster.windlass(&["down", "--yes"]).await.ended(0);
        until("the host is as it was", TRACES, async || match Traces::take().changes(&self.before) {
            changes if changes.is_empty() => Ok(()),
            changes => Err(changes.join("\n")),
        })
        .await;
    }
}
