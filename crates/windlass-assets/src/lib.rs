//! Files made from a complete spec: what launch will put on machines, and where it waits until then.
//!
//! This crate is for turning decisions into files that real consumers accept ([`Manifests`],
//! [`Units`], [`IgnitionConfigs`]) and for keeping them in a cluster directory without ever losing a
//! user's edit ([`AssetDir`]). It is not for deciding: every choice was made in the complete spec.
//!
//! The main types are [`Asset`], [`AssetDir`] and [`IgnitionConfigs`].

pub mod addon_keys;
pub mod asset;
pub mod bootstrap_assets;
pub mod config;
pub mod directory;
pub mod ignition;
pub mod kubeconfig;
pub mod lock;
pub mod manifest;
mod pki;
mod spec;
pub mod ssh;
pub mod unit;

pub use addon_keys::{AddonKeys, KeyTexts};
pub use asset::{Asset, AssetError, AssetFile};
pub use bootstrap_assets::BootstrapAssets;
pub use config::Configs;
pub use directory::{AssetDir, Draft};
pub use ignition::{BootstrapConfigs, IgnitionConfigs, RoleConfigs};
pub use kubeconfig::Kubeconfigs;
pub use lock::Lock;
pub use manifest::Manifests;
pub use ssh::SshKeys;
pub use unit::Units;
