//! How a running cluster takes an OS update, in the protocol of the container-linux-update-operator: on every machine an
//! [`agent`] that says when its machine needs a reboot and reboots it when told, one [`coordinator`] that lets one machine
//! at a time, and a [`hook`] that prepares a machine for its next OS before it may go. They speak to each other only
//! through annotations and labels of Nodes ([`protocol`]), so that each may die at any time.

pub mod agent;
pub mod coordinator;
pub mod hook;
pub mod protocol;

mod wake;

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;
