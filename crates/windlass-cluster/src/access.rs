//! How a program of ours reaches the API. In a pod that is by what the kubelet sets in the environment; elsewhere by a
//! kubeconfig.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;

const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// Where the credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// The pod's service account.
    InCluster,
    /// A file, for development.
    Kubeconfig(PathBuf),
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
        // The reader has a deadline of its own and says on the page what went wrong.
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
        }
    }
}
