//! Whether memory sufficed: the kernel counts whom it killed for the want of it.

use std::fs;
use std::path::Path;

use super::unmet;
use crate::places::Places;
use crate::record::Unmet;

/// The folders with the counts, and the file in each: cgroup v1, where every group counts for itself, and v2, where the
/// first counts for all.
const COUNTS: [(&str, &str, usize); 2] = [("memory", "memory.oom_control", 8), ("", "memory.events", 1)];

/// Says how often the kernel has killed a process of this machine because its memory was used up.
pub fn look(places: &Places) -> Option<Unmet> {
    let cgroups = places.cgroups();
    let killed = COUNTS.iter().map(|(folder, file, depth)| killed(&cgroups.join(folder), file, *depth)).max()?;
    let reason = || format!("the kernel has killed {killed} processes for want of it");
    (killed > 0).then(|| unmet("the machine's memory suffices", reason()))
}

fn killed(folder: &Path, file: &str, depth: usize) -> u64 {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0);
    if depth <= 1 {
        return own;
    }
    let below =
        fs::read_dir(folder).into_iter().flatten().flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    own + below.map(|entry| killed(&entry.path(), file, depth - 1)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    #[test]
    fn kills_are_counted_whatever_the_version_of_cgroups() {
        for (file, text) in [
            ("memory/kubepods/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
            ("memory.events", "low 0\nhigh 0\nmax 14\noom 4\noom_kill 3\n"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let places = Places::below(dir.path());
            assert_eq!(look(&places), None, "what is not counted has not happened");
            let path = places.cgroups().join(file);
            make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
            write_file(&path, text, Mode::PUBLIC).unwrap();
            assert_eq!(look(&places).unwrap().reason, "the kernel has killed 3 processes for want of it");
            write_file(&path, text.replace("oom_kill 3", "oom_kill 0"), Mode::PUBLIC).unwrap();
            assert_eq!(look(&places), None);
        }
    }
}
