//! Having a key certified: an ordinary client of `certificates.k8s.io/v1`. It cannot tell the signer on the bootstrap
//! machine from the API, and does not mind when one takes the place of the other while it waits: a request that is not
//! there any more is made again.

mod client;

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use thiserror::Error;
use windlass_pki::request::{self, proven_key};
use windlass_pki::table::MachineCommonName;
use windlass_pki::{Certificate, MachineLeaf, PrivateKey, PublicKey, RequestError, Subject, Usages};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::reason;
use windlass_steps::wait::{Unmet, Wait, WaitError};

use crate::facts::Facts;

pub use client::{ClientError, client_with, machine_client};

/// How long nothing may move before a caller gets the chance to do something else.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long one watch is followed; shorter than a look may take, so that its end is not mistaken for silence.
const FOLLOW: Duration = Duration::from_secs(5);
/// How many digits of the key's identifier a request's name carries.
const KEY_DIGITS: usize = 10;

/// A certificate that is wanted: what a `CertificateSigningRequest` is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The object's name, see [`request_name`].
    pub name: String,
    /// Who is to sign it, see [`signer_name`].
    pub signer: String,
    /// What the key is to be used for, see [`usages`].
    pub usages: Vec<String>,
    /// The request itself (PKCS#10) in PEM.
    pub request_pem: String,
    /// How long the certificate should last at most, where the signer lets one ask.
    pub expiration_seconds: Option<i32>,
}

/// Why there is no certificate.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// An etcd certificate is wanted for a machine that carries no member.
    #[error("{machine} carries no etcd member")]
    NameMember {
        /// The machine.
        machine: String,
    },
    /// The request cannot be made, or was not made by us.
    #[error("cannot make the certificate request {name}")]
    MakeRequest {
        /// The request.
        name: String,
        /// What is wrong with it.
        source: RequestError,
    },
    /// The API or a signer said no, and will not say anything else to the same request.
    #[error("the certificate request {name} was refused: {reason}")]
    Refuse {
        /// The request.
        name: String,
        /// What was said.
        reason: String,
    },
    /// Nothing moved for a long time; asking again may help.
    #[error("the certificate of {name} did not come: {}", .unmet.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Await {
        /// The request.
        name: String,
        /// What was waited for.
        unmet: Vec<Unmet>,
    },
}

impl Wanted {
    /// The request of a machine for one of its leaves, signed by the key that it is for.
    pub fn of(leaf: MachineLeaf, facts: &Facts, key: &PrivateKey) -> Result<Self, CertificateError> {
        let name = request_name(leaf, &facts.name, key.public());
        let made = request::make(&subject(leaf, facts)?, key);
        let request_pem = made.map_err(|source| CertificateError::MakeRequest { name: name.clone(), source })?;
        let usages = usages(leaf).iter().map(|&usage| usage.to_owned()).collect();
        Ok(Wanted { name, signer: signer_name(leaf).to_owned(), usages, request_pem, expiration_seconds: None })
    }

    fn object(&self) -> CertificateSigningRequest {
        CertificateSigningRequest {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: CertificateSigningRequestSpec {
                request: ByteString(self.request_pem.clone().into_bytes()),
                signer_name: self.signer.clone(),
                usages: Some(self.usages.clone()),
                expiration_seconds: self.expiration_seconds,
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        }
    }
}

/// Who signs a machine's leaf, as the API knows signers.
pub fn signer_name(leaf: MachineLeaf) -> &'static str {
    match leaf {
        MachineLeaf::EtcdServer => "windlass.dev/etcd-server",
        MachineLeaf::EtcdPeer => "windlass.dev/etcd-peer",
        MachineLeaf::KubeletClient => "kubernetes.io/kube-apiserver-client-kubelet",
        MachineLeaf::KubeletServing => "kubernetes.io/kubelet-serving",
    }
}

/// What the key of a machine's leaf is used for, as the API knows usages. Elliptic keys encipher no other keys.
pub fn usages(leaf: MachineLeaf) -> &'static [&'static str] {
    match leaf.row().usages {
        Usages::Server => &["digital signature", "server auth"],
        Usages::Client => &["digital signature", "client auth"],
        Usages::Both => &["digital signature", "server auth", "client auth"],
    }
}

/// The name of a request: leaf, machine, and the start of the key's identifier, so that another key is another request
/// and the same key is the same one.
pub fn request_name(leaf: MachineLeaf, machine: &str, key: &PublicKey) -> String {
    let id: String = key.id().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{machine}-{}", leaf.row().name, &id[..KEY_DIGITS])
}

/// Whether a name has the form that [`request_name`] gives to requests of this machine for this leaf.
pub fn is_request_name(name: &str, leaf: MachineLeaf, machine: &str) -> bool {
    let rest = name.strip_prefix(leaf.row().name).and_then(|rest| rest.strip_prefix('-'));
    let digits = rest.and_then(|rest| rest.strip_prefix(machine)).and_then(|rest| rest.strip_prefix('-'));
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.is_some_and(|digits| digits.len() == KEY_DIGITS && digits.bytes().all(is_digit))
}

/// Makes the request, or finds it made, and waits until it is signed; gives the chain in PEM.
///
/// Whatever may pass (nobody answers, no right yet, too many) is waited for and told to the observer as a statement
/// with its reason; only a request that was denied, failed or is invalid is given up at once.
pub async fn obtain(
    client: &kube::Client,
    request: &Wanted,
    observe: &mut dyn FnMut(&str, Option<&str>),
) -> Result<String, CertificateError> {
    let name = || request.name.clone();
    let key = proven_key(request.request_pem.as_bytes())
        .map_err(|source| CertificateError::MakeRequest { name: name(), source })?;
    let asking = Asking { requests: Api::all(client.clone()), wanted: request, key, answer: RefCell::default() };
    let criteria = [Criterion::new(format!("the certificate {} is issued", request.name), || asking.look())];
    let mut tell = |change: windlass_steps::wait::Change<'_>| {
        observe(change.statement, change.reason);
        Ok::<(), Infallible>(())
    };
    let waited = Wait::stalled_for(PATIENCE).until(&criteria, &mut tell).await;
    drop(criteria);
    match (waited, asking.answer.into_inner()) {
        (_, Some(Answer::Refused(reason))) => Err(CertificateError::Refuse { name: name(), reason }),
        (Ok(()), Some(Answer::Issued(chain))) => Ok(chain),
        (Err(WaitError::Unmet(unmet)), _) => Err(CertificateError::Await { name: name(), unmet }),
        (Ok(()) | Err(WaitError::Observe(_)), _) => Err(CertificateError::Await { name: name(), unmet: Vec::new() }),
    }
}

/// What was said in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Issued(String),
    Refused(String),
}

struct Asking<'a> {
    requests: Api<CertificateSigningRequest>,
    wanted: &'a Wanted,
    key: PublicKey,
    answer: RefCell<Option<Answer>>,
}

impl Asking<'_> {
    async fn look(&self) -> Result<Observation, LookError> {
        let name = self.wanted.name.as_str();
        let made = match self.requests.create(&PostParams::default(), &self.wanted.object()).await {
            Ok(made) => made,
            Err(kube::Error::Api(status)) if status.is_already_exists() => self.requests.get(name).await?,
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 413 | 422) => {
                return Ok(self.refused(status.message));
            }
            Err(error) => return Err(error.into()),
        };
        let answer = match answer(&made, &self.key) {
            None => self.follow(&made).await?,
            answer => answer,
        };
        Ok(match answer {
            Some(Answer::Refused(reason)) => self.refused(reason),
            Some(issued) => {
                self.answer.replace(Some(issued));
                Observation::Holds
            }
            None => Observation::NotYet(reason!("the request is there, and nobody has signed it")),
        })
    }

    /// Watches the request for a while.
    async fn follow(&self, made: &CertificateSigningRequest) -> Result<Option<Answer>, LookError> {
        let only = WatchParams::default().fields(&format!("metadata.name={}", self.wanted.name));
        let version = made.metadata.resource_version.as_deref().unwrap_or("0");
        let watched = async {
            let mut events = self.requests.watch(&only, version).await?.boxed();
            while let Some(event) = events.next().await {
                match event? {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        if let Some(answer) = answer(&object, &self.key) {
                            return Ok(Some(answer));
                        }
                    }
                    // The next look makes it again, or finds out what is wrong.
                    WatchEvent::Deleted(_) | WatchEvent::Error(_) => return Ok(None),
                    WatchEvent::Bookmark(_) => {}
                }
            }
            Ok(None)
        };
        tokio::time::timeout(FOLLOW, watched).await.unwrap_or(Ok(None))
    }

    fn refused(&self, reason: String) -> Observation {
        self.answer.replace(Some(Answer::Refused(reason.clone())));
        Observation::Never(reason!("{reason}"))
    }
}

/// What the state of a request says to the holder of a key, if it says anything yet.
fn answer(object: &CertificateSigningRequest, key: &PublicKey) -> Option<Answer> {
    if !proven_key(&object.spec.request.0).is_ok_and(|asked| asked == *key) {
        return Some(Answer::Refused("a request of that name is there, for another key".to_owned()));
    }
    let status = object.status.as_ref()?;
    for condition in status.conditions.iter().flatten() {
        if matches!(condition.type_.as_str(), "Denied" | "Failed") && condition.status == "True" {
            let message = condition.message.as_deref().or(condition.reason.as_deref()).unwrap_or("no reason given");
            return Some(Answer::Refused(format!("{}: {message}", condition.type_.to_lowercase())));
        }
    }
    let chain = String::from_utf8(status.certificate.as_ref()?.0.clone()).ok();
    let chain = chain.filter(|chain| !chain.is_empty())?;
    let first = Certificate::parse_pem(first_document(&chain).as_bytes());
    if first.is_ok_and(|certificate| certificate.public_key() == key) {
        return Some(Answer::Issued(chain));
    }
    Some(Answer::Refused("what was issued is not a certificate of our key".to_owned()))
}

/// A chain starts with the certificate itself.
fn first_document(chain: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    chain.find(END).map_or(chain, |at| &chain[..at + END.len()])
}

fn subject(leaf: MachineLeaf, facts: &Facts) -> Result<Subject, CertificateError> {
    let row = leaf.row();
    let common_name = match row.common_name {
        MachineCommonName::EtcdMember => {
            let index = facts.etcd_index;
            let index = index.ok_or_else(|| CertificateError::NameMember { machine: facts.name.clone() })?;
            format!("etcd-{index}")
        }
        MachineCommonName::Node => format!("system:node:{}", facts.name),
    };
    Ok(Subject { common_name, organization: row.organization.map(str::to_owned) })
}

#[cfg(test)]
mod tests;
