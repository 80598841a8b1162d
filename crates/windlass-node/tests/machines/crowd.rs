//! A thousand machines that boot at once.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use windlass_cloud_api::Role;

use crate::support::{CANARY, Machine};

const CLIENTS: usize = 1000;
/// About what a master's config has.
const CONFIG: usize = 256 << 10;
const MOST_KIB: u64 = 128 << 10;
/// The promise is for a program that was built to run; one that was built to be debugged gets more time.
const MOST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 3 });

/// The most memory that a process has had, in KiB.
fn peak_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The time that a process has had a processor.
fn worked(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_thousand_fresh_clients_at_once_are_served_within_the_memory() {
    let machine = Machine::with_configs_of(CONFIG);
    let server = machine.config_server().await;
    let names = ["masters-0", "masters-1", "masters-2", "workers-0", "workers-1"];
    let tokens = names.map(|name| {
        let role = if name.starts_with("masters") { Role::Master } else { Role::Worker };
        (format!("/config/{role}"), machine.token(name, role, "config"))
    });
    let began = Instant::now();
    let answers = join_all((0..CLIENTS).map(|n| {
        let (path, token) = &tokens[n % tokens.len()];
        server.get(path, token)
    }));
    let answers = answers.await;
    let took = began.elapsed();
    let peak = peak_memory(server.pid);
    let said = format!(
        "{CLIENTS} fresh clients took {took:.2?}, the server worked {:.2?} and had at most {} MiB\n",
        worked(server.pid),
        peak / 1024
    );
    std::io::stderr().write_all(said.as_bytes()).unwrap();
    for answer in answers {
        assert_eq!(answer.status, Some(200), "{}", answer.text);
        assert!(answer.text.contains(CANARY) && answer.text.len() > CONFIG);
    }
    assert!(took <= MOST, "{took:?}");
    assert!(peak <= MOST_KIB, "{peak} KiB");
}
