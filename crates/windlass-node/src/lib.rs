//! The one program on every machine, and in the images of the cluster's own pods.
//!
//! This crate is for what happens on a machine and inside its cluster: the units that make a node of it ([`bootstrap`],
//! [`join`], [`etcd_certs`], [`runtime_data`]; what they decide and install is in [`choice`] and [`extension`]), watch over it
//! ([`kubelet_checker`]) and run what its user added ([`hook`]), those of the bootstrap machine ([`config_server`],
//! [`etcd_signer`], [`bootstrap_assets`], [`pivot`], [`addons`]), the pods of ours ([`approver`], [`checkpoint`], [`cni`],
//! [`dashboard`], [`os_update`], [`pause`]), and what others ask of a machine ([`record`], [`health`], [`probe`]). It is not
//! for making machines, which is the command line's business. Its main types are [`args::Arguments`], [`places::Places`]
//! (where things lie), [`facts::Facts`] (who the machine is) and [`record::Record`] (what a unit says about itself).

pub mod addons;
pub mod approver;
pub mod args;
pub mod bootstrap;
pub mod bootstrap_assets;
pub mod certificate;
pub mod checkpoint;
pub mod choice;
pub mod cni;
pub mod command;
pub mod config_server;
pub mod containerd;
pub mod dashboard;
pub mod etcd_certs;
pub mod etcd_signer;
pub mod exit;
pub mod extension;
pub mod facts;
mod follow;
pub mod health;
pub mod hook;
pub mod https;
pub mod join;
pub mod kubelet_checker;
pub mod log;
pub mod machine_token;
pub mod os_update;
pub mod pause;
pub mod pivot;
pub mod places;
pub mod probe;
pub mod record;
pub mod runtime_data;
pub mod serve;
pub mod tasks;
pub mod update_engine;
