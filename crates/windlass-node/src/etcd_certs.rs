//! The pre-start agent of an etcd member, an init container of its pod: makes the member's keys and has them signed, by
//! the signer on the bootstrap machine or by the API, whichever answers. It does nothing if that was done before, and a
//! key is on the disk before it is in a request, so that a repeated request is the same request.

use std::net::IpAddr;
use std::path::PathBuf;

use thiserror::Error;
use time::OffsetDateTime;
use tracing::{info, warn};
use windlass_cloud_api::Role;
use windlass_pki::{Certificate, KeySource, MachineLeaf, PkiError, PrivateKey, RandomKeys, San};
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};
use windlass_steps::report::chain;

use crate::certificate::{CertificateError, ClientError, Wanted, machine_client, obtain};
use crate::etcd_signer::judge::ETCD_LEAVES;
use crate::exit::{Exit, Failure};
use crate::facts::{Facts, FactsError};
use crate::places::Places;
use crate::record::Recorder;

const UNIT: &str = "etcd-certs";
const LIMIT: u64 = 64 << 10;

/// Why a member has no certificates.
#[derive(Debug, Error)]
pub enum EtcdCertsError {
    /// The machine does not know who it is.
    #[error("cannot tell which member this is")]
    ReadFacts {
        /// Why not.
        source: FactsError,
    },
    /// The machine carries no member.
    #[error("{machine} carries no etcd member")]
    NameMember {
        /// The machine.
        machine: String,
    },
    /// The authority of etcd is not there.
    #[error("cannot read the etcd authority")]
    ReadAuthority {
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No key can be drawn.
    #[error("cannot make a key")]
    MakeKey {
        /// Why not.
        source: PkiError,
    },
    /// A key or certificate cannot be kept.
    #[error("cannot keep the member's keys")]
    Keep {
        /// Why not.
        source: HostError,
    },
    /// The machine has no way to the API.
    #[error("cannot ask for certificates")]
    Reach {
        /// Why not.
        source: ClientError,
    },
    /// The certificate was refused.
    #[error("cannot have the member's key signed")]
    Obtain {
        /// What was said.
        source: CertificateError,
    },
    /// What was issued is not for this member, or not of its authority.
    #[error("the certificate issued for {name} does not fit this member")]
    Fit {
        /// Which one.
        name: &'static str,
    },
}

/// Makes the member's certificates.
pub async fn run(places: &Places) -> Result<(), Failure> {
    // In the pod there is a place for records only if it was mounted.
    let can_record = make_dir(places.records(), Mode::PUBLIC_DIR).is_ok();
    let mut recorder = can_record.then(|| Recorder::begin_serving(places, UNIT, "obtain"));
    let mut observe = |statement: &str, reason: Option<&str>| {
        info!(statement, reason = reason.unwrap_or("holds"), "observed");
        if let Some(recorder) = &mut recorder {
            recorder.observe(statement, reason);
        }
    };
    let made = make(places, &mut observe).await;
    if let Some(recorder) = &mut recorder {
        match &made {
            Ok(()) => recorder.done(),
            Err(error) => recorder.failed(chain(error)),
        }
    }
    made.map_err(|error| {
        let permanent = matches!(error, EtcdCertsError::NameMember { .. });
        let exit = if permanent { Exit::Permanent } else { Exit::TryAgain };
        Failure::of(exit, &error, "see that k8s-node-bootstrap.service has ended well on this master")
    })
}

async fn make(places: &Places, observe: &mut dyn FnMut(&str, Option<&str>)) -> Result<(), EtcdCertsError> {
    let facts = Facts::read(places).map_err(|source| EtcdCertsError::ReadFacts { source })?;
    member_index(&facts)?;
    let client = machine_client(places, &facts).map_err(|source| EtcdCertsError::Reach { source })?;
    let mut keys = RandomKeys::from_os().map_err(|source| EtcdCertsError::MakeKey { source })?;
    ensure(places, &facts, &client, &mut keys, &SystemClock::new(), observe).await
}

/// Makes what is missing of the member's keys and certificates, and leaves alone what fits.
pub async fn ensure(
    places: &Places,
    facts: &Facts,
    client: &kube::Client,
    keys: &mut dyn KeySource,
    clock: &dyn Clock,
    observe: &mut dyn FnMut(&str, Option<&str>),
) -> Result<(), EtcdCertsError> {
    let member = Member::of(places, facts)?;
    make_dir(places.pki("etcd"), Mode::PRIVATE_DIR).map_err(|source| EtcdCertsError::Keep { source })?;
    for leaf in ETCD_LEAVES {
        if member.has(leaf, clock.now()) {
            info!(certificate = leaf.row().name, "certificate is there");
            continue;
        }
        let key = member.key(leaf, keys)?;
        let wanted = Wanted::of(leaf, facts, &key).map_err(|source| EtcdCertsError::Obtain { source })?;
        let chain = patiently(client, &wanted, observe).await?;
        if !member.fits(chain.as_bytes(), &key, clock.now()) {
            return Err(EtcdCertsError::Fit { name: leaf.row().name });
        }
        member.keep(leaf, "crt", chain.as_bytes())?;
        info!(certificate = leaf.row().name, "certificate written");
    }
    Ok(())
}

/// The certificates that this machine's member does not have yet, by name: what [`ensure`] would still ask for.
pub fn lacking(places: &Places, facts: &Facts, now: OffsetDateTime) -> Result<Vec<&'static str>, EtcdCertsError> {
    let member = Member::of(places, facts)?;
    Ok(ETCD_LEAVES.into_iter().filter(|leaf| !member.has(*leaf, now)).map(|leaf| leaf.row().name).collect())
}

fn member_index(facts: &Facts) -> Result<u32, EtcdCertsError> {
    let index = facts.etcd_index.filter(|_| facts.role == Role::Master);
    index.ok_or_else(|| EtcdCertsError::NameMember { machine: facts.name.clone() })
}

/// Asks until there is an answer: a member without certificates has nothing else to do.
async fn patiently(
    client: &kube::Client,
    wanted: &Wanted,
    observe: &mut dyn FnMut(&str, Option<&str>),
) -> Result<String, EtcdCertsError> {
    loop {
        match obtain(client, wanted, observe).await {
            Err(error @ CertificateError::Await { .. }) => warn!(%error, "asking again"),
            ended => return ended.map_err(|source| EtcdCertsError::Obtain { source }),
        }
    }
}

struct Member<'a> {
    places: &'a Places,
    index: u32,
    address: IpAddr,
    authority: Certificate,
}

impl<'a> Member<'a> {
    fn of(places: &'a Places, facts: &Facts) -> Result<Self, EtcdCertsError> {
        let index = member_index(facts)?;
        Ok(Member { places, index, address: facts.address, authority: authority(places)? })
    }

    fn has(&self, leaf: MachineLeaf, now: OffsetDateTime) -> bool {
        let read = |extension| read_file(self.path(leaf, extension), LIMIT);
        let (Ok(certificate), Ok(key)) = (read("crt"), read("key")) else { return false };
        PrivateKey::parse_pem(&key).is_ok_and(|key| self.fits(&certificate, &key, now))
    }

    /// Whether a certificate is this member's: of its authority, its key, its name and address, and valid.
    fn fits(&self, certificate: &[u8], key: &PrivateKey, now: OffsetDateTime) -> bool {
        Certificate::parse_pem(certificate).is_ok_and(|certificate| {
            certificate.is_signed_by(&self.authority)
                && certificate.public_key() == key.public()
                && certificate.is_valid_at(now)
                && certificate.subject().common_name == format!("etcd-{}", self.index)
                && certificate.sans().contains(&San::Ip(self.address))
        })
    }

    /// The key of a leaf: the one that is there, or a new one that is there from now on.
    fn key(&self, leaf: MachineLeaf, keys: &mut dyn KeySource) -> Result<PrivateKey, EtcdCertsError> {
        let there = read_file(self.path(leaf, "key"), LIMIT).ok();
        if let Some(key) = there.and_then(|pem| PrivateKey::parse_pem(&pem).ok()) {
            return Ok(key);
        }
        let key = keys.key(leaf.row().name);
        self.keep(leaf, "key", key.to_pem().expose().as_bytes())?;
        Ok(key)
    }

    fn keep(&self, leaf: MachineLeaf, extension: &str, bytes: &[u8]) -> Result<(), EtcdCertsError> {
        let written = write_file(self.path(leaf, extension), bytes, Mode::PRIVATE_FILE);
        written.map_err(|source| EtcdCertsError::Keep { source })
    }

    /// `etcd/server.crt`, `etcd/peer.key`.
    fn path(&self, leaf: MachineLeaf, extension: &str) -> PathBuf {
        let name = leaf.row().name;
        self.places.pki(&format!("etcd/{}.{extension}", name.strip_prefix("etcd-").unwrap_or(name)))
    }
}

fn authority(places: &Places) -> Result<Certificate, EtcdCertsError> {
    let read = || -> Result<Certificate, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Certificate::parse_pem(&read_file(places.pki("etcd-ca.crt"), LIMIT)?)?)
    };
    read().map_err(|source| EtcdCertsError::ReadAuthority { source })
}
