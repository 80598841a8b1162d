//! `prepare` killed at random moments: the next one succeeds, and no half-written file is ever read.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_steps::host::{cmd, run_blocking};

const KILLS: u32 = 50;
const MOST_RUNS: u32 = 400;
const SPEC: &str = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\n";

fn prepare(dir: &Path, domain: &str) -> windlass_steps::host::CommandSpec {
    let spec = format!("{SPEC}spec:\n  domain: {domain}\n");
    cmd(env!("CARGO_BIN_EXE_windlass")).arg("prepare").arg("--dir").arg(dir).args(["--spec", "-"]).stdin(spec)
}

/// Whether every file that the lock names is there and whole.
fn assert_whole(dir: &Path) {
    let plan = cmd(env!("CARGO_BIN_EXE_windlass")).arg("plan").arg("--dir").arg(dir).args(["-o", "json"]);
    let plan: serde_json::Value = serde_json::from_slice(&run_blocking(plan).unwrap().stdout).unwrap();
    assert_eq!(plan["edited"], serde_json::json!([]), "a file differs from what was made");
}

#[test]
fn prepare_survives_being_killed_at_fifty_moments() {
    let temp = tempfile::tempdir().unwrap();
    let calm = temp.path().join("calm");
    let start = Instant::now();
    run_blocking(prepare(&calm, "a.test")).unwrap();
    let mut whole = start.elapsed().max(Duration::from_millis(20));
    let mut killed = 0;
    for run in 0..MOST_RUNS {
        // Every other run goes into the same directory, which each changed spec rewrites; the rest into new ones.
        let dir = temp.path().join(format!("c{}", run % 2 * (run + 1)));
        let domain = format!("d{run}.test");
        // Spread over the whole run by the golden ratio. The time-out is the kill: SIGKILL, wherever it is.
        let share = (f64::from(run) * 0.618_033_988_75).fract();
        if run_blocking(prepare(&dir, &domain).timeout(whole.mul_f64(share))).is_ok() {
            // It came to its end first: the machine is faster now than it was.
            whole = whole.mul_f64(0.95).max(Duration::from_millis(5));
            assert_whole(&dir);
            continue;
        }
        killed += 1;
        if killed % 3 == 0 {
            run_blocking(prepare(&dir, &domain)).unwrap();
            assert_whole(&dir);
        }
        if killed == KILLS {
            break;
        }
    }
    assert_eq!(killed, KILLS, "too few runs were killed before their end");
    for entry in fs::read_dir(temp.path()).unwrap() {
        let dir = entry.unwrap().path();
        run_blocking(prepare(&dir, "end.test")).unwrap();
        assert_whole(&dir);
        let left = leftovers(&dir);
        assert!(left.is_empty(), "{left:?}");
    }
}

fn leftovers(dir: &Path) -> Vec<String> {
    let mut left = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            left.extend(leftovers(&path));
        } else if name.contains(".tmp-") || name == "assets.lock.next" {
            left.push(path.display().to_string());
        }
    }
    left
}
