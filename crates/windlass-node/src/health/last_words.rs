//! What a container said last, from the files that the kubelet keeps of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use windlass_steps::host::read_file;

/// More than any container of ours says before it ends.
const LIMIT: u64 = 64 << 20;
/// What a line is looked at for; the last of many lines is often only where in the program it happened.
const GRAVE: [&str; 6] = ["panic", "fatal", "error", "failed", "cannot", "no space left"];
const LOOKED_AT: usize = 40;
const LONGEST: usize = 400;

/// How often a container has begun, and the gravest of its last lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// The kubelet counts from nought.
    pub begun: u32,
    /// One line.
    pub words: String,
}

/// What the container of the newest pod of this name has said.
pub fn of(logs: &Path, namespace: &str, pod: &str, container: &str) -> Option<Said> {
    let prefix = format!("{namespace}_{pod}_");
    let pods = entries(logs).into_iter().filter(|path| name(path).starts_with(&prefix));
    let newest = pods.max_by_key(|path| modified(&path.join(container)))?;
    let number = |path: &PathBuf| name(path).strip_suffix(".log")?.parse::<u32>().ok();
    let (begun, last) = entries(&newest.join(container)).iter().filter_map(|p| Some((number(p)?, p.clone()))).max()?;
    let bytes = read_file(&last, LIMIT).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(Said { begun: begun + 1, words: brief(gravest(&text)) })
}

/// A line of which no more is kept than one reads.
pub fn brief(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn gravest(text: &str) -> &str {
    let lines: Vec<&str> = text.lines().map(message).filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LOOKED_AT)..];
    let is_grave = |line: &&&str| {
        let line = line.to_ascii_lowercase();
        GRAVE.iter().any(|word| line.contains(word))
    };
    last.iter().rev().find(is_grave).or(last.last()).copied().unwrap_or("nothing")
}

/// A line without the time, the stream and the mark that the runtime puts before it.
fn message(line: &str) -> &str {
    line.splitn(4, ' ').nth(3).unwrap_or(line)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    #[test]
    fn the_gravest_of_the_last_lines_of_the_last_beginning_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path();
        assert_eq!(of(logs, "kube-system", "etcd-a", "etcd"), None);
        let folder = logs.join("kube-system_etcd-a_u1/etcd");
        make_dir(&folder, Mode::PUBLIC_DIR).unwrap();
        let line = |text: &str| format!("2026-11-17T10:00:00.1Z stderr F {text}\n");
        write_file(folder.join("9.log"), line("an older error"), Mode::PUBLIC).unwrap();
        let last = line("starting") + &line("panic: no space left on device") + &line("goroutine 1 [running]:");
        write_file(folder.join("10.log"), last, Mode::PUBLIC).unwrap();
        let said = of(logs, "kube-system", "etcd-a", "etcd").unwrap();
        assert_eq!(said, Said { begun: 11, words: "panic: no space left on device".to_owned() });
        write_file(folder.join("11.log"), line("only this"), Mode::PUBLIC).unwrap();
        assert_eq!(of(logs, "kube-system", "etcd-a", "etcd").unwrap().words, "only this");
        write_file(folder.join("12.log"), "", Mode::PUBLIC).unwrap();
        assert_eq!(of(logs, "kube-system", "etcd-a", "etcd").unwrap().words, "nothing");
        assert_eq!(of(logs, "kube-system", "etcd", "etcd"), None, "another pod's name is not this one's");
    }

    #[test]
    fn what_is_long_is_cut_between_letters() {
        assert_eq!(brief(" short "), "short");
        assert_eq!(brief(&"ü".repeat(500)).chars().count(), LONGEST + 1);
    }
}
