//! What the API answered when it did not do what it was asked, in words, and whether asking again may help.

use std::error::Error;
use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::time::timeout;

/// An answer that is none, or a refusal. Its text is whole: the client library's own messages repeat their causes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct ApiFailure {
    /// The HTTP status, if there was an answer.
    pub code: Option<u16>,
    /// Whether asking again may help.
    pub outlook: Outlook,
    text: String,
}

/// Whether asking again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// Nobody listens yet, a server is starting or stopping, or it has too much to do.
    Passing,
    /// The same request will be refused again.
    Lasting,
}

impl ApiFailure {
    /// Whether there is no such object, or nobody who serves its kind.
    pub fn is_absent(&self) -> bool {
        self.code == Some(404)
    }
}

impl From<&kube::Error> for ApiFailure {
    fn from(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let said = if status.message.is_empty() { &status.reason } else { &status.message };
                let text = format!("the API answered {}: {said}", status.code);
                ApiFailure { code: Some(status.code), outlook: of_code(status.code), text }
            }
            _ => ApiFailure { code: None, outlook: of_cause(error), text: told(error) },
        }
    }
}

impl From<kube::Error> for ApiFailure {
    fn from(error: kube::Error) -> Self {
        ApiFailure::from(&error)
    }
}

/// Waits for an answer, but not for ever: the client itself would.
pub async fn within<T>(limit: Duration, asking: impl Future<Output = kube::Result<T>>) -> Result<T, ApiFailure> {
    match timeout(limit, asking).await {
        Ok(answer) => answer.map_err(ApiFailure::from),
        Err(_) => {
            let text = format!("the API did not answer within {limit:?}");
            Err(ApiFailure { code: None, outlook: Outlook::Passing, text })
        }
    }
}

fn of_code(code: u16) -> Outlook {
    match code {
        408 | 409 | 429 | 500..=599 => Outlook::Passing,
        _ => Outlook::Lasting,
    }
}

/// Whoever cannot be reached may come; whoever shows the wrong certificate will show it again.
fn of_cause(error: &kube::Error) -> Outlook {
    match error {
        kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
            if causes(error).any(is_distrust) { Outlook::Lasting } else { Outlook::Passing }
        }
        kube::Error::Discovery(_) => Outlook::Passing,
        _ => Outlook::Lasting,
    }
}

fn is_distrust(mut cause: &(dyn Error + 'static)) -> bool {
    // An I/O error hides what it was made of from `source`, and may be made of another one.
    while let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        cause = inner;
    }
    matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
}

/// The chain of causes, of which each tells only what it adds.
fn told(error: &kube::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in causes(error).skip(usize::from(error.source().is_some())) {
        let text = cause.to_string();
        if !words.iter().any(|known| known.contains(&text)) {
            words.push(text);
        }
    }
    words.join(": ")
}

fn causes(error: &kube::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn asking_again_helps_with_what_passes() {
        let cases = [
            (409, Outlook::Passing),
            (429, Outlook::Passing),
            (500, Outlook::Passing),
            (503, Outlook::Passing),
            (400, Outlook::Lasting),
            (401, Outlook::Lasting),
            (403, Outlook::Lasting),
            (404, Outlook::Lasting),
            (422, Outlook::Lasting),
        ];
        for (code, outlook) in cases {
            let failure = ApiFailure::from(kube::Error::Api(Status::failure("no", "").with_code(code).boxed()));
            assert_eq!(failure.outlook, outlook, "{code}");
            assert_eq!(failure.to_string(), format!("the API answered {code}: no"));
            assert_eq!(failure.is_absent(), code == 404);
        }
    }

    #[tokio::test]
    async fn no_answer_is_a_failure_that_may_pass() {
        let failure = within(Duration::from_millis(1), std::future::pending::<kube::Result<()>>()).await.unwrap_err();
        assert_eq!((failure.outlook, failure.code), (Outlook::Passing, None));
        assert_eq!(failure.to_string(), "the API did not answer within 1ms");
    }

    #[test]
    fn a_wrong_certificate_stays_wrong_and_a_refused_connection_does_not() {
        let service = |error: io::Error| ApiFailure::from(kube::Error::Service(Box::new(error)));
        let refused = service(io::ErrorKind::ConnectionRefused.into());
        assert_eq!((refused.outlook, refused.to_string()), (Outlook::Passing, "connection refused".to_owned()));
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let distrusted = io::Error::new(io::ErrorKind::InvalidData, unknown.clone());
        // As the client has it: wrapped once more on its way through the connector.
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, unknown));
        for distrusted in [service(distrusted), service(wrapped)] {
            assert_eq!(distrusted.outlook, Outlook::Lasting);
            assert!(distrusted.to_string().contains("UnknownIssuer"), "{distrusted}");
        }
    }
}
