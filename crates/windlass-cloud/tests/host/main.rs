//! Volumes and the inventory on a real kernel: loop devices, mounts, pinned namespaces, control groups and processes, all
//! in places of the tests' own.

mod inventory;
mod presenting;
mod support;
mod volumes;
