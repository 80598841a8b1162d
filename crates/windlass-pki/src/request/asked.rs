//! What a request asks for, read strictly: whoever approves it must see all that another reader, who signs it, might see.
//! So there is one form that is read, the one that kubelets send, and everything else is refused.

use std::net::IpAddr;

use p256::pkcs8::der::asn1::{AnyRef, ObjectIdentifier};
use p256::pkcs8::der::{Decode as _, Reader as _, SliceReader, Tag, TagNumber, Tagged as _};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::{RequestError, binary, prove};
use crate::certificate::subject;
use crate::signed::Signed;
use crate::template::{San, Subject};

const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const ATTRIBUTES: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
const DNS_NAME: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(2) };
const IP_ADDRESS: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(7) };

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Whom the certificate is to name.
    pub subject: Subject,
    /// What it is to answer to, in the request's order.
    pub sans: Vec<San>,
}

/// What a request (PEM or DER) asks for, if its sender has proven to hold the private key and asks for names only.
pub fn asked(bytes: &[u8]) -> Result<Asked, RequestError> {
    let der = binary(bytes)?;
    prove(&der)?;
    let (_, request) = X509CertificationRequest::from_der(&der).map_err(|_| RequestError::ReadDer)?;
    let subject = subject(&request.certification_request_info.subject).map_err(|_| RequestError::ReadSubject)?;
    let signed = Signed::parse(&der).ok_or(RequestError::ReadDer)?;
    Ok(Asked { subject, sans: names(signed.body).ok_or(RequestError::ReadExtensions)? })
}

/// The alternative names of a request's body, which may have one attribute with one value with one extension.
fn names(body: &[u8]) -> Option<Vec<San>> {
    let body = only(body, Tag::Sequence)?;
    let mut parts = SliceReader::new(body).ok()?;
    for _version_subject_and_key in 0..3 {
        AnyRef::decode(&mut parts).ok()?;
    }
    let attributes = only(rest(&mut parts)?, ATTRIBUTES)?;
    if attributes.is_empty() {
        return Some(Vec::new());
    }
    let values = named(only(attributes, Tag::Sequence)?, EXTENSION_REQUEST)?;
    let extension = only(only(only(values, Tag::Set)?, Tag::Sequence)?, Tag::Sequence)?;
    let value = named(extension, SUBJECT_ALT_NAME)?;
    // Whether it is critical makes no difference to what it says.
    let critical = value.strip_prefix(&[1, 1, 0xff]).unwrap_or(value);
    let list = only(only(critical, Tag::OctetString)?, Tag::Sequence)?;
    let mut reader = SliceReader::new(list).ok()?;
    let mut sans = Vec::new();
    while !reader.is_finished() {
        sans.push(san(AnyRef::decode(&mut reader).ok()?)?);
    }
    Some(sans)
}

/// The inside of bytes that are exactly one value of this tag.
fn only(bytes: &[u8], tag: Tag) -> Option<&[u8]> {
    let value = AnyRef::from_der(bytes).ok()?;
    (value.tag() == tag).then_some(value.value())
}

/// What follows this identifier.
fn named(bytes: &[u8], identifier: ObjectIdentifier) -> Option<&[u8]> {
    let mut reader = SliceReader::new(bytes).ok()?;
    (ObjectIdentifier::decode(&mut reader).ok()? == identifier).then(|| rest(&mut reader))?
}

fn rest<'a>(reader: &mut SliceReader<'a>) -> Option<&'a [u8]> {
    let left = reader.remaining_len();
    reader.read_slice(left).ok()
}

fn san(name: AnyRef<'_>) -> Option<San> {
    let bytes = name.value();
    if name.tag() == DNS_NAME {
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.bytes().all(|b| b.is_ascii_graphic()))?;
        return Some(San::Dns(text.to_owned()));
    }
    let v4 = || <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok();
    (name.tag() == IP_ADDRESS).then(|| v4().or_else(v6))?.map(San::Ip)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, IsCa, KeyUsagePurpose, SanType};

    use super::*;
    use crate::key::{KeySource as _, SeededKeys};

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let key = SeededKeys::new("asked").key("key");
        let subject =
            Subject { common_name: "system:node:a".to_owned(), organization: Some("system:nodes".to_owned()) };
        let mut params = CertificateParams::default();
        params.distinguished_name = subject.to_rcgen();
        change(&mut params);
        params.serialize_request(&key).unwrap().der().to_vec()
    }

    fn dns(name: &str) -> SanType {
        SanType::DnsName(name.try_into().unwrap())
    }

    #[test]
    fn names_and_addresses_are_read_in_their_order() {
        let plain = asked(&made(|_| {})).unwrap();
        assert_eq!(plain.subject.to_string(), "O=system:nodes, CN=system:node:a");
        assert_eq!(plain.sans, []);
        let v6 = IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]);
        let sans = vec![dns("a"), SanType::IpAddress([10, 0, 0, 1].into()), SanType::IpAddress(v6)];
        let named = asked(&made(|params| params.subject_alt_names = sans)).unwrap();
        assert_eq!(named.sans, [San::Dns("a".to_owned()), San::Ip([10, 0, 0, 1].into()), San::Ip(v6)]);
    }

    #[test]
    fn a_request_for_anything_else_is_refused() {
        type Change = fn(&mut CertificateParams);
        let extensions: [(&str, Change); 7] = [
            ("authority", |p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            ("usage", |p| p.key_usages = vec![KeyUsagePurpose::KeyCertSign]),
            ("extended usage", |p| p.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::Any]),
            ("mail", |p| p.subject_alt_names = vec![SanType::Rfc822Name("a@b".try_into().unwrap())]),
            ("uri", |p| p.subject_alt_names = vec![dns("a"), SanType::URI("spiffe://a".try_into().unwrap())]),
            ("custom", |p| p.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])]),
            ("both", |p| {
                p.subject_alt_names = vec![dns("a")];
                p.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])];
            }),
        ];
        for (name, change) in extensions {
            let error = asked(&made(change)).unwrap_err();
            assert!(matches!(error, RequestError::ReadExtensions), "{name}: {error}");
        }
        let subjects: [(&str, Change); 3] = [
            ("unit", |p| p.distinguished_name.push(DnType::OrganizationalUnitName, "x")),
            ("country", |p| p.distinguished_name.push(DnType::CountryName, "CH")),
            ("nobody", |p| p.distinguished_name = rcgen::DistinguishedName::new()),
        ];
        for (name, change) in subjects {
            let error = asked(&made(change)).unwrap_err();
            assert!(matches!(error, RequestError::ReadSubject), "{name}: {error}");
        }
    }

    #[test]
    fn a_changed_request_proves_nothing() {
        let mut bytes = made(|params| params.subject_alt_names = vec![dns("aaaa")]);
        let at = bytes.windows(4).position(|window| window == b"aaaa").unwrap();
        bytes[at] = b'b';
        assert!(matches!(asked(&bytes).unwrap_err(), RequestError::VerifySignature));
        assert!(matches!(asked(&[0; 20_000]).unwrap_err(), RequestError::Measure { .. }));
        assert!(matches!(asked(b"").unwrap_err(), RequestError::ReadPem));
    }
}
