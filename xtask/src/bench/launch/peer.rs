//! kubeadm's side: five machines of the local cloud with the same programs, images and network, and kubeadm's commands in
//! the order that its documentation gives, workers beside masters.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_cloud_api::{
    BalancerSpec, Check, Client, ClusterSpec, Daemon, Egress, ExecRequest, ImageSpec, Label, MachineSpec, MachineState,
    RecordChange, RecordKind, RecordName, Seed, World,
};
use windlass_spec::KubeVersion;
use windlass_steps::host::{cmd, run_blocking};

use super::Timeline;
use super::usage::Watch;
use crate::session::Session;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

const CLUSTER: &str = "kubeadm";
const DOMAIN: &str = "kubeadm.test";
const MASTERS: [&str; 3] = ["m0", "m1", "m2"];
const WORKERS: [&str; 2] = ["w0", "w1"];
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(300);

/// Makes and removes the cluster.
pub async fn launch(session: &Session, place: &Path, artifacts: &Path) -> Result<Timeline, Trouble> {
    let daemon = Daemon {
        program: session.built().join("release/windlass-cloud"),
        run: place.join("run"),
        state: place.join("state"),
        world: World::Real,
    };
    daemon.start().await?;
    let peer = Peer { client: daemon.client(), cluster: Label::parse(CLUSTER)? };
    let come_up = peer.come_up(session, artifacts).await;
    let receipt = peer.client.destroy(&peer.cluster).await?;
    if !receipt.is_clean() {
        return Err(format!("left behind: {:?}", receipt.left).into());
    }
    come_up
}

struct Peer {
    client: Client,
    cluster: Label,
}

impl Peer {
    async fn come_up(&self, session: &Session, artifacts: &Path) -> Result<Timeline, Trouble> {
        self.prepare(session, artifacts).await?;
        let watch = Watch::start(CLUSTER);
        let started = Instant::now();
        let mut marks = Vec::new();
        let mut mark = |what: &str| marks.push((started.elapsed(), what.to_owned()));
        for name in MASTERS.iter().chain(&WORKERS) {
            self.machine(name).await?;
        }
        for name in MASTERS.iter().chain(&WORKERS) {
            self.until(name, "systemctl is-active -q containerd").await?;
        }
        mark("machines up");
        self.sh("m0", INIT).await?;
        mark("init");
        self.sh("m0", &format!("{KUBECTL} apply -f /etc/peer/addons.yaml")).await?;
        let join = self.sh("m0", "kubeadm token create --print-join-command").await?;
        let key = self.sh("m0", "kubeadm init phase upload-certs --upload-certs | tail -1").await?;
        let workers = async { tokio::try_join!(self.join(WORKERS[0], &join, ""), self.join(WORKERS[1], &join, "")) };
        let masters = async {
            for name in &MASTERS[1..] {
                self.join(name, &join, &format!("--control-plane --certificate-key {key}")).await?;
                mark(&format!("{name} joined"));
            }
            Ok::<(), Trouble>(())
        };
        tokio::try_join!(workers, masters)?;
        self.until("m0", &format!("test $({KUBECTL} get nodes --no-headers | grep -cw Ready) = 5")).await?;
        mark("five nodes ready");
        self.until("m0", &format!("{KUBECTL} get pods -A --no-headers | awk '{{split($3,a,\"/\"); n++; if (a[1]!=a[2]) b=1}} END {{exit b || n<20}}'")).await?;
        mark("all pods ready");
        let usage = watch.stop(started.elapsed());
        let pods: Value =
            serde_json::from_str(&self.sh("m0", &format!("{KUBECTL} get pods -n kube-system -o json")).await?)?;
        Ok(Timeline { marks, usage, restarts: restarts_in(&pods)? })
    }

    /// What is there before the clock starts: the image, the network, names and the balancer.
    async fn prepare(&self, session: &Session, artifacts: &Path) -> Result<(), Trouble> {
        self.client.put_image(&Label::parse("base-1")?, &image(session, artifacts)?).await?;
        let spec = ClusterSpec {
            domain: DOMAIN.to_owned(),
            subnet: "10.71.0.0/24".parse()?,
            mtu: 1500,
            tags: BTreeMap::new(),
            egress: Egress::Off,
            channel: Default::default(),
            public: Vec::new(),
        };
        self.client.put_cluster(&self.cluster, &spec).await?;
        let targets = MASTERS.iter().map(|name| Label::parse(name)).collect::<Result<_, _>>()?;
        let balancer = BalancerSpec { address: None, ports: vec![6443], targets, check: Check::Tcp };
        let balancer = self.client.put_balancer(&self.cluster, &Label::parse("api")?, &balancer).await?;
        for name in ["api", "api.internal"] {
            let values = vec![balancer.address.to_string()];
            let change = RecordChange { kind: RecordKind::A, values, only_if: Default::default() };
            self.client.put_record(&self.cluster, &RecordName::parse(name)?, &change).await?;
        }
        Ok(())
    }

    async fn machine(&self, name: &str) -> Result<(), Trouble> {
        let spec = MachineSpec {
            image: Label::parse("base-1")?,
            role: "worker".to_owned(),
            address: None,
            memory: None,
            cpus: None,
            user_data: Some(ignition()?),
            tags: BTreeMap::new(),
        };
        self.client.put_machine(&self.cluster, &Label::parse(name)?, &spec).await?;
        Ok(())
    }

    async fn join(&self, name: &str, join: &str, more: &str) -> Result<(), Trouble> {
        self.sh(name, &format!("{join} {more} --ignore-preflight-errors=all")).await.map(drop)
    }

    async fn sh(&self, name: &str, script: &str) -> Result<String, Trouble> {
        let script = format!("PATH=$PATH:{PROGRAMS}; {script}");
        let command = ["bash", "-ec", &script].map(str::to_owned).to_vec();
        let seconds = u32::try_from(PATIENCE.as_secs())?;
        let request = ExecRequest { command, stdin: String::new(), timeout: Some(seconds) };
        let answer = self.client.exec(&self.cluster, &Label::parse(name)?, &request).await?;
        match answer.code {
            0 => Ok(answer.stdout.trim().to_owned()),
            code => Err(format!("{name}: {script}: code {code}: {} {}", answer.stdout, answer.stderr).into()),
        }
    }

    async fn until(&self, name: &str, script: &str) -> Result<(), Trouble> {
        let mut ticks = tokio::time::interval(LOOK);
        let look = async {
            loop {
                ticks.tick().await;
                if self.sh(name, script).await.is_ok() {
                    return Ok(());
                }
                let machine = self.client.machine(&self.cluster, &Label::parse(name)?).await?;
                if let MachineState::Dead { reason, .. } = machine.state {
                    return Err(format!("{name} is dead: {reason}").into());
                }
            }
        };
        tokio::time::timeout(PATIENCE, look).await.map_err(|_| format!("{name}: never: {script}"))?
    }
}

/// Where kubeadm and kubectl are on a machine: `/usr` is not written to.
const PROGRAMS: &str = "/opt/peer/bin";
const KUBECTL: &str = "kubectl --kubeconfig /etc/kubernetes/admin.conf";
const INIT: &str = "kubeadm init --config /etc/peer/kubeadm.yaml --ignore-preflight-errors=all --upload-certs";

/// The cached files that a machine is made from.
fn image(session: &Session, artifacts: &Path) -> Result<ImageSpec, Trouble> {
    let list = cmd(session.built().join("release/windlass")).args(["artifacts", "list", "-o", "json", "--cache"]);
    let list: Vec<Value> = serde_json::from_slice(&run_blocking(list.arg(artifacts))?.stdout)?;
    let version = KubeVersion::DEFAULT.as_str();
    let found = |name: &str| -> Result<(PathBuf, String), Trouble> {
        let fits = |entry: &&Value| entry["name"] == name && (name == "ignition" || entry["version"] == version);
        let entry = list.iter().find(fits).ok_or_else(|| format!("{name} is not in the cache"))?;
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        Ok((text("path").into(), text("digest")))
    };
    let (tree, digest) = found("base-1")?;
    let seed = |name: &str, at: &str| found(name).map(|(tree, digest)| Seed { tree, digest, at: at.into() });
    Ok(ImageSpec {
        tree,
        digest,
        os_version: "1".to_owned(),
        ignition: Some(found("ignition")?.0),
        seeds: vec![seed("preload", "/var/lib/containerd")?, seed("extensions", "/var/lib/extensions")?],
    })
}

/// What kubeadm expects of a machine: a runtime, a kubelet unit, and its own name among the programs.
fn ignition() -> Result<String, Trouble> {
    let version = KubeVersion::DEFAULT;
    let companions = version.companions();
    let file = |path: &str, text: &str| {
        let source = format!("data:,{}", percent(text));
        json!({ "path": path, "mode": 0o644, "overwrite": true, "contents": { "source": source } })
    };
    let kubeadm = include_str!("peer/kubeadm.yaml")
        .replace("@VERSION@", version.as_str())
        .replace("@ETCD@", &format!("{}-0", companions.etcd))
        .replace("@COREDNS@", &format!("v{}", companions.core_dns))
        .replace("@DOMAIN@", DOMAIN);
    let containerd = include_str!("peer/containerd.toml").replace("@PAUSE@", companions.pause);
    let links = ["kubeadm", "kubectl"]
        .map(|name| json!({ "path": format!("{PROGRAMS}/{name}"), "target": "/usr/bin/kubelet", "overwrite": true }));
    let unit = |name: &str, text: &str| json!({ "name": name, "enabled": true, "contents": text });
    Ok(json!({
        "ignition": { "version": "3.3.0" },
        "storage": {
            "files": [
                file("/etc/peer/kubeadm.yaml", &kubeadm),
                file("/etc/peer/addons.yaml", &addons()?),
                file("/etc/containerd/config.toml", &containerd),
                file("/etc/sysctl.d/90-peer.conf", "net.ipv4.ip_forward = 1\n"),
            ],
            "links": links,
            "directories": [{ "path": "/etc/kubernetes/manifests", "mode": 0o700 }],
        },
        "systemd": { "units": [
            unit("containerd.service", include_str!("peer/containerd.service")),
            unit("kubelet.service", include_str!("peer/kubelet.service")),
        ]},
    })
    .to_string())
}

/// windlass' own flannel and dashboard; kube-proxy and CoreDNS are kubeadm's.
fn addons() -> Result<String, Trouble> {
    let text = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: peer\nspec:\n  domain: {DOMAIN}\n  platform:\n    local: {{}}\n"
    );
    let (_, spec) = windlass_spec::file::read_and_complete(text.as_bytes()).map_err(|problems| problems.to_string())?;
    let manifests = windlass_assets::Manifests::make(&spec)?;
    let wanted = ["addons/flannel.yaml", "addons/dashboard.yaml"];
    let texts: Vec<&str> = manifests.files().filter(|(path, _)| wanted.contains(path)).map(|(_, text)| text).collect();
    // Ours are of a kind that kubeadm's cluster does not know.
    let documents = texts.join("\n---\n");
    Ok(documents.split("\n---\n").filter(|d| !d.contains("kind: Addon")).collect::<Vec<_>>().join("\n---\n"))
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// How often the containers of these pods were started again.
pub fn restarts_in(pods: &Value) -> Result<u64, Trouble> {
    let pods = pods["items"].as_array().ok_or("no list of pods")?;
    let counts = pods.iter().flat_map(|pod| pod["status"]["containerStatuses"].as_array().into_iter().flatten());
    Ok(counts.filter_map(|status| status["restartCount"].as_u64()).sum())
}
