//! The deciding half of windlass at the size of a large cluster: 5,000 nodes in 50 groups, read, completed and rendered
//! in memory, cold, in one process.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_assets::AssetDir;
use windlass_install::prepare::make;
use windlass_pki::RandomKeys;
use windlass_spec::file::read_and_complete;
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::host::read_file;

use super::Finding;
use crate::report::Failure;

const NODES: u32 = 5_000;
const GROUPS: u32 = 50;
const MASTERS: u32 = 5;
const MOST_TIME: Duration = Duration::from_millis(300);
const MOST_MEMORY_KIB: u64 = 200 << 10;

/// Time and peak memory of one run.
pub fn measure(dir: &Path) -> Result<Vec<Finding>, Failure> {
    let spec = large_spec();
    let started = Instant::now();
    let bytes = complete_and_render(spec.as_bytes(), dir)?;
    let took = started.elapsed();
    let memory = peak_memory_kib()?;
    Ok(vec![
        Finding {
            measured: format!("{NODES} nodes in {GROUPS} groups took {} ms for {bytes} bytes", took.as_millis()),
            limit: format!("{} ms", MOST_TIME.as_millis()),
            kept: took <= MOST_TIME,
        },
        Finding {
            measured: format!("peak memory {} MiB", memory >> 10),
            limit: format!("{} MiB", MOST_MEMORY_KIB >> 10),
            kept: memory <= MOST_MEMORY_KIB,
        },
    ])
}

/// The measured work: everything that `prepare` does before it writes. The answer is the size of the last of what was made, which holds
/// the rest.
fn complete_and_render(spec: &[u8], dir: &Path) -> Result<usize, Failure> {
    let failed = || Failure::new("the spec of the benchmark was not prepared", "mend xtask/src/bench/spec.rs");
    let (_, decided) = read_and_complete(spec).map_err(|problems| failed().because(problems.to_string()))?;
    let mut keys = RandomKeys::from_os().map_err(|error| failed().because(error))?;
    let mut draft = AssetDir::open(dir).map_err(|error| failed().because(error))?.draft();
    let now = SystemClock::new().now();
    let assets = make(&mut draft, decided, &mut keys, now).map_err(|error| failed().because(error))?;
    Ok(assets.ignition.iter().map(|(_, text)| text.expose().len()).sum())
}

/// One group of masters; the workers in equal groups.
fn large_spec() -> String {
    let mut text =
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: large\nspec:\n  platform:\n    \
                    local: {}\n  instanceGroups:\n"
            .to_owned();
    let mut group = |name: &str, role: &str, count: u32| {
        let _never = writeln!(text, "  - name: {name}\n    role: {role}\n    count: {count}");
    };
    group("masters", "master", MASTERS);
    let (workers, groups) = (NODES - MASTERS, GROUPS - 1);
    for at in 0..groups {
        let count = workers / groups + u32::from(at < workers % groups);
        group(&format!("workers-{at}"), "worker", count);
    }
    text
}

/// The largest resident size that this process ever had, as the kernel counts it.
fn peak_memory_kib() -> Result<u64, Failure> {
    let trouble = || Failure::new("cannot tell the peak memory", "this needs Linux with /proc");
    let status = read_file("/proc/self/status", 1 << 20).map_err(|error| trouble().because(error))?;
    parse_peak(&String::from_utf8_lossy(&status)).ok_or_else(trouble)
}

fn parse_peak(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_large_spec_has_the_promised_size_and_is_accepted() {
        let (_, complete) = read_and_complete(large_spec().as_bytes()).unwrap();
        let groups = &complete.spec.instance_groups;
        assert_eq!(groups.len(), 50);
        assert_eq!(groups.iter().map(|group| group.count).sum::<u32>(), 5_000);
    }

    #[test]
    fn the_peak_is_read_from_the_status() {
        assert_eq!(parse_peak("Name:\txtask\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2048));
        assert_eq!(parse_peak("Name:\txtask\n"), None);
        assert!(peak_memory_kib().unwrap() > 0);
    }
}
