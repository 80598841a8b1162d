//! Pure judgements over what a host is like.

use std::time::Duration;

use time::OffsetDateTime;
use windlass_pki::{Listing, Pki};
use windlass_spec::CompleteSpec;
use windlass_spec::file::Role;
use windlass_steps::clock::rfc3339_millis;

use super::cgroup::Cgroups;
use super::host::HostFacts;

/// What a control-plane machine really uses of its memory, and a worker, when the cluster has come up.
const MASTER_MEMORY: u64 = 700 << 20;
const WORKER_MEMORY: u64 = 350 << 20;
/// What the shared images take, and each machine.
const SHARED_DISK: u64 = 4 << 30;
const MACHINE_DISK: u64 = 1 << 30;
/// Each machine's kubelet, container runtime and systemd watch files.
const INSTANCES: u64 = 24;
const WATCHES: u64 = 2000;
/// Beyond this etcd loses its leader again and again.
const SLOWEST_SYNC: Duration = Duration::from_millis(250);
/// Clocks of one host that differ by more are not of one host.
const SKEW: time::Duration = time::Duration::seconds(60);

/// What stands in the way on this host.
pub(super) fn host(facts: &HostFacts, spec: &CompleteSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if !facts.root {
        problems.push("machines are made by root, and this is another user".to_owned());
    }
    problems.extend(facts.lacking.iter().map(|feature| format!("the kernel lacks {feature}")));
    problems.extend(facts.tools.iter().map(|tool| format!("{tool} is missing: windlass host setup")));
    problems.extend(cgroups(&facts.cgroups));
    let machines = machines(spec);
    let inotify = [
        ("fs.inotify.max_user_instances", facts.inotify_instances, INSTANCES * machines),
        ("fs.inotify.max_user_watches", facts.inotify_watches, WATCHES * machines),
    ];
    for (name, found, need) in inotify {
        let too_few = found.filter(|found| *found < need);
        problems.extend(
            too_few.map(|found| format!("{name} is {found}, {machines} machines need {need}: sysctl -w {name}={need}")),
        );
    }
    let room = [
        ("memory", facts.memory_free, memory(spec)),
        ("room on the disk of the state directory", facts.disk_free, SHARED_DISK + MACHINE_DISK * machines),
    ];
    for (what, found, need) in room {
        let too_little = found.filter(|found| *found < need);
        let told =
            |found| format!("there are {} MiB of {what}, {machines} machines need {} MiB", found >> 20, need >> 20);
        problems.extend(too_little.map(told));
    }
    let slow = facts.sync.filter(|sync| *sync > SLOWEST_SYNC);
    problems.extend(slow.map(|sync| {
        format!(
            "a write takes {} ms to reach the disk of the state directory; etcd needs less than {} ms",
            sync.as_millis(),
            SLOWEST_SYNC.as_millis()
        )
    }));
    problems
}

fn cgroups(cgroups: &Cgroups) -> Option<String> {
    let (version, lacking) = match cgroups {
        Cgroups::Absent => {
            return Some("no cgroups are mounted, so that machines could not be told from each other".to_owned());
        }
        Cgroups::V1 { lacking } => ("v1", lacking),
        Cgroups::V2 { lacking } => ("v2", lacking),
    };
    let told = || format!("cgroups ({version}) lack {}, so that machines could not be bounded", lacking.join(", "));
    (!lacking.is_empty()).then(told)
}

/// Whether the clock can be right: the certificates must be valid, and files must get the same time.
pub(super) fn clock(facts: &HostFacts, now: OffsetDateTime, pki: &Pki) -> Vec<String> {
    let mut problems = Vec::new();
    let says = || format!("the clock says {}", rfc3339_millis(now));
    let certificates = Listing::of(pki, now).certificates;
    let begin = certificates.iter().map(|listed| listed.not_before).max();
    if let Some(begin) = begin.filter(|begin| *begin > now) {
        problems.push(format!("{}, but certificates are valid from {} on", says(), rfc3339_millis(begin)));
    }
    if let Some(expired) = certificates.iter().find(|listed| listed.expiry <= now) {
        problems.push(format!("{}, and {} expired at {}", says(), expired.name, rfc3339_millis(expired.expiry)));
    }
    let skewed = facts.file_time.filter(|time| (*time - now).abs() > SKEW);
    problems.extend(skewed.map(|time| format!("{}, but files are written at {}", says(), rfc3339_millis(time))));
    problems
}

/// What does not stand in the way, but is worth knowing.
pub(super) fn notices(facts: &HostFacts, edited: &[String]) -> Vec<String> {
    let taken = |port: &u16| format!("port {port} of 127.0.0.1 is taken; the API will be at another");
    let edited = edited.iter().map(|path| format!("{path} was edited since prepare, and is used as it is"));
    facts.taken_ports.iter().map(taken).chain(edited).collect()
}

fn machines(spec: &CompleteSpec) -> u64 {
    let counted = spec.spec.instance_groups.iter().map(|group| u64::from(group.count)).sum::<u64>();
    counted + 1
}

/// What all machines use, none more than it may.
fn memory(spec: &CompleteSpec) -> u64 {
    let used = |role: Role| if role == Role::Master { MASTER_MEMORY } else { WORKER_MEMORY };
    let group = |group: &windlass_spec::complete::InstanceGroup| {
        used(group.role).min(u64::from(group.memory_mib) << 20) * u64::from(group.count)
    };
    spec.spec.instance_groups.iter().map(group).sum::<u64>() + MASTER_MEMORY
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use windlass_pki::SeededKeys;
    use windlass_spec::file::read_and_complete;

    use super::*;
    use crate::preflight::{FakeHost, LookAtHost as _};

    #[test]
    fn each_thing_that_stands_in_the_way_is_told() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let good = FakeHost::good().facts();
        assert_eq!(host(&good, &spec), Vec::<String>::new());
        let cases = [
            (HostFacts { root: false, ..good.clone() }, "another user"),
            (HostFacts { lacking: vec!["vxlan (CONFIG_VXLAN)".into()], ..good.clone() }, "the kernel lacks vxlan"),
            (HostFacts { cgroups: Cgroups::Absent, ..good.clone() }, "no cgroups"),
            (
                HostFacts { cgroups: Cgroups::V1 { lacking: vec!["cpuset", "pids"] }, ..good.clone() },
                "cgroups (v1) lack cpuset, pids",
            ),
            (
                HostFacts { cgroups: Cgroups::V2 { lacking: vec!["memory"] }, ..good.clone() },
                "cgroups (v2) lack memory",
            ),
            (HostFacts { inotify_instances: Some(128), ..good.clone() }, "max_user_instances is 128, 6 machines need"),
            (HostFacts { inotify_watches: Some(8192), ..good.clone() }, "max_user_watches is 8192"),
            (HostFacts { disk_free: Some(5 << 30), ..good.clone() }, "5120 MiB of room on the disk"),
            (HostFacts { memory_free: Some(1 << 30), ..good.clone() }, "1024 MiB of memory, 6 machines need"),
            (HostFacts { sync: Some(Duration::from_secs(1)), ..good.clone() }, "1000 ms to reach the disk"),
            (HostFacts { tools: vec!["nftables (cuts)".into()], ..good.clone() }, "nftables (cuts) is missing"),
        ];
        for (facts, says) in cases {
            let problems = host(&facts, &spec);
            assert!(problems.len() == 1 && problems[0].contains(says), "{says}: {problems:?}");
        }
        let unknown = HostFacts { inotify_instances: None, disk_free: None, memory_free: None, sync: None, ..good };
        assert_eq!(host(&unknown, &spec), Vec::<String>::new(), "what is not known is not held against the host");
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_told() {
        let text = b"apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";
        let (_, spec) = read_and_complete(text).unwrap();
        let made = datetime!(2026-01-15 12:00 UTC);
        let pki = Pki::make(&spec, None, &mut SeededKeys::new("clock"), made).unwrap();
        let certificates = Listing::of(&pki, made).certificates;
        let first = certificates.iter().min_by_key(|listed| listed.expiry).unwrap();
        let (day, expired) = (time::Duration::hours(25), first.expiry + time::Duration::seconds(1));
        let told = format!("and {} expired at", first.name);
        let cases: [(OffsetDateTime, Option<OffsetDateTime>, Vec<&str>); 6] = [
            (made, Some(made), vec![]),
            (made, None, vec![]),
            (made - day, Some(made), vec!["but certificates are valid from", "but files are written at 2026-01-15"]),
            (made - day, None, vec!["but certificates are valid from"]),
            (made + day, Some(made), vec!["the clock says 2026-01-16T13:00:00.000Z, but files are written at"]),
            (expired, Some(expired), vec![told.as_str()]),
        ];
        for (now, file_time, says) in cases {
            let facts = HostFacts { file_time, ..FakeHost::good().facts() };
            let problems = clock(&facts, now, &pki);
            let all = says.iter().zip(&problems).all(|(says, problem)| problem.contains(says));
            assert!(problems.len() == says.len() && all, "{now}: {problems:?}");
        }
    }
}
