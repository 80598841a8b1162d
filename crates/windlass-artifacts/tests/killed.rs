//! A loop that fills a cache, killed at many moments: the next run completes, nothing bad is ever in the cache, and nothing
//! is left over. `killed_fetch` does the same to the whole fetch flow, which needs root.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_artifacts::cache::{Cache, Key, Kind, SourceKind};
use windlass_steps::host::{CommandSpec, Mode, cmd, run_blocking, write_file};

const ARTIFACTS: u32 = 12;
const KILLS: u32 = 30;
const MOST_RUNS: u32 = 300;
/// Marks a directory that a stand-in may use; `cargo test -- --ignored` must not leave a cache in the source tree.
const HERE: &str = "fetch-here";

/// What the killed process runs, in a working directory that was made for it.
#[test]
#[ignore = "the stand-in that the test below starts and kills"]
fn stand_in_fetch() {
    if !Path::new(HERE).exists() {
        return;
    }
    let cache = Cache::open("cache").unwrap();
    for n in 0..ARTIFACTS {
        let key = Key::new(Kind::Binary, &format!("part-{n}"), "1.0.0").unwrap();
        if cache.find(&key).unwrap().is_none() {
            let room = cache.temp_dir("part").unwrap();
            let file = room.path().join("built");
            write_file(&file, vec![n as u8; 200_000], Mode::EXECUTABLE).unwrap();
            cache.add_file(&key, SourceKind::Source, &file, Mode::EXECUTABLE).unwrap();
        }
    }
}

fn mark(dir: &Path) {
    let made = fs::create_dir_all(dir.join(HERE));
    assert!(made.is_ok(), "{made:?}");
}

fn fetch(dir: &Path) -> CommandSpec {
    cmd("/proc/self/exe").args(["--exact", "stand_in_fetch", "--ignored", "--quiet"]).current_dir(dir)
}

#[test]
fn a_fetch_survives_being_killed_at_thirty_moments() {
    let temp = tempfile::tempdir().unwrap();
    let calm = temp.path().join("calm");
    mark(&calm);
    let start = Instant::now();
    run_blocking(fetch(&calm)).unwrap();
    let mut whole = start.elapsed().max(Duration::from_millis(20));
    let dir = temp.path().join("killed");
    mark(&dir);
    let mut killed = 0;
    for run in 0..MOST_RUNS {
        // Spread over the whole run by the golden ratio. The time-out is the kill: SIGKILL, wherever it is.
        let share = (f64::from(run) * 0.618_033_988_75).fract();
        let cache = Cache::open(dir.join("cache")).unwrap();
        if run_blocking(fetch(&dir).timeout(whole.mul_f64(share))).is_ok() {
            // It came to its end first: the machine is faster now than it was, or little was left to do.
            whole = whole.mul_f64(0.9).max(Duration::from_millis(5));
            fs::remove_dir_all(cache.root()).unwrap();
            continue;
        }
        killed += 1;
        assert_eq!(cache.verify().unwrap(), [], "after kill {killed}");
        if killed % 3 == 0 {
            run_blocking(fetch(&dir)).unwrap();
            assert_eq!(cache.list().unwrap().len(), ARTIFACTS as usize);
            assert_eq!(cache.verify().unwrap(), []);
            cache.prune(|_| true).unwrap();
            assert_eq!(fs::read_dir(cache.root().join("tmp")).unwrap().count(), 0);
            assert_eq!(fs::read_dir(cache.root().join("blobs/sha256")).unwrap().count(), ARTIFACTS as usize);
            fs::remove_dir_all(cache.root()).unwrap();
        }
        if killed == KILLS {
            return;
        }
    }
    panic!("only {killed} of {MOST_RUNS} runs were killed before their end");
}

#[test]
fn two_fetches_at_once_end_with_the_same_cache() {
    let temp = tempfile::tempdir().unwrap();
    mark(temp.path());
    std::thread::scope(|scope| {
        let both = [scope.spawn(|| run_blocking(fetch(temp.path()))), scope.spawn(|| run_blocking(fetch(temp.path())))];
        both.into_iter().for_each(|run| drop(run.join().unwrap().unwrap()));
    });
    let cache = Cache::open(temp.path().join("cache")).unwrap();
    assert_eq!(cache.list().unwrap().len(), ARTIFACTS as usize);
    assert_eq!(cache.verify().unwrap(), []);
}
