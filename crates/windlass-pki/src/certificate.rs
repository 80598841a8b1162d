//! Certificates read back. A [`Certificate`] holds its bytes and what they say; whoever has one
//! knows that they could be read, so that asking cannot fail.

use std::net::IpAddr;

use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

use crate::key::{KeyError, PublicKey};
use crate::pem;
use crate::signed::Signed;
use crate::template::{San, Subject, Template, Usages};

const LABEL: &str = "CERTIFICATE";

/// Why bytes are not a certificate that windlass uses.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// There is no PEM document of the right label.
    #[error("it is not a PEM document labelled CERTIFICATE")]
    ReadPem,
    /// The document is not a certificate, or its extensions contradict themselves.
    #[error("it is not an X.509 certificate")]
    ReadDer,
    /// The signature is of another kind than windlass' keys make.
    #[error("it is not signed with ECDSA and SHA-256")]
    ReadSignature,
    /// The subject is not one that windlass gives.
    #[error("its subject is not one common name with at most one organization")]
    ReadSubject,
    /// There is an alternative name of a kind that windlass does not give.
    #[error("it has an alternative name that is neither a DNS name nor an address")]
    ReadSans,
    /// The key is not P-256.
    #[error("its public key cannot be used")]
    ReadKey {
        /// What is wrong with the key.
        source: KeyError,
    },
}

/// What a certificate is for, by its constraints and usages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It signs leaves, and nothing below them.
    Authority,
    /// It speaks TLS and signs nothing.
    Leaf(Usages),
    /// Windlass makes no such certificate.
    Other,
}

/// A certificate and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    der: Vec<u8>,
    subject: Subject,
    subject_name: Vec<u8>,
    issuer_name: Vec<u8>,
    sans: Vec<San>,
    kind: Kind,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
    public_key: PublicKey,
    key_id: Vec<u8>,
}

impl Certificate {
    /// Reads a PEM document (`CERTIFICATE`).
    pub fn parse_pem(bytes: &[u8]) -> Result<Self, CertificateError> {
        Certificate::parse_der(&pem::decode(LABEL, bytes).ok_or(CertificateError::ReadPem)?)
    }

    /// Reads the binary form.
    pub fn parse_der(bytes: &[u8]) -> Result<Self, CertificateError> {
        let parsed = parse(bytes)?;
        let public_key =
            PublicKey::parse_der(parsed.public_key().raw).map_err(|source| CertificateError::ReadKey { source })?;
        Ok(Certificate {
            der: bytes.to_vec(),
            subject: subject(parsed.subject())?,
            subject_name: parsed.subject().as_raw().to_vec(),
            issuer_name: parsed.issuer().as_raw().to_vec(),
            sans: sans(&parsed)?,
            kind: kind(&parsed)?,
            not_before: parsed.validity().not_before.to_datetime(),
            not_after: parsed.validity().not_after.to_datetime(),
            key_id: key_id(&parsed).unwrap_or_else(|| public_key.id()),
            public_key,
        })
    }

    /// The certificate as a PEM document.
    pub fn to_pem(&self) -> String {
        pem::encode(LABEL, &self.der)
    }

    /// The binary form.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Whom it names.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// What it answers to, in its own order.
    pub fn sans(&self) -> &[San] {
        &self.sans
    }

    /// What it is for.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The first moment at which it is valid.
    pub fn not_before(&self) -> OffsetDateTime {
        self.not_before
    }

    /// The last moment at which it is valid.
    pub fn not_after(&self) -> OffsetDateTime {
        self.not_after
    }

    /// The key it vouches for.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    /// The identifier of its key, as the certificates that it signs refer to it.
    pub(crate) fn key_id(&self) -> &[u8] {
        &self.key_id
    }

    /// Whether it is valid at this moment.
    pub fn is_valid_at(&self, now: OffsetDateTime) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Whether the authority's name and key are the ones that signed this certificate.
    pub fn is_signed_by(&self, authority: &Certificate) -> bool {
        self.names_as_issuer(authority)
            && Signed::parse(&self.der)
                .is_some_and(|signed| authority.public_key.verifies(signed.body, signed.signature))
    }

    /// Whether the issuer's name is the authority's to the byte, which is how Go compares them.
    pub(crate) fn names_as_issuer(&self, authority: &Certificate) -> bool {
        self.issuer_name == authority.subject_name
    }

    /// Whether it says what a template asks for; the lifetime is not compared.
    pub fn says(&self, template: &Template) -> bool {
        self.subject == template.subject && self.sans == template.sans && self.kind == Kind::Leaf(template.usages)
    }
}

fn parse(bytes: &[u8]) -> Result<X509Certificate<'_>, CertificateError> {
    let signed = Signed::parse(bytes).ok_or(CertificateError::ReadDer)?;
    if !signed.is_ecdsa_with_sha256() {
        return Err(CertificateError::ReadSignature);
    }
    let (_, certificate) = X509Certificate::from_der(bytes).map_err(|_| CertificateError::ReadDer)?;
    Ok(certificate)
}

pub(crate) fn subject(name: &X509Name<'_>) -> Result<Subject, CertificateError> {
    let texts = |attributes: Vec<_>| -> Result<Vec<String>, CertificateError> {
        let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().map(str::to_owned);
        attributes.into_iter().map(text).collect::<Result<_, _>>().map_err(|_| CertificateError::ReadSubject)
    };
    let mut names = texts(name.iter_common_name().collect())?;
    let mut organizations = texts(name.iter_organization().collect())?;
    if name.iter_attributes().count() != names.len() + organizations.len() || organizations.len() > 1 {
        return Err(CertificateError::ReadSubject);
    }
    match (names.pop(), names.pop()) {
        (Some(common_name), None) => Ok(Subject { common_name, organization: organizations.pop() }),
        (Some(_), Some(_)) | (None, _) => Err(CertificateError::ReadSubject),
    }
}

fn sans(parsed: &X509Certificate<'_>) -> Result<Vec<San>, CertificateError> {
    let extension = parsed.subject_alternative_name().map_err(|_| CertificateError::ReadDer)?;
    extension.iter().flat_map(|e| &e.value.general_names).map(san).collect()
}

fn san(name: &GeneralName<'_>) -> Result<San, CertificateError> {
    if let GeneralName::DNSName(name) = name {
        return Ok(San::Dns((*name).to_owned()));
    }
    let GeneralName::IPAddress(octets) = name else { return Err(CertificateError::ReadSans) };
    let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
    address.map(San::Ip).map_err(|_| CertificateError::ReadSans)
}

fn kind(parsed: &X509Certificate<'_>) -> Result<Kind, CertificateError> {
    let wrong = |_| CertificateError::ReadDer;
    let constraints = parsed.basic_constraints().map_err(wrong)?.map(|e| (e.value.ca, e.value.path_len_constraint));
    let usage = parsed.key_usage().map_err(wrong)?.map(|e| e.value.flags);
    let extended = parsed.extended_key_usage().map_err(wrong)?.map(|e| usages(e.value));
    const DIGITAL_SIGNATURE: u16 = 1;
    const CERT_SIGN_AND_CRL_SIGN: u16 = 0b110_0000;
    Ok(match (constraints, usage, extended) {
        (Some((true, Some(0))), Some(flags), None) if flags == CERT_SIGN_AND_CRL_SIGN | DIGITAL_SIGNATURE => {
            Kind::Authority
        }
        (Some((false, None)), Some(DIGITAL_SIGNATURE), Some(Some(usages))) => Kind::Leaf(usages),
        _ => Kind::Other,
    })
}

fn usages(extension: &ExtendedKeyUsage<'_>) -> Option<Usages> {
    let one_of = |server_auth, client_auth| ExtendedKeyUsage {
        any: false,
        server_auth,
        client_auth,
        code_signing: false,
        email_protection: false,
        time_stamping: false,
        ocsp_signing: false,
        other: Vec::new(),
    };
    [(true, false, Usages::Server), (false, true, Usages::Client), (true, true, Usages::Both)]
        .into_iter()
        .find_map(|(server, client, usages)| (*extension == one_of(server, client)).then_some(usages))
}

fn key_id(parsed: &X509Certificate<'_>) -> Option<Vec<u8>> {
    parsed.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}
