//! Keys, signers, certificates, requests and kubeconfigs: who may speak as whom in a cluster.
//!
//! This crate is for deciding what every key and certificate says and for making them: one
//! [`table`] lists them all, [`Pki::make`] turns a complete spec into the whole set, a [`Signer`]
//! issues the rest to machines while the cluster runs. It is not for keeping them: there is no I/O
//! here, the clock is a parameter, and so is randomness ([`KeySource`]).
//!
//! Everything is ECDSA P-256 with RFC 6979 signatures, so that the same keys and the same moment
//! give the same bytes. Only SSH keys ([`SshKey`]) are Ed25519, as SSH itself prefers.
//!
//! The main types are [`Pki`], [`Signer`] and [`Certificate`].

pub mod certificate;
pub mod error;
pub mod key;
pub mod kubeconfig;
pub mod list;
mod pem;
pub mod pki;
pub mod reference;
pub mod request;
mod signed;
pub mod signer;
pub mod ssh;
pub mod table;
pub mod template;

pub use certificate::{Certificate, CertificateError, Kind};
pub use error::PkiError;
pub use key::{KeyError, KeySource, PrivateKey, PublicKey, RandomKeys, SeededKeys, Serial};
pub use kubeconfig::Kubeconfig;
pub use list::Listing;
pub use pki::{CertificateName, Contents, Issued, KeyName, Pki, PkiFile};
pub use request::RequestError;
pub use signer::{SignError, Signer};
pub use ssh::{SshKey, SshKeyError};
pub use table::{Authority, Leaf, MachineIdentity, MachineLeaf, Pair};
pub use template::{San, Subject, Template, Usages};

#[cfg(test)]
mod testing;
