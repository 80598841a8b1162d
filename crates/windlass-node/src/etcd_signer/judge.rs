//! Whether a machine gets the certificate of an etcd member. The decision is pure and has two callers: the signer on the
//! bootstrap machine, and its twin in the cluster, which signs `CertificateSigningRequest` objects of the API.
//!
//! Only the key is taken from a request. Subject, names and usages are computed from the machine's place in the spec; a
//! request that asks for anything else is not corrected, it is refused, because an honest machine never makes one.

use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use thiserror::Error;
use windlass_cloud_api::{Role, Token};
use windlass_pki::request::proven_key;
use windlass_pki::{MachineIdentity, MachineLeaf, PkiError, PublicKey, RequestError, Template};
use windlass_spec::complete::{CompleteSpec, machines};
use windlass_spec::file;

use super::wish::{self, Wish};
use crate::certificate::{is_request_name, signer_name, usages};

/// The user name of a machine starts with this.
pub const USER_PREFIX: &str = "windlass:machine:";
/// The group of all machines that speak by their tokens.
pub const GROUP: &str = "windlass:machines";
/// Where a machine's user carries its role.
pub const ROLE_KEY: &str = "windlass.dev/role";

/// The leaves of etcd members.
pub const ETCD_LEAVES: [MachineLeaf; 2] = [MachineLeaf::EtcdServer, MachineLeaf::EtcdPeer];

/// Who asks, once a token has proven it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// The machine.
    pub machine: String,
    /// What it is for.
    pub role: Role,
}

/// A certificate that is to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Which one it is.
    pub leaf: MachineLeaf,
    /// Whose it is.
    pub machine: MachineIdentity,
    /// What it says.
    pub template: Template,
    /// The key that it is for: all that comes from the request.
    pub key: PublicKey,
}

/// Why a machine gets no certificate.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The signer is not one of ours.
    #[error("{signer} does not sign for etcd members")]
    NameSigner {
        /// The signer that was asked.
        signer: String,
    },
    /// Only masters carry etcd members.
    #[error("a {role} carries no etcd member")]
    HoldRole {
        /// What the machine is for.
        role: Role,
    },
    /// The spec calls for no such master.
    #[error("{machine} is not an expected master")]
    FindMachine {
        /// The machine.
        machine: String,
    },
    /// The table has no such certificate for the machine.
    #[error("cannot tell what the certificate says")]
    ComputeTemplate {
        /// Why not.
        source: PkiError,
    },
    /// The object is called otherwise than requests of this machine are.
    #[error("the request's name is not {leaf}-{machine}- and ten hexadecimal digits")]
    NameRequest {
        /// What the name starts with.
        leaf: &'static str,
        /// The machine.
        machine: String,
    },
    /// The usages are others than the table's.
    #[error("the usages are not {want}")]
    NameUsages {
        /// What they should be.
        want: String,
    },
    /// The request proves no usable key.
    #[error("the request proves no usable key")]
    ProveKey {
        /// What is wrong with it.
        source: RequestError,
    },
    /// The request asks for a subject of its own, or for extensions.
    #[error("the request asks for more than a machine may: {wish}")]
    Wish {
        /// What it asks for.
        wish: String,
    },
}

impl Refusal {
    /// Whether the machine may not have it at all, and not only asked wrongly.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Refusal::NameSigner { .. }
            | Refusal::HoldRole { .. }
            | Refusal::FindMachine { .. }
            | Refusal::ComputeTemplate { .. } => true,
            Refusal::NameRequest { .. }
            | Refusal::NameUsages { .. }
            | Refusal::ProveKey { .. }
            | Refusal::Wish { .. } => false,
        }
    }
}

impl Requester {
    /// The machine that a token is about.
    pub fn of_token(token: &Token) -> Self {
        Requester { machine: token.name.clone(), role: token.role }
    }

    /// The machine that made a request, by the user whom the API has written into it; nothing if the user is no machine.
    pub fn of_request(spec: &CertificateSigningRequestSpec) -> Option<Self> {
        let machine = spec.username.as_deref()?.strip_prefix(USER_PREFIX)?;
        spec.groups.iter().flatten().find(|group| *group == GROUP)?;
        let role = match spec.extra.as_ref()?.get(ROLE_KEY)?.as_slice() {
            [role] if role == Role::Master.as_str() => Role::Master,
            [role] if role == Role::Worker.as_str() => Role::Worker,
            _ => return None,
        };
        Some(Requester { machine: machine.to_owned(), role })
    }

    /// Its user name in the API.
    pub fn user_name(&self) -> String {
        format!("{USER_PREFIX}{}", self.machine)
    }
}

/// The leaf that a signer of ours signs.
pub fn etcd_leaf(signer: &str) -> Option<MachineLeaf> {
    ETCD_LEAVES.into_iter().find(|leaf| signer_name(*leaf) == signer)
}

/// Whether a name is one that a request of this machine for an etcd certificate has.
pub fn is_own_request(name: &str, machine: &str) -> bool {
    ETCD_LEAVES.into_iter().any(|leaf| is_request_name(name, leaf, machine))
}

/// The certificate of an etcd member that a request is answered with, or why there is none.
pub fn etcd_certificate(
    spec: &CompleteSpec,
    who: &Requester,
    request: &CertificateSigningRequest,
) -> Result<Granted, Refusal> {
    let signer = &request.spec.signer_name;
    let leaf = etcd_leaf(signer).ok_or_else(|| Refusal::NameSigner { signer: clipped(signer) })?;
    let machine = member(spec, who)?;
    let template = leaf.template(spec, &machine).map_err(|source| Refusal::ComputeTemplate { source })?;
    let name = request.metadata.name.as_deref().unwrap_or_default();
    if !is_request_name(name, leaf, &who.machine) {
        return Err(Refusal::NameRequest { leaf: leaf.row().name, machine: who.machine.clone() });
    }
    check_usages(leaf, request.spec.usages.as_deref().unwrap_or_default())?;
    let bytes = &request.spec.request.0;
    let key = proven_key(bytes).map_err(|source| Refusal::ProveKey { source })?;
    match wish::of(bytes) {
        Some(Wish { subject, extensions }) if extensions.is_empty() && subject == template.subject.to_string() => {
            Ok(Granted { leaf, machine, template, key })
        }
        Some(wish) => Err(Refusal::Wish { wish: clipped(&wish.to_string()) }),
        None => Err(Refusal::Wish { wish: "something that cannot be read".to_owned() }),
    }
}

fn member(spec: &CompleteSpec, who: &Requester) -> Result<MachineIdentity, Refusal> {
    if who.role != Role::Master {
        return Err(Refusal::HoldRole { role: who.role });
    }
    let is_it = |machine: &&windlass_spec::complete::Machine| {
        machine.name.as_str() == who.machine && machine.role == file::Role::Master
    };
    let found = machines(spec).iter().find(is_it).map(MachineIdentity::from);
    found.ok_or_else(|| Refusal::FindMachine { machine: clipped(&who.machine) })
}

fn check_usages(leaf: MachineLeaf, asked: &[String]) -> Result<(), Refusal> {
    let want = usages(leaf);
    let same = asked.len() == want.len() && want.iter().all(|want| asked.iter().any(|asked| asked == want));
    if same { Ok(()) } else { Err(Refusal::NameUsages { want: want.join(", ") }) }
}

/// What a stranger wrote, short enough to be said back.
fn clipped(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn user(name: &str, groups: &[&str], roles: &[&str]) -> CertificateSigningRequestSpec {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        CertificateSigningRequestSpec {
            username: Some(name.to_owned()),
            groups: Some(texts(groups)),
            extra: Some(BTreeMap::from([(ROLE_KEY.to_owned(), texts(roles))])),
            ..CertificateSigningRequestSpec::default()
        }
    }

    #[test]
    fn only_the_user_of_a_machine_is_one() {
        let machine = Requester { machine: "masters-0".to_owned(), role: Role::Master };
        let groups = ["system:bootstrappers", GROUP];
        assert_eq!(Requester::of_request(&user("windlass:machine:masters-0", &groups, &["master"])), Some(machine));
        let others = [
            user("masters-0", &groups, &["master"]),
            user("windlass:machine:masters-0", &["system:masters"], &["master"]),
            user("windlass:machine:masters-0", &groups, &[]),
            user("windlass:machine:masters-0", &groups, &["worker", "master"]),
            user("windlass:machine:masters-0", &groups, &["bootstrap"]),
            CertificateSigningRequestSpec::default(),
        ];
        assert!(others.iter().all(|spec| Requester::of_request(spec).is_none()));
    }

    #[test]
    fn a_name_belongs_to_one_machine() {
        assert!(is_own_request("etcd-peer-masters-0-0123456789", "masters-0"));
        for other in [
            "etcd-peer-masters-1-0123456789",
            "etcd-peer-masters-0-01234567890",
            "etcd-peer-masters-0-012345678G",
            "etcd-peer-masters-0-0123456789/../x",
            "etcd-client-masters-0-0123456789",
            "etcd-peer-masters-0",
            "etcd-peer-",
            "",
        ] {
            assert!(!is_own_request(other, "masters-0"), "{other}");
        }
        assert!(!is_own_request("etcd-peer-masters-0-0123456789", "masters"));
    }
}
