//! The vocabulary of windlass and the cluster spec, as written and as decided.
//!
//! This crate is for deciding: a [`SpecFile`] holds what a user wrote, [`complete()`] turns it into a
//! [`CompleteSpec`] in which nothing is left open, and [`explain()`] says where each value came from.
//! It is not for doing: there is no I/O here, no clock, no randomness and no async.
//!
//! The main types are [`SpecFile`], [`CompleteSpec`] and [`Problem`].

pub mod complete;
pub mod explain;
pub mod file;
pub mod flags;
pub mod init;
pub mod name;
pub mod network;
pub mod problem;
pub mod schema;
pub mod secret;
pub mod version;
pub mod yaml;

pub use complete::{CompleteSpec, complete};
pub use explain::explain;
pub use file::SpecFile;
pub use name::{ClusterName, Domain, GroupName, MachineName};
pub use network::{MachineCidr, PodCidr, ServiceCidr};
pub use problem::{Problem, Problems};
pub use secret::Secret;
pub use version::KubeVersion;
