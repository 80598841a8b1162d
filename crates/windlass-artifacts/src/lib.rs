//! Where every binary and image comes from, and why it is trusted.
//!
//! This crate is for getting the software of a cluster: pinned ([`pins`]), built or downloaded, kept in a
//! content-addressed cache, packed as images, runtime addons, machine bases and bundles, and signed. It is
//! not for running any of it.

pub mod addon;
pub mod archive;
pub mod base;
pub mod bundle;
pub mod cache;
pub mod digest;
pub mod download;
pub mod fetch;
mod fresh;
pub mod image;
pub mod keys;
pub mod oci;
pub mod pins;
pub mod progress;
pub mod release;
pub mod signature;
pub mod source;
pub mod store;
