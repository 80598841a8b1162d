//! What this host is like, as far as a launch cares: gathered by looking, judged elsewhere.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::statvfs::statvfs;
use time::OffsetDateTime;

use super::cgroup::Cgroups;
use super::kernel::{self, Kernel};
use crate::host::{Group, ThisMachine, check};

const INOTIFY: &str = "/proc/sys/fs/inotify";
const PROBES: usize = 8;
/// A disk that is slower than this is told by the first probe, and the whole preflight has three seconds.
const PROBING: Duration = Duration::from_secs(1);
/// What a launch itself runs; the others are for making artifacts, which may have come in a bundle.
const LAUNCH_TOOLS: [&str; 3] = ["systemd-container", "util-linux", "nftables"];

/// Looks at a host.
pub trait LookAtHost {
    /// What it is like now.
    fn facts(&self) -> HostFacts;
}

/// What a host is like. What could not be found out is absent, and nobody is refused for it.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFacts {
    /// Whether we may change what belongs to the whole machine.
    pub root: bool,
    /// Kernel features that are needed and not there.
    pub lacking: Vec<String>,
    /// How cgroups are mounted, and what is missing of them.
    pub cgroups: Cgroups,
    /// How many inotify instances a user may have.
    pub inotify_instances: Option<u64>,
    /// How many files a user may watch.
    pub inotify_watches: Option<u64>,
    /// Bytes free where the state lies.
    pub disk_free: Option<u64>,
    /// Bytes of memory that are not in use.
    pub memory_free: Option<u64>,
    /// How long a small write takes to reach the disk there, usually.
    pub sync: Option<Duration>,
    /// The file system's own time.
    pub file_time: Option<OffsetDateTime>,
    /// Programs that are missing, with what each is for.
    pub tools: Vec<String>,
    /// Ports of 127.0.0.1 that somebody has.
    pub taken_ports: Vec<u16>,
}

/// The host that this program runs on.
#[derive(Debug, Clone)]
pub struct ThisHost {
    /// Where the state of machines lies, or will lie.
    pub state: PathBuf,
    /// The port that the API is wanted at.
    pub port: Option<u16>,
}

impl LookAtHost for ThisHost {
    fn facts(&self) -> HostFacts {
        let place = existing(&self.state);
        let probe = probe(&place).ok();
        let tools = check(&ThisMachine, Group::Base);
        HostFacts {
            root: nix::unistd::geteuid().is_root(),
            lacking: kernel::lacking(&Kernel::of_this_host()),
            cgroups: Cgroups::of_this_host(),
            inotify_instances: number(&format!("{INOTIFY}/max_user_instances")),
            inotify_watches: number(&format!("{INOTIFY}/max_user_watches")),
            disk_free: statvfs(&place).ok().map(|stat| stat.blocks_available() * stat.fragment_size()),
            memory_free: fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text)),
            sync: probe.map(|probe| probe.0),
            file_time: probe.map(|probe| probe.1),
            tools: tools
                .missing()
                .filter(|one| LAUNCH_TOOLS.contains(&one.package))
                .map(|one| format!("{} ({})", one.package, one.purpose))
                .collect(),
            taken_ports: self.port.into_iter().filter(|port| is_taken(*port)).collect(),
        }
    }
}

/// A double that is what it says.
#[derive(Debug, Clone)]
pub struct FakeHost(pub HostFacts);

impl FakeHost {
    /// A host on which nothing is wrong.
    pub fn good() -> Self {
        FakeHost(HostFacts {
            root: true,
            lacking: Vec::new(),
            cgroups: Cgroups::V2 { lacking: Vec::new() },
            inotify_instances: Some(8192),
            inotify_watches: Some(1 << 20),
            disk_free: Some(200 << 30),
            memory_free: Some(64 << 30),
            sync: Some(Duration::from_millis(1)),
            file_time: None,
            tools: Vec::new(),
            taken_ports: Vec::new(),
        })
    }
}

impl LookAtHost for FakeHost {
    fn facts(&self) -> HostFacts {
        self.0.clone()
    }
}

/// The directory itself or, if it is not there yet, the nearest one above it.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|place| place.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Writes and syncs a small file a few times: how long that takes usually, and what time the file got.
fn probe(place: &Path) -> io::Result<(Duration, OffsetDateTime)> {
    let path = place.join(format!(".windlass-probe-{}", std::process::id()));
    let probed = (|| {
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let usual = usual(|| {
            let began = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_all()?;
            Ok(began.elapsed())
        })?;
        let time: SystemTime = file.metadata()?.modified()?;
        Ok((usual, OffsetDateTime::from(time)))
    })();
    // It is ours alone; one that cannot be removed is no reason to refuse a launch.
    let _ = fs::remove_file(&path);
    probed
}

/// How long something takes usually, as far as a second of trying tells.
fn usual(mut once: impl FnMut() -> io::Result<Duration>) -> io::Result<Duration> {
    let mut took = vec![once()?];
    while took.len() < PROBES && took.iter().sum::<Duration>() < PROBING {
        took.push(once()?);
    }
    took.sort();
    Ok(took[took.len() / 2])
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_can_be_looked_at_quickly() {
        let dir = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let host = ThisHost { state: dir.path().join("not/there"), port: None };
        let facts = host.facts();
        assert!(began.elapsed() < Duration::from_secs(3));
        assert!(facts.disk_free.is_some() && facts.memory_free.is_some() && facts.sync.is_some());
        assert_ne!(facts.cgroups, Cgroups::Absent);
        assert_eq!(facts.lacking, Vec::<String>::new(), "a host that runs these tests runs machines");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the probe is gone");
    }

    #[test]
    fn a_slow_disk_does_not_make_preflight_slow() {
        for (each, probes) in [(1, PROBES), (100, PROBES), (300, 4), (1000, 1), (5000, 1)] {
            let (each, mut asked) = (Duration::from_millis(each), 0);
            let told = usual(|| {
                asked += 1;
                Ok(each)
            });
            assert_eq!((told.unwrap(), asked), (each, probes));
        }
        let mut first = [900, 10, 10, 900].into_iter().map(|each| Ok(Duration::from_millis(each)));
        assert_eq!(usual(|| first.next().unwrap()).unwrap(), Duration::from_millis(900), "10, 10, 900, 900");
        assert!(usual(|| Err(io::Error::other("no disk"))).is_err());
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(available("MemTotal: 1 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn a_port_that_somebody_has_is_taken() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        assert!(is_taken(port));
        drop(held);
        assert!(!is_taken(port));
    }
}
