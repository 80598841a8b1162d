use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn shown(observation: &Observation) -> String {
    match observation {
        Observation::Holds => "holds".to_owned(),
        Observation::NotYet(reason) => reason.to_string(),
        Observation::Never(reason) => format!("never: {reason}"),
    }
}

fn ready(name: &str, node: &str, address: &str) -> Pod {
    object(json!({
        "metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": node, "containers": []},
        "status": {"podIP": address, "conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn unscheduled(name: &str, node: &str) -> Pod {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    object(json!({
        "metadata": {"name": name, "namespace": "n"},
        "spec": {"containers": [], "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                                   "message": "Too many pods"}]},
    }))
}

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn a_node_without_a_serving_pod_is_named_with_the_cause() {
    let broken: Pod = object(json!({
        "metadata": {"name": "p-b", "namespace": "n"}, "spec": {"nodeName": "b", "containers": []},
        "status": {"containerStatuses": [{"name": "probe", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]},
    }));
    let going: Pod = object(json!({
        "metadata": {"name": "p-old", "namespace": "n", "deletionTimestamp": "2026-11-16T03:00:00Z"},
        "spec": {"nodeName": "a", "containers": []},
    }));
    let good = ready("p-a", "a", "10.2.0.4");
    let cases: [(&[Pod], &[&str], &str); 6] = [
        (&[], &["a"], "it is not there"),
        (std::slice::from_ref(&good), &[], "no node is expected"),
        (&[good.clone(), ready("p-c", "c", "10.2.2.4")], &["a"], "holds"),
        (&[going, good.clone()], &["a"], "holds"),
        (
            &[good.clone(), broken],
            &["a", "b", "c"],
            "1 of 3 nodes have one; b: n/p-b on b: container probe: ErrImagePull: not found; c has none",
        ),
        (
            &[good.clone(), unscheduled("p-b", "b")],
            &["a", "b"],
            "1 of 2 nodes have one; b: n/p-b: Unschedulable: Too many pods",
        ),
    ];
    for (pods, nodes, want) in cases {
        assert_eq!(shown(&on_every_node(None, pods, &names(nodes))), want);
    }
}

#[test]
fn the_pods_of_a_deployment_know_more_than_their_controller() {
    let deployment = |ready: u32| {
        object::<Deployment>(json!({
            "metadata": {"generation": 1}, "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": ready,
                       "availableReplicas": ready},
        }))
    };
    let (one, other) = (ready("p-a", "a", "10.2.0.4"), unscheduled("p-b", "b"));
    let cases: [(Option<Deployment>, &[Pod], &str); 4] = [
        (None, &[], "it is not there"),
        (Some(deployment(2)), &[], "holds"),
        (Some(deployment(1)), &[], "1 of 2 pods are ready"),
        (Some(deployment(1)), &[one, other], "1 of 2 pods are ready; n/p-b: Unschedulable: Too many pods"),
    ];
    for (deployment, pods, want) in cases {
        assert_eq!(shown(&scheduled(deployment.as_ref(), pods)), want);
    }
}

#[test]
fn every_node_asks_both_services_and_the_next_node() {
    let request =
        Wanted { nodes: names(&["a", "b", "c"]), image: String::new(), cluster_domain: "cluster.local".to_owned() };
    let pods = [ready("p-a", "a", "10.2.0.4"), ready("p-b", "b", "fd00::4"), unscheduled("p-c", "c")];
    let asked: Vec<String> = questions(&request, "n", &seats(&pods))
        .into_iter()
        .map(|question| {
            let asked = question.asked.map_or_else(|why| why, |(pod, url)| format!("{pod} asks {url}"));
            format!("{}: {asked}", question.statement)
        })
        .collect();
    assert_eq!(
        asked,
        [
            "a reaches a service by its full name: p-a asks http://probe.n.svc.cluster.local:80/",
            "a reaches a service by its short name: p-a asks http://scheduled:80/",
            "a reaches a pod on b: p-a asks http://[fd00::4]:8080/",
            "b reaches a service by its full name: p-b asks http://probe.n.svc.cluster.local:80/",
            "b reaches a service by its short name: p-b asks http://scheduled:80/",
            "b reaches a pod on c: there is no pod on c that could answer",
            "c reaches a service by its full name: there is no pod on c that could ask",
            "c reaches a service by its short name: there is no pod on c that could ask",
            "c reaches a pod on a: there is no pod on c that could ask",
        ]
    );
}

#[test]
fn a_pod_that_is_unready_for_a_moment_keeps_its_seat_unless_another_is_ready() {
    let unready = |name: &str, address: &str| {
        let mut pod = ready(name, "a", address);
        for condition in pod.status.iter_mut().filter_map(|status| status.conditions.as_mut()).flatten() {
            condition.status = "False".to_owned();
        }
        pod
    };
    let seated = |pods: &[Pod]| seats(pods).remove("a").map(|seat| seat.pod);
    assert_eq!(seated(&[unready("p-1", "10.2.0.4")]).as_deref(), Some("p-1"));
    assert_eq!(seated(&[ready("p-2", "a", "10.2.0.5"), unready("p-1", "10.2.0.4")]).as_deref(), Some("p-2"));
}

#[test]
fn an_answer_counts_when_it_is_the_name_of_one_of_our_pods() {
    let pods = [ready("p-a", "a", "10.2.0.4")];
    let (good, bad) = (json!({"status": "Success"}), json!({"status": "Failure", "message": "exit code 75"}));
    let report = "2026-11-16 INFO x\nerror: cannot resolve scheduled\nbecause: no such name\nnext: look\n";
    let cases = [
        (good.clone(), "10.3.0.9:80\np-a\n", "", "holds"),
        (good.clone(), "10.3.0.9:80\nx\n", "", "10.3.0.9:80: \"x\" answered, which is not one of our pods"),
        (good, "", "", ": \"\" answered, which is not one of our pods"),
        (bad.clone(), "", report, "cannot resolve scheduled: no such name"),
        (bad, "", "", "exit code 75"),
        (json!({}), "", "", "the program failed and said nothing"),
    ];
    for (status, stdout, stderr, want) in cases {
        let ran = Ran { status: object::<Status>(status), stdout: stdout.to_owned(), stderr: stderr.to_owned() };
        assert_eq!(shown(&answered(&ran, &pods)), want);
    }
}

#[test]
fn a_namespace_that_stays_says_why() {
    let condition = |kind: &str, status: &str, message: &str| json!({"type": kind, "status": status, "message": message, "lastTransitionTime": null});
    let stuck: Namespace = object(json!({"metadata": {"name": "n"}, "status": {"conditions": [
        condition("NamespaceDeletionDiscoveryFailure", "False", "All resources successfully discovered"),
        condition("NamespaceContentRemaining", "True", "Some resources are remaining: pods. has 3 resource instances"),
    ]}}));
    let new: Namespace = object(json!({"metadata": {"name": "m"}}));
    assert_eq!(shown(&gone(&[])), "holds");
    assert_eq!(
        shown(&gone(&[stuck, new])),
        "n is being deleted: Some resources are remaining: pods. has 3 resource instances; \
         m is being deleted"
    );
}
