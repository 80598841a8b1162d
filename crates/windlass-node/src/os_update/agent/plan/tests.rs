use proptest::prelude::*;
use serde_json::{Value, json};
use time::macros::datetime;

use super::*;
use crate::os_update::testing::{node, said, saying};

const NOW: OffsetDateTime = datetime!(2026-11-18 10:00:00 UTC);

fn status(operation: Operation) -> Option<Status> {
    Some(Status { last_checked: 7, progress: 0.0, operation, new_version: "2".to_owned(), new_size: 0 })
}

fn observed(words: &[&str], engine: Option<Status>) -> Observed {
    Observed { node: saying(node("worker-0"), words), boot: "now".to_owned(), engine, pods: None }
}

fn pod(name: &str) -> PodState {
    let id = PodId { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid of {name}") };
    PodState { id, grace: None, ending: false, refused: None }
}

/// Applies what concerns the Node, and tells the rest.
fn apply(observed: &mut Observed) -> Vec<Change> {
    let changes = plan(observed);
    let (nodes, rest): (Vec<_>, Vec<_>) = changes.into_iter().partition(|change| matches!(change, Change::Node(_)));
    for change in nodes {
        let Change::Node(change) = change else { continue };
        change.make(&mut observed.node);
    }
    rest
}

#[test]
fn a_node_goes_through_every_state() {
    let idle = || status(Operation::Idle);
    let staged = || status(Operation::UpdatedNeedReboot);
    let told = |operation: &str| {
        vec!["last-checked-time=7".to_owned(), "new-version=2".to_owned(), format!("status={operation}")]
    };
    let (was_idle, was_staged) = (told("UPDATE_STATUS_IDLE"), told("UPDATE_STATUS_UPDATED_NEED_REBOOT"));
    let no = ["reboot-in-progress=false", "reboot-needed=false", "#reboot-needed=false"];
    let yes = ["reboot-in-progress=false", "reboot-needed=true", "#reboot-needed=true"];
    let going = [
        "agent-made-unschedulable=true",
        "reboot-in-progress=true",
        "reboot-needed=true",
        "reboot-ok=true",
        "windlass.dev/reboot-ends-boot=now",
    ];
    type Case<'a> = (&'a str, &'a [&'a str], Option<Status>, &'a [String], Vec<&'a str>, bool);
    let cases: Vec<Case<'_>> = vec![
        ("first start", &[], idle(), &was_idle, no.to_vec(), false),
        ("first start, nobody knows", &[], None, &[], no.to_vec(), false),
        ("an update is staged", &no, staged(), &was_staged, yes.to_vec(), false),
        ("an update is staged, nobody knows any more", &yes, None, &[], yes.to_vec(), false),
        ("the update is withdrawn", &yes, idle(), &was_idle, no.to_vec(), false),
        (
            "an update while the last reboot is not released",
            &["reboot-ok=true", "reboot-needed=false"],
            staged(),
            &was_staged,
            [&no[..], &["reboot-ok=true"]].concat(),
            false,
        ),
        ("told to go", &["reboot-ok=true", "reboot-needed=true"], staged(), &was_staged, going.to_vec(), true),
        (
            "told to go, nobody knows any more",
            &["reboot-ok=true", "reboot-needed=true"],
            None,
            &[],
            going.to_vec(),
            true,
        ),
        (
            "told to go for nothing",
            &["reboot-ok=true", "reboot-needed=true"],
            idle(),
            &was_idle,
            [&no[..], &["reboot-ok=true"]].concat(),
            false,
        ),
        (
            "told to go before it asked",
            &["reboot-ok=true"],
            staged(),
            &was_staged,
            [&no[..], &["reboot-ok=true"]].concat(),
            false,
        ),
        (
            "back",
            &[
                "agent-made-unschedulable=true",
                "reboot-in-progress=true",
                "reboot-needed=true",
                "reboot-ok=true",
                "windlass.dev/reboot-ends-boot=before",
                "windlass.dev/reboot-waits-for=something",
            ],
            idle(),
            &was_idle,
            [&no[..], &["reboot-ok=true", "agent-made-unschedulable=true"]].concat(),
            false,
        ),
        (
            "back, and nobody noted from where",
            &["reboot-in-progress=true", "reboot-needed=true", "reboot-ok=true"],
            None,
            &[],
            [&no[..], &["reboot-ok=true"]].concat(),
            false,
        ),
        (
            "released",
            &["agent-made-unschedulable=true", "reboot-in-progress=false", "reboot-needed=false", "reboot-ok=false"],
            idle(),
            &was_idle,
            [&no[..], &["reboot-ok=false", "agent-made-unschedulable=false"]].concat(),
            false,
        ),
    ];
    for (name, before, engine, engine_said, after, unschedulable) in cases {
        let mut observed = observed(before, engine);
        observed.node.unschedulable = observed.node.says(MADE_UNSCHEDULABLE);
        // Coming back opens nothing before the coordinator has looked.
        let unschedulable = unschedulable || after.contains(&"agent-made-unschedulable=true");
        let rest = apply(&mut observed);
        let mut want: Vec<String> = after.into_iter().map(str::to_owned).chain(engine_said.iter().cloned()).collect();
        want.sort_unstable();
        let mut is = said(&observed.node);
        is.sort_unstable();
        assert_eq!(is, want, "{name}");
        assert_eq!((observed.node.unschedulable, rest), (unschedulable, Vec::new()), "{name}");
    }
}

#[test]
fn only_what_the_agent_closed_is_opened() {
    let mut closed = observed(&["reboot-ok=true", "reboot-needed=true"], None);
    closed.node.unschedulable = true;
    apply(&mut closed);
    assert!(closed.node.says(REBOOT_IN_PROGRESS) && !closed.node.says(MADE_UNSCHEDULABLE));
    closed.boot = "next".to_owned();
    apply(&mut closed);
    closed.node.annotations.insert(REBOOT_OK.to_owned(), "false".to_owned());
    apply(&mut closed);
    assert!(closed.node.unschedulable, "somebody else has closed it");
}

#[test]
fn pods_go_before_the_machine_does() {
    let mut observed = observed(&["reboot-ok=true", "reboot-needed=true"], None);
    apply(&mut observed);
    assert_eq!(apply(&mut observed), [], "nobody has looked at the pods");
    observed.pods = Some(vec![pod("a"), pod("b")]);
    assert_eq!(apply(&mut observed), [Change::Evict(pod("a")), Change::Evict(pod("b"))]);
    let refused = PodState { refused: Some("not now".to_owned()), ..pod("b") };
    observed.pods = Some(vec![PodState { ending: true, ..pod("a") }, refused.clone()]);
    assert_eq!(apply(&mut observed), [Change::Evict(refused)]);
    let waits = |observed: &Observed| observed.node.annotations.get(WAITS_FOR).cloned();
    assert_eq!(waits(&observed).as_deref(), Some("the pod default/b: not now; and 1 more"));
    observed.pods = Some(vec![PodState { ending: true, ..pod("a") }]);
    assert_eq!(apply(&mut observed), []);
    assert_eq!(waits(&observed).as_deref(), Some("the pod default/a: it is ending"));
    observed.pods = Some(Vec::new());
    assert_eq!(apply(&mut observed), [Change::Reboot]);
    assert_eq!(waits(&observed), None);
    assert!(observed.node.says(REBOOT_IN_PROGRESS) && observed.node.unschedulable);
    // Somebody opens it in the middle: it is closed again before anything else.
    observed.node.unschedulable = false;
    assert_eq!(apply(&mut observed), []);
    assert!(observed.node.unschedulable);
}

#[test]
fn some_pods_are_left_alone() {
    let read = |change: &dyn Fn(&mut Value)| {
        let mut pod = json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u"},
            "spec": {"containers": [], "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"},
        });
        change(&mut pod);
        PodState::of(&serde_json::from_value(pod).unwrap(), NOW)
    };
    let plain = read(&|_| {}).unwrap();
    assert_eq!((plain.grace, plain.ending, plain.id.name.as_str()), (None, false, "web"));
    let owner =
        |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true}]);
    assert!(read(&|pod| pod["metadata"]["ownerReferences"] = owner("ReplicaSet")).is_some());
    assert_eq!(read(&|pod| pod["metadata"]["ownerReferences"] = owner("DaemonSet")), None);
    assert_eq!(read(&|pod| pod["metadata"]["annotations"] = json!({MIRROR: "x"})), None);
    assert_eq!(read(&|pod| pod["status"]["phase"] = json!("Succeeded")), None);
    assert_eq!(read(&|pod| pod["status"]["phase"] = json!("Failed")), None);
    for (toleration, left) in [
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Exists", "effect": "NoSchedule"}), true),
        (json!({"operator": "Exists", "effect": "NoExecute"}), false),
        (json!({"key": UNSCHEDULABLE, "operator": "Exists"}), true),
        (json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"}), true),
        (json!({"key": UNSCHEDULABLE, "value": "x"}), false),
        (json!({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}), false),
    ] {
        let read = read(&|pod| pod["spec"]["tolerations"] = json!([toleration]));
        assert_eq!(read.is_none(), left, "{toleration}");
    }
    let patient = read(&|pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(86400)).unwrap();
    assert_eq!(patient.grace, Some(GRACE), "nobody may take a day");
    let ending = read(&|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-18T09:59:31Z")).unwrap();
    assert!(ending.ending);
    assert_eq!(read(&|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-11-18T09:59:29Z")), None, "overdue");
}

fn any_observed() -> impl Strategy<Value = Observed> {
    let words = [
        "reboot-needed=true",
        "reboot-needed=false",
        "reboot-in-progress=true",
        "reboot-in-progress=false",
        "reboot-ok=true",
        "reboot-ok=false",
        "agent-made-unschedulable=true",
        "windlass.dev/reboot-ends-boot=now",
        "windlass.dev/reboot-ends-boot=before",
        "windlass.dev/reboot-waits-for=Godot",
    ];
    let some = proptest::sample::subsequence(words.to_vec(), 0..=words.len());
    let engine = prop_oneof![
        Just(None),
        Just(status(Operation::Idle)),
        Just(status(Operation::Downloading)),
        Just(status(Operation::UpdatedNeedReboot))
    ];
    (some, engine, any::<bool>()).prop_map(|(words, engine, unschedulable)| {
        let mut observed = observed(&words, engine);
        observed.node.unschedulable = unschedulable;
        observed
    })
}

proptest! {
    #[test]
    fn a_plan_comes_to_rest(mut observed in any_observed()) {
        for _ in 0..4 {
            apply(&mut observed);
        }
        prop_assert_eq!(plan(&observed), []);
    }

    #[test]
    fn nothing_reboots_that_was_not_told_to(mut observed in any_observed()) {
        prop_assume!(!observed.node.says(REBOOT_OK) && !observed.node.says(REBOOT_IN_PROGRESS));
        observed.pods = Some(Vec::new());
        for _ in 0..4 {
            let changes = apply(&mut observed);
            prop_assert_eq!(changes, []);
            prop_assert!(!observed.node.says(REBOOT_IN_PROGRESS));
        }
    }
}
