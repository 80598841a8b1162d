//! `spec init`: the ten lines to start from.

use crate::file::{Platform, Topology};
use crate::name::ClusterName;

/// What a new spec says; the rest is decided.
#[derive(Debug, Clone)]
pub struct Start {
    /// The cluster's name.
    pub name: ClusterName,
    /// The platform, one of [`Platform::WORDS`].
    pub provider: &'static str,
    /// The Kubernetes version, if it is not to be the default.
    pub kubernetes_version: Option<crate::KubeVersion>,
    /// The topology, if it is not to be the default.
    pub topology: Option<Topology>,
    /// How many masters, if not the default.
    pub masters: Option<u32>,
    /// How many workers, if not the default.
    pub workers: Option<u32>,
}

impl Start {
    /// The provider's name as the spec writes it, if there is such a provider.
    pub fn provider(name: &str) -> Option<&'static str> {
        Platform::WORDS.iter().copied().find(|word| *word == name)
    }

    /// The new spec's text: block style, at most ten lines beside comments.
    pub fn to_yaml(&self) -> String {
        let mut text = format!(
            "# A windlass cluster. `windlass spec complete` shows everything that follows from these lines,\n\
             # `windlass spec explain PATH` says where each value came from.\n\
             apiVersion: windlass.dev/v1alpha1\n\
             kind: Cluster\n\
             metadata:\n  name: {}\n\
             spec:\n  platform:\n    {}:{}\n",
            self.name,
            self.provider,
            required(self.provider),
        );
        if let Some(version) = self.kubernetes_version {
            text.push_str(&format!("  kubernetesVersion: {version}\n"));
        }
        if let Some(topology) = self.topology {
            text.push_str(&format!("  topology: {topology}\n"));
        }
        if let Some(masters) = self.masters {
            text.push_str(&format!("  masters: {masters}\n"));
        }
        if let Some(workers) = self.workers {
            text.push_str(&format!("  workers: {workers}\n"));
        }
        text
    }
}

/// What a platform cannot do without, as a start to be edited.
fn required(provider: &str) -> &'static str {
    match provider {
        "gce" => "\n      project: my-project",
        "ssh" => "\n      hosts: [192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5]",
        _ => " {}",
    }
}
