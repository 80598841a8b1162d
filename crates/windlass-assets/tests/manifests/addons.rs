//! The add-ons and what defines them.

use super::*;

#[test]
fn the_dashboard_can_list_and_nothing_else() {
    let objects = &DEFAULT.objects;
    let rules = one(objects, "ClusterRole", "windlass:dashboard")["rules"].as_array().unwrap().clone();
    assert!(rules.iter().all(|rule| rule["verbs"] == json!(["list"])), "{rules:?}");
    let resources: Vec<&Value> = rules.iter().flat_map(|rule| rule["resources"].as_array().unwrap()).collect();
    assert!(resources.contains(&&json!("addons")) && !resources.contains(&&json!("secrets")), "{resources:?}");
    let container = |objects: &[(String, Object)]| {
        one(objects, "Deployment", "dashboard")["spec"]["template"]["spec"]["containers"][0].clone()
    };
    assert_eq!(container(objects)["command"], json!(["/windlass-node", "dashboard"]));
    let other = Manifests::make(&plain("  addons: {dashboard: {image: example.org/page:1}}\n")).unwrap();
    let other = container(&all_objects(&other));
    assert_eq!(
        (&other["image"], other.get("command"), other.get("readinessProbe")),
        (&json!("example.org/page:1"), None, None)
    );
}

#[test]
fn every_add_on_names_workloads_that_it_has() {
    for cluster in CLUSTERS.iter() {
        let addons: Vec<_> = cluster.objects.iter().filter(|(_, o)| o.kind == "Addon").collect();
        let with_workloads: Vec<&str> = cluster
            .objects
            .iter()
            .filter(|(path, o)| path.starts_with("addons/") && pod_of(o).is_some())
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(
            addons.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
            with_workloads,
            "{}",
            describe(cluster)
        );
        for (path, addon) in addons {
            assert_eq!(*path, format!("addons/{}.yaml", addon.name));
            for workload in addon.body["spec"]["workloads"].as_array().unwrap() {
                let is_it = |o: &Object| {
                    workload["kind"] == o.kind.as_str()
                        && workload["name"] == o.name.as_str()
                        && workload["namespace"].as_str() == o.namespace.as_deref()
                };
                assert!(cluster.objects.iter().any(|(at, o)| at == path && is_it(o)), "{path}: {workload}");
            }
        }
    }
}

#[test]
fn the_definition_of_add_ons_refuses_what_nobody_could_judge() {
    let definition = one(&DEFAULT.objects, "CustomResourceDefinition", "addons.windlass.dev");
    let api = Api::of(KubeVersion::DEFAULT).with(definition);
    let (_, good) = DEFAULT.objects.iter().find(|(_, o)| o.kind == "Addon").unwrap();
    let condition = json!({"type": "Done", "status": "True", "reason": "RolledOut", "message": "", "lastTransitionTime": "2026-11-16T03:00:00Z"});
    for (pointer, value, accepted) in [
        ("/spec/workloads/0/kind", json!("Deployment"), true),
        ("/spec/workloads/0/kind", json!("Job"), false),
        ("/spec/workloads", json!([]), false),
        ("/spec/workloads/0", json!({"kind": "DaemonSet", "name": "a"}), false),
        ("/spec", json!({}), false),
        ("/status", json!({"conditions": [condition]}), true),
        ("/status", json!({"conditions": [{"type": "Done", "status": "True"}]}), false),
        ("/status", json!({"phase": "Done"}), false),
    ] {
        let mut object = good.clone();
        object.body["status"] = json!({});
        *object.body.pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(api.problems(&object).is_empty(), accepted, "{pointer} {value}");
    }
}
