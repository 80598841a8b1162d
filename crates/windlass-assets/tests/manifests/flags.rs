//! How programs are started.

use super::*;

/// How the program of an object is started, in a cluster that says this much about itself.
fn command(extra: &str, kind: &str, name: &str) -> Vec<String> {
    let objects = Cluster::of(plain(extra)).objects;
    let pod = pod_of(only(&objects, kind, name)).unwrap();
    serde_json::from_value(pod["containers"][0]["command"].clone()).unwrap()
}

fn flag(words: &[String], prefix: &str) -> String {
    words.iter().find_map(|word| word.strip_prefix(prefix)).unwrap().to_owned()
}

#[test]
fn an_api_server_uses_the_etcd_of_its_own_machine_and_the_bootstrap_machine_that_of_all_masters() {
    let servers = |extra: &str, kind: &str, name: &str| flag(&command(extra, kind, name), "--etcd-servers=");
    assert_eq!(servers("", "DaemonSet", "kube-apiserver"), "https://127.0.0.1:2379");
    let bootstrap = servers("", "Pod", "bootstrap-kube-apiserver");
    let members: Vec<&str> = bootstrap.split(',').collect();
    assert_eq!(members.len(), 3, "{bootstrap}");
    assert!((0..3).all(|i| members[i].starts_with(&format!("https://etcd-{i}.internal."))), "{bootstrap}");
    let own = "  components: {kubeAPIServer: {flags: {etcd-servers: 'https://etcd.example:2379'}}}\n";
    for (kind, name) in [("DaemonSet", "kube-apiserver"), ("Pod", "bootstrap-kube-apiserver")] {
        assert_eq!(servers(own, kind, name), "https://etcd.example:2379");
    }
}

#[test]
fn the_temporary_controller_manager_begins_with_what_masters_need_to_join() {
    let controllers = |extra: &str| -> Vec<String> {
        let programs = [("Pod", "bootstrap-kube-controller-manager"), ("Deployment", "kube-controller-manager")];
        programs.map(|(kind, name)| flag(&command(extra, kind, name), "--controllers=")).into()
    };
    let decided = controllers("");
    assert!(decided[0].contains("certificatesigningrequest-signing-controller"), "{decided:?}");
    assert!(!decided[0].contains('*'), "{decided:?}");
    assert_eq!(decided[1], "*,bootstrapsigner,tokencleaner");
    let own = "  components: {kubeControllerManager: {flags: {controllers: '*'}}}\n";
    assert_eq!(controllers(own), ["*", "*"]);
}

#[test]
fn bootstrap_programs_hold_short_leases_unless_the_spec_speaks_of_them() {
    let command = |extra: &str, name: &str| command(extra, "Pod", name);
    for name in ["bootstrap-kube-controller-manager", "bootstrap-kube-scheduler"] {
        let words = command("", name);
        for flag in
            ["--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=1s"]
        {
            assert!(words.iter().any(|w| w == flag), "{name} has no {flag}");
        }
    }
    let written =
        "  components: {kubeScheduler: {flags: {leader-elect-lease-duration: 20s, leader-elect-retry-period: null}}}\n";
    let words = command(written, "bootstrap-kube-scheduler");
    assert!(words.contains(&"--leader-elect-lease-duration=20s".to_owned()));
    assert!(!words.iter().any(|w| w.starts_with("--leader-elect-retry-period")));
    assert!(!command("", "bootstrap-kube-apiserver").iter().any(|w| w.starts_with("--leader-elect")));
}

#[test]
fn every_flag_of_the_spec_is_passed() {
    let objects = &DEFAULT.objects;
    let components = &DEFAULT.spec.spec.components;
    for (kind, name, flags) in [
        ("DaemonSet", "kube-apiserver", &components.kube_api_server.flags),
        ("Deployment", "kube-controller-manager", &components.kube_controller_manager.flags),
        ("Deployment", "kube-scheduler", &components.kube_scheduler.flags),
        ("DaemonSet", "kube-proxy", &components.kube_proxy.flags),
    ] {
        let container = &one(objects, kind, name)["spec"]["template"]["spec"]["containers"][0];
        let words: Vec<String> = serde_json::from_value(container["command"].clone()).unwrap();
        assert_eq!(words[0], name);
        assert_eq!(words[1..], arguments(flags));
    }
}
