//! Completing: what is decided, that it is stable, and that every flag exists.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_spec::complete::machines;
use windlass_spec::explain::Source;
use windlass_spec::file::{Role, read_and_complete};
use windlass_spec::flags::{self, Component};
use windlass_spec::init::Start;
use windlass_spec::{ClusterName, CompleteSpec, KubeVersion, explain, schema, yaml};

const MINIMAL: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";

fn complete(text: &str) -> CompleteSpec {
    match read_and_complete(text.as_bytes()) {
        Ok((_, spec)) => spec,
        Err(problems) => panic!("{text}\n{:#?}", problems.0),
    }
}

#[test]
fn four_lines_become_a_whole_cluster() {
    let spec = complete(MINIMAL);
    assert_eq!(spec.count(Role::Master), 3);
    assert_eq!(spec.count(Role::Worker), 2);
    assert_eq!(spec.api_internal_name(), "api.internal.demo.test");
    assert_eq!(spec.spec.network.dns_service_ip.to_string(), "10.96.0.10");
    let names: Vec<_> = machines(&spec).iter().map(|m| format!("{} {}", m.name, m.address)).collect();
    let expected = [
        "master-0 172.30.0.16",
        "master-1 172.30.0.17",
        "master-2 172.30.0.18",
        "worker-0 172.30.0.32",
        "worker-1 172.30.0.33",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_written_value_goes_over_a_decided_one_everywhere() {
    let spec = complete(&format!(
        "{MINIMAL}spec:\n  kubernetesVersion: v1.35.4\n  network: {{serviceCIDR: 10.50.0.0/20}}\n  components:\n    kubeAPIServer:\n      flags: {{profiling: true, audit-log-maxage: null, v: 4}}\n    kubelet:\n      config: {{maxPods: 50, evictionHard: {{memory.available: 200Mi}}}}\n"
    ));
    let flags = &spec.spec.components.kube_api_server.flags;
    assert_eq!(flags["service-cluster-ip-range"], json!("10.50.0.0/20"));
    assert_eq!(flags["profiling"], json!(true));
    assert_eq!(flags["audit-log-maxage"], Value::Null);
    assert_eq!(flags["v"], json!(4));
    assert_eq!(spec.spec.versions.containerd, "1.7.35");
    assert_eq!(spec.spec.components.kubelet.config["evictionHard"]["memory.available"], json!("200Mi"));
    assert_eq!(spec.spec.components.kubelet.config["evictionHard"]["nodefs.available"], json!("0%"));
    let arguments = windlass_spec::complete::components::arguments(flags);
    assert!(!arguments.iter().any(|a| a.starts_with("--audit-log-maxage")), "{arguments:?}");
}

#[test]
fn channels_are_known_of_the_local_platform_alone() {
    let aws = "platform: {aws: {}}";
    for (platform, channel, is_good) in [
        ("platform: {local: {}}", "stable", true),
        ("platform: {local: {}}", "beta", true),
        ("platform: {local: {}}", "Beta", false),
        ("platform: {local: {}}", "edge", false),
        (aws, "stable", true),
        (aws, "edge", true),
    ] {
        let text = format!("{MINIMAL}spec:\n  {platform}\n  osUpdate: {{channel: {channel}}}\n");
        assert_eq!(read_and_complete(text.as_bytes()).is_ok(), is_good, "{platform} {channel}");
    }
}

#[test]
fn every_flag_that_is_decided_exists_in_that_version() {
    for version in KubeVersion::ALL {
        for topology in ["self-hosted", "volumes"] {
            let text = format!("{MINIMAL}spec:\n  kubernetesVersion: {version}\n  topology: {topology}\n");
            let spec = complete(&text);
            let components = &spec.to_json()["spec"]["components"];
            for component in Component::ALL {
                for (name, value) in components[component.key()]["flags"].as_object().unwrap() {
                    let flag = flags::flag(version, component, name).unwrap_or_else(|e| panic!("{version}: {e}"));
                    // Upstream would have a configuration file in their place; kubeadm passes them still.
                    let excused = component == Component::Scheduler;
                    assert!(!flag.deprecated || excused, "{version}: {component:?} --{name} is deprecated");
                    assert_eq!(flags::check_value(flag, value), Ok(()), "{version}: --{name}");
                }
                let config = components[component.key()].get("config").cloned().unwrap_or(json!({}));
                assert_eq!(flags::check_config(version, component, &config), [], "{version}");
            }
        }
    }
}

#[test]
fn a_new_spec_has_at_most_ten_lines_and_completes() {
    let start = |provider, topology, workers| Start {
        name: ClusterName::parse("demo").unwrap(),
        provider: Start::provider(provider).unwrap(),
        kubernetes_version: None,
        topology,
        masters: None,
        workers,
    };
    for (provider, topology, workers) in [
        ("local", None, None),
        ("local", Some(windlass_spec::file::Topology::Volumes), Some(5)),
        ("aws", Some(windlass_spec::file::Topology::Volumes), Some(1)),
        ("gce", Some(windlass_spec::file::Topology::SelfHosted), Some(1)),
        ("libvirt", None, Some(3)),
        ("ssh", None, None),
    ] {
        let text = start(provider, topology, workers).to_yaml();
        let lines = text.lines().filter(|l| !l.starts_with('#')).count();
        assert!(lines <= 10, "{text}");
        assert!(text.contains("\nspec:\n"), "{text}");
        assert_eq!(complete(&text).count(Role::Worker), workers.unwrap_or(2), "{text}");
    }
}

#[test]
fn explain_tells_a_users_word_from_a_default_and_from_what_follows() {
    let text = format!(
        "{MINIMAL}spec:\n  network:\n    serviceCIDR: 10.50.0.0/16\n  components: {{etcd: {{flags: {{data-dir: /data}}}}}}\n"
    );
    let (document, spec) = read_and_complete(text.as_bytes()).unwrap();
    let source = |path: &str| explain(&document.node, &spec, path).unwrap().source;
    assert_eq!(source("spec.network.serviceCIDR"), Source::User("line 7 of the spec".into()));
    assert_eq!(source("spec.topology"), Source::Default("self-hosted".into()));
    assert!(
        matches!(source("spec.network.dnsServiceIP"), Source::Derived(from) if from.contains("spec.network.serviceCIDR"))
    );
    assert!(
        matches!(source("spec.components.kubeAPIServer.flags.service-cluster-ip-range"), Source::Derived(from) if from.contains("spec.network.serviceCIDR"))
    );
    assert!(matches!(source("spec.components.etcd.flags.data-dir"), Source::User(_)));
    assert!(matches!(source("spec.components.kubeAPIServer.flags.profiling"), Source::Default(_)));
    assert!(matches!(source("spec.components.kubeAPIServer.flags.max-requests-inflight"), Source::Unset(_)));
    let flag = explain(&document.node, &spec, "spec.components.kubeAPIServer.flags.service-cluster-ip-range").unwrap();
    assert_eq!(flag.value, Some(json!("10.50.0.0/16")));
    assert!(explain(&document.node, &spec, "spec.nope").is_err());
    assert!(explain(&document.node, &spec, "spec.components.etcd.flags.nope").is_err());
}

#[test]
fn every_field_of_a_complete_spec_can_be_explained() {
    let (document, spec) = read_and_complete(MINIMAL.as_bytes()).unwrap();
    let mut paths = Vec::new();
    leaves(&spec.to_json(), "", &mut paths);
    assert!(paths.len() > 150);
    for path in paths {
        let explanation = explain(&document.node, &spec, &path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert!(explanation.value.is_some() && !explanation.document.is_empty(), "{path}");
    }
}

fn leaves(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| leaves(v, &yaml::join(path, k), paths)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| leaves(v, &format!("{path}[{i}]"), paths)),
        _ => paths.push(path.to_owned()),
    }
}

#[test]
fn the_editors_schema_accepts_good_specs_and_rejects_bad_ones() {
    let validator = jsonschema::validator_for(&schema::json_schema()).unwrap();
    let spec = complete(MINIMAL).to_json();
    assert!(validator.is_valid(&spec), "{:?}", validator.iter_errors(&spec).map(|e| e.to_string()).collect::<Vec<_>>());
    for bad in [
        json!({}),
        json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"}, "spec": {"domian": "x"}}),
    ] {
        assert!(!validator.is_valid(&bad), "{bad}");
    }
}

fn any_spec() -> impl Strategy<Value = String> {
    let header = (
        "[a-z][a-z0-9]{0,9}",
        prop::option::of("[a-z]{1,8}\\.(test|example|internal)"),
        prop::sample::select(vec![None, Some("1.36.3"), Some("v1.35.4")]),
        prop::sample::select(vec!["self-hosted", "volumes"]),
        prop::sample::select(vec![1u32, 3, 5]),
        0u32..600,
    );
    let network =
        (any::<bool>(), 20u8..=26, prop::sample::select(vec!["10.96.0.0/16", "10.32.0.0/20", "192.168.0.0/24"]));
    let overrides = (
        prop::option::of(any::<bool>()),
        prop::option::of(1u32..500),
        prop::option::of("[ -~]{0,30}"),
        prop::option::of(Just(())),
        0usize..3,
    );
    (header, network, overrides).prop_map(|((name, domain, version, topology, masters, workers), net, over)| {
        let mut spec = json!({
            "topology": topology,
            "instanceGroups": [{"name": "cp", "role": "master", "count": masters}, {"name": "w", "role": "worker", "count": workers}],
            "network": {"serviceCIDR": net.2},
            "components": {},
        });
        if let Some(domain) = domain { spec["domain"] = domain.into(); }
        if let Some(version) = version { spec["kubernetesVersion"] = version.into(); }
        if net.0 { spec["network"]["nodePrefix"] = net.1.into(); }
        if let Some(p) = over.0 { spec["components"]["kubeAPIServer"]["flags"]["profiling"] = p.into(); }
        if let Some(n) = over.1 { spec["components"]["kubelet"]["config"]["maxPods"] = n.into(); }
        if let Some(t) = over.2 { spec["components"]["kubeScheduler"]["flags"]["vmodule"] = t.into(); }
        if over.3.is_some() { spec["components"]["etcd"]["flags"]["feature-gates"] = Value::Null; }
        let asset = |i| json!({"path": format!("/opt/f{i}"), "content": "a: b\n  c\n"});
        let hook = |i| match i {
            0 => json!({"name": "h0", "exec": ["/bin/true"], "before": ["kubelet.service"]}),
            _ => json!({"name": format!("h{i}"), "exec": ["run", "a b"], "image": "registry.example/h:1"}),
        };
        let data = |i| json!({"name": format!("u{i}"), "type": "shell", "content": "#!/bin/sh\n\techo 1\n"});
        spec["instanceGroups"][1]["hooks"] = (0..over.4).map(hook).collect::<Vec<_>>().into();
        spec["instanceGroups"][1]["additionalUserData"] = (0..over.4).map(data).collect::<Vec<_>>().into();
        spec["instanceGroups"][1]["fileAssets"] = (0..over.4).map(asset).collect::<Vec<_>>().into();
        yaml::emit(&json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn completing_a_completed_spec_changes_nothing(text in any_spec()) {
        let once = complete(&text);
        let again = complete(&once.to_yaml());
        prop_assert_eq!(again.to_yaml(), once.to_yaml());
    }

    #[test]
    fn ranges_never_overlap_and_no_two_machines_share_an_address(text in any_spec()) {
        let spec = complete(&text);
        let network = &spec.spec.network;
        let nets = [network.pod_cidr.net(), network.service_cidr.net(), network.machine_cidr.net()];
        for (i, a) in nets.iter().enumerate() {
            for b in &nets[..i] {
                prop_assert!(!windlass_spec::network::overlap(*a, *b), "{} {}", a, b);
            }
        }
        let mut addresses: Vec<_> = machines(&spec).iter().map(|m| m.address).collect();
        addresses.extend([network.gateway, network.balancer, network.bootstrap]);
        let all = addresses.len();
        prop_assert!(addresses.iter().all(|a| network.machine_cidr.net().contains(a)));
        addresses.sort();
        addresses.dedup();
        prop_assert_eq!(addresses.len(), all);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_and_complete(&bytes);
    }
}
