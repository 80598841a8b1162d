//! A bundle on a host without any network.

use std::fs;
use std::path::Path;

use serde_json::Value;
use windlass_steps::host::{CommandSpec, Output, cmd, run_blocking};

use crate::cached::{Artifact, Content, Place, digests, list};

/// Runs what follows, then writes down what the kernel counted in this network namespace.
const COUNTING: &str =
    r#"counts=$1; shift; "$@"; code=$?; cat /proc/net/snmp /proc/net/snmp6 /proc/net/dev > "$counts"; exit $code"#;

/// Runs a command in a network namespace of its own, which has no route and whose one device is down, and says how much
/// it tried to send there.
fn alone(command: &[String], counts: &Path) -> (Output, u64) {
    let inside = cmd("unshare").args(["--net", "bash", "-c", COUNTING, "bash"]).arg(counts).args(command);
    let output = run_blocking([1, 9].into_iter().fold(inside, CommandSpec::accept)).unwrap();
    (output, sent(&fs::read_to_string(counts).unwrap()))
}

/// Packets, and attempts that ended for want of a route.
fn sent(counts: &str) -> u64 {
    let lines: Vec<Vec<&str>> = counts.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut found = Vec::new();
    for pair in lines.windows(2) {
        let (names, values) = (&pair[0], &pair[1]);
        if names.first() == Some(&"Ip:") && values.first() == Some(&"Ip:") && names.contains(&"OutRequests") {
            let value = |name: &str| values[names.iter().position(|n| *n == name).unwrap()];
            found.extend(["OutRequests", "OutNoRoutes"].map(value));
        }
    }
    for line in &lines {
        match line.as_slice() {
            ["Ip6OutRequests" | "Ip6OutNoRoutes", value] => found.push(value),
            [device, fields @ ..] if device.ends_with(':') && fields.len() == 16 => found.push(fields[9]),
            _ => {}
        }
    }
    assert!(found.len() >= 5, "the kernel's counters are not where they should be: {counts}");
    found.iter().map(|value| value.parse::<u64>().unwrap()).sum()
}

/// What a fetch answers, and whether it had to do anything.
fn answer(output: &Output) -> Vec<Artifact> {
    assert_eq!(output.code, 0, "{}", output.stderr);
    for line in output.stderr.lines().filter(|line| line.starts_with('{')) {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_ne!(event["kind"], "started", "something was made again: {line}");
    }
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs root and every artifact"]
fn a_bundle_fills_an_empty_cache_without_a_single_packet() {
    let (source, target) = (Place::new(Content::Shared), Place::new(Content::Empty));
    let (bundle, key) = (source.beside("bundle"), source.cache().join("keys/public.asc"));
    let (bundle, key) = (bundle.to_str().unwrap(), key.to_str().unwrap());
    let wanted = answer(&source.run(&["fetch", "-o", "json"]));
    source.done(&["bundle", "-o", bundle]);

    let counts = target.beside("counts");
    let (taken, packets) = alone(&target.words(&["fetch", "--bundle", bundle, "--trusted-key", key]), &counts);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    assert_eq!(packets, 0);
    assert_eq!(digests(&list(&target.cache())), digests(&wanted));
    target.done(&["list", "--verify"]);

    let (again, packets) = alone(&target.words(&["fetch", "-o", "json"]), &counts);
    assert_eq!(digests(&answer(&again)), digests(&wanted), "a fetch after the bundle has nothing to do");
    assert_eq!(packets, 0);
}

#[test]
#[ignore = "needs root"]
fn an_attempt_to_send_without_a_route_is_counted() {
    let counts = tempfile::NamedTempFile::new().unwrap();
    // By IPv6 there is not even an address to send from.
    for address in ["192.0.2.1", "127.0.0.1"] {
        let attempt = ["bash".to_owned(), "-c".to_owned(), format!("echo > /dev/udp/{address}/9")];
        let (output, packets) = alone(&attempt, counts.path());
        assert!(output.code == 1 && packets > 0, "{address}: {packets}, {}", output.stderr);
    }
    assert_eq!(alone(&["true".to_owned()], counts.path()).1, 0);
}
