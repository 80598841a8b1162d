//! What runs of a machine, by what the host's kernel says.

use std::fs;
use std::path::Path;

use windlass_cloud::process::Identity;

/// The processes in one of a machine's two control groups: `machine` or `runner`.
pub fn of(cluster: &str, machine: &str, part: &str) -> Vec<Identity> {
    let group = format!("/windlass/{cluster}/{machine}/{part}");
    let is_in = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&group));
    let found = pids().into_iter().filter(|pid| is_in(*pid));
    // One that has just ended is not among them.
    found.filter_map(|pid| Identity::of(pid).ok()).filter(|one| one.is_alive().unwrap()).collect()
}

/// The process that is number 1 inside; a machine has exactly one.
pub fn leader(cluster: &str, machine: &str) -> Identity {
    let is_first = |one: &Identity| {
        let status = fs::read_to_string(format!("/proc/{}/status", one.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        line.is_some_and(|numbers| numbers.split_whitespace().collect::<Vec<_>>().get(1) == Some(&"1"))
    };
    let found: Vec<Identity> = of(cluster, machine, "machine").into_iter().filter(is_first).collect();
    assert_eq!(found.len(), 1, "first processes of {machine}: {found:?}");
    found.into_iter().next().unwrap()
}

/// Those of a machine whose program is this one.
pub fn called(cluster: &str, machine: &str, program: &str) -> Vec<Identity> {
    let command = |pid: i32| fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let is_called = |one: &Identity| String::from_utf8_lossy(&command(one.pid)).trim() == program;
    of(cluster, machine, "machine").into_iter().filter(is_called).collect()
}

/// Command lines that name a directory, but for the test's own.
pub fn naming(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let line =
        |pid: i32| String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).ok()?).replace('\0', " ").into();
    pids().into_iter().filter_map(line).filter(|line: &String| line.contains(&dir)).collect()
}

fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.unwrap().file_name().to_string_lossy().parse().ok()).collect()
}
