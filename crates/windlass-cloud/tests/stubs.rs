//! Real processes that stand for machines: started, found again, stopped, killed, and noticed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use windlass_cloud::process::{Condition, Signal};
use windlass_cloud::simulated::{SimulatedError, Stub};

const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-cloud");

/// Kills what a failed test leaves.
#[derive(Default)]
struct Started(Vec<Stub>);

impl Drop for Started {
    fn drop(&mut self) {
        for stub in &self.0 {
            let _ = stub.signal(Signal::KILL);
        }
    }
}

async fn start(run: &Path) -> Result<Stub, SimulatedError> {
    fs::create_dir_all(run).expect("a temporary directory can be written to");
    Stub::start(Path::new(PROGRAM), run).await
}

#[tokio::test]
async fn a_machine_is_found_again_and_is_never_there_twice() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Stub::find(dir.path()).unwrap(), None);
    let mut started = Started::default();
    let stub = start(dir.path()).await.unwrap();
    started.0.push(stub.clone());
    assert_eq!(Stub::find(dir.path()).unwrap(), Some(stub.clone()));
    let second = start(dir.path()).await.unwrap_err();
    assert!(windlass_steps::report::chain(&second).join(" ").contains("runs already"), "{second:?}");
    stub.signal(Signal::STOP).unwrap();
    while stub.condition().unwrap() != Condition::Stopped {
        tokio::task::yield_now().await;
    }
    stub.signal(Signal::KILL).unwrap();
    stub.ended().await.unwrap();
    assert_eq!((Stub::find(dir.path()).unwrap(), dir.path().join("exit.json").exists()), (None, false));
    let again = start(dir.path()).await.unwrap();
    started.0.push(again.clone());
    assert_ne!(again, stub);
}

#[tokio::test]
async fn the_power_button_leaves_a_word_about_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let stub = start(dir.path()).await.unwrap();
    let _started = Started(vec![stub.clone()]);
    let record: serde_json::Value = serde_json::from_slice(&fs::read(dir.path().join("runner.json")).unwrap()).unwrap();
    assert_eq!((&record["pid"], &record["phase"]), (&stub.identity().pid.into(), &"booted".into()));
    stub.signal(Signal::TERM).unwrap();
    stub.ended().await.unwrap();
    let exit: serde_json::Value = serde_json::from_slice(&fs::read(dir.path().join("exit.json")).unwrap()).unwrap();
    assert_eq!((&exit["ended"], &exit["code"]), (&"exited".into(), &0.into()));
}

#[tokio::test]
async fn a_place_that_is_not_there_is_told_by_the_starter() {
    let dir = tempfile::tempdir().unwrap();
    let error = Stub::start(Path::new(PROGRAM), &dir.path().join("none")).await.unwrap_err();
    assert!(windlass_steps::report::chain(&error).join(" ").contains("cannot lock"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a quiet machine: starts a thousand processes"]
async fn a_thousand_machines_start_within_seconds_and_each_death_is_noticed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let runs: Vec<PathBuf> = (0..1000).map(|n| dir.path().join(format!("m-{n}"))).collect();
    let starting = stream::iter(runs).map(|run| async move { start(&run).await.unwrap() }).buffer_unordered(8);
    let started = Started(starting.collect().await);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
    let waits: Vec<_> = started
        .0
        .iter()
        .cloned()
        .map(|stub| {
            tokio::spawn(async move {
                stub.ended().await.unwrap();
                Instant::now()
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for (n, wait) in waits.into_iter().enumerate() {
        if n % 10 == 0 {
            let killed = Instant::now();
            started.0[n].signal(Signal::KILL).unwrap();
            slowest = slowest.max(wait.await.unwrap() - killed);
        } else {
            assert!(!wait.is_finished());
            wait.abort();
        }
    }
    let memory: u64 = started.0.iter().map(|stub| private_memory(stub.identity().pid)).sum();
    let figures = format!("1000 started in {took:?}, noticed within {slowest:?}, {} MiB for 900", memory >> 20);
    writeln!(std::io::stderr(), "{figures}").unwrap();
    assert!(slowest < Duration::from_millis(200), "{slowest:?}");
    assert!(memory < 2 << 30, "{memory} bytes for the nine hundred that are left");
}

fn private_memory(pid: i32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return 0 };
    let kilobytes = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    let private = text.lines().filter(|line| line.starts_with("Private_")).filter_map(kilobytes);
    private.sum::<u64>() << 10
}
