//! The policies that bound the agent and the hook know every word that those set, and no other.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_assets::Manifests;
use windlass_assets::manifest::objects;
use windlass_spec::file::read_and_complete;

use super::agent::{self, PodId};
use super::hook;
use super::protocol::{ADDONS_STAGED, BEFORE_REBOOT, NodeChange, NodeState};
use super::testing::{node, saying};
use crate::update_engine::{Operation, Status};

/// Names of labels, of annotations, and of fields of the spec.
type Words = [BTreeSet<String>; 3];

fn words(changes: impl IntoIterator<Item = NodeChange>) -> Words {
    let mut words = Words::default();
    for patch in changes.into_iter().map(|change| change.patch()) {
        for (at, set) in ["/metadata/labels", "/metadata/annotations", "/spec"].into_iter().zip(&mut words) {
            set.extend(
                patch.pointer(at).and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.clone()),
            );
        }
    }
    words
}

/// The names that a variable of a policy lists. Such a list is also JSON.
fn listed(policy: &str, variable: &str) -> BTreeSet<String> {
    let text = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec: {domain: demo.test}\n";
    let manifests = Manifests::make(&read_and_complete(text.as_bytes()).unwrap().1).unwrap();
    let all = manifests.files().flat_map(|(path, text)| objects(path, text).unwrap()).collect::<Vec<_>>();
    let is_it = |kind: &str, name: &str| kind == "ValidatingAdmissionPolicy" && name == policy;
    let policy = all.iter().find(|object| is_it(&object.kind, &object.name)).unwrap();
    let mut variables = policy.body["spec"]["variables"].as_array().unwrap().iter();
    let list = variables.find(|one| one["name"] == variable).unwrap()["expression"].as_str().unwrap();
    serde_json::from_str(list).unwrap()
}

fn of_agent(words: &[&str], refused: Option<&str>) -> Vec<NodeChange> {
    let engine = Status {
        last_checked: 7,
        progress: 0.0,
        operation: Operation::UpdatedNeedReboot,
        new_version: "2".to_owned(),
        new_size: 0,
    };
    let id = PodId { namespace: "default".to_owned(), name: "web".to_owned(), uid: "u".to_owned() };
    let pod = agent::PodState { id, grace: None, ending: false, refused: refused.map(str::to_owned) };
    let node = saying(node("worker-0"), words);
    let observed = agent::Observed { node, boot: "now".to_owned(), engine: Some(engine), pods: Some(vec![pod]) };
    let changes = agent::plan(&observed).into_iter();
    let of_node = changes.filter_map(|change| match change {
        agent::Change::Node(change) => Some(change),
        agent::Change::Evict(_) | agent::Change::Reboot => None,
    });
    of_node.collect()
}

#[test]
fn the_policy_of_the_agent_knows_what_it_sets() {
    let draining = ["reboot-in-progress=true", "windlass.dev/reboot-ends-boot=now"];
    let mut changes = of_agent(&[], None);
    changes.extend(of_agent(&["reboot-ok=true", "reboot-needed=true"], None));
    changes.extend(of_agent(&draining, Some("not yet")));
    changes.extend(of_agent(&["reboot-in-progress=true", "windlass.dev/reboot-ends-boot=old"], None));
    changes.extend(of_agent(&["agent-made-unschedulable=true"], None));
    let [labels, annotations, fields] = words(changes);
    assert_eq!(labels, listed("update-agent.windlass.dev", "ownLabels"));
    assert_eq!(annotations, listed("update-agent.windlass.dev", "ownAnnotations"));
    assert_eq!(fields, BTreeSet::from(["unschedulable".to_owned()]));
}

#[test]
fn the_policy_of_the_hook_knows_what_it_sets() {
    let asked = saying(node("worker-0"), &["#before-reboot=true"]);
    assert!(asked.shows(BEFORE_REBOOT) && hook::plan(&asked) == Some(hook::Change::Stage));
    let mut changes = vec![NodeChange::of(&asked).annotate(ADDONS_STAGED, "true")];
    let staged: NodeState = saying(node("worker-0"), &["windlass.dev/addons-staged=true"]);
    changes.extend(hook::plan(&staged).into_iter().filter_map(|change| match change {
        hook::Change::Clear(change) => Some(change),
        hook::Change::Stage => None,
    }));
    let [labels, annotations, fields] = words(changes);
    assert_eq!(annotations, listed("pre-reboot.windlass.dev", "ownAnnotations"));
    assert!(labels.is_empty() && fields.is_empty(), "{labels:?} {fields:?}");
}
