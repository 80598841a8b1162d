//! Where machines come from: one trait, one module per platform.
//!
//! This crate is for turning assets into machines, networks, names and balancers, and for removing them again. It is not
//! for what happens on those machines.
