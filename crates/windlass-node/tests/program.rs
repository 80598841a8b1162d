//! The program as systemd and the container runtime see it: signals in, exit codes out.

use std::net::TcpListener;
use std::time::Duration;

use windlass_steps::host::{CommandSpec, Mode, cmd, run_blocking, write_file};

const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-node");

/// An API that nobody serves.
const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: a, \
    clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}], \
    contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}]}";

fn accepted(command: CommandSpec) -> CommandSpec {
    [75, 78].into_iter().fold(command, CommandSpec::accept).timeout(Duration::from_secs(60))
}

#[test]
fn codes_tell_whether_trying_again_helps() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    write_file(&good, KUBECONFIG, Mode::PRIVATE_FILE).unwrap();
    let bad = dir.path().join("bad");
    write_file(&bad, "clusters: 17", Mode::PRIVATE_FILE).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--version"], 0, ""),
        (&["--help"], 0, ""),
        (&[], 78, "Usage:"),
        (&["dashboard", "--listen", "nowhere"], 78, "invalid value"),
        (&["dashboard", "--kubeconfig", "/no/such/file"], 78, "next: "),
        (&["dashboard", "--kubeconfig", bad], 78, "error: cannot tell how to reach the API"),
        (&["dashboard", "--listen", "127.0.0.1:0"], 78, "because: cannot use the pod's service account"),
        (&["dashboard", "--kubeconfig", good, "--listen", &taken], 75, "error: cannot listen on 127.0.0.1:"),
    ];
    for (arguments, code, words) in cases {
        let ended = run_blocking(accepted(cmd("env").args(["-u", "KUBERNETES_SERVICE_HOST", PROGRAM]).args(arguments)));
        let ended = ended.unwrap();
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{arguments:?}: {}", ended.stderr);
    }
}

/// The shell becomes the sandbox, so that what it started before are the sandbox's children: one that has ended
/// already, and one that ends when it is told to. `$1` is the program.
const SANDBOX: &str = r#"
    cd "$2"
    mkfifo hold
    sh -c '(true & read line < hold & exec "$0" pause) & echo $! > pid; wait $!; echo $? > code' "$1" &
    exec 3> hold
    until [ -s pid ] && [ "$(tr '\0' ' ' < "/proc/$(cat pid)/cmdline")" = "$1 pause " ]; do :; done
    children() { cat "/proc/$1/task/$1/children" | wc -w; }
    until [ "$(children "$(cat pid)")" = 1 ]; do :; done
    echo go >&3
    until [ "$(children "$(cat pid)")" = 0 ]; do :; done
    kill -s "$3" "$(cat pid)"
    wait
    cat code
"#;

#[test]
fn pause_reaps_orphans_and_ends_when_told() {
    for signal in ["TERM", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = cmd("sh").args(["-c", SANDBOX, "sh", PROGRAM]).arg(dir.path()).arg(signal);
        let ended = run_blocking(sandbox.timeout(Duration::from_secs(60))).unwrap();
        assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "0", "{signal}: {}", ended.stderr);
    }
}

#[test]
fn the_dashboard_ends_well_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("kubeconfig");
    write_file(&config, KUBECONFIG, Mode::PRIVATE_FILE).unwrap();
    let script = r#"
        "$1" dashboard --listen 127.0.0.1:0 --kubeconfig "$2/kubeconfig" 2> "$2/log" &
        until grep -q 'dashboard started' "$2/log"; do :; done
        kill -s TERM $!
        wait $!
    "#;
    let shell = cmd("sh").args(["-c", script, "sh", PROGRAM]).arg(dir.path());
    run_blocking(shell.timeout(Duration::from_secs(60))).unwrap();
}
