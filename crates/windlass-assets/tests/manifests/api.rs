//! The API of its version accepts every object.

use super::*;

#[test]
fn the_api_accepts_every_object_of_every_cluster() {
    let definition = one(&DEFAULT.objects, "CustomResourceDefinition", "addons.windlass.dev");
    let apis: BTreeMap<KubeVersion, Api> =
        KubeVersion::ALL.into_iter().map(|v| (v, Api::of(v).with(definition))).collect();
    let mut checked = 0;
    for cluster in CLUSTERS.iter() {
        let api = &apis[&cluster.spec.spec.kubernetes_version];
        for (path, object) in &cluster.objects {
            let problems = api.problems(object);
            assert!(
                problems.is_empty(),
                "{}, {path}, {} {}: {problems:#?}",
                describe(cluster),
                object.kind,
                object.name
            );
            checked += 1;
        }
    }
    assert!(checked > 300, "only {checked} objects were looked at");
}

#[test]
fn the_same_check_refuses_what_is_wrong() {
    let api = Api::of(KubeVersion::DEFAULT);
    let objects = &DEFAULT.objects;
    let (_, good) = objects.iter().find(|(_, o)| o.kind == "DaemonSet" && o.name == "kube-apiserver").unwrap();
    assert_eq!(api.problems(good), Vec::<String>::new());
    for (pointer, key, value) in [
        ("", "unknown", json!(1)),
        ("/metadata", "nmae", json!("x")),
        ("/spec/template/spec", "hostNetwrok", json!(true)),
        ("/spec/template/spec", "hostNetwork", json!("true")),
        ("/spec/template/spec", "containers", json!({})),
        ("/spec/template/spec/containers/0", "command", json!("kube-apiserver")),
        ("/spec/template/spec/containers/0", "image", Value::Null),
        ("/spec/template/spec/containers/0/readinessProbe", "periodSeconds", json!("1")),
        ("/spec/template/spec/containers/0/readinessProbe", "periodSeconds", json!(1_u64 << 40)),
        ("/spec/template/spec/containers/0/readinessProbe/httpGet", "port", json!(true)),
        ("/spec/template/spec/containers/0/resources/requests", "cpu", json!("a lot")),
        ("/metadata", "creationTimestamp", json!("yesterday")),
    ] {
        let mut bad = good.clone();
        bad.body.pointer_mut(pointer).unwrap()[key] = value;
        assert_ne!(api.problems(&bad), Vec::<String>::new(), "{pointer}/{key}");
    }
    let mut bad = good.clone();
    bad.body["spec"].as_object_mut().unwrap().remove("selector");
    assert_ne!(api.problems(&bad), Vec::<String>::new(), "a required field is missing");
}
