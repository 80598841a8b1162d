//! The probe as pods and `windlass verify` use it: a server that ends when told to, and a client whose exit code and
//! words tell what went wrong.

use std::time::Duration;

use windlass_steps::host::{CommandSpec, cmd, run_blocking};

const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-node");

/// Starts a server, asks it by its address, and tells it to end. `$1` is the program, `$2` an empty directory.
const TALK: &str = r#"
    cd "$2"
    "$1" probe serve --listen 127.0.0.1:0 2> log &
    until address=$(sed -n 's/.*probe started listen=\([^ ]*\).*/\1/p' log) && [ -n "$address" ]; do :; done
    "$1" probe get "http://$address/some/path"
    kill "$!"
    wait "$!"
    echo "ended with $?"
    echo "address $address"
    cat log
"#;

fn accepted(command: CommandSpec) -> CommandSpec {
    [75, 78].into_iter().fold(command, CommandSpec::accept).timeout(Duration::from_secs(60))
}

#[test]
fn a_server_answers_logs_and_ends_when_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let script = cmd("sh").args(["-euc", TALK, "sh", PROGRAM]).arg(dir.path());
    let ended = run_blocking(accepted(script)).unwrap();
    let said = ended.text().unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let name = run_blocking(cmd("uname").arg("-n")).unwrap();
    let name = name.text().unwrap();
    let address = said.lines().find_map(|line| line.strip_prefix("address ")).unwrap();
    assert_eq!(lines[..3], [address, name.trim_end(), "ended with 0"], "{said}");
    assert!(said.contains("request path=\"/some/path\""), "{said}");
    assert!(said.contains("probe ended"), "{said}");
}

#[test]
fn the_stage_that_failed_is_told_and_may_be_tried_again() {
    let cases = [
        ("https://127.0.0.1/", 78, "because: only http is spoken here"),
        ("http://probe.invalid/", 75, "error: cannot resolve probe.invalid\nbecause: "),
        ("http://127.0.0.1:1/", 75, "error: cannot connect to 127.0.0.1 at 127.0.0.1:1\nbecause: Connection refused"),
    ];
    for (url, code, words) in cases {
        let ended = run_blocking(accepted(cmd(PROGRAM).args(["probe", "get", url]))).unwrap();
        assert_eq!((ended.code, ended.text().unwrap()), (code, ""), "{url}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{url}: {}", ended.stderr);
    }
}
