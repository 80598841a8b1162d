//! How a program of ours reaches the API. In a pod that is by what the kubelet sets in the environment; on a machine by a
//! kubeconfig, or by the machine's own token while it has nothing better.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use http::uri::InvalidUri;
use kube::config::{AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use thiserror::Error;
use windlass_spec::Secret;
use windlass_steps::host::{HostError, read_file};

const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const FILE_LIMIT: u64 = 1 << 20;

/// Where the credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The pod's service account. Where the API is comes from the environment and may be a name.
    InCluster,
    /// A file.
    Kubeconfig(PathBuf),
    /// The text of such a file.
    KubeconfigText(Secret<String>),
    /// A bearer token in a file, for a server that an authority in another file has signed.
    Token {
        /// Where the API is, such as `https://api.internal.demo.test:6443`.
        server: String,
        /// Who must have signed its certificate, PEM.
        ca: PathBuf,
        /// The token; space around it does not count.
        token: PathBuf,
    },
}

/// Why there are no usable credentials. The causes are boxed for their size.
#[derive(Debug, Error)]
pub enum AccessError {
    /// This is not a pod, or it has no service account.
    #[error("cannot use the pod's service account")]
    UseServiceAccount {
        /// What is missing.
        source: Box<InClusterError>,
    },
    /// The file cannot be read or makes no sense.
    #[error("cannot use {}", path.display())]
    UseKubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// The text makes no sense.
    #[error("cannot use the kubeconfig")]
    UseText {
        /// What is wrong with it.
        source: Box<KubeconfigError>,
    },
    /// The address makes no sense.
    #[error("{server} is not the address of an API")]
    ParseServer {
        /// The address.
        server: String,
        /// What is wrong with it.
        source: InvalidUri,
    },
    /// The token or the authority's certificate cannot be read.
    #[error("cannot read what the API is to be asked with")]
    ReadCredentials {
        /// Why not.
        source: HostError,
    },
    /// The token is no text.
    #[error("{} holds no token", path.display())]
    ReadToken {
        /// The file.
        path: PathBuf,
    },
    /// The authority's certificate is none.
    #[error("{} holds no certificate of an authority", path.display())]
    ReadAuthority {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: PemError,
    },
    /// Certificates or keys that TLS refuses.
    #[error("cannot make a client of these credentials")]
    MakeClient {
        /// What was refused.
        source: Box<kube::Error>,
    },
}

impl Access {
    /// Makes a client; nothing is sent yet.
    pub async fn client(&self) -> Result<Client, AccessError> {
        // Whoever was first decided already; all of windlass decides for ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = self.config().await?;
        config.connect_timeout = Some(CONNECT_LIMIT);
        // Whoever asks has a deadline of its own and says what went wrong.
        config.default_retry = false;
        Client::try_from(config).map_err(|source| AccessError::MakeClient { source: Box::new(source) })
    }

    async fn config(&self) -> Result<Config, AccessError> {
        match self {
            Access::InCluster => {
                Config::incluster_env().map_err(|source| AccessError::UseServiceAccount { source: Box::new(source) })
            }
            Access::Kubeconfig(path) => {
                let failed = |source| AccessError::UseKubeconfig { path: path.clone(), source: Box::new(source) };
                let file = Kubeconfig::read_from(path).map_err(failed)?;
                Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)
            }
            Access::KubeconfigText(text) => {
                let failed = |source| AccessError::UseText { source: Box::new(source) };
                let file = Kubeconfig::from_yaml(text.expose()).map_err(failed)?;
                Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)
            }
            Access::Token { server, ca, token } => with_token(server, ca, token),
        }
    }
}

fn with_token(server: &str, ca: &Path, token: &Path) -> Result<Config, AccessError> {
    let wrong = |source| AccessError::ParseServer { server: server.to_owned(), source };
    let mut config = Config::new(server.parse::<Uri>().map_err(wrong)?);
    config.root_cert = Some(authorities(ca)?);
    config.auth_info = bearer(token)?;
    Ok(config)
}

fn authorities(path: &Path) -> Result<Vec<Vec<u8>>, AccessError> {
    let text = read_file(path, FILE_LIMIT).map_err(|source| AccessError::ReadCredentials { source })?;
    let wrong = |source| AccessError::ReadAuthority { path: path.to_owned(), source };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(wrong)?;
    // Without any, the client would trust whomever the machine trusts.
    if found.is_empty() { Err(wrong(PemError::NoItemsFound)) } else { Ok(found.iter().map(|c| c.to_vec()).collect()) }
}

/// The client library would send the file's last line break too.
fn bearer(path: &Path) -> Result<AuthInfo, AccessError> {
    let bytes = read_file(path, FILE_LIMIT).map_err(|source| AccessError::ReadCredentials { source })?;
    let token = std::str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
    if token.is_empty() || token.contains(|c: char| !c.is_ascii_graphic()) {
        return Err(AccessError::ReadToken { path: path.to_owned() });
    }
    // By way of its written form: the field's type is not ours to name.
    Ok(serde_json::from_value(serde_json::json!({ "token": token })).expect("a token is all that it takes"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nMIIBIjCBygIBATAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDAR0ZXN0MB4XDTI2MDEw\nMTAwMDAwMFoXDTM2MDEwMTAwMDAwMFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqG\n-----END CERTIFICATE-----\n";

    fn kubeconfig(user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
             users: [{{name: u, user: {user}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             current-context: x\n"
        )
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test's own files")]
    async fn a_token_is_taken_without_the_space_around_it_and_never_without_an_authority() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, token) = (dir.path().join("ca.crt"), dir.path().join("token"));
        let config = || with_token("https://api.internal.demo.test:6443", &ca, &token);
        assert!(matches!(config(), Err(AccessError::ReadCredentials { .. })));
        fs::write(&ca, "no certificate\n").unwrap();
        fs::write(&token, " abc.def\n").unwrap();
        assert!(matches!(config(), Err(AccessError::ReadAuthority { .. })));
        fs::write(&ca, CA).unwrap();
        let found = config().unwrap();
        assert_eq!(found.cluster_url.host(), Some("api.internal.demo.test"));
        assert!(!format!("{found:?}").contains("abc.def"));
        for bad in ["", "\n", "a b", "a\nb"] {
            fs::write(&token, bad).unwrap();
            assert!(matches!(config(), Err(AccessError::ReadToken { .. })), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_may_be_a_text_and_is_not_shown() {
        let access = Access::KubeconfigText(Secret::new(kubeconfig("{token: canary}")));
        assert!(access.client().await.is_ok());
        assert!(!format!("{access:?}").contains("canary"));
        assert!(matches!(
            Access::KubeconfigText(Secret::new("no".to_owned())).client().await,
            Err(AccessError::UseText { .. })
        ));
        assert!(matches!(
            Access::Kubeconfig("/no/such/file".into()).client().await,
            Err(AccessError::UseKubeconfig { .. })
        ));
    }
}
