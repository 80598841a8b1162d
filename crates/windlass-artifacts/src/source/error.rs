//! Why a build did not give a binary, and whether that is a matter of trust.

use windlass_steps::host::HostError;

use crate::cache::CacheError;
use crate::pins::ModulesError;

/// A release that could not be built.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no Go here.
    #[error("cannot build {release}: the program go is not installed")]
    FindGo {
        /// What was to be built.
        release: String,
    },
    /// Debian packages are missing.
    #[error("cannot build {release}: it needs {}", .packages.join(", "))]
    FindPackages {
        /// What was to be built.
        release: String,
        /// The packages.
        packages: Vec<String>,
    },
    /// Its Go module could not be laid out.
    #[error("cannot lay out the Go module of {release}")]
    WriteModule {
        /// What was to be built.
        release: String,
        /// What was wrong.
        source: Box<ModulesError>,
    },
    /// Go said no.
    #[error("cannot build {binary} of {release}")]
    Build {
        /// What was to be built.
        release: String,
        /// Which of its binaries.
        binary: String,
        /// The command and the end of what it said.
        source: Box<HostError>,
    },
    /// The binary was built and does not run.
    #[error("{binary} of {release} was built and does not run")]
    TryBinary {
        /// What was built.
        release: String,
        /// Which of its binaries.
        binary: String,
        /// The command and the end of what it said.
        source: Box<HostError>,
    },
    /// The binary was built, runs, and is something else.
    #[error("{binary} of {release} was built and prints {said:?} where {wanted:?} is expected")]
    RecogniseBinary {
        /// What was built.
        release: String,
        /// Which of its binaries.
        binary: String,
        /// What its pin expects.
        wanted: String,
        /// What it printed.
        said: String,
    },
    /// The cache could not be used for it.
    #[error("cannot keep {release} in the cache")]
    UseCache {
        /// What was built or looked for.
        release: String,
        /// What was wrong.
        source: Box<CacheError>,
    },
}

impl SourceError {
    /// Whether it is about trust (exit code 9): a spoilt cache, or a module that is not the pinned one.
    pub fn is_trust(&self) -> bool {
        match self {
            SourceError::UseCache { source, .. } => source.is_trust(),
            SourceError::Build { source, .. } => is_security_error(source),
            SourceError::FindGo { .. }
            | SourceError::FindPackages { .. }
            | SourceError::WriteModule { .. }
            | SourceError::TryBinary { .. }
            | SourceError::RecogniseBinary { .. } => false,
        }
    }

    /// What to do about it; it suits a `next:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            SourceError::FindGo { .. } => {
                Some("run `windlass host setup`, or fetch with `--source release` or `--bundle FILE`".to_owned())
            }
            SourceError::FindPackages { packages, .. } => {
                Some(format!("run `apt-get install --no-install-recommends {}`", packages.join(" ")))
            }
            SourceError::Build { .. } if self.is_trust() => {
                Some("the module proxy gives something else than was pinned: look at GOPROXY".to_owned())
            }
            SourceError::Build { .. } => Some("look at what go says, then fetch again".to_owned()),
            SourceError::UseCache { source, .. } => source.hint().map(str::to_owned),
            SourceError::WriteModule { .. } | SourceError::TryBinary { .. } | SourceError::RecogniseBinary { .. } => {
                None
            }
        }
    }
}

/// Go's own words for a module whose digest is not the one in `go.sum`.
fn is_security_error(error: &HostError) -> bool {
    let says = |stderr: &str| stderr.contains("SECURITY ERROR") || stderr.contains("checksum mismatch");
    matches!(error, HostError::RunCommand { stderr, .. } if says(stderr))
}
