//! The whole host before and after, for tests and drills that must leave no trace: links, addresses, routes, rules of the
//! packet filters, mounts, pinned namespaces, loop devices, control groups, processes and files, each as lines of text
//! that can be compared.
//!
//! What is looked at is bounded: control groups two levels deep, and of the files those in [`PLACES`], which is where
//! machines, namespaces and units leave things. Kernel threads, our own process and its children, zombies, and loop
//! devices without a file (the kernel never takes those back) are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_steps::host::{HostError, cmd, run_blocking};
use windlass_steps::report::chain;

use super::{cgroups, look};
use crate::mounts::{self, Mount};
use crate::process::{Condition, Stat, stat_of};
use crate::volume::{holders, loops};

/// The directories whose files are compared, and how deep; of those at depth 0 only what has a name like ours.
pub const PLACES: [(&str, u32); 14] = [
    ("/dev", 1),
    ("/dev/disk", 2),
    ("/etc", 1),
    ("/etc/netns", 2),
    ("/etc/systemd/system", 2),
    ("/run", 1),
    ("/run/netns", 1),
    ("/run/systemd", 1),
    ("/run/systemd/nspawn", 3),
    ("/run/windlass", 4),
    ("/tmp", 0),
    ("/var/lib", 1),
    ("/var/lib/machines", 1),
    ("/var/tmp", 0),
];

const OURS: [&str; 4] = ["windlass", "nspawn", "ignition", "machine"];
const GROUP_DEPTH: u32 = 2;

/// What the host looked like at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSnapshot {
    sections: BTreeMap<String, Vec<String>>,
}

impl HostSnapshot {
    /// Looks at everything but these files and what is below them. What could not be looked at is in the result as a
    /// line of its own, so that it shows when it changes.
    pub fn take(but: &[&Path]) -> Self {
        let table = mounts::own();
        let of_table = |lines: fn(&[Mount]) -> Vec<String>| table.as_ref().map_or_else(could_not, |table| lines(table));
        let sections = [
            ("links", ip(&["link", "show"])),
            ("addresses", ip(&["address", "show"])),
            (
                "routes",
                [ip(&["-4", "route", "show", "table", "all"]), ip(&["-6", "route", "show", "table", "all"])].concat(),
            ),
            ("rules", [ip(&["-4", "rule", "show"]), ip(&["-6", "rule", "show"])].concat()),
            ("packet filters", [filter("nft", &["list", "ruleset"]), filter("iptables-save", &[])].concat()),
            ("namespaces", of_table(pinned)),
            ("mounts", of_table(mounted)),
            ("loop devices", loop_devices()),
            ("control groups", of_table(groups)),
            ("processes", processes().unwrap_or_else(|error| could_not(&error))),
            ("files", files(but)),
        ];
        let sorted = sections.into_iter().map(|(name, mut lines)| {
            lines.sort();
            (name.to_owned(), lines)
        });
        Self { sections: sorted.collect() }
    }

    /// What there is of one kind.
    pub fn section(&self, name: &str) -> &[String] {
        self.sections.get(name).map_or(&[], Vec::as_slice)
    }
}

/// What came and what went, one line each, beginning with the kind; nothing if the host is as it was.
pub fn difference(before: &HostSnapshot, after: &HostSnapshot) -> Vec<String> {
    let names: BTreeSet<&String> = before.sections.keys().chain(after.sections.keys()).collect();
    let mut lines = Vec::new();
    for name in names {
        let (was, is) = (before.section(name), after.section(name));
        lines.extend(without(was, is).map(|line| format!("{name}: gone: {line}")));
        lines.extend(without(is, was).map(|line| format!("{name}: new: {line}")));
    }
    lines
}

/// The lines of one that the other has not, or has fewer times.
fn without<'a>(one: &'a [String], other: &[String]) -> impl Iterator<Item = &'a String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    other.iter().for_each(|line| *counts.entry(line.clone()).or_default() += 1);
    one.iter().filter(move |line| match counts.get_mut(*line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    })
}

fn could_not(error: &io::Error) -> Vec<String> {
    vec![format!("could not look: {error}")]
}

/// One line for each thing that `ip` tells, without what changes by itself.
fn ip(question: &[&str]) -> Vec<String> {
    let answer = run_blocking(cmd("ip").arg("-json").args(question)).map_err(|error| told(&error));
    // A host without IPv6 answers with nothing at all.
    let parse = |bytes: &[u8]| match bytes.trim_ascii().is_empty() {
        true => Ok(Vec::new()),
        false => serde_json::from_slice::<Vec<Value>>(bytes).map_err(|error| error.to_string()),
    };
    match answer.and_then(|output| parse(&output.stdout)) {
        Ok(things) => things.into_iter().map(lasting).map(|thing| thing.to_string()).collect(),
        Err(reason) => vec![format!("could not look: {reason}")],
    }
}

fn lasting(thing: Value) -> Value {
    const VOLATILE: [&str; 5] = ["valid_life_time", "preferred_life_time", "expires", "cache", "stats64"];
    match thing {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name, lasting(value))).collect())
        }
        Value::Array(things) => Value::Array(things.into_iter().map(lasting).collect()),
        plain => plain,
    }
}

/// The rules as the tool prints them; a host without the tool has none that we could have made.
fn filter(program: &str, args: &[&str]) -> Vec<String> {
    match run_blocking(cmd(program).args(args)) {
        Ok(output) => rules(program, &String::from_utf8_lossy(&output.stdout)),
        Err(HostError::FindProgram { .. }) => Vec::new(),
        Err(error) => vec![format!("{program}: could not look: {}", told(&error))],
    }
}

/// Comments carry dates, and counters count.
fn rules(program: &str, text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| format!("{program}: {}", without_counters(line))).collect()
}

fn without_counters(line: &str) -> String {
    let mut words = Vec::new();
    let mut rest = line.split_ascii_whitespace();
    while let Some(word) = rest.next() {
        let is_pair = word.starts_with('[') && word.ends_with(']') && word.contains(':');
        match word {
            "packets" | "bytes" => drop(rest.next()),
            _ if is_pair => {}
            word => words.push(word),
        }
    }
    words.join(" ")
}

fn told(error: &HostError) -> String {
    chain(error).join(": ")
}

fn pinned(table: &[Mount]) -> Vec<String> {
    let pins = table.iter().filter(|mount| mount.is_pin());
    pins.map(|mount| format!("{} on {}", mount.root.display(), mount.target.display())).collect()
}

fn mounted(table: &[Mount]) -> Vec<String> {
    let others = table.iter().filter(|mount| !mount.is_pin());
    others.map(|mount| format!("{} {} on {}", mount.kind, mount.source.display(), mount.target.display())).collect()
}

fn loop_devices() -> Vec<String> {
    match loops::list() {
        Ok(all) => all.iter().map(|one| format!("{} of {}", one.device.display(), one.file.display())).collect(),
        Err(error) => vec![format!("could not look: {}", chain(&error).join(": "))],
    }
}

fn groups(table: &[Mount]) -> Vec<String> {
    let mut found = Vec::new();
    for hierarchy in cgroups::hierarchies(table) {
        tree(&hierarchy, GROUP_DEPTH, &|path| found_group(path), &mut found);
    }
    found
}

fn found_group(path: &Path) -> Option<String> {
    path.is_dir().then(|| path.display().to_string())
}

fn processes() -> io::Result<Vec<String>> {
    let look = |pid| stat_of(pid).map_err(io::Error::other);
    let mut all: BTreeMap<i32, Stat> = BTreeMap::new();
    for pid in holders::pids()? {
        all.extend(look(pid)?.map(|stat| (pid, stat)));
    }
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let is_other = |pid: &i32| !lineage(&all, *pid).any(|pid| pid == own || pid == KERNEL_THREADS);
    let living = all.iter().filter(|(_, stat)| stat.condition() != Condition::Gone).filter(|(pid, _)| is_other(pid));
    let line = living.map(|(pid, stat)| {
        let parent = all.get(&stat.parent).map_or("nobody", |parent| parent.name.as_str());
        format!("{} (child of {parent})", look::command_of(*pid))
    });
    Ok(line.collect())
}

/// The parent of all kernel threads.
const KERNEL_THREADS: i32 = 2;

/// The process, its parent, and so on. Numbers may be reused while we look, so it ends after as many steps as there are.
fn lineage(all: &BTreeMap<i32, Stat>, pid: i32) -> impl Iterator<Item = i32> {
    let parent = |pid: &i32| all.get(pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), parent).take(all.len())
}

fn files(but: &[&Path]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for (place, depth) in PLACES {
        let mut lines = Vec::new();
        let describe = |path: &Path| match but.iter().any(|left_out| path.starts_with(left_out)) {
            true => None,
            false => found_file(path, depth),
        };
        tree(Path::new(place), depth.max(1), &describe, &mut lines);
        found.extend(lines);
    }
    found.into_iter().collect()
}

fn found_file(path: &Path, depth: u32) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let is_ours = OURS.iter().any(|part| name.contains(part));
    let is_loop = path.parent() == Some(Path::new("/dev")) && name.starts_with("loop");
    if is_loop || (depth == 0 && !is_ours) {
        return None;
    }
    let file = fs::symlink_metadata(path).ok()?;
    // Only the host's settings are compared by content, as far as size and time tell.
    let content = match file.is_file() && path.starts_with("/etc") {
        true => format!(" {} bytes of {}.{:09}", file.len(), file.mtime(), file.mtime_nsec()),
        false => String::new(),
    };
    Some(format!("{} {:o}{content}", path.display(), file.mode()))
}

/// Describes what is in a directory, and below it if that is a directory and not a link; without the ones that have no
/// description.
fn tree(dir: &Path, depth: u32, describe: &dyn Fn(&Path) -> Option<String>, found: &mut Vec<String>) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return found.push(format!("{}: could not look: {error}", dir.display())),
    };
    let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for path in paths {
        let Some(line) = describe(&path) else { continue };
        found.push(line);
        if depth > 1 && fs::symlink_metadata(&path).is_ok_and(|file| file.is_dir()) {
            tree(&path, depth - 1, describe, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(name: &str, lines: &[&str]) -> HostSnapshot {
        let lines = lines.iter().map(ToString::to_string).collect();
        HostSnapshot { sections: BTreeMap::from([(name.to_owned(), lines)]) }
    }

    #[test]
    fn the_difference_counts_and_names_what_came_and_went() {
        let cases: [(&[&str], &[&str], &[&str]); 4] = [
            (&["a", "b"], &["a", "b"], &[]),
            (&["a"], &["a", "a"], &["x: new: a"]),
            (&["a", "a", "b"], &["a"], &["x: gone: a", "x: gone: b"]),
            (&["a"], &["b"], &["x: gone: a", "x: new: b"]),
        ];
        for (before, after, want) in cases {
            assert_eq!(difference(&of("x", before), &of("x", after)), want);
        }
        assert_eq!(difference(&of("x", &["a"]), &of("y", &["a"])), ["x: gone: a", "y: new: a"]);
    }

    #[test]
    fn what_changes_by_itself_is_left_out() {
        let cases = [
            ("counter packets 12 bytes 300 drop", "counter drop"),
            (":INPUT ACCEPT [12:345]", ":INPUT ACCEPT"),
            ("[1:2] -A INPUT -j DROP", "-A INPUT -j DROP"),
        ];
        for (line, want) in cases {
            assert_eq!(without_counters(line), want);
        }
        assert_eq!(rules("nft", "# made at noon\n\n  drop\n"), ["nft: drop"]);
        let thing = json!({"ifname": "eth0", "addr_info": [{"local": "::1", "valid_life_time": 7}], "stats64": {}});
        assert_eq!(lasting(thing), json!({"ifname": "eth0", "addr_info": [{"local": "::1"}]}));
    }

    #[test]
    fn a_file_of_ours_is_seen_and_one_that_is_left_out_is_not() {
        let dir = tempfile::Builder::new().prefix("windlass-snapshot-").tempdir_in("/tmp").unwrap();
        let path = dir.path().display().to_string();
        let sees = |snapshot: &HostSnapshot| snapshot.section("files").iter().any(|line| line.starts_with(&path));
        assert!(sees(&HostSnapshot::take(&[])));
        assert!(!sees(&HostSnapshot::take(&[dir.path()])));
    }

    #[test]
    fn what_anyone_may_look_at_is_seen() {
        let snapshot = HostSnapshot::take(&[]);
        for name in ["links", "addresses", "mounts", "processes"] {
            let lines = snapshot.section(name);
            assert!(!lines.is_empty(), "{name}");
            assert_eq!(lines.iter().find(|line| line.contains("could not look")), None, "{name}");
        }
    }
}
