//! A worker that comes to a live cluster: how long it takes from its machine's start to a Node that is Ready, that its
//! kubelet is never made to wait, that it comes also if its power goes on the way, and that the cluster's word on versions
//! counts more than that of the installer's files.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use windlass_cloud_api::{Label, MachineSpec};
use windlass_e2e::{Installation, until};

use crate::{SHAPE, prepared};

const NAME: &str = "worker-1";
const LONG: Duration = Duration::from_secs(240);
/// The files by which an installer says what a machine is to run when no API does.
const INSTALLER: [&str; 2] =
    ["/etc/kubernetes/installer/kubelet.env", "/etc/kubernetes/installer/runtime-mappings.yaml"];
/// The flags of its node flow.
const ARGS: &str = "/etc/kubernetes/installer/bootstrap.env";
/// The stages that only workers have, and the one after them, when the certificate is there and the gate is closed.
const CUT_AT: [&str; 3] = ["await-api", "obtain-certificate", "open-gate"];

/// What a kubelet writes when it is refused and asks again later, each time later than before.
///
/// Not among them is a pod that was bound to the Node before its network was there: it is looked at again every second, and
/// the Node becomes Ready by that network and not by the pod. Nor are probes of containers that have just begun, nor what the
/// kubelet says in its first moment about a Node that it has not registered yet.
const BACK_OFFS: [&str; 14] = [
    "back-off",
    "BackOff",
    "Failed to watch",
    "failed to list",
    "Failed to list",
    "Unable to register node",
    "Failed to ensure lease exists",
    "Failed while requesting a signed certificate",
    "certificate signed by unknown authority",
    "Unauthorized",
    "forbidden",
    "no such host",
    "TLS handshake timeout",
    ":6443: connect",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_worker_joins_a_live_cluster_without_a_back_off_also_through_power_cuts_and_takes_its_version() {
    let cluster = prepared("worker").await;
    cluster.windlass(&["launch"]).await.ended(0);
    let (cloud, id, name) = (cluster.cloud(), cluster.infra_id(), Label::parse(NAME).expect("a name"));
    let plain = cloud.machine(&id, &name).await.expect("the worker is there").spec;

    let joined = joins(&cluster, &plain).await;
    eprintln!("machine start to Node Ready: {:.1} s, the gate open after {:.1} s", joined.ready, joined.gate);
    met_no_back_off(&cluster).await;

    let held = MachineSpec { user_data: Some(held_at(&cluster, CUT_AT[0])), ..plain.clone() };
    let took = joins_through_power_cuts(&cluster, &held).await;
    eprintln!("Ready {:.1} s after the last of {} power cuts", took.as_secs_f64(), CUT_AT.len());
    met_no_back_off(&cluster).await;

    let older = MachineSpec { user_data: Some(of_an_older_installer(&cluster).await), ..plain };
    let joined = joins(&cluster, &older).await;
    eprintln!("the same with files of 1.35: {:.1} s, the gate open after {:.1} s", joined.ready, joined.gate);
    met_no_back_off(&cluster).await;
    took_the_word_of_the_api(&cluster).await;
    cluster.windlass(&["verify"]).await.ended(0);
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

/// Seconds since the machine was asked for.
struct Joined {
    gate: f64,
    ready: f64,
}

/// A new machine takes the worker's place: another disk, another key, and tokens that nobody has used.
async fn joins(cluster: &Installation, spec: &MachineSpec) -> Joined {
    leaves(cluster).await;
    let (cloud, id, name) = (cluster.cloud(), cluster.infra_id(), Label::parse(NAME).expect("a name"));
    let (begun, started) = (Instant::now(), time::OffsetDateTime::now_utc());
    cloud.put_machine(&id, &name, spec).await.expect("a machine can be made");
    is_ready_node(cluster).await;
    let ready = begun.elapsed().as_secs_f64();
    let gate: f64 = cluster.on(NAME, "stat -c %.Y /etc/kubernetes/kubelet.env").await.trim().parse().expect("a time");
    #[expect(clippy::cast_precision_loss, reason = "seconds with three digits behind the point")]
    let started = started.unix_timestamp_nanos() as f64 / 1e9;
    Joined { gate: gate - started, ready }
}

async fn is_ready_node(cluster: &Installation) {
    let nodes: Api<Node> = Api::all(cluster.api().await);
    until("the worker's Node is Ready", LONG, async || {
        let node = nodes.get_opt(NAME).await.map_err(|error| error.to_string())?;
        let conditions = node.and_then(|node| node.status?.conditions).ok_or("there is none")?;
        match conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
            true => Ok(()),
            false => Err(format!("{conditions:?}")),
        }
    })
    .await;
}

/// A new machine that loses its power at each of these stages; answers how long it took after the last.
async fn joins_through_power_cuts(cluster: &Installation, spec: &MachineSpec) -> Duration {
    leaves(cluster).await;
    let (cloud, id, name) = (cluster.cloud(), cluster.infra_id(), Label::parse(NAME).expect("a name"));
    cloud.put_machine(&id, &name, spec).await.expect("a machine can be made");
    let mut last = Instant::now();
    for (number, stage) in CUT_AT.iter().enumerate() {
        let held = format!("test -e /var/lib/windlass/held-at-{stage}");
        until(&format!("the worker is held at {stage}"), LONG, async || cluster.tries(NAME, &held).await).await;
        let closed = "test ! -e /etc/kubernetes/kubelet.env; ! systemctl is-active --quiet kubelet.service";
        cluster.on(NAME, closed).await;
        if let Some(next) = CUT_AT.get(number + 1) {
            cluster.on(NAME, &format!("sed -i s/--held-at={stage}/--held-at={next}/ {ARGS}; sync")).await;
        }
        cloud.power_cut(&id, &name).await.expect("power can be cut");
        last = Instant::now();
        cloud.start(&id, &name).await.expect("it starts again");
    }
    is_ready_node(cluster).await;
    let took = last.elapsed();
    let report = cluster.on(NAME, "/opt/windlass/bin/windlass-node report").await;
    let report: Value = serde_json::from_str(&report).expect("a report is JSON");
    let earlier = report["bootstrap"]["earlier"].as_array().cloned().unwrap_or_default();
    let cut = earlier.iter().filter(|attempt| attempt["ending"] == "cut").count();
    assert_eq!(cut, CUT_AT.len(), "{report}");
    took
}

/// The machine goes, and its Node with it. Used tokens of its name are taken off the list, by which an administrator lets
/// a machine of this name come again.
async fn leaves(cluster: &Installation) {
    let (cloud, id, name) = (cluster.cloud(), cluster.infra_id(), Label::parse(NAME).expect("a name"));
    cloud.delete_machine(&id, &name).await.expect("a machine can be removed");
    cluster.kubectl(&["delete", "node", NAME]).await.ended(0);
    let here = format!("--field-selector=spec.nodeName={NAME}");
    cluster.kubectl(&["delete", "pods", "-A", &here, "--force", "--grace-period=0"]).await.ended(0);
    let pods: Api<Pod> = Api::all(cluster.api().await);
    until("what ran on it runs elsewhere", LONG, async || {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        match all.items.iter().find(|pod| is_on_worker(pod) || !is_ready(pod)) {
            None => Ok(()),
            Some(pod) => Err(format!("{:?}", pod.metadata.name)),
        }
    })
    .await;
    let unburnt = format!(r#"{{"data":{{"config.{NAME}":null,"join.{NAME}":null}}}}"#);
    let list = ["patch", "-n", "kube-system", "configmap", "windlass-burnt-tokens", "--type=merge", "-p", &unburnt];
    cluster.kubectl(&list).await.ended(0);
}

fn is_on_worker(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(NAME)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

/// By the whole journal of the worker's kubelet, once all its pods are ready; and neither it nor a container began twice.
async fn met_no_back_off(cluster: &Installation) {
    let pods: Api<Pod> = Api::all(cluster.api().await);
    let own = ListParams::default().fields(&format!("spec.nodeName={NAME}"));
    let own = until("every pod of the worker is ready", LONG, async || {
        let own = pods.list(&own).await.map_err(|error| error.to_string())?.items;
        match own.iter().find(|pod| !is_ready(pod)) {
            None if own.len() >= 3 => Ok(own),
            unready => {
                Err(format!("{} pods, {:?} is not ready", own.len(), unready.and_then(|p| p.metadata.name.as_ref())))
            }
        }
    })
    .await;
    for pod in own {
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let restarts: i32 = containers.map(|container| container.restart_count).sum();
        assert_eq!(restarts, 0, "{:?}", pod.metadata.name);
    }
    let journal = cluster.on(NAME, "journalctl --no-pager --output cat --unit kubelet.service").await;
    let lines: Vec<&str> = journal.lines().filter(|line| !line.contains("] FLAG: ")).collect();
    assert!(lines.len() > 100, "this is no kubelet's journal:\n{journal}");
    let waits: Vec<_> = lines.iter().filter(|line| BACK_OFFS.iter().any(|words| line.contains(words))).collect();
    assert!(waits.is_empty(), "{waits:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("Started kubelet.service")).count(), 1, "{lines:#?}");
    assert_eq!(cluster.on(NAME, "systemctl show -P NRestarts kubelet.service").await.trim(), "0");
}

/// User-data with the files of an installer of 1.35.
async fn of_an_older_installer(cluster: &Installation) -> String {
    let other = Installation::new("older", SHAPE).await;
    other.edit("cluster.yaml", "spec:\n", "spec:\n  kubernetesVersion: v1.35.4\n");
    other.windlass(&["prepare"]).await.ended(0);
    let older = json_of(&other, "assets/worker.ign");
    whole_config(cluster, |files| {
        files.retain(|file| !INSTALLER.iter().any(|path| file["path"] == *path));
        let of_older = older["storage"]["files"].as_array().into_iter().flatten();
        files.extend(of_older.filter(|file| INSTALLER.iter().any(|path| file["path"] == *path)).cloned());
        let text = text_of(file_of(files, INSTALLER[0]));
        assert!(text.contains("KUBELET_VERSION=v1.35.4"), "{text}");
    })
}

/// User-data of a worker whose node flow stops at a stage.
fn held_at(cluster: &Installation, stage: &str) -> String {
    whole_config(cluster, |files| {
        let file = file_of(files, ARGS);
        let (before, flags) = ("BOOTSTRAP_ARGS='", format!("BOOTSTRAP_ARGS='--held-at={stage} "));
        let text = text_of(file);
        assert!(text.contains(before), "{text}");
        let source = format!("data:;base64,{}", STANDARD.encode(text.replace(before, &flags)));
        file["contents"]["source"] = json!(source);
    })
}

/// User-data of a worker that has its whole config from the start, with other files.
fn whole_config(cluster: &Installation, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let (mut config, pointer) = (json_of(cluster, "assets/worker.ign"), json_of(cluster, "assets/pointers/worker.ign"));
    let files = config["storage"]["files"].as_array_mut().expect("a config has files");
    files.extend(pointer["storage"]["files"].as_array().expect("a pointer has files").iter().cloned());
    change(files);
    config.to_string().replace("@CONFIG_TOKEN@", "@token(config)@").replace("@JOIN_TOKEN@", "@token(join)@")
}

fn json_of(cluster: &Installation, path: &str) -> Value {
    serde_json::from_str(&cluster.read(path)).expect("a config is JSON")
}

fn file_of<'a>(files: &'a mut [Value], path: &str) -> &'a mut Value {
    files.iter_mut().find(|file| file["path"] == path).expect("the file is there")
}

fn text_of(file: &Value) -> String {
    let text = file["contents"]["source"].as_str().and_then(|source| source.strip_prefix("data:;base64,"));
    let text = STANDARD.decode(text.expect("windlass wrote it")).expect("it is base64");
    String::from_utf8(text).expect("it is text")
}

async fn took_the_word_of_the_api(cluster: &Installation) {
    let installer = cluster.on(NAME, &format!("cat {}", INSTALLER[0])).await;
    assert!(installer.contains("KUBELET_VERSION=v1.35.4"), "{installer}");
    let explained = cluster.on(NAME, "/opt/windlass/bin/windlass-node bootstrap --explain").await;
    for part in [
        "asked   the cluster's version: the API: v1.36.3",
        "chose   Kubernetes: v1.36.3, the API says so",
        "the cluster's ConfigMap maps them to Kubernetes 1.36",
        "chose   container runtime: containerd 2.",
        "chose   kubelet: v1.36.3",
    ] {
        assert!(explained.contains(part), "{part}:\n{explained}");
    }
    eprintln!("{explained}");
    let path = "jsonpath={.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}";
    let runs = cluster.kubectl(&["get", "node", NAME, "-o", path]).await.ended(0).stdout;
    assert!(runs.starts_with("v1.36.3 containerd://2."), "{runs}");
}
