//! An OS update on a live cluster: it rolls through all machines, one at a time, and nobody who uses the API notices.

mod history;

use std::time::{Duration, Instant};

use windlass_cloud_api::Channel;
use windlass_e2e::poll::{Answers, Poller};
use windlass_e2e::{Installation, until};

use self::history::{History, Seen, Stage};
use crate::prepared;

/// Workers first, each by its name.
const ORDER: [&str; 5] = ["worker-0", "worker-1", "master-0", "master-1", "master-2"];
/// Longer than a stage takes on a host that starts a machine at the same time.
const LONG: Duration = Duration::from_secs(240);
/// Longer than five machines take, one after the other.
const ROLL: Duration = Duration::from_secs(1500);
/// What holds a reboot up is watched for this long: whoever did not respect it would have gone by then.
const HELD: Duration = Duration::from_secs(12);

/// How a kubelet begins to say which it is.
const KUBELET: &str = "Kubernetes v";
const PAUSED: &str = "container-linux-update.v1.coreos.com/reboot-paused";

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
    // A user waits for the agents' usual interval of three quarters of an hour; a drill does not.
    let agent = "        - update-agent\n";
    cluster.edit("assets/manifests/addons/os-update.yaml", agent, &format!("{agent}        - --check-every=10\n"));
    cluster.windlass(&["launch"]).await.ended(0);
    open_shop(&cluster).await;
    forget_the_next_os(&cluster).await;
    let before = Machines::look(&cluster).await;
    assert!(before.0.iter().all(|machine| machine.os == "1"), "{before:?}");

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
        assert!(answers.good as f64 > total.as_secs_f64() * 9.0, "ten a second, {what}: {answers:?}");
    }
    before.booted_once_into(&Machines::look(&cluster).await);
    until("the cluster can be used", LONG, async || match cluster.windlass(&["verify"]).await {
        ran if ran.code == 0 => Ok(()),
        ran => Err(format!("{}{}", ran.stdout, ran.stderr)),
    })
    .await;
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

fn told(what: &str, Answers { good, retried, failed, slowest }: &Answers) {
    let failed = failed.len();
    eprintln!("{what}: {good} answers, {retried} of them to a retry, {failed} failures, the slowest after {slowest:?}");
}

/// Everything that happens from the moment on at which the channel offers another OS.
async fn roll(cluster: &Installation, history: &History) -> Duration {
    hold_hook(cluster, r#"{"drill":"held"}"#).await;
    let begun = Instant::now();
    paused_until_all_are_staged(cluster, history).await;
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

/// Whoever has its update first would go first; with all of them waiting, the order is the coordinator's.
async fn paused_until_all_are_staged(cluster: &Installation, history: &History) {
    for node in ORDER {
        cluster.kubectl(&["annotate", "node", node, &format!("{PAUSED}=true")]).await.ended(0);
    }
    let offered = Instant::now();
    offer(cluster, "2").await;
    until("every machine has its update", LONG, async || {
        let all = history.all();
        assert!(all.values().all(|seen| !seen.stage.is_turn()), "paused: {all:?}");
        match all.values().all(|seen| seen.stage == Stage::Wanting) {
            true => Ok(()),
            false => Err(format!("{all:?}")),
        }
    })
    .await;
    eprintln!("staged on every machine {:.1} s after it was offered", offered.elapsed().as_secs_f64());
    for node in ORDER {
        cluster.kubectl(&["annotate", "node", node, &format!("{PAUSED}-")]).await.ended(0);
    }
}

/// What an operator does who lets a cluster follow another channel.
async fn offer(cluster: &Installation, os: &str) {
    let (cloud, name) = (cluster.cloud(), cluster.infra_id());
    let images = cloud.images().await.expect("the cloud answers");
    let image = images.into_iter().find(|image| image.spec.os_version == os).expect("there is such a system");
    let mut spec = cloud.cluster(&name).await.expect("the cluster is there").spec;
    assert_eq!(spec.channel.next, None, "nothing was offered before");
    spec.channel = Channel { next: Some(image.name) };
    cloud.put_cluster(&name, &spec).await.expect("a channel can be changed");
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

/// Machines come with addons for both systems. Of a system that was not known then they have none, and only the hook gets
/// them.
async fn forget_the_next_os(cluster: &Installation) {
    for name in ORDER {
        cluster.on(name, "ls -d /var/lib/extensions/*-os2; rm -r /var/lib/extensions/*-os2").await;
    }
}

async fn open_shop(cluster: &Installation) {
    let path = "jsonpath={.spec.template.spec.containers[0].image}";
    let image = cluster.kubectl(&["get", "-n", "kube-system", "daemonset", "update-agent", "-o", path]).await.ended(0);
    cluster.put("shop.yaml", &SHOP.replace("@IMAGE@", &image.stdout));
    let file = cluster.directory().join("shop.yaml");
    cluster.kubectl(&["apply", "-f", file.to_str().expect("a path is text")]).await.ended(0);
    cluster.kubectl(&["rollout", "status", "deployment", "shop", "--timeout=120s"]).await.ended(0);
}

/// The machines, in the order of their turns.
#[derive(Debug)]
struct Machines(Vec<Machine>);

#[derive(Debug, PartialEq, Eq)]
struct Machine {
    boots: usize,
    os: String,
    runtime: String,
    kubelet: String,
    /// The addons for the next OS.
    addons: String,
    /// Whose data the runtime finds.
    data: String,
    /// Whether its images are still to be imported again.
    images: String,
}

impl Machine {
    async fn look(cluster: &Installation, name: &str) -> Self {
        let ask = async |script: &str| cluster.on(name, script).await.trim().to_owned();
        Machine {
            boots: ask("journalctl --quiet --list-boots | wc -l").await.parse().expect("a number"),
            os: ask(". /usr/lib/os-release; echo $VERSION_ID").await,
            runtime: ask("containerd --version").await,
            kubelet: ask("kubelet --version").await,
            addons: ask("ls /var/lib/extensions | grep -e -os2 || echo none").await.replace('\n', " "),
            data: ask("cat /var/lib/windlass/runtime-data").await,
            images: ask("ls /var/lib/windlass/import-images 2>/dev/null || echo none").await,
        }
    }
}

impl Machines {
    async fn look(cluster: &Installation) -> Self {
        let mut machines = Vec::new();
        for name in ORDER {
            machines.push(Machine::look(cluster, name).await);
        }
        Machines(machines)
    }

    /// One boot, the other OS and addons for it; runtime, kubelet and the runtime's data are what they were.
    fn booted_once_into(self, after: &Machines) {
        for ((name, before), after) in ORDER.iter().zip(self.0).zip(&after.0) {
            let data = after.runtime.contains(&after.data);
            assert!(data && after.data.starts_with("2."), "{name}: data of {} for {}", after.data, after.runtime);
            let addons =
                format!("containerd-{}-os2 kubelet-{}-os2", after.data, after.kubelet.trim_start_matches(KUBELET));
            assert_eq!(before.addons, "none", "{name}");
            let want = Machine { boots: before.boots + 1, os: "2".to_owned(), addons, ..before };
            assert_eq!(*after, want, "{name}");
        }
    }
}
