//! The moment at which the temporary control plane goes: the balancer must see it at once, and what led to it must have
//! happened in the order of the launch document.

use std::time::Duration;

use kube::{Client, Error};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use windlass_cloud_api::{ForwardSpec, Label};
use windlass_cluster::access::Access;
use windlass_e2e::{Installation, until};

/// Within this time of the first unready answer nobody is led to the bootstrap machine any more.
const LIMIT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(600);
/// The balancer may see it before we do.
const EARLIER: Duration = Duration::from_secs(1);
/// So many requests in a row that nobody answers, and the API is gone.
const GONE: usize = 5;
/// What bootkube has behind it by then, in this order. Applying and starting the controllers go side by side.
const BEHIND: [&str; 6] =
    ["await-quorum", "stop-servers", "start-api-server", "await-control-plane", "hand-over", "release-leases"];

/// How the temporary control plane went.
pub struct HandOver {
    /// The first question that was answered with no; it stopped being ready before that answer.
    asked: OffsetDateTime,
    answered: OffsetDateTime,
    bootkube: Value,
}

/// Asks the temporary API itself until it has gone, and answers since when it was not ready and what came before.
pub async fn watched(cluster: &Installation) -> HandOver {
    let client = door(cluster).await;
    let mut unready: Option<(OffsetDateTime, OffsetDateTime)> = None;
    let mut unheard = 0;
    let (asked, answered) = until("the temporary API serves and goes", LONG, async || {
        let asked = OffsetDateTime::now_utc();
        match readiness(&client).await {
            // A moment of weakness is none of its end.
            Ok(_) => (unready, unheard) = (None, 0),
            Err(Error::Api(_)) => unready = unready.or_else(|| Some((asked, OffsetDateTime::now_utc()))),
            Err(_) if unready.is_some() => unheard += 1,
            Err(_) => {}
        }
        unready.filter(|_| unheard >= GONE).ok_or_else(|| format!("unready since {unready:?}"))
    })
    .await;
    let bootkube = cluster.on("bootstrap", "cat /run/windlass/records/bootkube.json").await;
    HandOver { asked, answered, bootkube: serde_json::from_str(&bootkube).expect("a record is JSON") }
}

/// A way to the bootstrap machine's API that does not lead through the balancer.
async fn door(cluster: &Installation) -> Client {
    let (cloud, name, bootstrap) = (cluster.cloud(), cluster.infra_id(), Label::parse("bootstrap").expect("a name"));
    let address = cloud.machine(&name, &bootstrap).await.expect("the bootstrap machine is there").address;
    let forward = ForwardSpec { port: None, address, to: 6443 };
    let forward = cloud.put_forward(&name, &bootstrap, &forward).await.expect("a way can be opened");
    let kubeconfig = cluster.read("auth/kubeconfig");
    let server = |line: &str| match line.split_once("server: ") {
        Some((indent, _)) => format!("{indent}server: https://127.0.0.1:{}\n", forward.port),
        None => format!("{line}\n"),
    };
    cluster.put("bootstrap.kubeconfig", &kubeconfig.lines().map(server).collect::<String>());
    let access = Access::Kubeconfig(cluster.directory().join("bootstrap.kubeconfig"));
    access.client().await.expect("the kubeconfig is one")
}

async fn readiness(client: &Client) -> Result<String, Error> {
    client.request_text(http::Request::get("/readyz").body(Vec::new()).expect("a request")).await
}

impl HandOver {
    /// Quorum, then the servers stopped, then `bootstrap-*` pods, then the masters serve, then the temporary ones go.
    pub fn was_in_order(&self) {
        let finished = |stage: &str| parse(self.bootkube["data"][stage]["finished"].as_str().unwrap_or_default());
        let times = BEHIND.map(finished);
        assert!(times.is_sorted(), "{BEHIND:?} at {times:?}");
        assert!(times[BEHIND.len() - 1] <= self.answered, "{} went before {times:?}", self.answered);
    }

    /// The balancer had dropped the bootstrap machine in time.
    pub fn was_seen_in_time(&self, cluster: &Installation) {
        let log = cluster.cloud_log();
        let down = log.lines().filter(|line| line.contains("target is d") && line.contains("target=bootstrap"));
        let times =
            down.filter(|line| line.contains(":6443")).map(|line| parse(line.split(' ').next().unwrap_or_default()));
        let dropped = times.filter(|time| *time >= self.asked - EARLIER).min();
        let dropped = dropped.unwrap_or_else(|| panic!("the balancer never dropped it after {}:\n{log}", self.asked));
        // A busy host may take long to answer; until the answer nobody could have known.
        let after = dropped - self.answered;
        eprintln!("the balancer dropped the bootstrap machine {after} after its API stopped being ready");
        assert!(after <= LIMIT, "{after}");
    }
}

fn parse(time: &str) -> OffsetDateTime {
    OffsetDateTime::parse(time, &Rfc3339).unwrap_or_else(|error| panic!("{time:?}: {error}"))
}
