use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use super::super::follow::STDERR_TAIL;
use super::super::{Heard, cmd};
use super::*;

fn sh(script: &str) -> CommandSpec {
    cmd("sh").arg("-c").arg(script)
}

#[test]
fn a_failing_command_shows_its_line_and_the_tail_of_its_stderr() {
    let error = run_blocking(sh("echo no such disk >&2; exit 3").arg("x y")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`sh -c 'echo no such disk >&2; exit 3' 'x y'` failed, exit status: 3"), "{text}");
    assert!(text.ends_with("stderr:\nno such disk"), "{text}");
}

#[test]
fn only_the_tail_of_a_long_stderr_is_kept_and_starts_at_a_line() {
    let error = run_blocking(sh("seq 100000 >&2; exit 1")).unwrap_err();
    let HostError::RunCommand { stderr, .. } = &error else { panic!("{error}") };
    assert!(stderr.starts_with("[...]\n9"), "{}", &stderr[..20]);
    assert!(stderr.ends_with("\n100000\n") && stderr.len() <= STDERR_TAIL + 6);
}

#[test]
fn a_missing_program_is_named_and_a_missing_directory_is_not_mistaken_for_one() {
    let error = run_blocking(cmd("no-such-program")).unwrap_err();
    assert_eq!(error.to_string(), "cannot find the program no-such-program");
    assert!(error.hint().unwrap().contains("install no-such-program"));
    let error = run_blocking(cmd("true").current_dir("/no/such/dir")).unwrap_err();
    assert!(matches!(error, HostError::StartCommand { .. }), "{error}");
}

#[tokio::test]
async fn input_directory_environment_and_output_pass_through() {
    let spec = sh("cat; pwd; echo $GREETING").stdin("in\n").current_dir("/").env("GREETING", "hello");
    let output = run(spec).await.unwrap();
    assert_eq!(output.text().unwrap(), "in\n/\nhello");
    assert_eq!(output.code, 0);
}

#[tokio::test]
async fn a_blocking_command_works_inside_a_runtime_too() {
    assert_eq!(run_blocking(sh("echo here")).unwrap().text().unwrap(), "here");
}

#[test]
fn input_larger_than_a_pipe_may_be_left_unread() {
    run_blocking(cmd("true").stdin(vec![b'x'; 1 << 20])).unwrap();
    let echoed = run_blocking(cmd("cat").stdin(vec![b'x'; 1 << 20])).unwrap();
    assert_eq!(echoed.stdout.len(), 1 << 20);
}

#[test]
fn an_accepted_exit_code_is_an_answer() {
    assert_eq!(run_blocking(sh("exit 3").accept(3)).unwrap().code, 3);
    assert!(run_blocking(sh("exit 4").accept(3)).is_err());
}

#[test]
fn output_over_the_limit_is_an_error_and_output_at_the_limit_is_not() {
    let error = run_blocking(cmd("yes").stdout_limit(1000).timeout(Duration::from_secs(60))).unwrap_err();
    assert!(matches!(error, HostError::HoldOutput { limit: 1000, .. }), "{error}");
    assert_eq!(run_blocking(sh("echo 123").stdout_limit(4)).unwrap().stdout, b"123\n");
}

#[test]
fn output_that_is_not_text_is_an_error_only_when_text_is_wanted() {
    let output = run_blocking(sh(r"printf '\377'")).unwrap();
    assert_eq!(output.stdout, [0xff]);
    assert!(matches!(output.text(), Err(HostError::DecodeOutput { .. })));
}

/// A shell with a grandchild, both of which would stay for a long time; it writes the grandchild's pid when it is there.
fn family(pid_file: &Path) -> CommandSpec {
    let file = pid_file.display();
    sh(&format!("sleep 1000 & echo $! > {file}.new; mv {file}.new {file}; echo waiting >&2; wait"))
}

fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // An orphan that was killed may stay a zombie for a moment, or for ever if init does not reap.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until_dead(pid: &str) {
    let started = std::time::Instant::now();
    while alive(pid) {
        assert!(started.elapsed() < Duration::from_secs(20), "{pid} is still there");
        std::thread::yield_now();
    }
}

#[test]
fn a_timeout_kills_the_whole_group() {
    // On a loaded machine the shell may not get as far as its grandchild in the shortest of these.
    for limit in [300, 2_000, 10_000].map(Duration::from_millis) {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let error = run_blocking(family(&pid_file).timeout(limit)).unwrap_err();
        let HostError::AwaitCommand { limit: named, stderr, .. } = &error else { panic!("{error}") };
        let Ok(pid) = std::fs::read_to_string(&pid_file) else { continue };
        wait_until_dead(&pid);
        assert_eq!(*named, limit);
        assert!(stderr.is_empty() || stderr == "waiting\n");
        return;
    }
    panic!("the grandchild was never started");
}

#[tokio::test]
async fn dropping_the_future_kills_the_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let started = async {
        while !pid_file.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = run(family(&pid_file)) => panic!("{ended:?}"),
        () = started => {}
    }
    wait_until_dead(&std::fs::read_to_string(&pid_file).unwrap());
}

#[tokio::test]
async fn a_line_is_told_while_the_command_still_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (heard, told) = (dir.path().join("heard"), Mutex::new(Vec::new()));
    // The command does not end before its first line was heard: it waits for the file that the follower makes.
    let script = format!("echo first >&2; until [ -e {} ]; do sleep 0.01; done; printf last", heard.display());
    let follower = |stream: Stream, line: &str| {
        told.lock().unwrap().push((stream, line.to_owned()));
        std::fs::File::create(&heard).unwrap();
        Heard::Keep
    };
    let output = Host.follow(sh(&script).timeout(Duration::from_secs(60)), &follower).await.unwrap();
    assert_eq!((output.text().unwrap(), output.stderr.as_str()), ("last", "first\n"));
    let told = told.into_inner().unwrap();
    assert_eq!(told, [(Stream::Err, "first".to_owned()), (Stream::Out, "last".to_owned())]);
}

#[tokio::test]
async fn progress_does_not_push_the_reason_of_a_failure_aside() {
    let script = "echo the disk is full >&2; seq 100000 >&2; seq 100000; printf 'and a question? ' >&2; exit 1";
    let progress = |_: Stream, line: &str| match line.parse::<u32>() {
        Ok(_) => Heard::Drop,
        Err(_) => Heard::Keep,
    };
    let error = Host.follow(sh(script).stdout_limit(10), &progress).await.unwrap_err();
    let HostError::RunCommand { stderr, .. } = &error else { panic!("{error}") };
    assert_eq!(stderr, "the disk is full\nand a question? ");
    let error = Host.follow(cmd("yes").stdout_limit(1000), &progress).await.unwrap_err();
    assert!(matches!(error, HostError::HoldOutput { limit: 1000, .. }), "{error}");
    let waiting = sh("printf 'password: ' >&2; sleep 1000").timeout(Duration::from_millis(500));
    let HostError::AwaitCommand { stderr, .. } = Host.follow(waiting, &progress).await.unwrap_err() else { panic!() };
    assert!(stderr.is_empty() || stderr == "password: ", "{stderr}");
}

#[tokio::test]
async fn a_scripted_host_answers_its_script_and_remembers() {
    let host = ScriptedHost::default().answer("uname -r", "6.1.0\n");
    assert_eq!(host.run(cmd("uname").arg("-r")).await.unwrap().text().unwrap(), "6.1.0");
    assert!(host.run(cmd("uname").arg("-a")).await.is_err());
    assert_eq!(host.ran(), ["uname -r", "uname -a"]);
    let told = Mutex::new(Vec::new());
    let follower = |_: Stream, line: &str| {
        told.lock().unwrap().push(line.to_owned());
        Heard::Drop
    };
    assert!(host.follow(cmd("uname").arg("-r"), &follower).await.unwrap().stdout.is_empty());
    assert_eq!(told.into_inner().unwrap(), ["6.1.0"]);
}

#[tokio::test]
async fn a_command_may_leave_something_running_that_holds_its_output() {
    let begun = std::time::Instant::now();
    let error = run(sh("echo one >&2; sleep 20 & printf two >&2; exit 3").until_exit()).await.unwrap_err();
    let HostError::RunCommand { status, stderr, .. } = &error else { panic!("{error}") };
    assert_eq!((status.code(), stderr.as_str()), (Some(3), "one\ntwo"));
    assert!(begun.elapsed() < Duration::from_secs(15));
    let told = Mutex::new(Vec::new());
    let follower = |_: Stream, line: &str| {
        told.lock().unwrap().push(line.to_owned());
        Heard::Keep
    };
    let spec = sh("echo one; printf two; sleep 20 & exit 0").until_exit();
    assert_eq!(Host.follow(spec, &follower).await.unwrap().stdout, b"one\ntwo");
    assert_eq!(told.into_inner().unwrap(), ["one", "two"]);
    let quiet = run(sh("echo all").until_exit()).await.unwrap();
    assert_eq!(quiet.text().unwrap(), "all");
}

#[tokio::test]
async fn a_script_may_fail_as_a_program_does() {
    let host = ScriptedHost::default().fail("diff a b", 1, "they differ");
    let error = host.run(cmd("diff").args(["a", "b"])).await.unwrap_err();
    assert_eq!(error.to_string(), "`diff a b` failed, exit status: 1; stderr:\nthey differ");
    assert_eq!(host.run(cmd("diff").args(["a", "b"]).accept(1)).await.unwrap().code, 1);
}
