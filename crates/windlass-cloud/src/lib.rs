//! The local cloud: machines, networks, names, balancers, volumes, groups and objects on one Linux box.
//!
//! [`model`] is what is wanted and [`store`] keeps it; [`plan`] says what to do next and [`reconcile`] does it, in a
//! [`world`]; [`cloud::Cloud`] takes the requests that [`api`] reads. It has never heard of what the machines are for.

pub mod api;
pub mod args;
pub mod balancer;
pub mod cloud;
pub mod daemon;
pub mod group;
pub mod guest;
pub mod inventory;
pub mod machine;
pub mod metadata;
pub mod model;
pub mod mounts;
pub mod names;
pub mod network;
pub mod object;
pub mod places;
pub mod plan;
pub mod process;
pub mod reconcile;
pub mod refused;
pub mod secret;
mod settle;
pub mod simulated;
pub mod store;
#[cfg(test)]
mod testing;
pub mod volume;
pub mod world;
