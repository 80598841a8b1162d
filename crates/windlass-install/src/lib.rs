//! The flows of windlass and their steps: what happens in which order.
//!
//! This crate is for orchestrating: [`prepare`](prepare::prepare) turns a spec into a cluster directory,
//! [`Plan`](plan::Plan) says what launch will make of it, [`launch`](launch::launch) makes it, [`down`] removes it,
//! [`status`] and [`why`] tell how it is, and [`host`] readies the machine that windlass runs on. It is not for knowing how
//! a file or certificate looks, nor how a platform is asked; the crates below it do.
//!
//! The main types are [`Assets`](prepare::Assets), [`Given`](launch::Given) and [`Sight`](sight::Sight).

pub mod addon_keys;
pub mod bucket;
pub mod down;
pub mod evidence;
pub mod host;
pub mod launch;
pub mod logbook;
pub mod metadata;
pub mod plan;
pub mod preflight;
pub mod prepare;
pub mod sight;
pub mod software;
pub mod status;
pub mod trial;
pub mod verify;
pub mod why;
