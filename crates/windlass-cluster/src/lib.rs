//! A live cluster seen through its API.
//!
//! This crate is for asking and telling the Kubernetes API: how to reach it ([`access`]), whether one answers
//! ([`version`]), putting objects into it ([`apply`]), judging what it shows ([`ready`], pure predicates over objects),
//! and saying what went wrong ([`failure`]). It is not for deciding what a cluster should be. Its main types are
//! [`access::Access`], [`apply::Applier`] and the predicates of [`ready`].

pub mod access;
pub mod apply;
pub mod failure;
pub mod ready;
pub mod version;
