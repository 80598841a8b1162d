//! The one program on every machine, and in the images of the cluster's own pods.
//!
//! This crate is for what runs inside a cluster: so far the sandbox's process ([`pause`]) and the read-only cluster
//! page ([`dashboard`]). It is not for bringing machines up, which is the command line's business. Its main types are
//! [`args::Arguments`], [`dashboard::read::Reader`] (the cluster as the API tells it) and
//! [`dashboard::summary::Summary`] (what the page shows).

pub mod args;
pub mod command;
pub mod dashboard;
pub mod exit;
pub mod log;
pub mod pause;
