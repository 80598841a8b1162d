//! Specs that must be refused: each with the line, the path and the words a user reads.

use windlass_spec::file::read_and_complete;

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n";

/// The problems of a spec, one line each; panics if it is accepted.
fn problems(text: &[u8]) -> Vec<String> {
    match read_and_complete(text) {
        Ok(_) => panic!("accepted:\n{}", String::from_utf8_lossy(text)),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

fn spec(body: &str) -> String {
    format!("{HEAD}{body}")
}

fn group(fields: &str) -> String {
    spec(&format!(
        "  instanceGroups:\n  - name: m\n    role: master\n    count: 1\n  - name: w\n    role: worker\n{fields}"
    ))
}

#[test]
fn every_bad_spec_is_refused_with_its_place_and_remedy() {
    let cases: Vec<(&str, String, &str)> = vec![
        (
            "unknown field",
            spec("  domian: demo.test\n"),
            "line 6: spec.domian: is not a field of the spec; did you mean domain?",
        ),
        ("unknown top field", format!("{HEAD}status: {{}}\n"), "line 6: status: is not a field"),
        (
            "unknown nested field",
            spec("  network:\n    podCidr: 10.0.0.0/16\n"),
            "line 7: spec.network.podCidr: is not a field of the spec; did you mean podCIDR?",
        ),
        ("far unknown field", spec("  zebra: 1\n"), "known here: domain, kubernetesVersion"),
        ("text for a number", spec("  workers: many\n"), "line 6: spec.workers: a text stands here, a whole number"),
        ("float for a number", spec("  workers: 2.5\n"), "2.5 is not a whole number"),
        ("negative count", spec("  workers: -1\n"), "-1 is not a whole number from 0"),
        ("huge count", spec("  workers: 99999999\n"), "is not a whole number from 0 to 20000"),
        ("list for a mapping", spec("  network: []\n"), "a list stands here, a mapping is wanted"),
        ("mapping for a text", spec("  domain: {a: b}\n"), "a mapping stands here, a DNS domain is wanted"),
        ("boolean for a text", spec("  domain: true\n"), "a boolean stands here"),
        (
            "text for a boolean",
            spec("  addons:\n    dashboard:\n      enabled: si\n"),
            "line 8: spec.addons.dashboard.enabled: a text stands here, true or false is wanted",
        ),
        ("text for a list", spec("  instanceGroups: all\n"), "a text stands here, a list is wanted"),
        ("wrong word", spec("  topology: selfhosted\n"), "did you mean self-hosted?"),
        (
            "channel that the local platform does not have",
            spec("  osUpdate:\n    channel: alpha\n"),
            "line 7: spec.osUpdate.channel: platform local has no channel alpha: use stable or beta",
        ),
        (
            "wrong api version",
            "apiVersion: v1\nkind: Cluster\nmetadata: {name: a}\nspec: {}\n".into(),
            "line 1: apiVersion: \"v1\" is not one of windlass.dev/v1alpha1",
        ),
        ("wrong kind", "apiVersion: windlass.dev/v1alpha1\nkind: Pod\nmetadata: {name: a}\n".into(), "line 2: kind"),
        (
            "missing name",
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {}\nspec: {}\n".into(),
            "line 3: metadata.name: is missing",
        ),
        ("missing everything", "{}\n".into(), "apiVersion: is missing"),
        (
            "bad name",
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: Demo_1}\n".into(),
            "is not a cluster name",
        ),
        (
            "path as name",
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: ../x}\n".into(),
            "is not a cluster name",
        ),
        (
            "old version",
            spec("  kubernetesVersion: 1.34.4\n"),
            "line 6: spec.kubernetesVersion: Kubernetes 1.34.4 is not one that windlass installs: use one of 1.36.3, 1.35.4",
        ),
        ("version without patch", spec("  kubernetesVersion: 1.36\n"), "Kubernetes 1.36 is not one"),
        ("bad component version", spec("  versions:\n    etcd: latest\n"), "\"latest\" is not a version"),
        ("bad domain", spec("  domain: Demo.Test\n"), "is not a DNS domain"),
        ("one label domain", spec("  domain: localdomain\n"), "is not a DNS domain"),
        ("address as domain", spec("  domain: 10.0.0.1\n"), "is not a DNS domain"),
        (
            "pods overlap services",
            spec("  network:\n    podCIDR: 10.96.0.0/12\n"),
            "spec.network.serviceCIDR: 10.96.0.0/16 overlaps podCIDR 10.96.0.0/12",
        ),
        (
            "machines overlap pods",
            spec("  network:\n    machineCIDR: 10.244.4.0/24\n"),
            "line 7: spec.network.machineCIDR: 10.244.4.0/24 overlaps podCIDR",
        ),
        ("link-local range", spec("  network:\n    machineCIDR: 169.254.0.0/16\n"), "link-local"),
        (
            "pods too small",
            spec("  workers: 300\n  network:\n    podCIDR: 10.244.0.0/16\n"),
            "line 8: spec.network.podCIDR: 10.244.0.0/16 has room for 256 nodes with /24 each, and there are 303",
        ),
        (
            "too many node parts",
            spec("  network:\n    podCIDR: 10.128.0.0/9\n    nodePrefix: 28\n"),
            "more than 65,536",
        ),
        (
            "machines too many",
            spec("  workers: 40\n  network:\n    machineCIDR: 172.30.0.0/27\n"),
            "has no room for 43 machines",
        ),
        ("tiny machine range", spec("  network:\n    machineCIDR: 172.30.0.0/30\n"), "is too small"),
        (
            "services too wide",
            spec("  network:\n    serviceCIDR: 10.0.0.0/9\n    podCIDR: 192.168.0.0/16\n"),
            "not between /12 and /28",
        ),
        ("not a range", spec("  network:\n    podCIDR: 10.244.0.0\n"), "write it as 10.96.0.0/16"),
        ("range not at its start", spec("  network:\n    podCIDR: 10.244.1.0/16\n"), "write 10.244.0.0/16"),
        ("IPv6", spec("  network:\n    podCIDR: fd00::/48\n"), "IPv6"),
        (
            "DNS outside services",
            spec("  network:\n    dnsServiceIP: 10.0.0.10\n"),
            "is not a free address of 10.96.0.0/16",
        ),
        ("API address not first", spec("  network:\n    apiServiceIP: 10.96.0.5\n"), "is not the first address"),
        ("gateway outside", spec("  network:\n    gateway: 10.0.0.1\n"), "is no machine's address"),
        ("balancer is gateway", spec("  network:\n    balancer: 172.30.0.1\n"), "is used by"),
        ("no masters", spec("  masters: 0\n"), "line 6: spec.masters: there is no master"),
        ("even masters", spec("  masters: 4\n"), "use an odd number such as 5"),
        (
            "even masters over groups",
            spec("  instanceGroups:\n  - {name: a, role: master, count: 1}\n  - {name: b, role: master, count: 1}\n"),
            "2 masters survive no more losses than 1",
        ),
        ("too many masters", spec("  masters: 9\n"), "at most 7"),
        (
            "only workers",
            spec("  instanceGroups:\n  - {name: a, role: worker}\n"),
            "line 6: spec.instanceGroups: there is no master",
        ),
        (
            "duplicate groups",
            spec("  instanceGroups:\n  - {name: a, role: master}\n  - {name: a, role: worker}\n"),
            "line 8: spec.instanceGroups[1].name: a is the name of an earlier group",
        ),
        ("group without role", spec("  instanceGroups:\n  - name: a\n"), "spec.instanceGroups[0].role: is missing"),
        ("short and long form", group("  workers: 3\n"), "keep one of the two"),
        ("address outside", group("    firstAddress: 10.0.0.1\n"), "do not fit into"),
        ("address taken", group("    firstAddress: 172.30.0.1\n"), "addresses that are used"),
        (
            "path traversal",
            group("    fileAssets:\n    - path: /etc/../etc/shadow\n      content: x\n"),
            "line 13: spec.instanceGroups[1].fileAssets[0].path: \"/etc/../etc/shadow\" is not an absolute path",
        ),
        ("relative path", group("    fileAssets: [{path: etc/x, content: x}]\n"), "is not an absolute path"),
        (
            "owned path",
            group("    fileAssets: [{path: /etc/kubernetes/kubelet.env, content: x}]\n"),
            "is windlass' own",
        ),
        (
            "path below an owned one",
            group("    fileAssets: [{path: /etc/kubernetes/pki/ca.key, content: x}]\n"),
            "is windlass' own",
        ),
        (
            "same path twice",
            group("    fileAssets: [{path: /a, content: x}, {path: /a, content: y}]\n"),
            "written by an earlier entry",
        ),
        ("bad mode", group("    fileAssets: [{path: /a, content: x, mode: rw}]\n"), "is not a file mode"),
        ("bad base64", group("    fileAssets: [{path: /a, content: '%%', encoding: base64}]\n"), "is not base64"),
        (
            "script without interpreter",
            group("    additionalUserData: [{name: a, type: shell, content: 'echo'}]\n"),
            "starts with #!",
        ),
        (
            "fragment that is not JSON",
            group("    additionalUserData: [{name: a, type: ignition, content: 'x: y'}]\n"),
            "is not an Ignition config",
        ),
        (
            "fragment of another version",
            group(
                "    additionalUserData: [{name: a, type: ignition, content: '{\"ignition\":{\"version\":\"3.5.0\"}}'}]\n",
            ),
            "use 3.3.0",
        ),
        ("hook without command", group("    hooks: [{name: a, exec: []}]\n"), "name the command"),
        (
            "hook before no unit",
            group("    hooks: [{name: a, exec: [/bin/true], before: [kubelet]}]\n"),
            "is not a systemd unit name",
        ),
        (
            "hook before no known kind of unit",
            group("    hooks: [{name: a, exec: [/bin/true], after: [disk.device]}]\n"),
            "is not a systemd unit name: write it as kubelet.service",
        ),
        ("hook with a name for a path", group("    hooks: [{name: ../a, exec: [/bin/true]}]\n"), "hooks[0].name:"),
        (
            "hook without command in an image",
            group("    hooks: [{name: a, image: 'registry.example/a:1', exec: []}]\n"),
            "hooks[0].exec: is empty: name the command",
        ),
        (
            "hook in an image of no registry",
            group("    hooks: [{name: a, image: 'busybox:1', exec: [sh]}]\n"),
            "hooks[0].image: busybox:1 does not say which registry it comes from: write it in full",
        ),
        (
            "hook before and after the same",
            group("    hooks: [{name: a, exec: [/a], before: [x.service], after: [x.service]}]\n"),
            "hooks[0].before: x.service is to wait for it and is waited for: keep one of the two",
        ),
        (
            "hook in a circle",
            group("    hooks: [{name: a, exec: [/a], before: [containerd.service], after: [kubelet.service]}]\n"),
            "hooks[0].before: it waits for kubelet.service, which starts after containerd.service",
        ),
        (
            "hook in an image before its runtime",
            group("    hooks: [{name: a, image: 'a.b/c:1', exec: [a], before: [k8s-node-bootstrap.service]}]\n"),
            "a hook with an image waits for containerd.service, which starts after k8s-node-bootstrap.service",
        ),
        (
            "hook before the node flow and after a script, which comes after it",
            group(
                "    hooks: [{name: a, exec: [/a], before: [k8s-node-bootstrap.service], after: [windlass-user-data-b.service]}]\n",
            ),
            "it waits for windlass-user-data-b.service, which starts after k8s-node-bootstrap.service",
        ),
        (
            "static pod in the place of etcd's",
            group("    fileAssets: [{path: /etc/kubernetes/manifests/etcd.yaml, content: x}]\n"),
            "fileAssets[0].path: /etc/kubernetes/manifests/etcd.yaml is windlass' own: choose another place",
        ),
        ("our own program", group("    fileAssets: [{path: /opt/windlass/bin/x, content: x}]\n"), "is windlass' own"),
        (
            "script with a path for a name",
            group("    additionalUserData: [{name: a/b, type: shell, content: '#!/bin/sh'}]\n"),
            "additionalUserData[0].name:",
        ),
        ("hook by relative path", group("    hooks: [{name: a, exec: [true.sh]}]\n"), "absolute path"),
        (
            "unknown flag",
            spec("  components:\n    kubeAPIServer:\n      flags:\n        etcd-server: x\n"),
            "line 9: spec.components.kubeAPIServer.flags.etcd-server: kube-apiserver 1.36.3 has no flag --etcd-server; did you mean etcd-servers?",
        ),
        ("flag with dashes", spec("  components: {etcd: {flags: {--name: x}}}\n"), "without dashes"),
        (
            "flag of wrong type",
            spec("  components: {kubeAPIServer: {flags: {profiling: maybe}}}\n"),
            "is not a value of type bool",
        ),
        (
            "flag as mapping",
            spec("  components: {kubeAPIServer: {flags: {profiling: {a: b}}}}\n"),
            "a flag's value is wanted",
        ),
        ("unknown config", spec("  components: {kubelet: {config: {maxPod: 5}}}\n"), "did you mean maxPods?"),
        ("config of wrong type", spec("  components: {kubelet: {config: {maxPods: lots}}}\n"), "a number is wanted"),
        (
            "cgroup driver that the runtime does not have",
            spec("  components:\n    kubelet:\n      config:\n        cgroupDriver: systemd\n"),
            "line 9: spec.components.kubelet.config.cgroupDriver: \"systemd\" is not the cgroup driver of the container runtime, which windlass sets up for cgroupfs: use cgroupfs, or leave it out",
        ),
        (
            "the same as a flag",
            spec("  components: {kubelet: {flags: {cgroup-driver: systemd}}}\n"),
            "spec.components.kubelet.flags.cgroup-driver: \"systemd\" is not the cgroup driver",
        ),
        ("config where there is none", spec("  components: {etcd: {config: {}}}\n"), "is not a field of the spec"),
        ("unknown component", spec("  components: {kubeApiServer: {}}\n"), "did you mean kubeAPIServer?"),
        ("two platforms", spec("  platform: {local: {}, aws: {}}\n"), "keep one of local, aws"),
        ("unknown platform", spec("  platform: {azure: {}}\n"), "spec.platform.azure: is not a field"),
        ("ssh without hosts", spec("  platform: {ssh: {}}\n"), "spec.platform.ssh.hosts: is missing"),
        ("ssh with too few hosts", spec("  platform: {ssh: {hosts: [192.0.2.1]}}\n"), "1 addresses for 5 machines"),
        (
            "volumes over ssh",
            spec("  masters: 1\n  workers: 0\n  topology: volumes\n  platform: {ssh: {hosts: [192.0.2.1]}}\n"),
            "not to be had on platform ssh",
        ),
        ("bad image", spec("  images: {etcd: 'etcd'}\n"), "is not an image reference"),
        ("bad URL", spec("  artifacts: {mirror: 'ftp://x'}\n"), "is not an http or https URL"),
        ("key twice", spec("  workers: 1\n  workers: 2\n"), "line 7: workers stands here again, it was set on line 6"),
        ("tabs", spec("\tworkers: 1\n"), "this is not YAML"),
        ("not a mapping", "- a\n- b\n".into(), "a list stands here, a mapping is wanted"),
        ("a word", "hello\n".into(), "a text stands here"),
        ("empty", String::new(), "windlass spec init"),
        ("two documents", format!("{HEAD}  workers: 1\n---\na: b\n"), "second document"),
        ("alias bomb", bomb(), "aliases counted each time"),
        ("deep", format!("{HEAD}  network: {}\n", "[".repeat(5000)), "nested more than 40 deep"),
        ("custom tag", spec("  domain: !env DOMAIN\n"), "tag"),
    ];
    assert!(cases.len() >= 40);
    for (name, text, says) in cases {
        let said = problems(text.as_bytes()).join("\n");
        assert!(said.contains(says), "{name}: wanted {says:?}, got:\n{said}");
    }
}

fn bomb() -> String {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for i in 1..10 {
        text.push_str(&format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(",")));
    }
    text
}

#[test]
fn text_that_is_not_utf8_and_files_beyond_the_budget_are_refused() {
    assert!(problems(b"apiVersion: \xc3\x28\n")[0].contains("not UTF-8"));
    assert!(problems(&vec![b'#'; 5 << 20])[0].contains("larger than 4 MiB"));
}

#[test]
fn all_problems_are_reported_at_once_and_in_order() {
    let text = spec(
        "  domian: x\n  workers: many\n  masters: 2\n  network:\n    podCIDR: 10.96.0.0/16\n  components: {etcd: {flags: {nam: x}}}\n",
    );
    let said = problems(text.as_bytes());
    let lines: Vec<&str> = said.iter().map(|p| p.split(':').next().unwrap()).collect();
    assert_eq!(lines, ["line 6", "line 7", "line 8", "line 9", "line 11"], "{said:#?}");
}

#[test]
fn what_follows_from_a_bad_part_is_not_reported_again() {
    let text = spec("  instanceGroups:\n  - name: a\n    role: master\n    count: three\n");
    let said = problems(text.as_bytes());
    assert_eq!(said.len(), 1, "{said:#?}");
}
