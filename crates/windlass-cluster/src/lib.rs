//! A live cluster seen through its API.
//!
//! This crate is for asking and telling the Kubernetes API: how to reach it ([`access`]), putting objects into it
//! ([`apply`]), and judging what it shows ([`ready`], pure predicates over objects). It is not for deciding what a
//! cluster should be. Its main types are [`access::Access`], [`apply::Applier`] and the predicates of [`ready`].

pub mod access;
pub mod apply;
pub mod ready;
