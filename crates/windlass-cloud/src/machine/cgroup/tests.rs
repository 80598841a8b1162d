use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use windlass_steps::host::{HostError, Mode, cmd, make_dir, run, write_file};

use super::*;

const MIXED: &str = "\
31 23 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,clone_children
34 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
35 31 0:31 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd,release_agent=/x
36 31 0:32 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
37 31 0:30 / /elsewhere/memory rw,relatime - cgroup cgroup rw,memory";

fn one(top: &str, controllers: &[&str]) -> Hierarchy {
    let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
    Hierarchy { top: Path::new(top).to_owned(), version: Version::One(controllers) }
}

/// What a kernel with version 2 shows of one machine's groups.
fn fake(dir: &Path) -> Groups {
    let mut group = dir.to_owned();
    let names = ["", "windlass", "c", "m", "machine", "../runner"];
    for name in names {
        group.push(name);
        make_dir(&group, Mode::PUBLIC_DIR).unwrap();
        for (file, text) in [("cgroup.controllers", "cpuset cpu io memory pids rdma\n"), ("cgroup.procs", "")] {
            write_file(group.join(file), text, Mode::PUBLIC).unwrap();
        }
        for file in ["cgroup.subtree_control", "cgroup.kill", "memory.max", "cpu.max"] {
            write_file(group.join(file), "", Mode::PUBLIC).unwrap();
        }
    }
    let line = format!("1 2 0:3 / {} rw - cgroup2 cgroup2 rw", dir.display());
    Groups::of(Hierarchies::parse(&line), "c", "m")
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn hierarchies_are_read_from_the_list_of_mounts() {
    let unified = Hierarchy { top: "/sys/fs/cgroup/unified".into(), version: Version::Two };
    let want = [
        one("/sys/fs/cgroup/cpu,cpuacct", &["cpu", "cpuacct"]),
        one("/sys/fs/cgroup/cpuset", &["cpuset"]),
        one("/sys/fs/cgroup/memory", &["memory"]),
        one("/sys/fs/cgroup/systemd", &["name=systemd"]),
        unified,
    ];
    assert_eq!(Hierarchies::parse(MIXED).iter().cloned().collect::<Vec<_>>(), want);
    assert_eq!(Hierarchies::parse("1 2 0:3 / / rw - ext4 /dev/vda rw").iter().count(), 0);
}

#[test]
fn version_2_offers_controllers_from_the_top_down_and_limits_the_machine() {
    let dir = tempfile::tempdir().unwrap();
    let groups = fake(dir.path());
    groups.make(&Limits { memory: Some(1 << 30), millicpus: Some(1500) }).unwrap();
    for group in ["", "windlass", "windlass/c", "windlass/c/m"] {
        let file = dir.path().join(group).join("cgroup.subtree_control");
        assert_eq!(text(file), "+cpuset +cpu +io +memory +pids", "{group}");
    }
    let machine = dir.path().join("windlass/c/m/machine");
    assert_eq!(text(machine.join("cgroup.subtree_control")), "", "what is inside decides for itself");
    assert_eq!(
        (text(machine.join("memory.max")), text(machine.join("cpu.max"))),
        ("1073741824".into(), "150000 100000".into())
    );
    assert_eq!(text(dir.path().join("windlass/c/m/runner/memory.max")), "");
    let unlimited = Limits::default();
    groups.limit(&unlimited).unwrap();
    assert!(text(machine.join("memory.max")).starts_with("max"));
}

#[test]
fn version_2_moves_and_lists_processes_of_each_part() {
    let dir = tempfile::tempdir().unwrap();
    let groups = fake(dir.path());
    groups.enter(Part::Machine, 123).unwrap();
    let below = dir.path().join("windlass/c/m/machine/payload");
    make_dir(&below, Mode::PUBLIC_DIR).unwrap();
    write_file(below.join("cgroup.procs"), "7\n8\n", Mode::PUBLIC).unwrap();
    assert_eq!(groups.pids(Part::Machine).unwrap(), BTreeSet::from([7, 8, 123]));
    assert_eq!(groups.pids(Part::Runner).unwrap(), BTreeSet::new());
}

#[test]
fn limits_of_version_1_go_to_the_hierarchies_that_know_them() {
    let limits = Limits { memory: Some(4096), millicpus: Some(250) };
    let memory = limits.files(&one("/m", &["memory"]));
    assert_eq!(memory, [("memory.limit_in_bytes", "4096".to_owned())]);
    let cpu = limits.files(&one("/c", &["cpu", "cpuacct"]));
    assert_eq!(cpu, [("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", "25000".to_owned())]);
    assert!(limits.files(&one("/p", &["pids"])).is_empty());
}

/// Removes the groups of a test whatever happened to it.
struct Cleaned(Groups);

impl Drop for Cleaned {
    fn drop(&mut self) {
        let _ = self.0.remove();
        self.0.remove_parents();
    }
}

#[tokio::test]
#[ignore = "needs root and the host's control groups"]
async fn a_group_of_this_host_is_made_limited_killed_and_removed() {
    let groups = Groups::of(Hierarchies::of_host().unwrap(), "cgroup-test", "one");
    let cleaned = Cleaned(groups.clone());
    groups.make(&Limits { memory: Some(64 << 20), millicpus: Some(500) }).unwrap();
    groups.make(&Limits { memory: Some(64 << 20), millicpus: Some(500) }).unwrap();
    let script = "sleep 1000 & sleep 1000 & kill -STOP $!; echo $$; exec sleep 1000";
    let sleeping = tokio::spawn(run(cmd("sh").args(["-c", &format!("read x; {script}")]).stdin("go\n")));
    let shell = until_a_child_named("sleep").await;
    for pid in family(shell) {
        groups.enter(Part::Machine, pid).unwrap();
    }
    assert_eq!(groups.pids(Part::Machine).unwrap().len(), 3);
    let used = groups.usage();
    assert!(used.cpu.is_some() && used.memory.is_some_and(|bytes| bytes < 64 << 20), "{used:?}");
    freeze(&groups);
    groups.kill(Part::Machine).await.unwrap();
    let ended = sleeping.await.unwrap().unwrap_err();
    assert!(matches!(ended, HostError::RunCommand { status, .. } if status.signal() == Some(9)), "{ended}");
    assert!(groups.pids(Part::Machine).unwrap().is_empty());
    groups.remove().unwrap();
    groups.remove().unwrap();
    assert!(!groups.exist());
    drop(cleaned);
}

/// As a container runtime inside may have done to a container.
fn freeze(groups: &Groups) {
    for hierarchy in groups.hierarchies.iter() {
        let group = groups.group(hierarchy, Part::Machine);
        let state = group.join("freezer.state");
        if state.exists() {
            write(&state, "FROZEN").unwrap();
        }
    }
}

/// The youngest child of ours with this program.
async fn until_a_child_named(program: &'static str) -> i32 {
    let look = move || children(std::process::id().try_into().unwrap()).into_iter().find(|pid| is(*pid, program));
    let silent = move || look().is_none().then(|| "not yet".to_owned());
    crate::machine::settle::until_silent("the program runs", Duration::from_secs(10), silent).await.unwrap();
    look().unwrap()
}

fn is(pid: i32, program: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == program)
}

fn family(pid: i32) -> Vec<i32> {
    [vec![pid], children(pid)].concat()
}

fn children(parent: i32) -> Vec<i32> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let of_parent = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let above = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<i32>().ok());
        above == Some(parent)
    };
    processes.filter(of_parent).collect()
}
