//! The network of a cluster, which lives in namespaces of its own so that the host's links, addresses, routes and
//! firewall stay as they were: one namespace with a bridge for the cluster, one per machine, and a pair of virtual
//! links between them. Only a forwarder's listener on 127.0.0.1 is ever seen from the host.

pub mod egress;
pub mod fault;
pub mod forward;
pub mod link;
pub mod metadata;
pub mod namespace;
mod netlink;
pub mod plan;
