//! What the machines of a cluster use of the processors, read from their control group while they come up.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(200);
/// Less than this share of one processor is idling.
const IDLE: f64 = 0.2;

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time in all.
    pub cpu: Duration,
    /// The longest time in which next to nothing was used.
    pub idle: Duration,
}

/// Looks until it is told to stop.
pub struct Watch {
    stop: Arc<AtomicBool>,
    looking: JoinHandle<Usage>,
}

impl Watch {
    /// Watches the control group of a cluster, which need not be there yet.
    pub fn start(cluster: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, cluster) = (Arc::clone(&stop), cluster.to_owned());
        let looking = std::thread::spawn(move || {
            let (mut last, mut quiet, mut usage) = (None, None, Usage::default());
            while !seen.load(Ordering::Relaxed) {
                let now = Instant::now();
                if let Some(cpu) = cpu(&cluster) {
                    note(&mut usage, &mut quiet, last, (now, cpu));
                    last = Some((now, cpu));
                }
                std::thread::park_timeout(LOOK);
            }
            usage
        });
        Watch { stop, looking }
    }

    /// What was used until now.
    pub fn stop(self) -> Usage {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.thread().unpark();
        self.looking.join().unwrap_or_default()
    }
}

type Look = (Instant, Duration);

fn note(usage: &mut Usage, quiet: &mut Option<Instant>, last: Option<Look>, (now, cpu): Look) {
    usage.cpu = cpu;
    let Some((then, before)) = last else { return };
    let share = cpu.saturating_sub(before).as_secs_f64() / now.duration_since(then).as_secs_f64();
    match (share < IDLE, *quiet) {
        (true, None) => *quiet = Some(then),
        (true, Some(since)) => usage.idle = usage.idle.max(now.duration_since(since)),
        (false, _) => *quiet = None,
    }
}

/// The processors of this host.
pub fn cores() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64)
}

fn cpu(cluster: &str) -> Option<Duration> {
    let top = PathBuf::from("/sys/fs/cgroup");
    if let Ok(text) = fs::read_to_string(top.join("cpuacct/windlass").join(cluster).join("cpuacct.usage")) {
        return text.trim().parse().ok().map(Duration::from_nanos);
    }
    let text = fs::read_to_string(top.join("windlass").join(cluster).join("cpu.stat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    line.trim().parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_as_long_as_next_to_nothing_is_used() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (mut usage, mut quiet, mut last) = (Usage::default(), None, None);
        for (ms, cpu) in [(0, 0), (200, 300), (400, 301), (600, 302), (800, 303), (1000, 600), (1200, 601)] {
            let look = (at(ms), Duration::from_millis(cpu));
            note(&mut usage, &mut quiet, last, look);
            last = Some(look);
        }
        assert_eq!(usage, Usage { cpu: Duration::from_millis(601), idle: Duration::from_millis(600) });
    }
}
