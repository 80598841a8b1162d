//! An OS update on a live cluster: it rolls through all machines, one at a time, and nobody who uses the API notices.

pub mod history;
pub mod machines;
pub mod staged;

use std::time::{Duration, Instant};

use windlass_e2e::poll::{Answers, Poller};
use windlass_e2e::{Installation, until};

use self::history::{History, Seen, Stage};
use self::machines::{Machine, Machines, ORDER, forget_the_next_os};
use self::staged::{ask_often, let_them_go, stage_everywhere};
use crate::prepared;

/// Longer than a stage takes on a host that starts a machine at the same time.
const LONG: Duration = Duration::from_secs(240);
/// Longer than five machines take, one after the other.
const ROLL: Duration = Duration::from_secs(1500);
/// What holds a reboot up is watched for this long: whoever did not respect it would have gone by then.
const HELD: Duration = Duration::from_secs(12);
/// A request that takes this long, with its retry, is one that a user notices.
const NOTICED: Duration = Duration::from_secs(3);
/// Of ten a second; those that a busy host does not come to ask are not made up for.
const ASKED: f64 = 8.0;

/// Two pods that may not be on one machine, of which none may be taken away.
const SHOP: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app: shop}}
      containers:
      - name: shop
        image: "@IMAGE@"
        imagePullPolicy: Never
        command: [/windlass-node, probe, serve]
        readinessProbe: {httpGet: {port: 8080, path: /ready}, periodSeconds: 1}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: shop}
spec:
  minAvailable: 2
  selector: {matchLabels: {app: shop}}
"#;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn an_os_update_rolls_through_a_live_cluster_and_nobody_notices() {
    let cluster = prepared("rolling").await;
    ask_often(&cluster);
    cluster.windlass(&["launch"]).await.ended(0);
    open_shop(&cluster).await;
    forget_the_next_os(&cluster).await;
    let before = Machines::look(&cluster).await;

    let (version, reads) = (Poller::start(cluster.api().await), Poller::reading(cluster.api().await));
    let history = History::begin();
    let total = tokio::select! {
        never = history.follow(cluster.api().await) => match never {},
        total = roll(&cluster, &history) => total,
    };
    let (version, reads) = (version.stop().await, reads.stop().await);

    for (node, from, to) in history.turns() {
        eprintln!("{node}: {:.1} s, from {:.1} s on", (to - from).as_secs_f64(), from.as_secs_f64());
    }
    eprintln!("five machines: {:.1} s, with two stops of {} s", total.as_secs_f64(), HELD.as_secs());
    let turns: Vec<String> = history.turns().into_iter().map(|(node, _, _)| node).collect();
    assert_eq!(turns, ORDER, "each machine has one turn");
    assert_eq!(history.crowds(), Vec::<String>::new());
    for (what, answers) in [("version", version), ("reads", reads)] {
        told(what, &answers);
        assert!(answers.failed.is_empty(), "{what}: {answers:?}");
        assert!(answers.slowest < NOTICED, "{what}: {answers:?}");
        assert!(answers.good as f64 > total.as_secs_f64() * ASKED, "{what}: {answers:?}");
    }
    before.booted_once_into_the_next_os(&Machines::look(&cluster).await);
    until("the cluster can be used", LONG, async || match cluster.windlass(&["verify"]).await {
        ran if ran.code == 0 => Ok(()),
        ran => Err(format!("{}{}", ran.stdout, ran.stderr)),
    })
    .await;
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

fn told(what: &str, Answers { good, retried, failed, slowest }: &Answers) {
    let failed = failed.len();
    let slowest = slowest.as_secs_f64();
    eprintln!(
        "{what}: {good} answers, {retried} of them to a retry, {failed} failures, the slowest after {slowest:.3} s"
    );
}

/// Everything that happens from the moment on at which the channel offers another OS.
async fn roll(cluster: &Installation, history: &History) -> Duration {
    hold_hook(cluster, r#"{"drill":"held"}"#).await;
    let begun = Instant::now();
    stage_everywhere(cluster, history).await;
    let_them_go(cluster).await;
    waits(history, "the annotation windlass.dev/addons-staged is not there").await;
    stays(cluster, history, Stage::Before).await;

    hold_hook(cluster, r#"{"drill":null}"#).await;
    waits(history, "disruption budget").await;
    stays(cluster, history, Stage::Draining).await;
    let shop = cluster.kubectl(&["get", "deployment", "shop", "-o", "jsonpath={.status.readyReplicas}"]).await;
    assert_eq!(shop.ended(0).stdout, "2", "nobody was taken away");

    let fewer = r#"{"spec":{"minAvailable":1}}"#;
    cluster.kubectl(&["patch", "pdb", "shop", "--type=merge", "-p", fewer]).await.ended(0);
    until("every machine has had its turn", ROLL, async || {
        let had = history.turns().len() == ORDER.len();
        let well = |seen: &Seen| seen.stage == Stage::Idle && seen.ready && seen.open && seen.waits_for.is_none();
        match had && history.all().values().all(well) {
            true => Ok(()),
            false => Err(format!("{:?}", history.all())),
        }
    })
    .await;
    begun.elapsed()
}

/// Keeps the pre-reboot hook from running anywhere, or lets it.
async fn hold_hook(cluster: &Installation, selector: &str) {
    let patch = format!(r#"{{"spec":{{"template":{{"spec":{{"nodeSelector":{selector}}}}}}}}}"#);
    cluster.kubectl(&["patch", "-n", "kube-system", "daemonset", "pre-reboot", "-p", &patch]).await.ended(0);
}

/// Waits until the first Node says in words what holds it up.
async fn waits(history: &History, why: &str) {
    until(&format!("{} says why it waits", ORDER[0]), LONG, async || {
        let waits_for = history.now(ORDER[0]).and_then(|seen| seen.waits_for);
        match waits_for.as_ref().is_some_and(|words| words.contains(why)) {
            true => Ok(()),
            false => Err(format!("{:?}", history.all())),
        }
    })
    .await;
    eprintln!("held up: {}", history.now(ORDER[0]).and_then(|seen| seen.waits_for).unwrap_or_default());
}

/// The first Node goes no further for a while, and its machine does not boot.
async fn stays(cluster: &Installation, history: &History, stage: Stage) {
    let since = Instant::now();
    until("time goes by", HELD * 2, async || {
        assert_eq!(history.now(ORDER[0]).map(|seen| seen.stage), Some(stage));
        if since.elapsed() >= HELD { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    assert_eq!(Machine::look(cluster, ORDER[0]).await.boots, 1);
}

async fn open_shop(cluster: &Installation) {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let image = cluster.kubectl(&["get", "-n", "kube-system", "daemonset", "update-agent", "-o", path]).await.ended(0);
    cluster.put("shop.yaml", &SHOP.replace("@IMAGE@", &image.stdout));
    let file = cluster.directory().join("shop.yaml");
    cluster.kubectl(&["apply", "-f", file.to_str().expect("a path is text")]).await.ended(0);
    cluster.kubectl(&["rollout", "status", "deployment", "shop", "--timeout=120s"]).await.ended(0);
}
