//! A network with a bucket and nothing else, and machines in it that are masters without a cluster.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_cloud_api::{ExecRequest, Label, MachineSpec};
use windlass_e2e::host::Traces;
use windlass_e2e::{Installation, Shape, until};

/// How long the last of a cluster may take to go.
const TRACES: Duration = Duration::from_secs(20);
const SHAPE: Shape = Shape { masters: 3, workers: 0 };
const ARGS: &str = "/etc/kubernetes/installer/bootstrap.env";

/// The network.
pub struct Ground {
    cluster: Installation,
    stranger: Installation,
    before: Traces,
    numbers: AtomicU32,
}

/// A machine in it.
pub struct Lone<'a> {
    ground: &'a Ground,
    name: Label,
}

/// What a machine boots with: a master's config, with what the test puts in the way.
pub struct Config {
    ignition: Value,
    stranger: String,
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

    /// Makes a machine.
    pub async fn machine(&self, name: &str, change: impl FnOnce(Config) -> Config) -> Lone<'_> {
        let ignition = serde_json::from_str(&self.cluster.read("assets/master.ign")).expect("a config is JSON");
        let stranger = self.stranger.read("assets/master.ign");
        let config = change(Config { ignition, stranger });
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
            user_data: Some(config.ignition.to_string()),
            tags: [("windlass.dev/etcd-index".to_owned(), number.to_string())].into(),
        };
        cloud.put_machine(&infra_id, &name, &spec).await.expect("a machine can be made");
        Lone { ground: self, name }
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

impl Config {
    /// Other flags for the node flow; where the bucket is stays as it was.
    pub fn arguments(mut self, flags: &str) -> Self {
        let text = text_of(&self.ignition, ARGS);
        let url =
            text.split_whitespace().find(|word| word.contains("--torcx-manifest-url")).expect("the flag is there");
        let url = url.trim_end_matches('\'').to_owned();
        put(&mut self.ignition, ARGS, &format!("BOOTSTRAP_ARGS='{flags} {url}'\n"));
        self
    }

    /// Another prefix for the bucket.
    pub fn bucket(mut self, prefix: &str) -> Self {
        let text = text_of(&self.ignition, ARGS).replace("/addons/", &format!("/{prefix}/"));
        put(&mut self.ignition, ARGS, &text);
        self
    }

    /// Trusts the keys of another cluster, and not its own.
    pub fn stranger(mut self) -> Self {
        let other: Value = serde_json::from_str(&self.stranger).expect("a config is JSON");
        for path in ["/etc/windlass/addon-keys.asc", "/etc/windlass/addon-key.minisign"] {
            put(&mut self.ignition, path, &text_of(&other, path));
        }
        self
    }
}

fn files(config: &Value) -> &Vec<Value> {
    config["storage"]["files"].as_array().expect("a config has files")
}

fn text_of(config: &Value, path: &str) -> String {
    let file = files(config).iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path} is not there"));
    let source = file["contents"]["source"].as_str().expect("a file has contents");
    let encoded = source.strip_prefix("data:;base64,").expect("windlass wrote it");
    String::from_utf8(STANDARD.decode(encoded).expect("it is base64")).expect("it is text")
}

fn put(config: &mut Value, path: &str, text: &str) {
    let source = json!(format!("data:;base64,{}", STANDARD.encode(text)));
    let files = config["storage"]["files"].as_array_mut().expect("a config has files");
    let file = files.iter_mut().find(|file| file["path"] == path).expect("the file is there");
    file["contents"]["source"] = source;
}

impl Lone<'_> {
    /// What a script answers, if the machine can run it now.
    async fn tries(&self, script: &str) -> Result<String, String> {
        let command = ["bash", "-ec", &format!("PATH=/opt/windlass/bin:$PATH; {script}")].map(str::to_owned).into();
        let request = ExecRequest { command, stdin: String::new(), timeout: None };
        let (cloud, infra_id) = (self.ground.cluster.cloud(), self.ground.cluster.infra_id());
        match cloud.exec(&infra_id, &self.name, &request).await {
            Ok(answer) if answer.code == 0 => Ok(answer.stdout),
            Ok(answer) => Err(format!("{}{}", answer.stdout, answer.stderr)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What a script answers; it must succeed.
    pub async fn sh(&self, script: &str) -> String {
        self.tries(script).await.unwrap_or_else(|error| panic!("{}: {script}: {error}", self.name))
    }

    async fn until(&self, what: &str, limit: Duration, script: &str) -> String {
        let what = format!("{}: {what}", self.name);
        until(&what, limit, async || {
            let told = self.tries("windlass-node report").await;
            self.tries(script).await.map_err(|error| format!("{error}: {told:?}"))
        })
        .await
    }

    /// Waits until the kubelet has run for a moment.
    pub async fn kubelet_runs(&self, limit: Duration) {
        let script = "test -e /etc/kubernetes/kubelet.env; systemctl is-active --quiet kubelet.service; test ! -e \
                      /run/windlass/reboot-due; test -S /run/containerd/containerd.sock";
        self.until("the kubelet runs", limit, script).await;
    }

    /// Waits until the flow's record has a word in it.
    pub async fn record_says(&self, word: &str, limit: Duration) {
        let script = format!("windlass-node report | grep -F -- '{word}'");
        self.until(&format!("it says {word:?}"), limit, &script).await;
    }

    /// Waits until the flow is held at a stage.
    pub async fn is_held_at(&self, stage: &str, limit: Duration) {
        self.until(&format!("it is held at {stage}"), limit, &format!("test -e /var/lib/windlass/held-at-{stage}"))
            .await;
    }

    /// The gate is closed and no kubelet has ever run.
    pub async fn has_no_gate(&self) {
        let script = "test ! -e /etc/kubernetes/kubelet.env; ! systemctl is-active --quiet kubelet.service";
        self.sh(script).await;
    }

    /// How often it has booted.
    pub async fn boots(&self) -> usize {
        self.sh("journalctl --no-pager --quiet --list-boots | wc -l").await.trim().parse().expect("a number")
    }

    /// Power goes, and comes back.
    pub async fn lose_power(&self) {
        let (cloud, infra_id) = (self.ground.cluster.cloud(), self.ground.cluster.infra_id());
        cloud.power_cut(&infra_id, &self.name).await.expect("power can be cut");
        cloud.start(&infra_id, &self.name).await.expect("it starts again");
    }

    /// Boots again as a user would have it.
    pub async fn reboot(&self) {
        let boots = self.boots().await;
        let (cloud, infra_id) = (self.ground.cluster.cloud(), self.ground.cluster.infra_id());
        cloud.reboot(&infra_id, &self.name).await.expect("it can boot again");
        self.until(
            "it has booted again",
            TRACES * 3,
            &format!("test $(journalctl --quiet --list-boots | wc -l) -gt {boots}"),
        )
        .await;
    }

    /// By the journal: no kubelet of any boot has started before the gate was written.
    pub async fn kubelet_never_started_before_its_gate(&self) {
        let gate = self.sh("stat -c %.Y /etc/kubernetes/kubelet.env").await;
        let gate: f64 = gate.trim().replace(',', ".").parse().expect("a time");
        let script =
            "journalctl --no-pager --output json --unit kubelet.service --output-fields=MESSAGE,JOB_TYPE,JOB_RESULT";
        let journal = self.sh(script).await;
        for line in journal.lines() {
            let entry: Value = serde_json::from_str(line).expect("the journal writes JSON");
            if entry["JOB_TYPE"] == "start" && entry["JOB_RESULT"] == "done" {
                let time = entry["__REALTIME_TIMESTAMP"].as_str().and_then(|t| t.parse::<f64>().ok()).expect("a time");
                assert!(time / 1e6 >= gate, "{}: {entry} before {gate}", self.name);
            }
        }
    }
}
