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
        let mut with_workloads: Vec<&str> = cluster
            .objects
            .iter()
            .filter(|(path, o)| path.starts_with("addons/") && pod_of(o).is_some())
            .map(|(path, _)| path.as_str())
            .collect();
        with_workloads.dedup();
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

#[test]
fn machines_reboot_only_where_that_is_wanted() {
    let named = |objects: &[(String, Object)]| {
        let paths = objects.iter().filter(|(path, _)| path == "addons/os-update.yaml");
        paths.map(|(_, object)| format!("{} {}", object.kind, object.name)).collect::<Vec<_>>()
    };
    let never = Manifests::make(&plain("  osUpdate: {reboots: never}\n")).unwrap();
    assert_eq!(named(&all_objects(&never)), Vec::<String>::new());
    assert!(named(&DEFAULT.objects).contains(&"DaemonSet update-agent".to_owned()));
}

/// The agent's way to its machine is the bus, and the coordinator has none.
#[test]
fn who_reboots_machines_has_no_other_hold_on_them() {
    let pod = |kind: &str, name: &str| one(&DEFAULT.objects, kind, name)["spec"]["template"]["spec"].clone();
    let agent = pod("DaemonSet", "update-agent");
    let paths: Vec<&Value> = agent["volumes"].as_array().unwrap().iter().map(|v| &v["hostPath"]["path"]).collect();
    assert_eq!(paths, ["/run/dbus/system_bus_socket"]);
    assert_eq!(agent["tolerations"], json!([{"operator": "Exists"}]), "it is not evicted from the machine it drains");
    assert!(agent.get("hostNetwork").is_none());
    let coordinator = pod("Deployment", "reboot-coordinator");
    assert!(coordinator.get("volumes").is_none());
    assert_eq!(coordinator["securityContext"]["runAsNonRoot"], true);
    for role in ["windlass:update-agent", "windlass:reboot-coordinator"] {
        let rules = one(&DEFAULT.objects, "ClusterRole", role)["rules"].as_array().unwrap().clone();
        let verbs: Vec<&Value> = rules.iter().flat_map(|rule| rule["verbs"].as_array().unwrap()).collect();
        assert!(verbs.iter().all(|verb| ["get", "list", "watch", "patch", "create"].contains(&verb.as_str().unwrap())));
        let resources: Vec<&Value> = rules.iter().flat_map(|rule| rule["resources"].as_array().unwrap()).collect();
        assert!(!resources.contains(&&json!("secrets")), "{role}");
    }
}
