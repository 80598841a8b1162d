//! The platform's resources, in the order in which launch needs them.

use serde::Serialize;
use windlass_platform::BUCKET;
use windlass_spec::file::{Delivery, Platform, Role, Topology};

use super::PlannedMachine;
use crate::prepare::Assets;

/// Something that the platform will hold for the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// What kind of thing it is.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What there is to know about it.
    pub detail: String,
    /// The tag that makes it the cluster's.
    pub tag: String,
}

/// Every resource of a cluster.
pub(super) fn of(assets: &Assets, machines: &[PlannedMachine]) -> Vec<Resource> {
    let spec = &assets.spec;
    let network = &spec.spec.network;
    let id = &assets.metadata.infra_id;
    let tag = assets.metadata.tag();
    let mut list = Vec::new();
    let mut add = |kind, name: String, detail: String| list.push(Resource { kind, name, detail, tag: tag.clone() });

    add("network", id.clone(), format!("{} gateway {} mtu {}", network.machine_cidr, network.gateway, network.mtu));
    add("zone", spec.spec.domain.to_string(), "authoritative, TTL 1 s".to_owned());
    add("balancer", id.clone(), format!("{} ports 6443, 22623, HTTPS /readyz", network.balancer));
    add("record", spec.api_name(), network.balancer.to_string());
    add("record", spec.api_internal_name(), network.balancer.to_string());
    for machine in machines {
        if let Some(index) = machine.etcd_index {
            add("record", spec.etcd_name(index), machine.address.to_string());
        }
    }
    if let Platform::Local(local) = &spec.spec.platform {
        add("record", format!("objects.internal.{}", spec.spec.domain), network.gateway.to_string());
        let door = format!("to the API, on 127.0.0.1:{}, or another port if that is taken", local.api_port);
        add("forwarder", "api".to_owned(), door);
        let addons = format!("runtime addons of Kubernetes {}, signed", spec.spec.kubernetes_version);
        add("objects", format!("{BUCKET}/"), addons);
    }
    match spec.spec.topology {
        Topology::SelfHosted => {
            let expires = "expires, deleted after use";
            add("object", "bootstrap.ign".to_owned(), expires.to_owned());
            match (spec.spec.bootstrap_assets, &spec.spec.platform) {
                (Delivery::Pull, _) => add("object", "bootstrap-assets.json".to_owned(), expires.to_owned()),
                (Delivery::Push, Platform::Local(_)) => {
                    let door = "to the bootstrap machine's sshd, on a free port, closed after use";
                    add("forwarder", "ssh-bootstrap".to_owned(), door.to_owned());
                }
                (Delivery::Push, _) => {}
            }
        }
        Topology::Volumes => {
            for index in 0..spec.count(Role::Master) {
                add("volume", format!("etcd-{index}"), "moves between masters".to_owned());
            }
        }
    }
    for group in &spec.spec.instance_groups {
        let size = format!("{} {}, {} cpus, {} MiB each", group.count, group.role, group.cpus, group.memory_mib);
        add("group", group.name.to_string(), size);
    }
    for machine in machines {
        let end = if machine.group.is_none() { ", destroyed after use" } else { "" };
        add("machine", machine.name.clone(), format!("{} {}{end}", machine.role, machine.address));
    }
    list
}
