//! What a machine could leave behind on the host.

use std::fs;
use std::path::{Path, PathBuf};

/// Mounts, processes, files and control groups of a machine whose things lay below `dir`; other tests have their own.
pub fn left_of(dir: &Path, machine: &str, cluster: &str) -> Vec<String> {
    let path = dir.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut left: Vec<String> = mounts.lines().filter(|line| line.contains(&path)).map(str::to_owned).collect();
    left.extend(command_lines().filter(|line| line.contains(&path)));
    let group = Path::new("windlass").join(cluster).join(machine);
    let tops = [vec![PathBuf::from("/sys/fs/cgroup")], below(Path::new("/sys/fs/cgroup"))].concat();
    let propagate = Path::new("/run/systemd/nspawn/propagate").join(format!("{machine}.{cluster}"));
    let places = tops.iter().map(|top| top.join(&group)).chain([dir.to_owned(), propagate]);
    left.extend(places.filter(|place| place.exists()).map(|place| place.display().to_string()));
    left
}

fn below(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn command_lines() -> impl Iterator<Item = String> {
    let lines = below(Path::new("/proc")).into_iter().filter_map(|process| fs::read(process.join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
}
