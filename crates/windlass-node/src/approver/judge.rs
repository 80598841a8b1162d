//! Whether a kubelet's certificate request is approved. Kubernetes' own signer trusts what it is given, so everything is
//! compared here: who asks, for whom, with which names and usages, and whether that machine should ask at all.

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use thiserror::Error;
use time::{Duration, OffsetDateTime};
use windlass_cluster::ready::{CsrState, csr_state};
use windlass_pki::request::{Asked, asked};
use windlass_pki::{MachineIdentity, MachineLeaf, PkiError, RequestError, San, Template};
use windlass_spec::complete::Machine;

use crate::certificate::{signer_name, usages};
use crate::etcd_signer::judge::{GROUP, Requester, USER_PREFIX};

pub use super::expected::Expected;

const NODE_PREFIX: &str = "system:node:";
const NODE_GROUP: &str = "system:nodes";
/// Kubelets whose keys are RSA ask for this too; it gives nothing that the others do not.
const ALSO_ALLOWED: &str = "key encipherment";
const OLDEST: Duration = Duration::hours(2);

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It may be signed.
    Approve,
    /// It must not be.
    Deny(Denial),
    /// It is not ours to judge, or was judged before.
    Ignore,
}

/// How the API shows a machine's Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    Absent,
    /// It is there, whether or not its kubelet is at work.
    Registered,
}

/// Why a request is denied.
#[derive(Debug, Error)]
pub enum Denial {
    /// The user's name, groups and role do not go together.
    #[error("the user who asks is neither a machine that joins nor a node")]
    KnowUser,
    /// The spec calls for no such machine.
    #[error("no machine of this name is expected")]
    ExpectMachine,
    /// The token is for another role than the spec.
    #[error("the machine is expected in another role")]
    HoldRole,
    /// A join token is good for the first client certificate only.
    #[error("a machine that joins gets no serving certificate")]
    ServeEarly,
    /// The machine has joined: it renews as its node, and somebody else may hold its token.
    #[error("the machine's node is there, so that it needs no token")]
    JoinAgain,
    /// The request is too old to be waited for.
    #[error("the request is older than two hours, or of no known age")]
    ReadAge,
    /// The usages are others than a kubelet's.
    #[error("the usages are not {want}")]
    NameUsages {
        /// What they should be.
        want: String,
    },
    /// The request itself cannot be taken.
    #[error("the request cannot be taken")]
    ReadRequest {
        /// What is wrong with it.
        source: RequestError,
    },
    /// The table has no such certificate for the machine.
    #[error("cannot tell what the certificate says")]
    ComputeTemplate {
        /// Why not.
        source: PkiError,
    },
    /// The certificate would name somebody else.
    #[error("the subject is not {want}")]
    NameSubject {
        /// Whom it should name.
        want: String,
    },
    /// The certificate would answer to other names.
    #[error("the names are not {want}")]
    NameSans {
        /// What they should be.
        want: &'static str,
    },
}

/// Whose Node must be looked at before a request is judged: that of a machine that asks by its token.
pub fn node_to_look_at(request: &CertificateSigningRequest) -> Option<&str> {
    kubelet_leaf(&request.spec.signer_name)?;
    request.spec.username.as_deref()?.strip_prefix(USER_PREFIX)
}

/// Whether a join token is still good for this request. A machine asks by its token for its etcd certificates, and then for
/// its kubelet's first one, and has no Node before it holds all of them; what it asks for later it asks as its node.
pub fn check_joining(request: &CertificateSigningRequest, node: Standing, now: OffsetDateTime) -> Result<(), Denial> {
    match node {
        Standing::Registered => Err(Denial::JoinAgain),
        Standing::Absent => check_age(request, now),
    }
}

/// What becomes of a request, given the Node of [`node_to_look_at`].
pub fn judge(request: &CertificateSigningRequest, expected: &Expected, node: Standing, now: OffsetDateTime) -> Verdict {
    let Some(leaf) = kubelet_leaf(&request.spec.signer_name) else { return Verdict::Ignore };
    if csr_state(request) != CsrState::Pending || !concerns_machines(&request.spec) {
        return Verdict::Ignore;
    }
    match check(leaf, request, expected, node, now) {
        Ok(()) => Verdict::Approve,
        Err(denial) => Verdict::Deny(denial),
    }
}

/// The leaf that one of Kubernetes' two signers for kubelets signs.
fn kubelet_leaf(signer: &str) -> Option<MachineLeaf> {
    [MachineLeaf::KubeletClient, MachineLeaf::KubeletServing].into_iter().find(|leaf| signer_name(*leaf) == signer)
}

/// Whether the one who asks claims to be a machine. What people ask for, people approve.
fn concerns_machines(spec: &CertificateSigningRequestSpec) -> bool {
    let name = spec.username.as_deref().unwrap_or_default();
    let in_group = spec.groups.iter().flatten().any(|group| group == GROUP || group == NODE_GROUP);
    in_group || name.starts_with(USER_PREFIX) || name.starts_with(NODE_PREFIX)
}

fn check(
    leaf: MachineLeaf,
    request: &CertificateSigningRequest,
    expected: &Expected,
    node: Standing,
    now: OffsetDateTime,
) -> Result<(), Denial> {
    let machine = machine(leaf, &request.spec, expected)?;
    match Requester::of_request(&request.spec) {
        Some(_) => check_joining(request, node, now)?,
        None => check_age(request, now)?,
    }
    check_usages(leaf, request.spec.usages.as_deref().unwrap_or_default())?;
    let template = leaf.template(&expected.spec, &MachineIdentity::from(machine));
    let template = template.map_err(|source| Denial::ComputeTemplate { source })?;
    let asked = asked(&request.spec.request.0).map_err(|source| Denial::ReadRequest { source })?;
    check_names(leaf, &template, &asked)
}

fn check_age(request: &CertificateSigningRequest, now: OffsetDateTime) -> Result<(), Denial> {
    let made = request.metadata.creation_timestamp.as_ref().ok_or(Denial::ReadAge)?;
    match now.unix_timestamp().saturating_sub(made.0.as_second()) > OLDEST.whole_seconds() {
        true => Err(Denial::ReadAge),
        false => Ok(()),
    }
}

/// The machine that asks for itself.
fn machine<'a>(
    leaf: MachineLeaf,
    spec: &CertificateSigningRequestSpec,
    expected: &'a Expected,
) -> Result<&'a Machine, Denial> {
    if let Some(joining) = Requester::of_request(spec) {
        let machine = expected.machine(&joining.machine).ok_or(Denial::ExpectMachine)?;
        if machine.role.as_str() != joining.role.as_str() {
            return Err(Denial::HoldRole);
        }
        return if leaf == MachineLeaf::KubeletClient { Ok(machine) } else { Err(Denial::ServeEarly) };
    }
    let name = spec.username.as_deref().and_then(|name| name.strip_prefix(NODE_PREFIX)).ok_or(Denial::KnowUser)?;
    if !spec.groups.iter().flatten().any(|group| group == NODE_GROUP) {
        return Err(Denial::KnowUser);
    }
    expected.machine(name).ok_or(Denial::ExpectMachine)
}

fn check_usages(leaf: MachineLeaf, asked: &[String]) -> Result<(), Denial> {
    let want = usages(leaf);
    let rest: Vec<&String> = asked.iter().filter(|usage| *usage != ALSO_ALLOWED).collect();
    let once = asked.len() - rest.len() <= 1;
    let same = rest.len() == want.len() && want.iter().all(|want| rest.iter().any(|usage| usage == want));
    if once && same { Ok(()) } else { Err(Denial::NameUsages { want: want.join(", ") }) }
}

fn check_names(leaf: MachineLeaf, template: &Template, asked: &Asked) -> Result<(), Denial> {
    if asked.subject != template.subject {
        return Err(Denial::NameSubject { want: template.subject.to_string() });
    }
    let own = |san: &San| template.sans.contains(san);
    match leaf {
        MachineLeaf::KubeletServing if asked.sans.is_empty() || !asked.sans.iter().all(own) => {
            Err(Denial::NameSans { want: "the machine's name and address" })
        }
        MachineLeaf::KubeletServing => Ok(()),
        MachineLeaf::KubeletClient | MachineLeaf::EtcdServer | MachineLeaf::EtcdPeer => {
            if asked.sans.is_empty() {
                Ok(())
            } else {
                Err(Denial::NameSans { want: "none" })
            }
        }
    }
}

#[cfg(test)]
mod tests;
