//! Signing. A [`Signer`] is an authority's certificate with its key; what it signs is computed by
//! windlass (a [`Template`]), for a public key that may come from anywhere.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose, SerialNumber};
use std::time::Duration;
use time::OffsetDateTime;

use crate::certificate::{Certificate, CertificateError, Kind};
use crate::key::{PrivateKey, PublicKey, Serial};
use crate::template::{Subject, Template};

/// How far back a certificate starts, for machines whose clocks lag.
pub const BACKDATE: Duration = Duration::from_secs(3600);

/// Why a certificate could not be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The signer's certificate is none of an authority.
    #[error("{signer} is not the certificate of an authority that signs leaves")]
    TakeAuthority {
        /// Whom the signer's certificate names.
        signer: Box<Subject>,
    },
    /// The signer's certificate and key are not a pair.
    #[error("the certificate of {signer} belongs to another key")]
    TakeKey {
        /// Whom the signer's certificate names.
        signer: Box<Subject>,
    },
    /// The signer's certificate is not valid now, so that nothing it signs would be.
    #[error("the certificate of {signer} is not valid at {now}")]
    UseAuthority {
        /// Whom the signer's certificate names.
        signer: Box<Subject>,
        /// The moment of signing.
        now: OffsetDateTime,
    },
    /// The certificate could not be written down.
    #[error("cannot encode the certificate of {subject}")]
    Encode {
        /// Whom it was to name.
        subject: Box<Subject>,
        /// What the encoder said.
        source: rcgen::Error,
    },
    /// What was written down could not be read back.
    #[error("cannot read the new certificate of {subject} back")]
    ReadBack {
        /// Whom it was to name.
        subject: Box<Subject>,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// The signer's own name is encoded in a way that windlass does not write, so that chains would not hold.
    #[error("the name {signer} is encoded in another way than windlass encodes it")]
    MatchIssuer {
        /// Whom the signer's certificate names.
        signer: Box<Subject>,
    },
}

/// An authority that signs leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    certificate: Certificate,
    key: PrivateKey,
}

impl Signer {
    /// Joins an authority's certificate with its key.
    pub fn new(certificate: Certificate, key: PrivateKey) -> Result<Self, SignError> {
        let signer = || Box::new(certificate.subject().clone());
        if certificate.kind() != Kind::Authority {
            return Err(SignError::TakeAuthority { signer: signer() });
        }
        if certificate.public_key() != key.public() {
            return Err(SignError::TakeKey { signer: signer() });
        }
        Ok(Signer { certificate, key })
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Signs a leaf for a public key. It starts [`BACKDATE`] before now and never outlives the authority.
    pub fn sign(
        &self,
        template: &Template,
        key: &PublicKey,
        serial: Serial,
        now: OffsetDateTime,
    ) -> Result<Certificate, SignError> {
        if !self.certificate.is_valid_at(now) {
            return Err(SignError::UseAuthority { signer: Box::new(self.certificate.subject().clone()), now });
        }
        let encode = |source| SignError::Encode { subject: Box::new(template.subject.clone()), source };
        let mut params = params(&template.subject, key, serial, now, template.lifetime);
        params.not_after = params.not_after.min(self.certificate.not_after());
        params.subject_alt_names =
            template.sans.iter().map(|s| s.to_rcgen()).collect::<Result<_, _>>().map_err(encode)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = template.usages.to_rcgen();
        params.use_authority_key_identifier_extension = true;
        let signed = params.signed_by(key, &self.issuer()).map_err(encode)?;
        let certificate = read_back(signed.der(), &template.subject)?;
        if !certificate.names_as_issuer(&self.certificate) {
            return Err(SignError::MatchIssuer { signer: Box::new(self.certificate.subject().clone()) });
        }
        Ok(certificate)
    }

    fn issuer(&self) -> Issuer<'static, &PrivateKey> {
        let mut params = CertificateParams::default();
        params.distinguished_name = self.certificate.subject().to_rcgen();
        params.key_identifier_method = KeyIdMethod::PreSpecified(self.certificate.key_id().to_vec());
        Issuer::new(params, &self.key)
    }
}

/// Makes an authority's own certificate, signed by its own key.
pub fn self_sign(
    subject: &Subject,
    key: &PrivateKey,
    serial: Serial,
    now: OffsetDateTime,
    lifetime: Duration,
) -> Result<Certificate, SignError> {
    let mut params = params(subject, key.public(), serial, now, lifetime);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let signed =
        params.self_signed(key).map_err(|source| SignError::Encode { subject: Box::new(subject.clone()), source })?;
    read_back(signed.der(), subject)
}

fn params(
    subject: &Subject,
    key: &PublicKey,
    serial: Serial,
    now: OffsetDateTime,
    lifetime: Duration,
) -> CertificateParams {
    // Certificates know no fractions of a second.
    let now = now.truncate_to_second();
    let mut params = CertificateParams::default();
    params.distinguished_name = subject.to_rcgen();
    params.serial_number = Some(SerialNumber::from_slice(serial.as_bytes()));
    params.not_before = now - BACKDATE;
    params.not_after = now + lifetime;
    params.key_identifier_method = KeyIdMethod::PreSpecified(key.id());
    params
}

fn read_back(der: &[u8], subject: &Subject) -> Result<Certificate, SignError> {
    Certificate::parse_der(der).map_err(|source| SignError::ReadBack { subject: Box::new(subject.clone()), source })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::key::{KeySource as _, SeededKeys};
    use crate::template::{San, Usages};
    use crate::testing::{DAY, NOW};

    fn subject(name: &str) -> Subject {
        Subject { common_name: name.to_owned(), organization: Some("demo".to_owned()) }
    }

    fn signer(days: u32) -> Signer {
        let mut keys = SeededKeys::new("signer tests");
        let key = keys.key("ca");
        let certificate = self_sign(&subject("ca"), &key, keys.serial("ca"), NOW, DAY * days).unwrap();
        Signer::new(certificate, key).unwrap()
    }

    fn template(days: u32) -> Template {
        let sans = vec![San::Dns("a.demo.test".to_owned()), San::Ip(IpAddr::from([10, 0, 0, 1]))];
        Template { subject: subject("leaf"), sans, usages: Usages::Both, lifetime: DAY * days }
    }

    fn sign(signer: &Signer, template: &Template, now: OffsetDateTime) -> Result<Certificate, SignError> {
        let mut keys = SeededKeys::new("signer tests");
        signer.sign(template, keys.key("leaf").public(), keys.serial("leaf"), now)
    }

    #[test]
    fn a_leaf_says_what_the_template_says_and_is_signed_by_the_authority() {
        let leaf = sign(&signer(100), &template(10), NOW).unwrap();
        assert!(leaf.says(&template(10)) && leaf.is_signed_by(signer(100).certificate()));
        assert_eq!((leaf.not_before(), leaf.not_after()), (NOW - BACKDATE, NOW + DAY * 10));
        let fractional = sign(&signer(100), &template(10), NOW + Duration::from_millis(700)).unwrap();
        assert_eq!(fractional, leaf);
    }

    #[test]
    fn a_leaf_never_outlives_its_authority() {
        let leaf = sign(&signer(5), &template(10), NOW).unwrap();
        assert_eq!(leaf.not_after(), signer(5).certificate().not_after());
    }

    #[test]
    fn an_expired_authority_does_not_sign() {
        let error = sign(&signer(5), &template(1), NOW + DAY * 6).unwrap_err();
        assert!(matches!(error, SignError::UseAuthority { .. }), "{error}");
    }

    #[test]
    fn only_an_authority_with_its_own_key_is_a_signer() {
        let mut keys = SeededKeys::new("signer tests");
        let leaf = sign(&signer(100), &template(10), NOW).unwrap();
        let error = Signer::new(leaf, keys.key("leaf")).unwrap_err();
        assert!(matches!(error, SignError::TakeAuthority { .. }), "{error}");
        let error = Signer::new(signer(5).certificate().clone(), keys.key("other")).unwrap_err();
        assert!(matches!(error, SignError::TakeKey { .. }), "{error}");
    }

    #[test]
    fn a_name_that_is_no_ascii_is_refused() {
        let mut odd = template(1);
        odd.sans = vec![San::Dns("bücher.test".to_owned())];
        let error = sign(&signer(5), &odd, NOW).unwrap_err();
        assert!(matches!(error, SignError::Encode { .. }), "{error}");
    }
}
