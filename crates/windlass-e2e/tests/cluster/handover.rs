//! The moment at which the temporary control plane goes: the balancer must see it at once, and what led to it must have
//! happened in the order of the launch document.

use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use windlass_cloud_api::{ExecRequest, Label};
use windlass_e2e::{Installation, until};

/// Within this time of the first unready answer nobody is led to the bootstrap machine any more.
const LIMIT: Duration = Duration::from_secs(2);
const LONG: u32 = 600;
/// The API server says when it stops being ready; the runtime writes the time before it. The kubelet removes the file with
/// the pod, seconds later, so it is looked for while it is written. There is more than one if the container was restarted.
const WATCH: &str = "logs='/var/log/pods/kube-system_bootstrap-kube-apiserver-*/*/*.log'
    until said=$(grep --no-filename ShutdownInitiated $logs 2>/dev/null); do sleep 0.1; done
    echo \"$said\" | tail --lines 1 | cut -d ' ' -f 1
    cat /run/windlass/records/bootkube.json";
/// What bootkube has behind it by then, in this order. Applying and starting the controllers go side by side.
const BEHIND: [&str; 6] =
    ["await-quorum", "stop-servers", "start-api-server", "await-control-plane", "hand-over", "release-leases"];

/// How the temporary control plane went.
pub struct HandOver {
    unready: OffsetDateTime,
    bootkube: Value,
}

/// Waits on the bootstrap machine until its API server says that it goes, and answers when that was and what came before.
pub async fn watched(cluster: &Installation) -> HandOver {
    let bootstrap = Label::parse("bootstrap").expect("a name");
    let (cloud, name) = (cluster.cloud(), cluster.infra_id());
    let request = ExecRequest {
        command: ["bash", "-c", WATCH].map(str::to_owned).into(),
        stdin: String::new(),
        timeout: Some(LONG),
    };
    let said = until("the bootstrap machine can be asked", Duration::from_secs(60), async || {
        cloud.exec(&name, &bootstrap, &request).await.map_err(|error| error.to_string())
    })
    .await;
    let (unready, bootkube) = said.stdout.split_once('\n').unwrap_or_else(|| panic!("{said:?}"));
    let bootkube = serde_json::from_str(bootkube).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    HandOver { unready: parse(unready), bootkube }
}

impl HandOver {
    /// Quorum, then the servers stopped, then `bootstrap-*` pods, then the masters serve, then the temporary ones go.
    pub fn was_in_order(&self) {
        let finished = |stage: &str| parse(self.bootkube["data"][stage]["finished"].as_str().unwrap_or_default());
        let times = BEHIND.map(finished);
        assert!(times.is_sorted(), "{BEHIND:?} at {times:?}");
        assert!(times[BEHIND.len() - 1] <= self.unready, "{} went before {times:?}", self.unready);
    }

    /// The balancer had dropped the bootstrap machine in time.
    pub fn was_seen_in_time(&self, cluster: &Installation) {
        was_seen_in_time(cluster, self.unready);
    }
}

fn was_seen_in_time(cluster: &Installation, unready: OffsetDateTime) {
    let log = cluster.cloud_log();
    let down = log.lines().filter(|line| line.contains("target is d") && line.contains("target=bootstrap"));
    let times =
        down.filter(|line| line.contains(":6443")).map(|line| parse(line.split(' ').next().unwrap_or_default()));
    let dropped = times.filter(|time| *time >= unready - Duration::from_millis(200)).min();
    let dropped = dropped.unwrap_or_else(|| panic!("the balancer never dropped it after {unready}:\n{log}"));
    let after = dropped - unready;
    eprintln!("the balancer dropped the bootstrap machine {after} after its API stopped being ready");
    assert!(after <= LIMIT, "{after}");
}

fn parse(time: &str) -> OffsetDateTime {
    OffsetDateTime::parse(time, &Rfc3339).unwrap_or_else(|error| panic!("{time:?}: {error}"))
}
