//! The one program on every machine, and in the images of the cluster's own pods.
//!
//! This crate is for what happens on a machine and inside its cluster: the units that make a node of it ([`bootstrap`],
//! [`join`], [`etcd_certs`]), those of the bootstrap machine ([`config_server`], [`etcd_signer`], [`pivot`], [`addons`]),
//! the pods of ours ([`approver`], [`checkpoint`], [`cni`], [`dashboard`], [`pause`]), and what others ask of a machine
//! ([`record`], [`health`], [`probe`]). It is not for making machines, which is the command line's business. Its main
//! types are [`args::Arguments`], [`places::Places`] (where things lie), [`facts::Facts`] (who the machine is) and
//! [`record::Record`] (what a unit says about itself).

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
pub mod health;
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
pub mod tasks;
