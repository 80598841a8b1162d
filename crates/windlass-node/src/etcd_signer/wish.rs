//! What a request asks for besides its key. Nothing of it is ever granted; it is read only to refuse.

use std::fmt;

use windlass_pki::request::MAX_BYTES;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer as _;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// The subject, in the words of [`windlass_pki::Subject`].
    pub subject: String,
    /// The attributes, by their numbers: extensions are among them.
    pub extensions: Vec<String>,
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "subject {}", self.subject)?;
        self.extensions.iter().try_for_each(|extension| write!(f, ", attribute {extension}"))
    }
}

/// What a request (PEM or DER) asks for, if it can be read.
pub(super) fn of(bytes: &[u8]) -> Option<Wish> {
    let bytes = bytes.get(..bytes.len().min(MAX_BYTES))?;
    let decoded;
    let der = if bytes.first() == Some(&0x30) {
        bytes
    } else {
        decoded = parse_x509_pem(bytes).ok()?.1;
        &decoded.contents
    };
    let (_, request) = X509CertificationRequest::from_der(der).ok()?;
    let info = &request.certification_request_info;
    let subject = info.subject.iter_attributes().map(|attribute| {
        let oid = attribute.attr_type().to_id_string();
        let name = match oid.as_str() {
            "2.5.4.3" => "CN",
            "2.5.4.10" => "O",
            other => other,
        };
        format!("{name}={}", attribute.as_str().unwrap_or("?"))
    });
    Some(Wish {
        subject: subject.collect::<Vec<_>>().join(", "),
        extensions: info.iter_attributes().map(|attribute| attribute.oid.to_id_string()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use windlass_pki::{KeySource as _, SeededKeys, Subject, request};

    use super::*;

    #[test]
    fn an_honest_request_asks_for_its_subject_alone() {
        let key = SeededKeys::new("wish").key("a");
        for organization in [None, Some("system:nodes".to_owned())] {
            let subject = Subject { common_name: "etcd-0".to_owned(), organization };
            let wish = of(request::make(&subject, &key).unwrap().as_bytes()).unwrap();
            assert_eq!(wish, Wish { subject: subject.to_string(), extensions: Vec::new() });
        }
        assert_eq!(of(b""), None);
        assert_eq!(of(b"0"), None);
    }
}
