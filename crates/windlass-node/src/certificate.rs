//! Having a key certified. A placeholder until the real client of `certificates.k8s.io/v1` takes its place.

use thiserror::Error;
use windlass_pki::request;
use windlass_pki::{MachineLeaf, PrivateKey, Subject};

use crate::facts::Facts;

/// A certificate that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The object's name.
    pub name: String,
    /// Who is to sign it.
    pub signer: String,
    /// What the key is to be used for.
    pub usages: Vec<String>,
    /// The request itself in PEM.
    pub request_pem: String,
    /// How long the certificate should last at most.
    pub expiration_seconds: Option<i32>,
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The API or a signer said no.
    #[error("the certificate request {name} was refused: {reason}")]
    Refuse {
        /// The request.
        name: String,
        /// What was said.
        reason: String,
    },
    /// Nothing moved for a long time.
    #[error("the certificate of {name} did not come")]
    Await {
        /// The request.
        name: String,
    },
}

impl Wanted {
    /// The request of a machine for one of its leaves.
    pub fn of(leaf: MachineLeaf, facts: &Facts, key: &PrivateKey) -> Result<Self, CertificateError> {
        let digits: String = key.public().id().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{}-{}-{digits}", leaf.row().name, facts.name);
        let subject = Subject {
            common_name: format!("system:node:{}", facts.name),
            organization: leaf.row().organization.map(str::to_owned),
        };
        let refuse = |reason: String| CertificateError::Refuse { name: name.clone(), reason };
        let request_pem = request::make(&subject, key).map_err(|error| refuse(error.to_string()))?;
        let usages = ["client auth", "digital signature"].map(str::to_owned).to_vec();
        let signer = "kubernetes.io/kube-apiserver-client-kubelet".to_owned();
        Ok(Wanted { name, signer, usages, request_pem, expiration_seconds: None })
    }
}

/// Not built yet.
pub async fn obtain(
    _client: &kube::Client,
    request: &Wanted,
    _observe: &mut dyn FnMut(&str, Option<&str>),
) -> Result<String, CertificateError> {
    Err(CertificateError::Await { name: request.name.clone() })
}
