//! Drills: the real thing, interrupted at random moments, has to come to its end afterwards and leave nothing behind.
//! They take long and need the whole machine, so they are run by hand and their results are written down. The seed says
//! when the blows fall; a drill that failed is repeated with it.

mod artifacts;
mod cloud;
mod launch;
mod node;
mod parts;

use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::host::{CommandSpec, Commands as _, Heard, Host, HostError, Mode, Output, Stream, make_dir};
use windlass_steps::reason;
use windlass_steps::wait::{Wait, WaitError};

use crate::args::Drill;
use crate::report::{Failure, say};
use crate::session::Session;

/// What a killed program started may need a moment to notice: a linker in full flight ends with its file.
const GRACE: Duration = Duration::from_secs(120);

/// Runs one drill in a directory of its own, which stays only if the drill fails.
pub fn run(
    session: &mut Session,
    what: Drill,
    seed: Option<u64>,
    place: Option<PathBuf>,
    cache: &Path,
) -> Result<(), Failure> {
    let seed = seed.unwrap_or_else(|| SystemClock::new().now().unix_timestamp_nanos() as u64 % 1_000_000);
    say(format_args!("seed {seed}; repeat it with --seed {seed}"));
    let place = place.unwrap_or_else(|| session.built().join("drill"));
    let ground = Ground::clear(&place)?;
    let mut chance = Chance(seed);
    let outcome = match what {
        Drill::Artifacts => artifacts::run(session, &ground, &mut chance),
        Drill::Cloud => cloud::run(session, &chance, cache),
        Drill::Launch => launch::run(session, &chance, cache),
        Drill::Node => node::run(session, &chance, cache),
    };
    session.summary();
    outcome.inspect_err(|_| say(format_args!("what there is stays in {}", place.display())))?;
    ground.leave()
}

/// The directory of a drill. Every process of it carries the directory of its temporary files in its environment, by
/// which it is found again, whoever its parent is by then.
struct Ground {
    place: PathBuf,
}

/// When a run is to be killed: so long after it said something.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    after: String,
    delay: Duration,
}

/// How a run that was to be killed ended.
enum End {
    /// By our hand.
    Killed,
    /// Before its moment came.
    Early(Result<Output, HostError>),
}

impl Ground {
    fn clear(place: &Path) -> Result<Self, Failure> {
        let failed = || Failure::new(format_args!("cannot clear {}", place.display()), "look at the cause");
        let ground = Ground { place: place.to_owned() };
        if place.exists() {
            ground.is_empty_but_for(place, &["cache", "tmp"])?;
            fs::remove_dir_all(place).map_err(|error| failed().because(error))?;
        }
        make_dir(ground.temp(), Mode::PRIVATE_DIR).map_err(|error| failed().because(error))?;
        Ok(ground)
    }

    fn leave(self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.place).map_err(|error| {
            Failure::new(format_args!("cannot remove {}", self.place.display()), "remove it by hand").because(error)
        })
    }

    fn cache(&self) -> PathBuf {
        self.place.join("cache")
    }

    fn temp(&self) -> PathBuf {
        self.place.join("tmp")
    }

    /// The command as one of this drill.
    fn command(&self, command: CommandSpec) -> CommandSpec {
        command.env("TMPDIR", self.temp())
    }

    /// Waits for what the killed run had started to end, then looks for mounts.
    async fn is_quiet(&self) -> Result<(), Failure> {
        let look = || async {
            let left = self.processes()?;
            Ok(match left.is_empty() {
                true => Observation::Holds,
                false => Observation::NotYet(reason!("{}", left.join(", "))),
            })
        };
        let criteria = [Criterion::new("no process is left", look)];
        let waited = Wait::stalled_for(GRACE).until(&criteria, |_| Ok::<_, Failure>(())).await;
        waited.map_err(|error| match error {
            WaitError::Observe(failure) => failure,
            WaitError::Unmet(unmet) => {
                let unmet: Vec<String> = unmet.iter().map(ToString::to_string).collect();
                Failure::new("a killed run left processes", "find out who should have ended them")
                    .because(unmet.join("; "))
            }
        })?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        match mounts.lines().find(|line| line.contains(&*self.place.to_string_lossy())) {
            Some(mount) => Err(Failure::new("a killed run left a mount", "unmount it by hand").because(mount)),
            None => Ok(()),
        }
    }

    /// The drill's processes by name and number.
    fn processes(&self) -> std::io::Result<Vec<String>> {
        let mark = format!("TMPDIR={}", self.temp().display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path();
            // A process that ended meanwhile has no environment any more, and one of the kernel's never had.
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
                found.push(format!("{} {}", name.trim(), path.file_name().unwrap_or_default().to_string_lossy()));
            }
        }
        Ok(found)
    }

    /// Fails if anything but these is in the directory.
    fn is_empty_but_for(&self, dir: &Path, kept: &[&str]) -> Result<(), Failure> {
        let mut left = Vec::new();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !kept.contains(&name.as_str()) {
                left.push(name);
            }
        }
        match left.is_empty() {
            true => Ok(()),
            false => {
                let what = format!("{} is not empty", dir.display());
                Err(Failure::new(what, "find out whose it is").because(left.join(", ")))
            }
        }
    }
}

/// Runs the command and kills it, with SIGKILL and without its children, when its moment has come.
async fn kill_at(command: CommandSpec, moment: &Moment) -> End {
    let seen = Notify::new();
    let listen = |_: Stream, line: &str| {
        if line.contains(&moment.after) {
            seen.notify_one();
        }
        Heard::Keep
    };
    let come = async {
        seen.notified().await;
        // Nothing happens after this time but the kill; that is what it is for.
        let _over = tokio::time::timeout(moment.delay, pending::<()>()).await;
    };
    tokio::select! {
        biased;
        ended = Host.follow(command, &listen) => End::Early(ended),
        () = come => End::Killed,
    }
}

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `limit`.
    fn below(&mut self, limit: Duration) -> Duration {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        Duration::from_millis(self.next() % milliseconds)
    }
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::cmd;

    use super::*;

    #[test]
    fn chance_is_the_same_for_the_same_seed_and_stays_below_its_limit() {
        let draw = |seed| {
            let mut chance = Chance(seed);
            [0; 20].map(|_| chance.below(Duration::from_secs(40)))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|delay| *delay < Duration::from_secs(40)));
        assert_eq!(Chance(1).below(Duration::ZERO), Duration::ZERO);
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn a_run_is_killed_at_its_moment_and_what_it_left_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground::clear(&dir.path().join("drill")).unwrap();
        let moment = Moment { after: "begun".to_owned(), delay: Duration::from_millis(20) };
        // The grandchild is in a process group of its own, as a build of windlass' is, and survives the kill.
        // It says itself that it has begun: until it has its group it would be killed with ours.
        let script = "setsid sh -c 'echo begun >&2; exec sleep 2' & wait";
        runtime().block_on(async {
            let command = ground.command(cmd("sh").args(["-c", script]));
            assert!(matches!(kill_at(command, &moment).await, End::Killed));
            let left = ground.processes().unwrap();
            assert!(left.iter().any(|process| process.starts_with("sleep ")), "{left:?}");
            ground.is_quiet().await.unwrap();
            let ended = kill_at(ground.command(cmd("true")), &moment).await;
            assert!(matches!(ended, End::Early(Ok(_))));
        });
        ground.is_empty_but_for(&ground.place, &["tmp"]).unwrap();
        let left = ground.is_empty_but_for(&ground.place, &[]).unwrap_err();
        assert!(left.to_string().contains("is not empty"), "{left}");
        ground.leave().unwrap();
    }
}
