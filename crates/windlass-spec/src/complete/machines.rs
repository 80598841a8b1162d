//! The machines of a complete spec, one by one: name, role, address. Groups are the spec's way to
//! speak of many at once; flows and plans speak of each.

use std::net::Ipv4Addr;

use serde::Serialize;

use super::{CompleteSpec, InstanceGroup};
use crate::file::Role;
use crate::name::{GroupName, MachineName};

/// A machine that a spec calls for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its name, host name and Node name.
    pub name: MachineName,
    /// The group it belongs to.
    pub group: GroupName,
    /// What it is for.
    pub role: Role,
    /// Its address on the machines' network.
    pub address: Ipv4Addr,
    /// Which etcd member it carries first, counted from 0 over all masters; workers carry none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_index: Option<u32>,
}

/// Every machine of a spec, in the order of its groups. The bootstrap machine is not among them.
pub fn machines(spec: &CompleteSpec) -> Vec<Machine> {
    let mut masters = 0;
    let mut list = Vec::new();
    for group in &spec.spec.instance_groups {
        for index in 0..group.count {
            let etcd_index = (group.role == Role::Master).then(|| {
                masters += 1;
                masters - 1
            });
            list.push(machine(group, index, etcd_index));
        }
    }
    list
}

fn machine(group: &InstanceGroup, index: u32, etcd_index: Option<u32>) -> Machine {
    Machine {
        name: MachineName::of(&group.name, index),
        group: group.name.clone(),
        role: group.role,
        // `complete` has checked that the group's range lies within the machines' range.
        address: Ipv4Addr::from(u32::from(group.first_address).saturating_add(index)),
        etcd_index,
    }
}
