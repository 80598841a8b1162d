//! The one program on every machine, and in the images of the cluster's own pods.
//!
//! This crate is for what runs inside a cluster: so far the sandbox's process ([`pause`]) and the read-only cluster
//! page ([`dashboard`]). It is not for bringing machines up, which is the command line's business. Its main types are
//! [`args::Arguments`], [`dashboard::read::Reader`] (the cluster as the API tells it) and
//! [`dashboard::summary::Summary`] (what the page shows).

pub mod addons;
pub mod approver;
pub mod args;
pub mod bootstrap;
pub mod certificate;
pub mod checkpoint;
pub mod cni;
pub mod command;
pub mod config_server;
pub mod dashboard;
pub mod etcd_certs;
pub mod etcd_signer;
pub mod exit;
pub mod facts;
pub mod https;
pub mod join;
pub mod log;
pub mod machine_token;
pub mod pause;
pub mod pivot;
pub mod places;
pub mod probe;
pub mod record;
pub mod serve;
