//! Kubeconfigs: how each client of the API finds it and proves who it is. They hold private keys,
//! so that the whole text is a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_spec::Secret;
use windlass_spec::complete::CompleteSpec;
use windlass_spec::yaml::emit;

use crate::pki::Pki;
use crate::table::{Authority, Leaf};

/// The API's port, on masters and on the balancer.
const API_PORT: u16 = 6443;

/// Where a joining machine finds its own short-lived token.
pub const JOIN_TOKEN_PATH: &str = "/etc/windlass/join-token";

/// A kubeconfig that windlass makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kubeconfig {
    /// The administrator's, from anywhere that resolves the cluster's names.
    Admin,
    /// The administrator's, from this host, through the platform's forwarder on 127.0.0.1.
    Host {
        /// The forwarder's port.
        port: u16,
    },
    /// The controller manager's, beside an API server.
    ControllerManager,
    /// The scheduler's, beside an API server.
    Scheduler,
    /// The checkpointer's, beside an API server.
    Checkpointer,
    /// A machine's before it has a certificate: it holds no credential, only the path of one.
    KubeletBootstrap,
}

/// How a user proves who it is.
enum Proof {
    Certificate(Leaf),
    TokenFile(&'static str),
}

impl Kubeconfig {
    /// The YAML text, for a 0600 file.
    pub fn render(self, spec: &CompleteSpec, pki: &Pki) -> Secret<String> {
        let cluster = spec.metadata.name.as_str();
        let user = self.user();
        let context = format!("{user}@{cluster}");
        Secret::new(emit(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": cluster, "cluster": self.cluster(spec, pki) }],
            "users": [{ "name": user, "user": self.credentials(pki) }],
            "contexts": [{ "name": context, "context": { "cluster": cluster, "user": user } }],
            "current-context": context,
        })))
    }

    fn user(self) -> &'static str {
        match self.proof() {
            Proof::Certificate(leaf) => leaf.row().name,
            Proof::TokenFile(_) => "kubelet-bootstrap",
        }
    }

    fn proof(self) -> Proof {
        match self {
            Kubeconfig::Admin | Kubeconfig::Host { .. } => Proof::Certificate(Leaf::Admin),
            Kubeconfig::ControllerManager => Proof::Certificate(Leaf::ControllerManager),
            Kubeconfig::Scheduler => Proof::Certificate(Leaf::Scheduler),
            Kubeconfig::Checkpointer => Proof::Certificate(Leaf::Checkpointer),
            Kubeconfig::KubeletBootstrap => Proof::TokenFile(JOIN_TOKEN_PATH),
        }
    }

    fn server(self, spec: &CompleteSpec) -> String {
        match self {
            Kubeconfig::Admin => format!("https://{}:{API_PORT}", spec.api_name()),
            Kubeconfig::Host { port } => format!("https://127.0.0.1:{port}"),
            Kubeconfig::ControllerManager | Kubeconfig::Scheduler | Kubeconfig::Checkpointer => {
                format!("https://127.0.0.1:{API_PORT}")
            }
            Kubeconfig::KubeletBootstrap => format!("https://{}:{API_PORT}", spec.api_internal_name()),
        }
    }

    fn cluster(self, spec: &CompleteSpec, pki: &Pki) -> Value {
        let mut cluster = json!({
            "certificate-authority-data": STANDARD.encode(pki.certificate(Authority::Cluster).to_pem()),
            "server": self.server(spec),
        });
        if let Kubeconfig::Host { .. } = self {
            // Every cluster of this host is at 127.0.0.1: the name tells whose certificate is meant.
            cluster["tls-server-name"] = Value::from(spec.api_name());
        }
        cluster
    }

    fn credentials(self, pki: &Pki) -> Value {
        match self.proof() {
            Proof::Certificate(leaf) => json!({
                "client-certificate-data": STANDARD.encode(pki.certificate(leaf).to_pem()),
                "client-key-data": STANDARD.encode(pki.key(leaf).to_pem().expose()),
            }),
            Proof::TokenFile(path) => json!({ "tokenFile": path }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pki, spec};

    fn lines(kubeconfig: Kubeconfig) -> String {
        kubeconfig.render(&spec(), pki()).expose().clone()
    }

    #[test]
    fn each_client_finds_the_api_and_proves_who_it_is() {
        let client = "client-key-data: ";
        let cases = [
            (Kubeconfig::Admin, "server: https://api.demo.test:6443", client, "admin@demo"),
            (Kubeconfig::Host { port: 7443 }, "server: https://127.0.0.1:7443", client, "admin@demo"),
            (Kubeconfig::ControllerManager, "server: https://127.0.0.1:6443", client, "kube-controller-manager@demo"),
            (Kubeconfig::Scheduler, "server: https://127.0.0.1:6443", client, "kube-scheduler@demo"),
            (Kubeconfig::Checkpointer, "server: https://127.0.0.1:6443", client, "checkpointer@demo"),
            (
                Kubeconfig::KubeletBootstrap,
                "server: https://api.internal.demo.test:6443",
                "tokenFile: /etc/windlass/join-token",
                "kubelet-bootstrap@demo",
            ),
        ];
        for (kubeconfig, server, proof, context) in cases {
            let text = lines(kubeconfig);
            for part in [server, proof, &format!("current-context: {context}")] {
                assert!(text.contains(part), "{kubeconfig:?} lacks {part:?}");
            }
        }
    }

    #[test]
    fn only_the_host_kubeconfig_names_the_server_it_means() {
        assert!(lines(Kubeconfig::Host { port: 7443 }).contains("tls-server-name: api.demo.test"));
        assert!(!lines(Kubeconfig::Admin).contains("tls-server-name"));
    }

    #[test]
    fn the_bootstrap_kubeconfig_holds_no_credential() {
        let text = lines(Kubeconfig::KubeletBootstrap);
        assert!(!text.contains("client-") && !text.contains("token:"), "{text}");
    }

    #[test]
    fn embedded_data_are_the_files_of_the_set() {
        let text = lines(Kubeconfig::Scheduler);
        for pem in [
            pki().certificate(Authority::Cluster).to_pem(),
            pki().certificate(Leaf::Scheduler).to_pem(),
            pki().key(Leaf::Scheduler).to_pem().expose().clone(),
        ] {
            assert!(text.contains(&STANDARD.encode(pem)));
        }
    }
}
