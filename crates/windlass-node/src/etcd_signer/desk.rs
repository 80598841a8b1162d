//! The signer's own state: what it signs with, what it has signed, and the objects that it shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use time::OffsetDateTime;
use tokio::sync::watch;
use tracing::{info, warn};
use windlass_pki::{KeySource, MachineLeaf, Serial, Signer};
use windlass_spec::complete::CompleteSpec;
use windlass_steps::clock::Clock;
use windlass_steps::host::HostError;

use super::judge::{ETCD_LEAVES, GROUP, Granted, ROLE_KEY, Requester, etcd_certificate};
use super::status::Refused;
use crate::machine_token::{Marks, TokenFiles, TokenJudge};
use crate::record::Recorder;

/// How many requests of one machine are kept; an honest one has two, or four after it lost its keys.
const MOST: usize = 20;

/// What a signer works with.
pub(super) struct Parts {
    pub(super) spec: CompleteSpec,
    pub(super) tokens: TokenJudge,
    pub(super) signer: Signer,
    pub(super) serials: Box<dyn KeySource + Send>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) files: TokenFiles,
}

/// Signs, and shows what it signed.
pub(super) struct Desk {
    spec: CompleteSpec,
    pub(super) tokens: TokenJudge,
    signer: Signer,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) files: TokenFiles,
    /// Held for moments only; what is slow, such as syncing a disk, is done without it.
    inner: Mutex<Inner>,
    recorder: Mutex<Recorder>,
    version: watch::Sender<u64>,
}

struct Inner {
    serials: Box<dyn KeySource + Send>,
    requests: BTreeMap<String, Stored>,
}

struct Stored {
    machine: String,
    version: u64,
    object: CertificateSigningRequest,
}

impl Desk {
    pub(super) fn new(parts: Parts, mut recorder: Recorder) -> Self {
        let Parts { spec, tokens, signer, serials, clock, files } = parts;
        recorder.data("issued", files.list(Marks::Issued).into_iter().collect::<Vec<_>>());
        let inner = Mutex::new(Inner { serials, requests: BTreeMap::new() });
        // Never 0, which stands for "whatever there is".
        let version = watch::Sender::new(1);
        Desk { spec, tokens, signer, clock, files, inner, recorder: Mutex::new(recorder), version }
    }

    /// Nothing is signed here any more.
    pub(super) fn close(&self) {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner).done();
    }

    /// Signs a request if the machine may have what it asks for. It writes to the disk, so it wants a thread for itself.
    pub(super) fn sign(
        &self,
        who: &Requester,
        request: CertificateSigningRequest,
    ) -> Result<CertificateSigningRequest, Refused> {
        let granted = etcd_certificate(&self.spec, who, &request).map_err(|refusal| {
            warn!(machine = ?who.machine, %refusal, "request refused");
            match refusal.is_forbidden() {
                true => Refused::forbidden(refusal.to_string()),
                false => Refused::invalid(refusal.to_string()),
            }
        })?;
        let name = request.metadata.name.clone().unwrap_or_default();
        let now = self.clock.now();
        let (serial, uid) = {
            let mut inner = self.inner();
            inner.has_room(who, &name)?;
            (inner.serials.serial(&name), inner.serials.serial(&format!("uid of {name}")))
        };
        let certificate = self.signer.sign(&granted.template, &granted.key, serial, now).map_err(|error| {
            warn!(%error, "cannot sign");
            Refused::internal("the signer cannot sign now")
        })?;
        self.remember(&granted, now)?;
        let mut inner = self.inner();
        // Another may have been quicker while this one was written down.
        inner.has_room(who, &name)?;
        let version = *self.version.borrow() + 1;
        let place = Place { name: &name, uid: &uid, version, now };
        let object = shown(who, request.spec, certificate.to_pem(), &place);
        let stored = Stored { machine: who.machine.clone(), version, object: object.clone() };
        info!(machine = %who.machine, request = %name, "certificate issued");
        inner.requests.insert(name, stored);
        self.version.send_replace(version);
        Ok(object)
    }

    /// A machine's own request with its version.
    pub(super) fn find(&self, who: &Requester, name: &str) -> Option<(u64, CertificateSigningRequest)> {
        let inner = self.inner();
        let stored = inner.requests.get(name).filter(|stored| stored.machine == who.machine)?;
        Some((stored.version, stored.object.clone()))
    }

    /// The number of the last change, and a way to wait for the next.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the certificate, and the machine once it has all of them. Without the mark nobody would know that the
    /// machine is served, so it comes before the answer.
    fn remember(&self, granted: &Granted, now: OffsetDateTime) -> Result<(), Refused> {
        let machine = granted.machine.name.as_str();
        let mark = |leaf: MachineLeaf| format!("{}.{machine}", leaf.row().name);
        let failed = |error: HostError| {
            warn!(%error, "cannot keep what was issued");
            Refused::internal("the signer cannot write now")
        };
        // Taken first, so that a later list is also the later record.
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.mark(Marks::Signed, &mark(granted.leaf), now).map_err(failed)?;
        let has_all = ETCD_LEAVES.into_iter().all(|leaf| self.files.has(Marks::Signed, &mark(leaf)));
        if has_all && !self.files.has(Marks::Issued, machine) {
            self.files.mark(Marks::Issued, machine, now).map_err(failed)?;
            recorder.data("issued", self.files.list(Marks::Issued).into_iter().collect::<Vec<_>>());
        }
        Ok(())
    }
}

impl Inner {
    /// Whether a request of this name can be kept for a machine.
    fn has_room(&self, who: &Requester, name: &str) -> Result<(), Refused> {
        if self.requests.contains_key(name) {
            let message = format!("certificatesigningrequests.certificates.k8s.io {name:?} already exists");
            return Err(Refused::exists(message));
        }
        match self.requests.values().filter(|stored| stored.machine == who.machine).count() < MOST {
            true => Ok(()),
            false => Err(Refused::forbidden(format!("{} has made too many requests", who.machine))),
        }
    }
}

struct Place<'a> {
    name: &'a str,
    uid: &'a Serial,
    version: u64,
    now: OffsetDateTime,
}

/// The request as the API would show it once it is approved and signed.
fn shown(
    who: &Requester,
    asked: CertificateSigningRequestSpec,
    certificate: String,
    place: &Place<'_>,
) -> CertificateSigningRequest {
    let now = Timestamp::from_second(place.now.unix_timestamp()).ok().map(Time);
    let uid = uid(place.uid);
    let approved = CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("ExpectedMachine".to_owned()),
        message: Some("the spec calls for this etcd member".to_owned()),
        last_update_time: now.clone(),
        last_transition_time: now.clone(),
    };
    CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some(place.name.to_owned()),
            uid: Some(uid),
            resource_version: Some(place.version.to_string()),
            creation_timestamp: now,
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            username: Some(who.user_name()),
            groups: Some(["system:bootstrappers", GROUP, "system:authenticated"].map(str::to_owned).to_vec()),
            extra: Some(BTreeMap::from([(ROLE_KEY.to_owned(), vec![who.role.to_string()])])),
            uid: None,
            ..asked
        },
        status: Some(CertificateSigningRequestStatus {
            certificate: Some(ByteString(certificate.into_bytes())),
            conditions: Some(vec![approved]),
        }),
    }
}

fn uid(drawn: &Serial) -> String {
    let hex: String = drawn.as_bytes()[1..].iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
