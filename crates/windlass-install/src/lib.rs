//! The flows of windlass and their steps: what happens in which order.
//!
//! This crate is for orchestrating: [`prepare`](prepare::prepare) turns a spec into a cluster directory,
//! [`Plan`](plan::Plan) says what launch will make of it, [`host`] readies the machine that windlass runs
//! on. It is not for knowing how a file or certificate looks; the crates below it do.
//!
//! The main types are [`Prepared`](prepare::Prepared), [`Plan`](plan::Plan) and
//! [`Metadata`](metadata::Metadata).

pub mod host;
pub mod metadata;
pub mod plan;
pub mod prepare;
pub mod verify;
