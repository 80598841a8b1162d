//! What of the host a cluster could change, as text, to be compared before and after.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

/// Links, addresses, routes, rules, mounts, loop devices, namespaces, control groups and processes.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    parts: Vec<(&'static str, BTreeSet<String>)>,
}

impl Traces {
    /// As it is now.
    pub fn take() -> Self {
        let parts = vec![
            ("links", asked("ip", &["-o", "link"])),
            ("addresses", asked("ip", &["-o", "addr"])),
            ("routes", asked("ip", &["route", "show", "table", "all"])),
            ("rules", asked("nft", &["list", "ruleset"])),
            ("mounts", lines("/proc/self/mountinfo")),
            ("loop devices", asked("losetup", &["--list", "--noheadings", "--output", "NAME,BACK-FILE"])),
            ("network namespaces", asked("ip", &["netns", "list"])),
            ("control groups", groups()),
            ("processes", processes()),
        ];
        Traces { parts }
    }

    /// What is there now and was not before, and the other way round.
    pub fn changes(&self, before: &Traces) -> Vec<String> {
        let mut changes = Vec::new();
        for ((name, now), (_, then)) in self.parts.iter().zip(&before.parts) {
            changes.extend(now.difference(then).map(|line| format!("{name}: new: {line}")));
            changes.extend(then.difference(now).map(|line| format!("{name}: gone: {line}")));
        }
        changes
    }
}

#[expect(clippy::disallowed_methods, reason = "this crate uses nothing of ours that is under test")]
fn asked(program: &str, words: &[&str]) -> BTreeSet<String> {
    let output = std::process::Command::new(program).args(words).stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn lines(path: &str) -> BTreeSet<String> {
    // The numbers of mounts are given anew; where and what they are is in the rest of the line.
    let rest = |line: &str| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned();
    fs::read_to_string(path).unwrap_or_default().lines().map(rest).collect()
}

fn groups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let top = std::path::Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(top).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in hierarchies.chain([top.to_owned()]).map(|path| path.join("windlass")) {
        if path.exists() {
            found.insert(path.display().to_string());
        }
    }
    found
}

/// Those that a cluster has; others come and go as they like.
fn processes() -> BTreeSet<String> {
    let ours = ["systemd-nspawn", "windlass-cloud", "kubelet", "containerd", "etcd", "pasta", "slirp4netns"];
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        // What has ended and was not asked for its end yet is no process any more, and has no memory.
        let lives = fs::read_to_string(entry.path().join("statm")).is_ok_and(|pages| !pages.starts_with("0 "));
        if lives && ours.contains(&name.trim()) {
            found.insert(format!("{} {}", name.trim(), entry.file_name().to_string_lossy()));
        }
    }
    found
}
