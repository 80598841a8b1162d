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
    begun: Instant,
    stop: Arc<AtomicBool>,
    looking: JoinHandle<Vec<Look>>,
}

impl Watch {
    /// Watches the control group of a cluster, which need not be there yet.
    pub fn start(cluster: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, cluster) = (Arc::clone(&stop), cluster.to_owned());
        let looking = std::thread::spawn(move || {
            let mut looks = Vec::new();
            while !seen.load(Ordering::Relaxed) {
                looks.extend(cpu(&cluster).map(|cpu| (Instant::now(), cpu)));
                std::thread::park_timeout(LOOK);
            }
            looks
        });
        Watch { begun: Instant::now(), stop, looking }
    }

    /// What was used in this time since the beginning.
    pub fn stop(self, within: Duration) -> Usage {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.thread().unpark();
        let looks = self.looking.join().unwrap_or_default();
        used(looks.into_iter().filter(|(at, _)| *at <= self.begun + within))
    }
}

type Look = (Instant, Duration);

fn used(looks: impl Iterator<Item = Look>) -> Usage {
    let (mut usage, mut quiet, mut last) = (Usage::default(), None, None);
    for (now, cpu) in looks {
        usage.cpu = cpu;
        if let Some((then, before)) = last.replace((now, cpu)) {
            let share = cpu.saturating_sub(before).as_secs_f64() / now.duration_since(then).as_secs_f64();
            match (share < IDLE, quiet) {
                (true, None) => quiet = Some(then),
                (true, Some(since)) => usage.idle = usage.idle.max(now.duration_since(since)),
                (false, _) => quiet = None,
            }
        }
    }
    usage
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
        let looks = [(0, 0), (200, 300), (400, 301), (600, 302), (800, 303), (1000, 600), (1200, 601)];
        let looks = looks.map(|(ms, cpu)| (at(ms), Duration::from_millis(cpu)));
        assert_eq!(
            used(looks.into_iter()),
            Usage { cpu: Duration::from_millis(601), idle: Duration::from_millis(600) }
        );
    }
}
