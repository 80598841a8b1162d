//! Machines' tokens as the bootstrap machine sees them: proving who asks, and the files that remember which tokens were
//! used up and what came of them (`/var/lib/windlass/tokens`).

use std::collections::BTreeSet;
use std::path::PathBuf;

use axum::http::header::{AUTHORIZATION, HeaderMap};
use thiserror::Error;
use time::OffsetDateTime;
use windlass_cloud_api::{Token, TokenError, TokenPublicKey};
use windlass_spec::complete::CompleteSpec;
use windlass_spec::{MachineName, Secret};
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};

use crate::places::Places;

const KEY_LIMIT: u64 = 1 << 10;
const SPEC_LIMIT: u64 = 8 << 20;

/// The one thing that a token is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Asking for the machine's configuration.
    Config,
    /// Asking for the machine's certificates.
    Join,
}

impl Purpose {
    /// As tokens and burnt lists have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::Config => "config",
            Purpose::Join => "join",
        }
    }

    /// The name under which the burnt list has a machine's token: `config.masters-0`.
    pub fn burnt_name(self, machine: &MachineName) -> String {
        format!("{}.{machine}", self.as_str())
    }
}

/// Why a request proves nothing about who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unproven {
    /// There is no token, or more than one.
    #[error("a bearer token is needed")]
    Missing,
    /// What is there is none, or is good for nothing here.
    #[error("{0}")]
    Refused(TokenError),
    /// It is a token of another cluster.
    #[error("the token is of another cluster")]
    OtherCluster,
}

/// Why the key or the spec that tokens are judged by cannot be had.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// A file is not there.
    #[error("cannot read what tokens are judged by")]
    ReadFile {
        /// Why not.
        source: HostError,
    },
    /// The key is none.
    #[error("cannot use {} as the key of tokens", .path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: TokenError,
    },
    /// The spec is none.
    #[error("cannot understand {}", .path.display())]
    ReadSpec {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// What tokens are judged by: the key they are signed with, and the cluster they are for.
#[derive(Debug, Clone)]
pub struct TokenJudge {
    key: TokenPublicKey,
    cluster: String,
}

impl TokenJudge {
    /// Takes the key for the tokens of this cluster.
    pub fn new(key: TokenPublicKey, spec: &CompleteSpec) -> Self {
        TokenJudge { key, cluster: spec.metadata.name.as_str().to_owned() }
    }

    /// The key from its file, for the tokens of this cluster.
    pub fn read(path: PathBuf, spec: &CompleteSpec) -> Result<Self, JudgeError> {
        let bytes = read_file(&path, KEY_LIMIT).map_err(|source| JudgeError::ReadFile { source })?;
        let key = TokenPublicKey::parse_hex(&String::from_utf8_lossy(&bytes));
        Ok(TokenJudge::new(key.map_err(|source| JudgeError::ReadKey { path, source })?, spec))
    }

    /// What the token in these headers says, if it is good for this purpose now.
    pub fn prove(&self, headers: &HeaderMap, purpose: Purpose, now: OffsetDateTime) -> Result<Token, Unproven> {
        self.prove_text(bearer(headers).ok_or(Unproven::Missing)?.expose(), purpose, now)
    }

    /// What a token says, if it is good for this purpose now.
    pub fn prove_text(&self, text: &str, purpose: Purpose, now: OffsetDateTime) -> Result<Token, Unproven> {
        let token = Token::verify(text, &self.key, purpose.as_str(), now).map_err(Unproven::Refused)?;
        // The infra-id is the cluster's name and a few characters more.
        let rest = token.cluster.strip_prefix(&self.cluster);
        match rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            true => Ok(token),
            false => Err(Unproven::OtherCluster),
        }
    }
}

/// The complete spec that `prepare` left as JSON.
pub fn read_spec(path: PathBuf) -> Result<CompleteSpec, JudgeError> {
    let bytes = read_file(&path, SPEC_LIMIT).map_err(|source| JudgeError::ReadFile { source })?;
    serde_json::from_slice(&bytes).map_err(|source| JudgeError::ReadSpec { path, source })
}

/// The one bearer token of these headers.
fn bearer(headers: &HeaderMap) -> Option<Secret<String>> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (one, None) = (all.next()?, all.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| Secret::new(token.trim().to_owned()))
}

/// A folder of marks: one small file per name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Tokens that were used up, by [`Purpose::burnt_name`].
    Burnt,
    /// Machines that were given their configuration.
    Served,
    /// Machines whose etcd certificates were all issued.
    Issued,
    /// Single certificates that were issued, `etcd-peer.masters-0`.
    Signed,
}

impl Marks {
    fn folder(self) -> &'static str {
        match self {
            Marks::Burnt => "burnt",
            Marks::Served => "served",
            Marks::Issued => "issued",
            Marks::Signed => "signed",
        }
    }
}

/// The marks of a machine, on its disk.
#[derive(Debug, Clone)]
pub struct TokenFiles {
    folder: PathBuf,
}

impl TokenFiles {
    /// Where this machine keeps them.
    pub fn of(places: &Places) -> Self {
        TokenFiles { folder: places.tokens() }
    }

    /// Whether the mark is there.
    pub fn has(&self, marks: Marks, name: &str) -> bool {
        self.path(marks, name).exists()
    }

    /// Every mark of a kind. A folder that is not there yet has none.
    pub fn list(&self, marks: Marks) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.folder.join(marks.folder()));
        let names = entries.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
        // Files that are being written have names with a dot in front.
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// Makes the mark; it is there after a power cut. Names come from the spec, never from a request.
    pub fn mark(&self, marks: Marks, name: &str, now: OffsetDateTime) -> Result<(), HostError> {
        make_dir(self.folder.join(marks.folder()), Mode::PRIVATE_DIR)?;
        write_file(self.path(marks, name), rfc3339_millis(now), Mode::PRIVATE_FILE)
    }

    fn path(&self, marks: Marks, name: &str) -> PathBuf {
        self.folder.join(marks.folder()).join(name)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn marks_are_listed_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        let files = TokenFiles::of(&Places::below(dir.path()));
        let now = datetime!(2026-11-16 12:00 UTC);
        assert!(files.list(Marks::Served).is_empty());
        files.mark(Marks::Served, "masters-0", now).unwrap();
        files.mark(Marks::Served, "masters-0", now).unwrap();
        files.mark(Marks::Burnt, "config.masters-0", now).unwrap();
        assert!(files.has(Marks::Served, "masters-0") && !files.has(Marks::Issued, "masters-0"));
        assert_eq!(files.list(Marks::Burnt), BTreeSet::from(["config.masters-0".to_owned()]));
        let path = dir.path().join("var/lib/windlass/tokens/burnt/config.masters-0");
        assert_eq!(read_file(path, 100).unwrap(), b"2026-11-16T12:00:00.000Z");
    }

    #[test]
    fn one_bearer_token_is_a_token() {
        let headers = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            bearer(&headers).map(|token| token.expose().clone())
        };
        assert_eq!(headers(&["Bearer a.b"]).as_deref(), Some("a.b"));
        assert_eq!(headers(&["bearer  a.b "]).as_deref(), Some("a.b"));
        for none in [&[][..], &["Basic a.b"], &["a.b"], &["Bearer a.b", "Bearer a.b"]] {
            assert_eq!(headers(none), None, "{none:?}");
        }
    }
}
