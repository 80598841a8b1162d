//! Every program runs, and is of the version that is pinned.

use std::collections::BTreeSet;

use windlass_steps::host::{cmd, run_blocking};

use crate::cached::{Programs, asked};

/// How each program is asked, and the line with which it answers: `$` is its version, and `%` what that adds to a Go
/// module's name, from the second on.
const QUESTIONS: &[(&str, &[&str], &str)] = &[
    ("kubernetes", &["kubelet", "--version"], "Kubernetes v$"),
    ("kube-apiserver", &["--version"], "Kubernetes v$"),
    ("kube-controller-manager", &["--version"], "Kubernetes v$"),
    ("kube-scheduler", &["--version"], "Kubernetes v$"),
    ("kube-proxy", &["--version"], "Kubernetes v$"),
    ("kubelet", &["--version"], "Kubernetes v$"),
    ("kubectl", &["version", "--client"], "Client Version: v$"),
    ("kubeadm", &["version", "-o", "short"], "v$"),
    ("etcd", &["--version"], "etcd Version: $"),
    ("etcdctl", &["version"], "etcdctl version: $"),
    ("etcdutl", &["version"], "etcdutl version: $"),
    ("containerd", &["--version"], "containerd github.com/containerd/containerd% v$"),
    ("containerd-shim-runc-v2", &["-v"], "Version:  v$"),
    ("ctr", &["--version"], "ctr github.com/containerd/containerd% v$"),
    ("runc", &["--version"], "runc version $"),
    ("bridge", &[], "CNI bridge plugin v$"),
    ("host-local", &[], "CNI host-local plugin v$"),
    ("loopback", &[], "CNI loopback plugin v$"),
    ("portmap", &[], "CNI portmap plugin v$"),
    ("ignition", &["--version"], "Ignition v$"),
    ("coredns", &["-version"], "CoreDNS-$"),
    ("flanneld", &["--version"], "v$"),
    ("windlass-node", &["--version"], "windlass-node $"),
];

/// How a program is asked for its version, and its answer with `$` for the version.
pub fn question(name: &str) -> (&'static [&'static str], &'static str) {
    let (_, arguments, answer) = QUESTIONS.iter().find(|(asked, ..)| *asked == name).unwrap();
    (arguments, answer)
}

fn module_suffix(version: &str) -> String {
    match version.split('.').next().unwrap() {
        "0" | "1" => String::new(),
        major => format!("/v{major}"),
    }
}

#[test]
#[ignore = "needs every artifact"]
fn every_program_is_of_the_version_that_is_pinned() {
    let programs = Programs::of(asked());
    let asked: BTreeSet<&str> = QUESTIONS.iter().map(|(name, ..)| *name).collect();
    let pinned: BTreeSet<&str> = programs.names.keys().map(String::as_str).collect();
    assert_eq!(asked, pinned, "a program is asked if and only if it is pinned");
    for (name, arguments, answer) in QUESTIONS {
        let version = &programs.names[*name];
        let answer = answer.replace('$', version).replace('%', &module_suffix(version));
        let output = run_blocking(cmd(programs.path(name)).args(*arguments)).unwrap();
        let said = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), output.stderr);
        assert!(said.lines().any(|line| line.trim() == answer), "{name} does not say {answer:?} but {said}");
    }
}
