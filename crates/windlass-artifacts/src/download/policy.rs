//! Where a download may lead: not from an encrypted connection to an open one, and not round in circles.

use reqwest::Url;
use reqwest::redirect::Policy;

const MOST: usize = 5;

/// Why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Everyone on the way could have changed what comes then.
    #[error("from https to {to}, which anyone on the way may change")]
    Unencrypted {
        /// The next address.
        to: String,
    },
    /// It may never end.
    #[error("more than {MOST} redirects, the last to {to}")]
    TooMany {
        /// The next address.
        to: String,
    },
}

/// Whether to go on to `next` after having been to `previous`.
pub(super) fn follow(previous: &[Url], next: &Url) -> Result<(), Refused> {
    if previous.len() > MOST {
        return Err(Refused::TooMany { to: next.to_string() });
    }
    let was_encrypted = previous.iter().any(|url| url.scheme() == "https");
    match was_encrypted && next.scheme() != "https" {
        true => Err(Refused::Unencrypted { to: next.to_string() }),
        false => Ok(()),
    }
}

pub(super) fn policy() -> Policy {
    Policy::custom(|attempt| match follow(attempt.previous(), attempt.url()) {
        Ok(()) => attempt.follow(),
        Err(refused) => attempt.error(refused),
    })
}

/// The refusal inside an error of the client, if there is one.
pub(super) fn refusal(error: &reqwest::Error) -> Option<Refused> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused.clone());
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_redirect_never_leaves_encryption() {
        let cases = [
            (vec!["https://a/x"], "https://b/x", true),
            (vec!["http://a/x"], "http://b/x", true),
            (vec!["http://a/x"], "https://b/x", true),
            (vec!["https://a/x"], "http://b/x", false),
            (vec!["http://a/x", "https://b/x"], "http://a/x", false),
            (vec!["https://a/x"], "ftp://a/x", false),
        ];
        for (previous, next, may) in cases {
            let previous: Vec<Url> = previous.into_iter().map(url).collect();
            assert_eq!(follow(&previous, &url(next)).is_ok(), may, "{previous:?} -> {next}");
        }
    }

    #[test]
    fn five_redirects_are_enough() {
        let chain = |n: usize| vec![url("https://a/x"); n];
        assert!(follow(&chain(MOST), &url("https://a/x")).is_ok());
        assert!(matches!(follow(&chain(MOST + 1), &url("https://a/x")), Err(Refused::TooMany { .. })));
    }
}
