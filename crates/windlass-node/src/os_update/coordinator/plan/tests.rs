use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::os_update::testing::{is_under_way, node, said, saying};

const STAGED: &str = "windlass.dev/addons-staged";

fn required() -> Required {
    Required { before: vec![STAGED.to_owned()], after: vec!["example.org/checked".to_owned()] }
}

fn pods(masters: usize) -> Vec<PodState> {
    let of = |n: usize| {
        Program::ALL.into_iter().map(move |program| PodState { node: format!("master-{n}"), program, ready: true })
    };
    (0..masters).flat_map(of).collect()
}

/// Three masters, all well, and these others.
fn cluster(others: Vec<NodeState>) -> Observed {
    let mut nodes: Vec<NodeState> = (0..3).map(|n| node(&format!("master-{n}"))).collect();
    for other in others {
        nodes.retain(|node| node.name != other.name);
        nodes.push(other);
    }
    Observed { nodes, pods: pods(3) }
}

/// Applies one plan.
fn step(required: &Required, observed: &mut Observed) -> usize {
    let changes = plan(required, observed);
    for change in &changes {
        change.make(observed.nodes.iter_mut().find(|node| node.name == change.node()).unwrap());
    }
    changes.len()
}

fn named<'a>(observed: &'a Observed, name: &str) -> &'a NodeState {
    observed.nodes.iter().find(|node| node.name == name).unwrap()
}

#[test]
fn a_node_goes_through_every_state() {
    let missing = "windlass.dev/reboot-waits-for=the annotation windlass.dev/addons-staged is not there";
    let failed =
        "windlass.dev/reboot-waits-for=the annotation windlass.dev/addons-staged is \"failed: no disk\", not \"true\"";
    let checked = "windlass.dev/reboot-waits-for=the annotation example.org/checked is not there";
    let back = ["reboot-ok=true", "reboot-needed=false", "reboot-in-progress=false"];
    let cases: [(&str, &[&str], &[&str]); 16] = [
        ("nothing is known", &[], &[]),
        ("nothing is needed", &["reboot-needed=false"], &["reboot-needed=false"]),
        ("needed", &["reboot-needed=true"], &["reboot-needed=true", "#before-reboot=true"]),
        (
            "needed, with what was said before an earlier reboot",
            &["reboot-needed=true", "windlass.dev/addons-staged=true"],
            &["reboot-needed=true", "#before-reboot=true"],
        ),
        ("paused", &["reboot-needed=true", "reboot-paused=true"], &["reboot-needed=true", "reboot-paused=true"]),
        (
            "paused too late to begin",
            &["reboot-needed=true", "reboot-paused=true", "windlass.dev/addons-staged=true", "#before-reboot=true"],
            &["reboot-needed=true", "reboot-paused=true"],
        ),
        (
            "not needed any more",
            &["reboot-needed=false", "windlass.dev/addons-staged=true", "#before-reboot=true"],
            &["reboot-needed=false"],
        ),
        (
            "not prepared",
            &["reboot-needed=true", "#before-reboot=true"],
            &["reboot-needed=true", missing, "#before-reboot=true"],
        ),
        (
            "not to be prepared",
            &["reboot-needed=true", "windlass.dev/addons-staged=failed: no disk", "#before-reboot=true"],
            &["reboot-needed=true", "windlass.dev/addons-staged=failed: no disk", failed, "#before-reboot=true"],
        ),
        (
            "prepared",
            &["reboot-needed=true", "windlass.dev/addons-staged=true", missing, "#before-reboot=true"],
            &["reboot-needed=true", "reboot-ok=true"],
        ),
        ("told to go", &["reboot-needed=true", "reboot-ok=true"], &["reboot-needed=true", "reboot-ok=true"]),
        (
            "told to go, and paused before it did",
            &["reboot-needed=true", "reboot-ok=true", "reboot-paused=true"],
            &["reboot-needed=true", "reboot-ok=false", "reboot-paused=true"],
        ),
        (
            "going, and paused too late",
            &["reboot-in-progress=true", "reboot-needed=true", "reboot-ok=true", "reboot-paused=true"],
            &["reboot-in-progress=true", "reboot-needed=true", "reboot-ok=true", "reboot-paused=true"],
        ),
        (
            "back",
            &[back[0], back[1], back[2], "example.org/checked=true"],
            &[back[2], back[1], back[0], "#after-reboot=true"],
        ),
        (
            "not looked at",
            &[back[0], back[1], back[2], "#after-reboot=true"],
            &[back[2], back[1], back[0], checked, "#after-reboot=true"],
        ),
        (
            "looked at",
            &[back[0], back[1], back[2], checked, "example.org/checked=true", "#after-reboot=true"],
            &[back[2], back[1], "reboot-ok=false"],
        ),
    ];
    for (name, before, after) in cases {
        let mut observed = cluster(vec![saying(node("worker-0"), before)]);
        step(&required(), &mut observed);
        let mut want = after.to_vec();
        want.sort_unstable();
        let mut is = said(named(&observed, "worker-0"));
        is.sort_unstable();
        assert_eq!(is, want, "{name}");
    }
}

#[test]
fn a_reboot_that_would_hurt_is_held_with_its_reason() {
    let wants = |name: &str| saying(node(name), &["reboot-needed=true"]);
    let lost = |name: &str| NodeState { trouble: Some("NodeStatusUnknown".to_owned()), ..node(name) };
    let without = |program: Program, node: &str| {
        let mut observed = cluster(vec![wants("master-0")]);
        observed.pods.retain(|pod| pod.program != program || pod.node != node);
        observed
    };
    let unready = |node: &str| {
        let mut observed = cluster(vec![wants("master-0")]);
        observed.pods.iter_mut().filter(|pod| pod.node == node).for_each(|pod| pod.ready = false);
        observed
    };
    let few = |masters: usize| {
        let mut observed = cluster(vec![wants("master-0")]);
        observed.nodes.retain(|node| (0..masters).any(|n| node.name == format!("master-{n}")));
        observed
    };
    let cases = [
        (
            cluster(vec![wants("worker-0"), lost("worker-1")]),
            "worker-0",
            "the node worker-1 is not Ready: NodeStatusUnknown",
        ),
        (
            cluster(vec![wants("worker-0"), lost("master-1")]),
            "worker-0",
            "the node master-1 is not Ready: NodeStatusUnknown",
        ),
        (without(Program::Etcd, "master-1"), "master-0", "etcd on master-1 is not ready"),
        (unready("master-2"), "master-0", "etcd on master-2 is not ready"),
        (without(Program::ApiServer, "master-2"), "master-0", "kube-apiserver on master-2 is not ready"),
        (few(1), "master-0", "etcd has 1 members and no quorum without this one"),
        (few(2), "master-0", "etcd has 2 members and no quorum without this one"),
    ];
    for (mut observed, name, why) in cases {
        step(&required(), &mut observed);
        let held = named(&observed, name);
        assert!(!held.has(BEFORE_REBOOT), "{why}");
        assert_eq!(held.annotations.get(WAITS_FOR).map(String::as_str), Some(why));
        assert_eq!(step(&required(), &mut observed), 0, "{why}");
        // The same trouble after it was chosen holds it as well.
        let chosen = saying(wants(name), &["windlass.dev/addons-staged=true", "#before-reboot=true"]);
        *observed.nodes.iter_mut().find(|node| node.name == name).unwrap() = chosen;
        step(&required(), &mut observed);
        assert!(!named(&observed, name).says(REBOOT_OK), "{why}");
    }
    // Its own trouble is no reason: a reboot may be what helps.
    for name in ["worker-0", "master-0"] {
        let mut observed = cluster(vec![saying(lost(name), &["reboot-needed=true"])]);
        observed.pods.retain(|pod| pod.node != name);
        step(&required(), &mut observed);
        assert!(named(&observed, name).has(BEFORE_REBOOT), "{name}");
    }
}

#[test]
fn a_node_that_may_go_does_not_wait_for_one_that_may_not() {
    let wants = |name: &str| saying(node(name), &["reboot-needed=true"]);
    let mut observed = cluster(vec![wants("master-0"), wants("worker-1"), wants("worker-0")]);
    observed.pods.clear();
    step(&required(), &mut observed);
    assert!(named(&observed, "worker-0").has(BEFORE_REBOOT), "workers go first, by name");
    assert!(!is_under_way(named(&observed, "worker-1")) && !is_under_way(named(&observed, "master-0")));
    assert_eq!(named(&observed, "master-0").annotations.get(WAITS_FOR), None);
}

#[test]
fn a_node_is_released_only_when_it_is_as_good_as_before() {
    let back = ["reboot-ok=true", "reboot-needed=false", "reboot-in-progress=false", "#after-reboot=true"];
    let required = Required::default();
    let trouble = Some("KubeletNotReady".to_owned());
    let mut observed = cluster(vec![NodeState { trouble, ..saying(node("master-0"), &back) }]);
    step(&required, &mut observed);
    let waits = |observed: &Observed| named(observed, "master-0").annotations.get(WAITS_FOR).cloned();
    assert_eq!(waits(&observed).as_deref(), Some("it is not Ready: KubeletNotReady"));
    observed.nodes.iter_mut().for_each(|node| node.trouble = None);
    observed.pods.retain(|pod| pod.node != "master-0");
    step(&required, &mut observed);
    assert_eq!(waits(&observed).as_deref(), Some("etcd on master-0 is not ready"));
    observed.pods = pods(3);
    step(&required, &mut observed);
    assert!(!is_under_way(named(&observed, "master-0")));
}

#[test]
fn pods_of_the_control_plane_are_read() {
    let pod = |app: &str, node: Option<&str>, ready: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"labels": {"k8s-app": app}}, "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    };
    let etcd = PodState { node: "master-0".to_owned(), program: Program::Etcd, ready: true };
    assert_eq!(PodState::of(&pod("etcd", Some("master-0"), "True")), Some(etcd.clone()));
    let unready = PodState { program: Program::ApiServer, ready: false, ..etcd };
    assert_eq!(PodState::of(&pod("kube-apiserver", Some("master-0"), "False")), Some(unready));
    assert_eq!(PodState::of(&pod("etcd", None, "True")), None);
    assert_eq!(PodState::of(&pod("kube-proxy", Some("master-0"), "True")), None);
    assert_eq!(PodState::of(&Pod::default()), None);
}

/// Any Node that people and programs could leave behind.
fn any_node(name: String) -> impl Strategy<Value = NodeState> {
    let words = [
        "reboot-needed=true",
        "reboot-needed=false",
        "reboot-in-progress=true",
        "reboot-in-progress=false",
        "reboot-ok=true",
        "reboot-ok=false",
        "reboot-paused=true",
        "windlass.dev/addons-staged=true",
        "example.org/checked=true",
        "windlass.dev/reboot-waits-for=Godot",
        "#before-reboot=true",
        "#before-reboot=false",
        "#after-reboot=true",
    ];
    let some = proptest::sample::subsequence(words.to_vec(), 0..=words.len());
    (some, proptest::bool::weighted(0.1)).prop_map(move |(words, sick)| NodeState {
        trouble: sick.then(|| "sick".to_owned()),
        ..saying(node(&name), &words)
    })
}

fn any_cluster() -> impl Strategy<Value = Observed> {
    let names = ["master-0", "master-1", "master-2", "worker-0", "worker-1"];
    let nodes = names.map(|name| any_node(name.to_owned()).boxed()).to_vec();
    (nodes, proptest::collection::vec(proptest::bool::weighted(0.9), 6)).prop_map(|(nodes, ready)| {
        let pods = pods(3).into_iter().zip(ready).map(|(pod, ready)| PodState { ready, ..pod });
        Observed { nodes, pods: pods.collect() }
    })
}

proptest! {
    #[test]
    fn a_plan_comes_to_rest(mut observed in any_cluster()) {
        let steps = (0..8).find(|_| step(&required(), &mut observed) == 0);
        prop_assert!(steps.is_some(), "{:?}", plan(&required(), &observed));
    }

    #[test]
    fn no_plan_lets_a_second_node_go(mut observed in any_cluster()) {
        let allowed = |observed: &Observed| observed.nodes.iter().filter(|node| node.says(REBOOT_OK)).count();
        let chosen = |observed: &Observed| observed.nodes.iter().filter(|node| is_under_way(node)).count();
        for _ in 0..8 {
            let before = (allowed(&observed), chosen(&observed));
            step(&required(), &mut observed);
            prop_assert!(allowed(&observed) <= before.0.max(1), "one more may go although one was going");
            prop_assert!(chosen(&observed) <= before.1.max(1), "one more was chosen although one was under way");
        }
        prop_assert!(observed.nodes.iter().filter(|node| node.has(BEFORE_REBOOT)).count() <= 1);
    }

    #[test]
    fn a_paused_node_does_not_begin(mut observed in any_cluster()) {
        for node in &mut observed.nodes {
            node.annotations.insert(REBOOT_PAUSED.to_owned(), "true".to_owned());
        }
        let going = |observed: &Observed| -> Vec<bool> { observed.nodes.iter().map(|n| n.says(REBOOT_OK)).collect() };
        let before = going(&observed);
        for _ in 0..8 {
            step(&required(), &mut observed);
        }
        let after = going(&observed);
        prop_assert!(before.iter().zip(after).all(|(before, after)| *before || !after));
        prop_assert!(observed.nodes.iter().all(|node| !node.has(BEFORE_REBOOT)));
    }
}
