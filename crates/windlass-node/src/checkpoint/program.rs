//! The programs of the control plane by name, and what their static copies are called.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

/// The label that says which program a pod runs.
const LABEL: &str = "k8s-app";
/// In front of a copy's name. No pod of a DaemonSet or Deployment of ours begins like that, so copies and real pods are
/// told apart by their names, and the kubelet's `<name>-<node>` clashes with nobody's.
const PREFIX: &str = "checkpoint-";
const LONGEST: usize = 50;

/// A program's name, checked because it becomes the name of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program(String);

impl Program {
    /// Takes small letters, digits, and dashes inside.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = !text.is_empty() && text.len() <= LONGEST && text.chars().all(plain);
        (is_name && !text.starts_with('-') && !text.ends_with('-')).then(|| Program(text.to_owned()))
    }

    /// The program of a pod, by its label.
    pub fn of(pod: &Pod) -> Option<Self> {
        Program::parse(pod.metadata.labels.as_ref()?.get(LABEL)?)
    }

    /// The program of a copy's file.
    pub fn of_file(name: &str) -> Option<Self> {
        Program::parse(name.strip_prefix(PREFIX)?.strip_suffix(".yaml")?)
    }

    /// The API server, which is needed before all others.
    pub fn api_server() -> Self {
        Program("kube-apiserver".to_owned())
    }

    /// The checkpointer itself, which must come back first.
    pub fn checkpointer() -> Self {
        Program("checkpointer".to_owned())
    }

    /// The name of the static copy's pod, without the node's name that the kubelet adds.
    pub fn copy_name(&self) -> String {
        format!("{PREFIX}{self}")
    }

    /// The name of the static copy's file.
    pub fn file_name(&self) -> String {
        format!("{PREFIX}{self}.yaml")
    }

    /// Whether a pod of this name is a real one of this program: its DaemonSet or Deployment is named like the program.
    pub fn is_of_real(&self, pod: &str) -> bool {
        pod.strip_prefix(self.0.as_str()).is_some_and(|rest| rest.starts_with('-'))
    }

    /// As a selector of its real pods.
    pub fn selector(&self) -> String {
        format!("{LABEL}={self}")
    }

    /// The labels of its copy, which no selector of a real pod matches.
    pub fn copy_labels(&self) -> [(String, String); 1] {
        [(LABEL.to_owned(), self.copy_name())]
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_safe_as_files_are_programs() {
        for good in ["kube-apiserver", "a", "etcd3"] {
            let program = Program::parse(good).unwrap();
            assert_eq!(Program::of_file(&program.file_name()), Some(program));
        }
        for bad in ["", "..", "../x", "a/b", "A", "a.b", "-a", "a-", "a_b", "é", &"a".repeat(51)] {
            assert_eq!(Program::parse(bad), None, "{bad}");
        }
        for file in ["etcd.yaml", "checkpoint-.yaml", "checkpoint-a.yaml.tmp-1-0", ".checkpoint-a.yaml", "checkpoint-a"]
        {
            assert_eq!(Program::of_file(file), None, "{file}");
        }
    }

    #[test]
    fn copies_and_real_pods_are_told_apart_by_name() {
        let cases = [
            (Program::api_server(), "kube-apiserver-x7k2p", true),
            (Program::api_server(), "checkpoint-kube-apiserver-masters-0", false),
            (Program::api_server(), "bootstrap-kube-apiserver-b", false),
            (Program::api_server(), "kube-apiserver", false),
            (Program::api_server(), "kube-apiserverx-1", false),
            (Program::checkpointer(), "checkpointer-abcde", true),
            (Program::checkpointer(), "checkpoint-checkpointer-masters-0", false),
        ];
        for (program, pod, real) in cases {
            assert_eq!(program.is_of_real(pod), real, "{program} {pod}");
        }
    }
}
