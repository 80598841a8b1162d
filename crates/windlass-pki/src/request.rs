//! Certificate requests (PKCS#10). The signing side takes a request as proof that somebody holds a
//! private key, and takes **only the public key** out of it: names, usages and constraints that a
//! request asks for are not even looked at, because a signer that trusts requests signs anything.
//! Only who approves for Kubernetes' own signers, which do trust requests, reads what is [`asked`].

mod asked;

use std::borrow::Cow;

use rcgen::CertificateParams;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::key::{KeyError, PrivateKey, PublicKey};
use crate::pem;
use crate::signed::Signed;
use crate::template::Subject;

pub use asked::{Asked, asked};

/// The largest request that is looked at; an honest one has about 500 bytes.
pub const MAX_BYTES: usize = 16 * 1024;

const LABEL: &str = "CERTIFICATE REQUEST";

/// Why a request is refused, or could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The request is too long to be honest.
    #[error("the request has {bytes} bytes, at most {MAX_BYTES} are read")]
    Measure {
        /// How long it is.
        bytes: usize,
    },
    /// The text starts like PEM but holds no request.
    #[error("the request is not a PEM document labelled CERTIFICATE REQUEST")]
    ReadPem,
    /// The bytes are not one whole PKCS#10 document.
    #[error("the request is not a PKCS#10 document")]
    ReadDer,
    /// The key is not P-256.
    #[error("the request's key cannot be used")]
    ReadKey {
        /// What is wrong with the key.
        source: KeyError,
    },
    /// The signature is of another kind than windlass' keys make.
    #[error("the request is not signed with ECDSA and SHA-256")]
    ReadAlgorithm,
    /// The request was not signed by the key in it.
    #[error("the request is not signed by its own key")]
    VerifySignature,
    /// The subject is not one that a machine asks for.
    #[error("the request's subject is not one common name with at most one organization")]
    ReadSubject,
    /// There is something else in the request than a machine asks for.
    #[error("the request asks for more than DNS names and addresses")]
    ReadExtensions,
    /// A request could not be written down.
    #[error("cannot encode a request for {subject}")]
    Encode {
        /// Whom it was to name.
        subject: Box<Subject>,
        /// What the encoder said.
        source: rcgen::Error,
    },
}

/// The public key of a request (PEM or DER) whose sender has proven to hold the private half.
pub fn proven_key(bytes: &[u8]) -> Result<PublicKey, RequestError> {
    prove(&binary(bytes)?)
}

/// The binary form of a request, whichever form it has.
fn binary(bytes: &[u8]) -> Result<Cow<'_, [u8]>, RequestError> {
    if bytes.len() > MAX_BYTES {
        return Err(RequestError::Measure { bytes: bytes.len() });
    }
    // A DER document starts with the tag of a sequence, which no PEM text does.
    if bytes.first() == Some(&0x30) {
        return Ok(Cow::Borrowed(bytes));
    }
    pem::decode(LABEL, bytes).map(Cow::Owned).ok_or(RequestError::ReadPem)
}

fn prove(der: &[u8]) -> Result<PublicKey, RequestError> {
    let signed = Signed::parse(der).ok_or(RequestError::ReadDer)?;
    let (_, request) = X509CertificationRequest::from_der(der).map_err(|_| RequestError::ReadDer)?;
    let key = PublicKey::parse_der(request.certification_request_info.subject_pki.raw)
        .map_err(|source| RequestError::ReadKey { source })?;
    if !signed.is_ecdsa_with_sha256() {
        return Err(RequestError::ReadAlgorithm);
    }
    if !key.verifies(signed.body, signed.signature) {
        return Err(RequestError::VerifySignature);
    }
    Ok(key)
}

/// A request in PEM, signed by the key it is for. Kubernetes' own signers read the subject; windlass' do not.
pub fn make(subject: &Subject, key: &PrivateKey) -> Result<String, RequestError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject.to_rcgen();
    let encode = |source| RequestError::Encode { subject: Box::new(subject.clone()), source };
    let request = params.serialize_request(key).map_err(encode)?;
    Ok(pem::encode(LABEL, request.der()))
}
