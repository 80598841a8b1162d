//! What can go wrong with a whole set of keys and certificates. No message ever holds a key.

use windlass_spec::MachineName;

use crate::certificate::CertificateError;
use crate::key::KeyError;
use crate::signer::SignError;

/// Why a set of keys and certificates could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The operating system gave no randomness.
    #[error("cannot draw a seed from the operating system's randomness")]
    DrawSeed {
        /// What it said.
        source: getrandom::Error,
    },
    /// An authority's certificate was refused as a signer, or a certificate could not be signed.
    #[error("cannot issue the certificate {name}")]
    IssueCertificate {
        /// Its row in the table.
        name: &'static str,
        /// What stood in the way.
        source: SignError,
    },
    /// A file of the set is not there.
    #[error("{path} is missing")]
    FindFile {
        /// The file, relative to the assets.
        path: String,
    },
    /// A file that should hold a key does not.
    #[error("cannot read {path} as a key")]
    ReadKey {
        /// The file, relative to the assets.
        path: String,
        /// What is wrong with it.
        source: KeyError,
    },
    /// A file that should hold a certificate does not.
    #[error("cannot read {path} as a certificate")]
    ReadCertificate {
        /// The file, relative to the assets.
        path: String,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// A certificate or public key belongs to another private key.
    #[error("{path} does not belong to {key}")]
    MatchKey {
        /// The public half.
        path: String,
        /// The private half.
        key: String,
    },
    /// An etcd certificate was asked for a machine that carries no member.
    #[error("{machine} carries no etcd member, so it gets no {name} certificate")]
    NameMember {
        /// The machine.
        machine: MachineName,
        /// The certificate's row in the table.
        name: &'static str,
    },
}
