//! Runtime addons, after seed document 004: what containerd and the kubelet of a Kubernetes version are packed in,
//! and how a machine knows that a pack is meant for it.
//!
//! A [`Manifest`] is a torcx package list, read and written in torcx's own format, with one object of ours that carries
//! what rollback protection needs; [`judge()`] decides whether a machine may follow it. The packs themselves are systemd
//! extensions ([`pack_extension`]), because torcx is no more. An [`Offer`] lists both as the files of a bucket;
//! [`publish()`] lays them out in a directory.

mod bucket;
mod error;
mod extension;
mod judge;
mod location;
mod manifest;
mod name;
mod os_release;
mod publish;

pub use bucket::{BucketContent, BucketFile, Offer, OfferedPackage};
pub use error::AddonError;
pub use extension::{ADDON_STAMP, Extension, ExtensionFile, Packed, Runtime, lay_out_extension, pack_extension};
pub use judge::{Expected, Judged, Rollback, judge};
pub use location::{Location, LocationUrl, ManifestUrl, Origins};
pub use manifest::{Manifest, Package, PackageVersion, Stamp};
pub use name::{AddonVersion, Board, NameError, OsVersion, PackageName};
pub use os_release::OsRelease;
pub use publish::{Publication, Published, PublishedPackage, publish};
