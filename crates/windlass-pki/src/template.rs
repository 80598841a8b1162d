//! What a certificate says, apart from whose key it is and who signed it.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Whom a certificate names: Kubernetes reads the common name as a user and the organization as a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The common name.
    pub common_name: String,
    /// The organization.
    pub organization: Option<String>,
}

impl Subject {
    /// The subject as rcgen writes it, organization first as Kubernetes' own tools do.
    pub(crate) fn to_rcgen(&self) -> rcgen::DistinguishedName {
        let mut name = rcgen::DistinguishedName::new();
        if let Some(organization) = &self.organization {
            name.push(rcgen::DnType::OrganizationName, organization.as_str());
        }
        name.push(rcgen::DnType::CommonName, self.common_name.as_str());
        name
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(organization) = &self.organization {
            write!(f, "O={organization}, ")?;
        }
        write!(f, "CN={}", self.common_name)
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A name or address that a server answers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum San {
    /// A DNS name.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl San {
    pub(crate) fn to_rcgen(&self) -> Result<rcgen::SanType, rcgen::Error> {
        Ok(match self {
            San::Dns(name) => rcgen::SanType::DnsName(name.as_str().try_into()?),
            San::Ip(address) => rcgen::SanType::IpAddress(*address),
        })
    }
}

impl fmt::Display for San {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            San::Dns(name) => f.write_str(name),
            San::Ip(address) => address.fmt(f),
        }
    }
}

impl Serialize for San {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What a leaf's key may do in TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Usages {
    /// Answer connections.
    Server,
    /// Open connections.
    Client,
    /// Both.
    Both,
}

impl Usages {
    /// The usages in a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Usages::Server => "server",
            Usages::Client => "client",
            Usages::Both => "server, client",
        }
    }

    pub(crate) fn to_rcgen(self) -> Vec<rcgen::ExtendedKeyUsagePurpose> {
        use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        match self {
            Usages::Server => vec![ServerAuth],
            Usages::Client => vec![ClientAuth],
            Usages::Both => vec![ServerAuth, ClientAuth],
        }
    }
}

/// Everything a signer puts into a leaf beside the key: computed by windlass, never taken from a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Whom it names.
    pub subject: Subject,
    /// What it answers to, in the order of the table.
    pub sans: Vec<San>,
    /// What its key may do.
    pub usages: Usages,
    /// How long it is valid from now, unless its authority ends before.
    pub lifetime: Duration,
}
