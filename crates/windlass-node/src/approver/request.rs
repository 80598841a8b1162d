//! Certificate requests: the kubelets' are approved or denied, the etcd members' are signed as well.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use tracing::{info, warn};
use windlass_cluster::failure::ApiFailure;
use windlass_cluster::ready::{CsrState, csr_state};
use windlass_pki::{KeySource, Signer};
use windlass_steps::clock::Clock;
use windlass_steps::report::chain;

use super::expected::Roster;
use super::judge::{Standing, Verdict, check_joining, judge, node_to_look_at};
use crate::etcd_signer::judge::{Granted, Requester, etcd_certificate, etcd_leaf};
use crate::follow::{Reader, Seen, ask, follow};

static PUT: PostParams = PostParams { dry_run: false, field_manager: None };
const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";

/// Whether requests are seen, for whoever asks how the approver is.
pub(super) type Sight = Arc<AtomicBool>;

/// Judges requests, and signs those of etcd members.
pub(super) struct Desk {
    requests: Api<CertificateSigningRequest>,
    nodes: Api<Node>,
    clock: Arc<dyn Clock>,
    roster: Arc<Roster>,
    signer: Signer,
    serials: Mutex<Box<dyn KeySource + Send>>,
    sight: Sight,
}

impl Desk {
    pub(super) fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        roster: Arc<Roster>,
        signer: Signer,
        serials: Box<dyn KeySource + Send>,
    ) -> Self {
        let (requests, nodes) = (Api::all(client.clone()), Api::all(client));
        Desk { requests, nodes, clock, roster, signer, serials: Mutex::new(serials), sight: Sight::default() }
    }

    /// Is set once all requests have been seen.
    pub(super) fn sight(&self) -> Sight {
        Arc::clone(&self.sight)
    }

    /// Follows all requests.
    pub(super) async fn follow(&self) -> Infallible {
        follow(&self.requests, &ListParams::default(), self).await
    }

    async fn take(&self, request: CertificateSigningRequest) -> Result<(), ApiFailure> {
        let settled = if etcd_leaf(&request.spec.signer_name).is_some() {
            self.take_member(request).await
        } else {
            self.take_kubelet(request).await
        };
        match settled {
            // Another approver was faster, or the machine has taken its request back: whatever is there now is told.
            Err(failure) if matches!(failure.code, Some(404 | 409)) => Ok(()),
            settled => settled,
        }
    }

    async fn take_kubelet(&self, request: CertificateSigningRequest) -> Result<(), ApiFailure> {
        let standing = match node_to_look_at(&request) {
            Some(name) if csr_state(&request) == CsrState::Pending => self.standing(name).await?,
            Some(_) | None => Standing::Absent,
        };
        match judge(&request, &self.roster.now(), standing, self.clock.now()) {
            Verdict::Ignore => Ok(()),
            Verdict::Approve => self.settle(request, APPROVED, "an expected machine asks for itself").await.map(drop),
            Verdict::Deny(denial) => self.settle(request, DENIED, &chain(&denial).join(": ")).await.map(drop),
        }
    }

    /// Signs what is pending, and what was approved by somebody who then did not sign.
    async fn take_member(&self, request: CertificateSigningRequest) -> Result<(), ApiFailure> {
        let state = csr_state(&request);
        let Some(who) = Requester::of_request(&request.spec) else { return Ok(()) };
        match (state, etcd_certificate(&self.roster.now().spec, &who, &request)) {
            (CsrState::Pending, Ok(granted)) => {
                let node = self.standing(&who.machine).await?;
                if let Err(denial) = check_joining(&request, node, self.clock.now()) {
                    return self.settle(request, DENIED, &chain(&denial).join(": ")).await.map(drop);
                }
                let approved = self.settle(request, APPROVED, "an expected master asks for its member").await?;
                self.sign(approved, &granted).await
            }
            (CsrState::Approved, Ok(granted)) => self.sign(request, &granted).await,
            (CsrState::Pending, Err(refusal)) => {
                self.settle(request, DENIED, &chain(&refusal).join(": ")).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Asked for every request, because a Node may have come a moment ago.
    async fn standing(&self, name: &str) -> Result<Standing, ApiFailure> {
        match ask(self.nodes.get(name)).await {
            Ok(_) => Ok(Standing::Registered),
            Err(failure) if failure.is_absent() => Ok(Standing::Absent),
            Err(failure) => Err(failure),
        }
    }

    async fn settle(
        &self,
        mut request: CertificateSigningRequest,
        verdict: &str,
        message: &str,
    ) -> Result<CertificateSigningRequest, ApiFailure> {
        let now = Timestamp::from_second(self.clock.now().unix_timestamp()).unwrap_or_default();
        let condition = CertificateSigningRequestCondition {
            type_: verdict.to_owned(),
            status: "True".to_owned(),
            reason: Some(format!("Windlass{verdict}")),
            message: Some(message.to_owned()),
            last_update_time: Some(Time(now)),
            last_transition_time: None,
        };
        request.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
        let name = request.metadata.name.clone().unwrap_or_default();
        // Whole and with its version: nobody else's verdict is overwritten.
        let settled = ask(self.requests.replace_subresource("approval", &name, &PUT, &request)).await?;
        let user = request.spec.username.as_deref().unwrap_or_default();
        match verdict {
            APPROVED => info!(request = name, user, signer = request.spec.signer_name, "request approved"),
            _ => warn!(request = name, user, signer = request.spec.signer_name, reason = message, "request denied"),
        }
        Ok(settled)
    }

    async fn sign(&self, mut request: CertificateSigningRequest, granted: &Granted) -> Result<(), ApiFailure> {
        let name = request.metadata.name.clone().unwrap_or_default();
        let serial = self.serials.lock().unwrap_or_else(PoisonError::into_inner).serial(&name);
        let certificate = match self.signer.sign(&granted.template, &granted.key, serial, self.clock.now()) {
            Ok(certificate) => certificate,
            Err(error) => {
                warn!(request = name, %error, "cannot sign");
                return Ok(());
            }
        };
        let pem = ByteString(certificate.to_pem().into_bytes());
        request.status.get_or_insert_default().certificate = Some(pem);
        ask(self.requests.replace_subresource("status", &name, &PUT, &request)).await?;
        info!(request = name, machine = %granted.machine.name, "certificate issued");
        Ok(())
    }
}

impl Reader<CertificateSigningRequest> for Desk {
    async fn read(&self, seen: Seen<CertificateSigningRequest>) -> Result<(), ApiFailure> {
        let (requests, all) = match seen {
            Seen::All(requests) => (requests, true),
            Seen::One(request) => (vec![request], false),
            Seen::Gone => (Vec::new(), false),
        };
        // One that fails does not hold the others up.
        let mut told = Ok(());
        for request in requests {
            told = self.take(request).await.and(told);
        }
        self.sight.fetch_or(all, Ordering::Relaxed);
        told
    }
}
