//! The instance groups: how many machines, and which address each group's machines start from.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::Ipv4Net;

use super::InstanceGroup;
use crate::file::{AdditionalUserData, ClusterFile, Encoding, FileAsset, Hook, InstanceGroupFile, Role, UserDataType};
use crate::name::GroupName;
use crate::network::{nth, size};
use crate::problem::Problem;

const DEFAULT_MASTERS: u32 = 3;
const DEFAULT_WORKERS: u32 = 2;
const DEFAULT_CPUS: u32 = 2;
const DEFAULT_MEMORY_MIB: u32 = 4096;
/// etcd's own advice: more members make every write slower and add little safety.
const MOST_MASTERS: u32 = 7;
/// The first address for machines; those below are the gateway's, the balancer's and the bootstrap machine's.
const FIRST_MACHINE: u32 = 16;

/// Files that windlass itself writes, or whose presence means something to it.
const RESERVED: &[&str] = &[
    "/etc/kubernetes/kubelet.env",
    "/etc/kubernetes/kubelet-join.env",
    "/etc/kubernetes/kubelet.yaml",
    "/etc/kubernetes/kubelet-standalone.yaml",
    "/etc/kubernetes/manifests/etcd.yaml",
    "/etc/kubernetes/manifests/kube-apiserver.yaml",
    "/etc/kubernetes/manifests/kube-controller-manager.yaml",
    "/etc/kubernetes/manifests/kube-scheduler.yaml",
    "/etc/containerd/config.toml",
];
/// Places that are not files of the machine, or that windlass keeps to itself.
const RESERVED_PARENTS: &[&str] = &[
    "/proc/",
    "/sys/",
    "/dev/",
    "/run/",
    "/etc/kubernetes/pki/",
    "/etc/kubernetes/installer/",
    "/etc/kubernetes/config/",
    "/etc/kubernetes/checkpoints/",
    // The checkpointer's copies of control-plane pods.
    "/etc/kubernetes/manifests/checkpoint-",
    "/etc/windlass/",
    "/etc/systemd/system/",
    "/opt/windlass/",
    "/var/lib/etcd/",
    "/var/lib/windlass/",
];
/// The units of a machine in the order in which they start: who stands before one of them and after a later one would
/// be waited for by itself, and systemd leaves out one of the units of such a circle.
const ORDER: &[&str] = &[
    "k8s-node-bootstrap.service",
    "os-addons.service",
    "containerd.service",
    "kubelet.service",
    "kubelet-join.service",
];

/// The groups as decided, with everything that is wrong with them added to `problems`.
pub(super) fn decide(
    file: &ClusterFile,
    net: Ipv4Net,
    fixed: &[Ipv4Addr],
    problems: &mut Vec<Problem>,
) -> Vec<InstanceGroup> {
    let written = written(file, problems);
    check_counts(file, &written, problems);
    check_names(&written, problems);
    for (i, group) in written.iter().enumerate() {
        check_contents(group, &format!("spec.instanceGroups[{i}]"), problems);
    }
    let firsts = addresses(&written, net, fixed, problems);
    written.into_iter().zip(firsts).map(|(group, first)| decided(group, first)).collect()
}

fn decided(group: InstanceGroupFile, first_address: Ipv4Addr) -> InstanceGroup {
    InstanceGroup {
        name: group.name.unwrap_or_else(|| group_name("unnamed")),
        role: group.role.unwrap_or(Role::Worker),
        count: group.count.unwrap_or(1),
        first_address,
        cpus: group.cpus.unwrap_or(DEFAULT_CPUS),
        memory_mib: group.memory_mib.unwrap_or(DEFAULT_MEMORY_MIB),
        file_assets: group.file_assets,
        additional_user_data: group.additional_user_data,
        hooks: group.hooks,
    }
}

/// The groups as the user wrote them, in full or in short.
fn written(file: &ClusterFile, problems: &mut Vec<Problem>) -> Vec<InstanceGroupFile> {
    if let Some(groups) = &file.instance_groups {
        for (short, name) in [(file.masters, "masters"), (file.workers, "workers")] {
            if short.is_some() {
                let message = "says again what instanceGroups says: keep one of the two";
                problems.push(Problem::at(format!("spec.{name}"), message));
            }
        }
        return groups.clone();
    }
    let group = |name: &str, role, count| InstanceGroupFile {
        name: Some(group_name(name)),
        role: Some(role),
        count: Some(count),
        ..InstanceGroupFile::default()
    };
    vec![
        group("master", Role::Master, file.masters.unwrap_or(DEFAULT_MASTERS)),
        group("worker", Role::Worker, file.workers.unwrap_or(DEFAULT_WORKERS)),
    ]
}

fn group_name(name: &str) -> GroupName {
    GroupName::parse(name).expect("the default group names are good ones")
}

fn check_counts(file: &ClusterFile, groups: &[InstanceGroupFile], problems: &mut Vec<Problem>) {
    let masters = groups.iter().filter(|g| g.role == Some(Role::Master)).map(|g| g.count.unwrap_or(1));
    let masters: u32 = masters.fold(0, u32::saturating_add);
    let short = file.instance_groups.is_none();
    let path = if short { "spec.masters" } else { "spec.instanceGroups" };
    let message = match masters {
        0 => "there is no master: a cluster needs 1, or 3 to survive the loss of one".to_owned(),
        n if n > MOST_MASTERS => format!("{n} masters are more than etcd serves well: use at most {MOST_MASTERS}"),
        n if n % 2 == 0 => {
            format!("{n} masters survive no more losses than {}: use an odd number such as {}", n - 1, n + 1)
        }
        _ => return,
    };
    problems.push(Problem::at(path, message));
}

fn check_names(groups: &[InstanceGroupFile], problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    for (i, group) in groups.iter().enumerate() {
        if let Some(name) = &group.name
            && !seen.insert(name)
        {
            let message = format!("{name} is the name of an earlier group: give each its own");
            problems.push(Problem::at(format!("spec.instanceGroups[{i}].name"), message));
        }
    }
}

fn check_contents(group: &InstanceGroupFile, path: &str, problems: &mut Vec<Problem>) {
    let mut paths = BTreeSet::new();
    for (i, asset) in group.file_assets.iter().enumerate() {
        let at = format!("{path}.fileAssets[{i}]");
        if !paths.insert(&asset.path) {
            problems.push(Problem::at(format!("{at}.path"), format!("{} is written by an earlier entry", asset.path)));
        }
        problems.extend(check_file(asset, &at));
    }
    let mut names = BTreeSet::new();
    for (i, data) in group.additional_user_data.iter().enumerate() {
        let at = format!("{path}.additionalUserData[{i}]");
        if !names.insert(&data.name) {
            problems.push(Problem::at(format!("{at}.name"), format!("{} is the name of an earlier entry", data.name)));
        }
        problems.extend(check_user_data(data).map(|message| Problem::at(format!("{at}.content"), message)));
    }
    let mut names = BTreeSet::new();
    for (i, hook) in group.hooks.iter().enumerate() {
        let at = format!("{path}.hooks[{i}]");
        if !names.insert(&hook.name) {
            problems.push(Problem::at(format!("{at}.name"), format!("{} is the name of an earlier hook", hook.name)));
        }
        problems.extend(check_hook(hook).map(|(field, message)| Problem::at(format!("{at}.{field}"), message)));
    }
}

/// What is wrong with a hook, and in which field.
fn check_hook(hook: &Hook) -> impl Iterator<Item = (&'static str, String)> {
    let exec = if hook.exec.first().is_none_or(String::is_empty) {
        Some("is empty: name the command to run")
    } else if hook.image.is_none() && !hook.exec[0].starts_with('/') {
        Some("a command on the machine is named by its absolute path")
    } else {
        None
    };
    let broken = hook.exec.iter().any(|word| word.contains(['\n', '\0']));
    let broken = broken.then_some("a word of the command holds a line break");
    let image = hook.image.as_ref().filter(|image| !names_registry(image));
    let image = image.map(|image| {
        format!("{image} does not say which registry it comes from: write it in full, as registry.example/name:tag")
    });
    let exec = exec.into_iter().chain(broken).map(|message| ("exec", message.to_owned()));
    let circle = circle(hook).map(|message| ("before", message));
    exec.chain(image.map(|message| ("image", message))).chain(circle)
}

/// The runtime knows images by their full names only.
fn names_registry(image: &str) -> bool {
    let host = image.split_once('/').map(|(host, _)| host);
    host.is_some_and(|host| host.contains(['.', ':']) || host == "localhost")
}

/// A unit that would have to start before and after another.
fn circle(hook: &Hook) -> Option<String> {
    if let Some(both) = hook.before.iter().find(|unit| hook.after.contains(unit)) {
        return Some(format!("{both} is to wait for it and is waited for: keep one of the two"));
    }
    let place = |unit: &str| ORDER.iter().position(|other| *other == unit);
    let image = hook.image.as_ref().map(|_| "containerd.service");
    let after = hook.after.iter().map(String::as_str).chain(image);
    // Scripts of user data come after the node flow, and in no order with the others.
    let behind = |unit: &str| unit.starts_with("windlass-user-data-").then_some(0).or_else(|| place(unit));
    let (last, after) = after.filter_map(|unit| behind(unit).map(|at| (at, unit))).max()?;
    let (first, before) = hook.before.iter().filter_map(|unit| place(unit).map(|at| (at, unit))).min()?;
    let waits = if image == Some(after) { "a hook with an image waits for" } else { "it waits for" };
    (first <= last)
        .then(|| format!("{waits} {after}, which starts after {before}: let it stand after one and before a later one"))
}

fn check_file(asset: &FileAsset, at: &str) -> Option<Problem> {
    let taken = RESERVED.contains(&asset.path.as_str()) || RESERVED_PARENTS.iter().any(|p| asset.path.starts_with(p));
    if taken {
        let message = format!("{} is windlass' own: choose another place", asset.path);
        return Some(Problem::at(format!("{at}.path"), message));
    }
    let garbled = asset.encoding == Encoding::Base64 && STANDARD.decode(asset.content.trim()).is_err();
    garbled.then(|| Problem::at(format!("{at}.content"), "is not base64: encode it, or write encoding: text"))
}

fn check_user_data(data: &AdditionalUserData) -> Option<String> {
    match data.kind {
        UserDataType::Shell if data.content.starts_with("#!/") => None,
        UserDataType::Shell => Some("a script starts with #! and its interpreter, such as #!/bin/sh".to_owned()),
        UserDataType::Ignition => {
            let config: Option<serde_json::Value> = serde_json::from_str(&data.content).ok();
            let version = config.as_ref().and_then(|c| c["ignition"]["version"].as_str());
            match version {
                Some("3.0.0" | "3.1.0" | "3.2.0" | "3.3.0") => None,
                Some(other) => Some(format!("Ignition config version {other} is not known: use 3.3.0")),
                None => Some("is not an Ignition config: write JSON with ignition.version 3.3.0".to_owned()),
            }
        }
    }
}

/// The first address of each group: what the user wrote, else the next free block. Blocks leave room to
/// grow; where the range is too small for that, they stand side by side.
fn addresses(
    groups: &[InstanceGroupFile],
    net: Ipv4Net,
    fixed: &[Ipv4Addr],
    problems: &mut Vec<Problem>,
) -> Vec<Ipv4Addr> {
    let mut taken: Vec<Range<u32>> = fixed.iter().filter_map(|a| offset(net, *a)).map(|o| o..o + 1).collect();
    let given = take_given(groups, net, &mut taken, problems);
    let placed =
        place(groups, net, &given, taken.clone(), room_of).or_else(|| place(groups, net, &given, taken, tight));
    placed.unwrap_or_else(|| {
        let machines: u64 = groups.iter().map(|g| u64::from(g.count.unwrap_or(1))).sum();
        let message =
            format!("{net} has no room for {machines} machines beside gateway, balancer and bootstrap machine");
        problems.push(Problem::at("spec.network.machineCIDR", message));
        vec![net.network(); groups.len()]
    })
}

fn offset(net: Ipv4Net, address: Ipv4Addr) -> Option<u32> {
    net.contains(&address).then(|| u32::from(address) - u32::from(net.network()))
}

fn take_given(
    groups: &[InstanceGroupFile],
    net: Ipv4Net,
    taken: &mut Vec<Range<u32>>,
    problems: &mut Vec<Problem>,
) -> Vec<Option<u32>> {
    let mut given = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        let path = format!("spec.instanceGroups[{i}].firstAddress");
        given.push(group.first_address.and_then(|address| {
            let count = group.count.unwrap_or(1).max(1);
            let range = offset(net, address).map(|start| start..start.saturating_add(count));
            let Some(range) = range.filter(|r| u64::from(r.end) < size(net) && r.start > 0) else {
                let message = format!("{count} machines from {address} do not fit into {net}");
                problems.push(Problem::at(path, message));
                return None;
            };
            if taken.iter().any(|t| t.start < range.end && range.start < t.end) {
                problems.push(Problem::at(path, format!("machines from {address} would take addresses that are used")));
                return None;
            }
            taken.push(range.clone());
            Some(range.start)
        }));
    }
    given
}

type Room = fn(Role, u32) -> u32;

fn room_of(role: Role, count: u32) -> u32 {
    match role {
        Role::Master => count.next_multiple_of(16),
        Role::Worker => count.saturating_mul(2).next_power_of_two().max(64),
    }
}

fn tight(_: Role, count: u32) -> u32 {
    count
}

fn place(
    groups: &[InstanceGroupFile],
    net: Ipv4Net,
    given: &[Option<u32>],
    mut taken: Vec<Range<u32>>,
    room: Room,
) -> Option<Vec<Ipv4Addr>> {
    let mut firsts = Vec::new();
    for (group, given) in groups.iter().zip(given) {
        let start = match given {
            Some(start) => *start,
            None => {
                let length = room(group.role.unwrap_or(Role::Worker), group.count.unwrap_or(1).max(1));
                let start = free(&taken, length);
                // The last address of a range is its broadcast address.
                if u64::from(start) + u64::from(length) >= size(net) {
                    return None;
                }
                taken.push(start..start + length);
                start
            }
        };
        firsts.push(nth(net, start)?);
    }
    Some(firsts)
}

/// The first place for `length` addresses that touches nothing taken.
fn free(taken: &[Range<u32>], length: u32) -> u32 {
    let mut start = FIRST_MACHINE;
    while let Some(hit) = taken.iter().find(|t| t.start < start.saturating_add(length) && start < t.end) {
        start = hit.end;
    }
    start
}
