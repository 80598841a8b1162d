//! Drives the built programs from outside, on real machines.
//!
//! This crate is for tests of whole clusters and is not shipped. [`Installation`] is a cluster directory with a local cloud
//! of its own; [`Ran`] is what came of a command; [`host::Traces`] is what of the host a cluster could change. What
//! belongs to every change is in `tests/cluster` and, for the node flow on [`ground::Ground`], `tests/node`; what takes longer
//! is in `tests/drill` and `tests/node_drill`, which `cargo xtask drill launch` and `cargo xtask drill node` run.

pub mod additions;
pub mod etcd;
pub mod ground;
pub mod host;
mod installation;
pub mod journal;
pub mod kubelet;
pub mod poll;
pub mod power;
pub mod systemd;
pub mod told;

pub use installation::{Installation, Ran, Shape, until};
