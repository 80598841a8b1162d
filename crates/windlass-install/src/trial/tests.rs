//! Verifications of a cluster that is played: what it answers is written here, how it is asked is real.

mod fake;

use std::time::Duration;

use fake::{Exec, Fake, Played};

use super::*;

const NAMESPACE: &str = "windlass-verify-abcde";

async fn verified(played: Played, patience: Duration) -> (std::sync::Arc<Fake>, Vec<Finding>) {
    let (fake, client) = Fake::start(played).await;
    let request = Wanted {
        nodes: ["a", "b"].map(str::to_owned).into(),
        image: "windlass.dev/windlass-node:v1".to_owned(),
        cluster_domain: "cluster.local".to_owned(),
    };
    let mut tell = |_: &str, _: Option<&str>| {};
    let tell = RefCell::new(&mut tell as &mut dyn FnMut(&str, Option<&str>));
    let trial = Trial { client, request: &request, namespace: NAMESPACE.to_owned(), patience, tell };
    let findings = trial.run().await;
    (fake, findings)
}

fn unmet(findings: &[Finding]) -> Vec<(&str, &str)> {
    findings.iter().filter_map(|f| Some((f.statement.as_str(), f.reason.as_deref()?))).collect()
}

#[tokio::test]
async fn a_good_cluster_is_used_from_every_node_and_left_as_it_was() {
    let played = Played {
        earlier: &["windlass-verify-older"],
        // The first of each question comes before the cluster's DNS knows the names.
        exec: |_, _, nth| {
            if nth == 1 { Exec::Fails("error: cannot resolve it\n") } else { Exec::Answers("scheduled-1") }
        },
        ..Played::default()
    };
    let (fake, findings) = verified(played, Duration::from_secs(20)).await;
    assert_eq!(unmet(&findings), []);
    let statements: Vec<&str> = findings.iter().map(|finding| finding.statement.as_str()).collect();
    assert_eq!(
        statements,
        [
            "nothing is left of an earlier verification",
            "workloads and services can be created",
            "every node is Ready",
            "a pod serves on every node",
            "the pods of a Deployment are scheduled and serve",
            "a reaches a service by its full name",
            "a reaches a service by its short name",
            "a reaches a pod on b",
            "b reaches a service by its full name",
            "b reaches a service by its short name",
            "b reaches a pod on a",
            "a pod can be reached through a forwarded port",
            "a pod's log tells what it was asked",
            "what was created can be deleted",
        ]
    );
    assert_eq!(fake.left(), [""; 0]);
    let mut asked = fake.executed();
    asked.sort();
    asked.dedup();
    assert_eq!(
        asked,
        [
            "probe-a: /windlass-node probe get http://10.2.0.2:8080/",
            "probe-a: /windlass-node probe get http://probe.windlass-verify-abcde.svc.cluster.local:80/",
            "probe-a: /windlass-node probe get http://scheduled:80/",
            "probe-b: /windlass-node probe get http://10.2.0.1:8080/",
            "probe-b: /windlass-node probe get http://probe.windlass-verify-abcde.svc.cluster.local:80/",
            "probe-b: /windlass-node probe get http://scheduled:80/",
        ]
    );
}

#[tokio::test]
async fn what_does_not_work_on_one_node_is_told_for_that_node() {
    let played = Played {
        exec: |pod, url, _| match (pod, url) {
            ("probe-b", "http://scheduled:80/") => {
                Exec::Fails("error: cannot resolve scheduled\nbecause: no such name\nnext: look\n")
            }
            ("probe-b", "http://10.2.0.1:8080/") => Exec::BreaksOff,
            ("probe-a", "http://scheduled:80/") => Exec::Answers("a-stranger"),
            _ => Exec::Answers("probe-a"),
        },
        forward: Err("connection refused in the pod's network"),
        ..Played::default()
    };
    let (fake, findings) = verified(played, Duration::from_millis(300)).await;
    assert_eq!(
        unmet(&findings),
        [
            (
                "a reaches a service by its short name",
                "10.3.0.9:80: \"a-stranger\" answered, which is not one of our pods"
            ),
            ("b reaches a service by its short name", "cannot resolve scheduled: no such name"),
            (
                "b reaches a pod on a",
                "lost the program that ran in probe-b: the connection ended before the program did"
            ),
            (
                "a pod can be reached through a forwarded port",
                "no good answer through port 8080 of probe-a: connection refused in the pod's network"
            ),
        ]
    );
    assert_eq!(fake.left(), [""; 0]);
}

#[tokio::test]
async fn a_pod_that_does_not_come_up_is_told_and_the_rest_is_tried_once() {
    let played = Played { unready: &["b"], ..Played::default() };
    let (fake, findings) = verified(played, Duration::from_millis(300)).await;
    let told = unmet(&findings);
    assert_eq!(
        told[0],
        (
            "a pod serves on every node",
            "1 of 2 nodes have one; b: windlass-verify-abcde/probe-b on b: NoRoom: too small"
        )
    );
    assert_eq!(told[1], ("a reaches a pod on b", "there is no pod on b that could answer"));
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(fake.executed().len(), 2);
    assert_eq!(fake.left(), [""; 0]);
}

#[tokio::test]
async fn what_is_refused_and_what_stays_are_both_told() {
    let played = Played { refused: Some("/deployments/scheduled"), stays: true, ..Played::default() };
    let (fake, findings) = verified(played, Duration::from_millis(300)).await;
    assert_eq!(
        unmet(&findings),
        [
            (
                "workloads and services can be created",
                "cannot apply Deployment windlass-verify-abcde/scheduled: the API answered 422: told so"
            ),
            ("what was created can be deleted", "windlass-verify-abcde is being deleted: pods remain"),
        ]
    );
    assert_eq!(fake.left(), [NAMESPACE]);
    assert_eq!(findings.len(), 3);
}
