//! Where a download may lead: not from an encrypted connection to an open one, not round in circles, and where that is
//! wanted not to another server.

use reqwest::Url;
use reqwest::redirect::Policy;

const MOST: usize = 5;

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Mirrors send us to other servers.
    ToAnyServer,
    /// Only to other paths of the server that was asked: whoever answers for it cannot send us to a host that only we reach.
    WithinOrigin,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Everyone on the way could have changed what comes then.
    #[error("from https to {to}, which anyone on the way may change")]
    Unencrypted {
        /// The next address.
        to: String,
    },
    /// Another server has no say.
    #[error("to another server, {to}")]
    OtherOrigin {
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
pub(super) fn follow(redirects: Redirects, previous: &[Url], next: &Url) -> Result<(), Refused> {
    if previous.len() > MOST {
        return Err(Refused::TooMany { to: next.to_string() });
    }
    if redirects == Redirects::WithinOrigin && previous.iter().any(|url| url.origin() != next.origin()) {
        return Err(Refused::OtherOrigin { to: next.to_string() });
    }
    let was_encrypted = previous.iter().any(|url| url.scheme() == "https");
    match was_encrypted && next.scheme() != "https" {
        true => Err(Refused::Unencrypted { to: next.to_string() }),
        false => Ok(()),
    }
}

pub(super) fn policy(redirects: Redirects) -> Policy {
    Policy::custom(move |attempt| match follow(redirects, attempt.previous(), attempt.url()) {
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
            let followed = follow(Redirects::ToAnyServer, &previous, &url(next));
            assert_eq!(followed.is_ok(), may, "{previous:?} -> {next}");
        }
    }

    #[test]
    fn a_redirect_within_an_origin_changes_nothing_but_the_path() {
        let cases = [
            ("http://a/x", "http://a/y?z", true),
            ("http://a/x", "http://a:80/y", true),
            ("http://a/x", "http://a:81/x", false),
            ("http://a/x", "https://a/x", false),
            ("http://a/x", "http://b/x", false),
            ("http://a/x", "http://169.254.169.254/x", false),
            ("http://a/x", "http://127.0.0.1/x", false),
            ("http://a/x", "file:///x", false),
        ];
        for (previous, next, may) in cases {
            let followed = follow(Redirects::WithinOrigin, &[url(previous)], &url(next));
            assert_eq!(followed.is_ok(), may, "{previous} -> {next}");
        }
    }

    #[test]
    fn five_redirects_are_enough() {
        let chain = |n: usize| vec![url("https://a/x"); n];
        let follow = |n| follow(Redirects::ToAnyServer, &chain(n), &url("https://a/x"));
        assert!(follow(MOST).is_ok());
        assert!(matches!(follow(MOST + 1), Err(Refused::TooMany { .. })));
    }
}
