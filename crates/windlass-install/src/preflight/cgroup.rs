//! How cgroups are mounted, and which controllers machines are bounded with are not there.

use std::fs;
use std::path::Path;

/// What a machine's share of the host is bounded and counted with; its kubelet does not start without them.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// How cgroups are mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroups {
    /// One hierarchy.
    V2 {
        /// Controllers that are needed and not there.
        lacking: Vec<&'static str>,
    },
    /// Several hierarchies.
    V1 {
        /// Controllers that are needed and not mounted, or switched off.
        lacking: Vec<&'static str>,
    },
    /// None: no machine can be bounded or told from another.
    Absent,
}

impl Cgroups {
    /// Those of this host.
    pub(super) fn of_this_host() -> Self {
        let unified = fs::read_to_string(Path::new("/sys/fs/cgroup/cgroup.controllers")).ok();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let known = fs::read_to_string("/proc/cgroups").unwrap_or_default();
        judge(unified.as_deref(), &mounts, &known)
    }
}

/// From the single hierarchy's list of controllers if there is one, what is mounted, and what the kernel knows.
fn judge(unified: Option<&str>, mounts: &str, known: &str) -> Cgroups {
    if let Some(controllers) = unified {
        return Cgroups::V2 { lacking: without(|needed| controllers.split_whitespace().any(|one| one == needed)) };
    }
    let fields = |line: &'_ str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mounted: Vec<Vec<String>> =
        mounts.lines().map(fields).filter(|mount| mount.get(2).is_some_and(|kind| kind == "cgroup")).collect();
    if mounted.is_empty() {
        return Cgroups::Absent;
    }
    let is_mounted = |needed: &str| {
        mounted.iter().filter_map(|mount| mount.get(3)).any(|options| options.split(',').any(|option| option == needed))
    };
    Cgroups::V1 { lacking: without(|needed| is_mounted(needed) && !is_switched_off(known, needed)) }
}

/// Whether the kernel says so: a line is name, hierarchy, number of cgroups, and 1 or 0.
fn is_switched_off(known: &str, controller: &str) -> bool {
    let lines = known.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut lines = lines.filter(|fields| fields.first() == Some(&controller));
    lines.any(|fields| fields.get(3) == Some(&"0"))
}

fn without(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    NEEDED.into_iter().filter(|needed| !is_there(needed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
        cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const PIDS: &str = "cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0\n";

    #[test]
    fn controllers_that_are_not_there_are_named() {
        let with_pids = format!("{MOUNTS}{PIDS}");
        let off = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t0\t1\t0\n";
        let v1 = |lacking: &[&'static str]| Cgroups::V1 { lacking: lacking.to_vec() };
        let v2 = |lacking: &[&'static str]| Cgroups::V2 { lacking: lacking.to_vec() };
        let cases = [
            (Some("cpuset cpu io memory hugetlb pids\n"), "", "", v2(&[])),
            (Some("cpu io\n"), MOUNTS, "", v2(&["cpuset", "memory", "pids"])),
            (Some(""), "", "", v2(&["cpu", "cpuset", "memory", "pids"])),
            (None, with_pids.as_str(), "", v1(&[])),
            (None, MOUNTS, "", v1(&["pids"])),
            (None, with_pids.as_str(), off, v1(&["memory"])),
            (None, "tmpfs / tmpfs rw 0 0\n", off, Cgroups::Absent),
        ];
        for (unified, mounts, known, want) in cases {
            assert_eq!(judge(unified, mounts, known), want, "{unified:?} {mounts} {known}");
        }
    }
}
