//! Who this machine is, as the platform's metadata service tells it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use thiserror::Error;
use windlass_cloud_api::{Label, LabelError, RecordName, Role};
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::reason;
use windlass_steps::wait::{Unmet, Wait, WaitError};

use super::http::{Asking, ask};
use crate::facts::Facts;
use crate::join::{Observe, listed};

const PATH: &str = "/v1/identity";
const ETCD_INDEX: &str = "windlass.dev/etcd-index";
/// How long nothing new may be heard before this run of the unit gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a machine does not learn who it is.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The service did not answer in time.
    #[error("the metadata service does not say who this machine is: {}", listed(.unmet))]
    Ask {
        /// What was seen last.
        unmet: Vec<Unmet>,
    },
    /// What it says is no identity.
    #[error("cannot understand what the metadata service says")]
    Understand {
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A name that no machine or cluster has.
    #[error("cannot take the name of this machine")]
    TakeName {
        /// What is wrong with it.
        source: LabelError,
    },
    /// A number that is none.
    #[error("cannot take {text:?} as the number of an etcd member")]
    TakeIndex {
        /// The tag's value.
        text: String,
    },
    /// A master carries a member, and this one does not know which.
    #[error("{machine} is a master without the tag {ETCD_INDEX}")]
    LackIndex {
        /// The machine.
        machine: String,
    },
}

#[derive(Debug, Deserialize)]
struct Identity {
    name: String,
    cluster: String,
    domain: String,
    role: Role,
    address: IpAddr,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

/// Asks until there is an answer, for some seconds.
pub async fn learn(service: SocketAddr, observe: Observe<'_>) -> Result<Facts, IdentityError> {
    let answer = RefCell::new(None);
    let look = || async {
        let host = service.ip().to_string();
        let asking =
            Asking { method: Method::GET, host: &host, port: service.port(), path: PATH, bearer: None, tls: None };
        let said = ask(&asking).await?;
        if said.status != StatusCode::OK {
            return Ok(Observation::NotYet(reason!("it answers {}", said.status)));
        }
        answer.replace(Some(said.body));
        Ok::<_, LookError>(Observation::Holds)
    };
    let criteria = [Criterion::new("the metadata service says who this machine is", look)];
    match Wait::stalled_for(PATIENCE).until(&criteria, observe).await {
        Ok(()) => {}
        Err(WaitError::Unmet(unmet)) => return Err(IdentityError::Ask { unmet }),
        Err(WaitError::Observe(never)) => match never {},
    }
    drop(criteria);
    parse(&answer.into_inner().unwrap_or_default())
}

/// The facts in an answer of the service. Names become host names, flags and file names, so they are checked here.
pub fn parse(bytes: &[u8]) -> Result<Facts, IdentityError> {
    let identity: Identity = serde_json::from_slice(bytes).map_err(|source| IdentityError::Understand { source })?;
    let refuse = |source| IdentityError::TakeName { source };
    Label::parse(&identity.name).map_err(refuse)?;
    RecordName::parse(&identity.domain).map_err(refuse)?;
    let index =
        |text: &String| text.parse().map_err(|_| IdentityError::TakeIndex { text: text.chars().take(40).collect() });
    let etcd_index = identity.tags.get(ETCD_INDEX).map(index).transpose()?;
    if identity.role == Role::Master && etcd_index.is_none() {
        return Err(IdentityError::LackIndex { machine: identity.name });
    }
    let Identity { name, cluster, domain, role, address, .. } = identity;
    Ok(Facts { name, cluster, domain, role, address, etcd_index })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, role: &str, tags: &str) -> String {
        format!(
            r#"{{"name":"{name}","cluster":"demo-abcde","domain":"demo.test","role":"{role}","address":"10.0.0.2","tags":{{{tags}}},"index":0}}"#
        )
    }

    #[test]
    fn only_a_whole_identity_becomes_facts() {
        let index = r#""windlass.dev/etcd-index":"2""#;
        let facts = parse(said("masters-2", "master", index).as_bytes()).unwrap();
        assert_eq!((facts.name.as_str(), facts.etcd_index, facts.role), ("masters-2", Some(2), Role::Master));
        assert_eq!(parse(said("workers-0", "worker", "").as_bytes()).unwrap().etcd_index, None);
        assert_eq!(parse(said("bootstrap", "bootstrap", "").as_bytes()).unwrap().role, Role::Bootstrap);
        let refused = [
            ("", "", "", "understand"),
            ("masters-0", "master", "", "without the tag"),
            ("masters-0", "master", r#""windlass.dev/etcd-index":"two""#, "number"),
            ("masters-0", "master", r#""windlass.dev/etcd-index":"-1""#, "number"),
            ("masters-0", "king", "", "understand"),
            ("../etc", "worker", "", "name"),
            ("a' --v=9 '", "worker", "", "name"),
            ("", "worker", "", "name"),
        ];
        for (name, role, tags, word) in refused {
            let error = parse(said(name, role, tags).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(word), "{name} {role} {tags}: {error}");
        }
    }

    #[test]
    fn anything_is_an_answer_and_not_a_panic() {
        for bytes in [&b""[..], b"null", b"[]", b"{", b"\xff\xfe", b"{\"name\":1}"] {
            assert!(parse(bytes).is_err());
        }
    }
}
