//! The order of the units of seed document 001, as the bootstrap machine's own journal has it, and what its second boot does.

use std::time::Duration;

use serde_json::Value;
use windlass_cloud_api::Label;
use windlass_e2e::systemd::was_skipped;
use windlass_e2e::{Installation, until};

/// systemd's message when a unit begins to start, and when it has started; a oneshot unit has started when it has ended.
const BEGAN: &str = "7d4958e842da4a758f6c1cdc7b36dcc5";
const STARTED: &str = "39f53479d3a045ac8e11786248231fbf";
const LONG: Duration = Duration::from_secs(120);
const BOOTSTRAP: &str = "bootstrap";
/// What runs on the first boot alone.
const ONCE: [&str; 4] =
    ["k8s-node-bootstrap.service", "bootstrap-assets.service", "bootkube.service", "addons.service"];

/// The kubelet after its gate, bootkube after the kubelet has started, the add-ons after bootkube has completed.
pub async fn started_in_the_order_of_their_document(cluster: &Installation) {
    let journal = Journal::of_this_boot(cluster, BOOTSTRAP).await;
    let gate = cluster.on(BOOTSTRAP, "stat -c %.Y /etc/kubernetes/kubelet.env").await;
    let gate: f64 = gate.trim().replace(',', ".").parse().expect("a time");
    let kubelet = journal.first(STARTED, "kubelet.service");
    assert!(kubelet >= gate, "the kubelet started at {kubelet}, its gate was opened at {gate}");
    for (earlier, later) in [("kubelet.service", "bootkube.service"), ("bootkube.service", "addons.service")] {
        let (before, after) = (journal.first(STARTED, earlier), journal.first(BEGAN, later));
        assert!(after >= before, "{later} began at {after}, {earlier} had started at {before}");
    }
    for unit in ONCE {
        journal.first(STARTED, unit);
    }
}

/// On the second boot the kubelet starts and nothing of the first boot does.
pub async fn run_once(cluster: &Installation) {
    let (cloud, name) = (cluster.cloud(), Label::parse(BOOTSTRAP).expect("a name"));
    cloud.reboot(&cluster.infra_id(), &name).await.expect("it can boot again");
    let script = "test $(journalctl --quiet --list-boots | wc -l) = 2; systemctl is-active --quiet kubelet.service; \
                  systemctl is-active --quiet multi-user.target; test -z \"$(systemctl list-jobs --no-legend)\"";
    until("it has booted again, and all that starts has started", LONG, async || {
        cluster.tries(BOOTSTRAP, script).await
    })
    .await;
    let journal = Journal::of_this_boot(cluster, BOOTSTRAP).await;
    journal.first(STARTED, "kubelet.service");
    for unit in ONCE {
        assert_eq!(journal.times(BEGAN, unit), [0.0; 0], "{unit} began on the second boot");
    }
    for unit in ["machine-config-server.service", "etcd-signer.service"] {
        assert_eq!(journal.times(STARTED, unit), [0.0; 0], "{unit} started on the second boot");
    }
    for unit in ["bootkube.path", "addons.path"] {
        let state = cluster.on(BOOTSTRAP, &format!("systemctl show -P ActiveState {unit}")).await;
        assert_eq!(state.trim(), "inactive", "{unit}");
    }
}

/// Machines that stay have had another boot: their kubelet has started, and what prepares and joins them has not.
pub async fn of_machines_that_stay_ran_once(cluster: &Installation) {
    for (machine, once) in [("master-0", "kubelet-join.service"), ("worker-0", "windlass-user-data-once.service")] {
        let journal = Journal::of_this_boot(cluster, machine).await;
        journal.first(STARTED, "kubelet.service");
        for unit in ["k8s-node-bootstrap.service", once] {
            assert_eq!(journal.times(BEGAN, unit), [0.0; 0], "{unit} began on another boot of {machine}");
        }
    }
}

/// Each master has had its config from the bootstrap machine, and its member both certificates.
pub async fn served_every_master(cluster: &Installation) {
    let masters = ["master-0", "master-1", "master-2"];
    for (unit, list) in [("machine-config-server", "served"), ("etcd-signer", "issued")] {
        let record = cluster.on(BOOTSTRAP, &format!("cat /run/windlass/records/{unit}.json")).await;
        let record: Value = serde_json::from_str(&record).expect("a record is JSON");
        let names = record["data"][list].as_array().unwrap_or_else(|| panic!("{unit} has no {list}: {record}"));
        for master in masters {
            assert!(names.iter().any(|name| name == master), "{unit} has not {list} {master}: {names:?}");
        }
    }
}

/// What systemd said of its units, on this boot.
struct Journal(Vec<Value>);

impl Journal {
    async fn of_this_boot(cluster: &Installation, machine: &str) -> Self {
        let script = format!(
            "journalctl --no-pager --quiet --boot --output json --output-fields=UNIT,MESSAGE,MESSAGE_ID MESSAGE_ID={BEGAN} MESSAGE_ID={STARTED}"
        );
        let text = cluster.on(machine, &script).await;
        let entries = text.lines().map(|line| serde_json::from_str(line).expect("the journal writes JSON"));
        Journal(entries.filter(|entry| !was_skipped(entry)).collect())
    }

    /// When this was said of the unit, in seconds since 1970.
    fn times(&self, message: &str, unit: &str) -> Vec<f64> {
        let said = self.0.iter().filter(|entry| entry["MESSAGE_ID"] == message && entry["UNIT"] == unit);
        let time = |entry: &Value| entry["__REALTIME_TIMESTAMP"].as_str().and_then(|text| text.parse::<f64>().ok());
        said.map(|entry| time(entry).expect("a time") / 1e6).collect()
    }

    #[track_caller]
    fn first(&self, message: &str, unit: &str) -> f64 {
        *self.times(message, unit).first().unwrap_or_else(|| panic!("the journal says nothing of {unit}: {:?}", self.0))
    }
}
