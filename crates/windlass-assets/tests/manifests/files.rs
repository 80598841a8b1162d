//! Which files and objects a cluster has.

use super::*;

#[test]
fn each_topology_has_its_manifests() {
    let paths = |extra: &str| -> Vec<String> {
        Manifests::make(&plain(extra)).unwrap().files().map(|(path, _)| path.to_owned()).collect()
    };
    let self_hosted = [
        "addons/coredns.yaml",
        "addons/dashboard.yaml",
        "addons/flannel.yaml",
        "addons/kube-proxy.yaml",
        "addons/os-update.yaml",
        "addons/pre-reboot.yaml",
        "addons/runtime-mappings.yaml",
        "bootstrap/bootstrap-kube-apiserver.yaml",
        "bootstrap/bootstrap-kube-controller-manager.yaml",
        "bootstrap/bootstrap-kube-scheduler.yaml",
        "control-plane/addon-definition.yaml",
        "control-plane/checkpointer.yaml",
        "control-plane/csr-approver.yaml",
        "control-plane/kube-apiserver.yaml",
        "control-plane/kube-controller-manager.yaml",
        "control-plane/kube-scheduler.yaml",
        "control-plane/machine-config-server.yaml",
        "control-plane/rbac.yaml",
        "master/etcd.yaml",
    ];
    assert_eq!(paths(""), self_hosted);
    let volumes = [
        "addons/addon-definition.yaml",
        "addons/dns-controller.yaml",
        "addons/kube-proxy.yaml",
        "addons/rbac.yaml",
        "addons/runtime-mappings.yaml",
        "master/etcd.yaml",
        "master/kube-apiserver.yaml",
        "master/kube-controller-manager.yaml",
        "master/kube-scheduler.yaml",
    ];
    let bare = "  topology: volumes\n  network: {plugin: none}\n  addons:\n    coreDNS: {enabled: false}\n    dashboard: {enabled: false}\n  osUpdate: {reboots: never}\n";
    assert_eq!(paths(bare), volumes);
}

#[test]
fn groups_list_their_files_and_objects() {
    let manifests = Manifests::make(&plain("")).unwrap();
    let names: Vec<&str> = manifests.group(Group::Master).map(|(name, _)| name).collect();
    assert_eq!(names, ["etcd.yaml"]);
    let all: usize = Group::ALL.iter().map(|g| manifests.objects(*g).unwrap().len()).sum();
    assert_eq!(all, all_objects(&manifests).len());
}

#[test]
fn the_same_spec_gives_the_same_bytes_and_reads_back() {
    for cluster in CLUSTERS.iter() {
        let made = &cluster.manifests;
        assert_eq!(*made, Manifests::make(&spec(&cluster.spec.to_yaml())).unwrap());
        let files = made.files().map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(Manifests::from_files(files).unwrap(), *made);
    }
}

#[test]
fn an_edit_that_is_no_manifest_is_refused_with_its_path() {
    let broken = [("addons/coredns.yaml".to_owned(), "kind: [".to_owned())];
    assert!(Manifests::from_files(broken).unwrap_err().to_string().contains("addons/coredns.yaml"));
    let outside = [("../coredns.yaml".to_owned(), String::new())];
    assert!(Manifests::from_files(outside).is_err());
}

#[test]
fn no_object_is_there_twice() {
    for cluster in CLUSTERS.iter() {
        let mut seen = BTreeMap::new();
        for (path, o) in &cluster.objects {
            let key = (&o.kind, &o.namespace, &o.name);
            if let Some(first) = seen.insert(key, path) {
                panic!("{}: {key:?} is in {first} and {path}", describe(cluster));
            }
        }
    }
}
