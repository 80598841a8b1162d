//! A machine of the ground, and what can be seen of it and done to it.

use std::marker::PhantomData;
use std::time::Duration;

use serde_json::Value;
use windlass_cloud_api::{Client as Cloud, ExecRequest, Label};

use super::{Ground, TRACES};
use crate::systemd::was_skipped;
use crate::{kubelet, until};

const UNIT: &str = "k8s-node-bootstrap.service";
/// Goes with the runtime's data when that is cleaned, and disturbs nobody.
pub(super) const MARK: &str = "/var/lib/containerd/drill-mark";

/// A machine that is a master without a cluster.
pub struct Lone<'a> {
    pub(super) cloud: Cloud,
    pub(super) infra_id: Label,
    pub(super) name: Label,
    /// Without its ground it is gone.
    pub(super) ground: PhantomData<&'a Ground>,
}

impl Lone<'_> {
    /// What a script answers, if the machine can run it now.
    pub async fn tries(&self, script: &str) -> Result<String, String> {
        let command = ["bash", "-ec", &format!("PATH=/opt/windlass/bin:$PATH; {script}")].map(str::to_owned).into();
        let request = ExecRequest { command, stdin: String::new(), timeout: None };
        match self.cloud.exec(&self.infra_id, &self.name, &request).await {
            Ok(answer) if answer.code == 0 => Ok(answer.stdout),
            Ok(answer) => Err(format!("{}{}", answer.stdout, answer.stderr)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// What a script answers; it must succeed.
    pub async fn sh(&self, script: &str) -> String {
        self.tries(script).await.unwrap_or_else(|error| panic!("{}: {script}: {error}", self.name))
    }

    /// Waits until a script succeeds, and says what the machine says about itself if it does not.
    pub async fn until(&self, what: &str, limit: Duration, script: &str) -> String {
        let what = format!("{}: {what}", self.name);
        until(&what, limit, async || {
            let told = self.tries("windlass-node report").await;
            self.tries(script).await.map_err(|error| format!("{error}: {told:?}"))
        })
        .await
    }

    /// Waits until the kubelet has run for a moment and is well.
    pub async fn kubelet_runs(&self, limit: Duration) {
        let ready = "test -e /etc/kubernetes/kubelet.env; test ! -e /run/windlass/reboot-due; \
                     test -S /run/containerd/containerd.sock";
        self.until("the kubelet runs", limit, &format!("{ready}; {}", kubelet::RUNS)).await;
    }

    /// Waits until the flow's record has a word in it.
    pub async fn record_says(&self, word: &str, limit: Duration) {
        let script = format!("windlass-node report | grep -F -- '{word}'");
        self.until(&format!("it says {word:?}"), limit, &script).await;
    }

    /// What the flow says about itself.
    pub async fn record(&self) -> Value {
        let report: Value = serde_json::from_str(&self.sh("windlass-node report").await).expect("a report is JSON");
        report["bootstrap"].clone()
    }

    /// How many seconds a stage of the flow's last attempt took.
    pub async fn seconds_of(&self, stage: &str) -> f64 {
        let record = self.record().await;
        let stages = record["stages"].as_array().cloned().unwrap_or_default();
        let found = stages.iter().rev().find(|seen| seen["name"] == stage).and_then(|seen| seen["took"].as_f64());
        found.unwrap_or_else(|| panic!("{}: no {stage} in {record}", self.name))
    }

    /// How often the flow has ended with a code.
    pub async fn ends_with(&self, code: u8) -> usize {
        let script = format!("journalctl --no-pager --output cat --unit {UNIT} | grep -c 'status={code}/' || true");
        self.sh(&script).await.trim().parse().expect("a number")
    }

    /// Waits until it has.
    pub async fn has_ended_with(&self, code: u8, limit: Duration) {
        let script = format!("journalctl --no-pager --output cat --unit {UNIT} | grep -q 'status={code}/'");
        self.until(&format!("it ends with {code}"), limit, &script).await;
    }

    /// Waits until the flow is held at a stage.
    pub async fn is_held_at(&self, stage: &str, limit: Duration) {
        self.until(&format!("it is held at {stage}"), limit, &format!("test -e /var/lib/windlass/held-at-{stage}"))
            .await;
    }

    /// Ends a flow that is held; systemd starts it again, and it is not held a second time.
    pub async fn let_go(&self) {
        self.sh(&format!("systemctl kill --signal=KILL {UNIT}")).await;
    }

    /// The gate is closed and no kubelet has ever run.
    pub async fn has_no_gate(&self) {
        let script = "test ! -e /etc/kubernetes/kubelet.env; ! systemctl is-active --quiet kubelet.service";
        self.sh(script).await;
    }

    /// How often it has booted.
    pub async fn boots(&self) -> usize {
        self.sh("wc -l < /var/lib/drill-boots").await.trim().parse().expect("a number")
    }

    /// Marks the runtime's data, to be looked for when the machine has booted again.
    pub async fn mark_data(&self) {
        self.sh(&format!("touch {MARK}; sync")).await;
    }

    /// Nobody has cleaned the data since it was marked.
    pub async fn has_marked_data(&self) {
        self.sh(&format!("test -e {MARK}")).await;
    }

    /// Power goes, and comes back. What the journal has of this boot is brought to the disk before, because it is asked for
    /// later.
    pub async fn lose_power(&self) {
        // A machine that cannot do it, because it boots, has started no kubelet yet.
        self.tries("timeout 10 journalctl --sync").await.ok();
        self.lose_power_at_once().await;
    }

    /// The same at this very moment, whatever the journal loses by it.
    pub async fn lose_power_at_once(&self) {
        self.cloud.power_cut(&self.infra_id, &self.name).await.expect("power can be cut");
        self.cloud.start(&self.infra_id, &self.name).await.expect("it starts again");
    }

    /// Boots again as a user would have it.
    pub async fn reboot(&self) {
        let boots = self.boots().await;
        self.cloud.reboot(&self.infra_id, &self.name).await.expect("it can boot again");
        self.until("it has booted again", TRACES * 3, &format!("test $(wc -l < /var/lib/drill-boots) -gt {boots}"))
            .await;
    }

    /// Goes, with its disk, so that others have its memory.
    pub async fn leave(&self) {
        self.cloud.delete_machine(&self.infra_id, &self.name).await.expect("a machine can be removed");
    }

    /// By the journal: a kubelet has started, and none of any boot has before the gate was written.
    pub async fn kubelet_never_started_before_its_gate(&self) {
        let gate = self.sh("stat -c %.Y /etc/kubernetes/kubelet.env").await;
        let gate: f64 = gate.trim().replace(',', ".").parse().expect("a time");
        let script =
            "journalctl --no-pager --output json --unit kubelet.service --output-fields=MESSAGE,JOB_TYPE,JOB_RESULT";
        let journal = self.sh(script).await;
        let mut starts = 0;
        for line in journal.lines() {
            let entry: Value = serde_json::from_str(line).expect("the journal writes JSON");
            if entry["JOB_TYPE"] == "start" && entry["JOB_RESULT"] == "done" && !was_skipped(&entry) {
                let time = entry["__REALTIME_TIMESTAMP"].as_str().and_then(|t| t.parse::<f64>().ok()).expect("a time");
                assert!(time / 1e6 >= gate, "{}: {entry} before {gate}", self.name);
                starts += 1;
            }
        }
        assert!(
            starts > 0,
            "{}: no kubelet has started, by {} lines of its journal",
            self.name,
            journal.lines().count()
        );
    }

    /// These packages are there for an operating system, no other versions of them for any, each of them whole, and nothing
    /// half done lies about.
    pub async fn has_only(&self, packages: &[&str], os: &str) {
        let listed = self.sh("ls /var/lib/extensions").await;
        let listed: Vec<&str> = listed.split_whitespace().collect();
        for name in &listed {
            let (package, _) = name.rsplit_once("-os").unwrap_or_default();
            assert!(packages.contains(&package), "{}: {name} among {listed:?}", self.name);
            self.sh(&format!(
                "test -s /var/lib/extensions/{name}/usr/lib/extension-release.d/extension-release.{name}"
            ))
            .await;
        }
        for package in packages {
            assert!(
                listed.contains(&format!("{package}-os{os}").as_str()),
                "{}: no {package} among {listed:?}",
                self.name
            );
        }
        let places =
            "/etc/kubernetes /etc/windlass /etc/containerd /var/lib/windlass /var/lib/extensions /opt/windlass";
        // Records of other units are written all the time.
        let left = self.sh(&format!("find {places} -name '.*.tmp-*' ! -path '*/records/*'")).await;
        assert_eq!(left, "", "{}: temporary files", self.name);
        let left = self.sh("find /var/lib/extensions/.#addons -mindepth 1 ! -name old 2>/dev/null || true").await;
        assert_eq!(left, "", "{}: addons that were not put in place", self.name);
    }

    /// The runtime runs, its data is its own, and the images that came with the machine are there.
    pub async fn runs_with_data_of(&self, runtime: &str) {
        assert_eq!(self.sh("cat /var/lib/windlass/runtime-data").await.trim(), runtime, "{}", self.name);
        assert_eq!(self.sh("ls /var/lib/windlass/import-images 2>/dev/null || echo none").await.trim(), "none");
        let images = self.sh("ctr --namespace k8s.io images list --quiet").await;
        assert!(images.contains("etcd") && images.contains("pause"), "{}: {images}", self.name);
    }
}
