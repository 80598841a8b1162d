//! The first boot's Ignition: the real binary, from outside, in the machine's network and with its resolver, on the root
//! that the machine will boot. It takes its config from the metadata service, and does its own retrying.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{dup2_stderr, dup2_stdout};
use windlass_steps::host::{CommandSpec, HostError, Mode, cmd, run_blocking, write_file};

use super::description::Description;
use super::error::{MachineError, change, host};
use super::mounts::{self, Mount, What};
use super::{console, slot};

/// The platform whose config is one GET of [`USER_DATA`]; "not found" means an empty config.
pub const PLATFORM: &str = "exoscale";
/// What Ignition asks the metadata service for.
pub const USER_DATA: &str = "http://169.254.169.254/1.0/user-data";
/// The stages that make sense for a root that exists.
pub const STAGES: [&str; 2] = ["fetch", "files"];

/// Below the private `/run`, so that a config with secrets in it is gone with the namespace.
const CACHE: &str = "/run/ignition/config.json";
/// More than a few lines of its log.
const TAIL: u64 = 8 << 10;
/// Ignition runs the host's useradd and systemctl on the machine's root.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The last thing that Ignition said: what it waits for, or why it failed.
pub fn reason(description: &Description) -> Option<String> {
    let end = console::tail(&description.ignition_log(), TAIL).ok()?;
    reason_in(&String::from_utf8_lossy(&end))
}

/// Attempts are not counted in it: a reason that changes with every attempt would pass for progress.
fn reason_in(log: &str) -> Option<String> {
    let mut asked = "";
    let mut reason = None;
    for line in log.lines().map(without_level).filter(|line| !line.is_empty()) {
        if let Some((url, _)) = line.strip_prefix("GET ").and_then(|rest| rest.split_once(": attempt #")) {
            let again = asked == url && reason.is_some();
            asked = url;
            reason = if again { reason } else { Some(format!("GET {url}")) };
        } else if let Some(said) = line.strip_prefix("GET result: ").or_else(|| line.strip_prefix("GET error: ")) {
            reason = Some(format!("GET {asked}: {said}"));
        } else {
            reason = Some(line.strip_prefix("Ignition failed: ").unwrap_or(line).to_owned());
        }
    }
    reason.map(|reason| without_queries(&reason))
}

/// URLs without what follows their question mark: for an object, that is the right to read it.
fn without_queries(text: &str) -> String {
    let mut kept = String::new();
    let mut is_query = false;
    for letter in text.chars() {
        is_query = letter == '?' || (is_query && !matches!(letter, ' ' | '"' | ':'));
        if !is_query {
            kept.push(letter);
        }
    }
    kept
}

/// Lines begin with a level: `INFO     : `.
fn without_level(line: &str) -> &str {
    match line.split_once(" : ") {
        Some((level, rest)) if level.trim_end().bytes().all(|byte| byte.is_ascii_uppercase()) => rest.trim(),
        _ => line.trim(),
    }
}

/// Runs both stages and returns when the root is as the config says.
///
/// The caller is a process with one thread that does nothing else: it leaves the host's mounts and network for good.
pub fn carry_out(description: &Description, program: &Path) -> Result<(), MachineError> {
    let slot = slot::take(&description.directory, &description.os)?;
    log_to(&description.ignition_log())?;
    mounts::leave_host(&description.pins, &description.network)?;
    mounts::enter_network(&description.network)?;
    mounts::carry_out(&mounts::of(description, &slot))?;
    see_names_as_the_machine(&description.root())?;
    let ignition_dir = Path::new(CACHE).parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(ignition_dir).map_err(change("make", ignition_dir))?;
    for stage in STAGES {
        match run_blocking(command(program, stage, &description.root())) {
            Ok(_) => {}
            Err(HostError::RunCommand { .. }) => {
                return Err(MachineError::Ignite { reason: reason(description).unwrap_or_default() });
            }
            Err(source) => return Err(host("run Ignition")(source)),
        }
    }
    Ok(())
}

/// With an environment of its own: a proxy of the host's is none of the machine.
fn command(program: &Path, stage: &str, root: &Path) -> CommandSpec {
    let command = cmd("env").args(["-i", PATH, "IGNITION_SYSTEM_CONFIG_DIR=/run/ignition/none"]).arg(program);
    let command = command.args(["-platform", PLATFORM, "-config-cache", CACHE, "-log-to-stdout", "-stage", stage]);
    command.arg("-root").arg(root).inherit()
}

fn log_to(path: &Path) -> Result<(), MachineError> {
    let opened = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    let file: File = opened.map_err(change("open", path))?;
    dup2_stdout(&file).and_then(|()| dup2_stderr(&file)).map_err(change("write to", path))
}

/// Lays the machine's resolver and hosts over the host's: in an overlay, because the host's may be links to anywhere.
fn see_names_as_the_machine(root: &Path) -> Result<(), MachineError> {
    let scratch = PathBuf::from("/run/names");
    let (upper, work) = (scratch.join("upper"), scratch.join("work"));
    for dir in [&upper, &work] {
        std::fs::create_dir_all(dir).map_err(change("make", dir))?;
    }
    for name in ["resolv.conf", "hosts"] {
        let from = root.join("etc").join(name);
        let text = std::fs::read(&from).map_err(change("read", &from))?;
        write_file(upper.join(name), text, Mode::PUBLIC).map_err(host("write the machine's names"))?;
    }
    let what = What::Overlay { lower: PathBuf::from("/etc"), upper, work };
    mounts::carry_out(&[Mount { at: PathBuf::from("/etc"), what }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_is_asked_for_and_what_was_answered() {
        let asking = "INFO     : GET http://a/b: attempt #1\n";
        let refused = format!("{asking}INFO     : GET result: Service Unavailable\n");
        let again = format!("{refused}INFO     : GET http://a/b: attempt #2\n");
        let failed = format!("{again}CRITICAL : Ignition failed: no such file\n\n");
        let cases = [
            ("", None),
            (asking, Some("GET http://a/b")),
            (&refused, Some("GET http://a/b: Service Unavailable")),
            (&again, Some("GET http://a/b: Service Unavailable")),
            (&failed, Some("no such file")),
            ("INFO     : Stage: files", Some("Stage: files")),
            (
                "INFO     : GET http://o/x?expires=1&signature=s: attempt #1\n\
                 INFO     : GET error: Get \"http://o/x?expires=1&signature=s\": no such host\n",
                Some("GET http://o/x: Get \"http://o/x\": no such host"),
            ),
        ];
        for (log, want) in cases {
            assert_eq!(reason_in(log).as_deref(), want, "{log}");
        }
    }

    #[test]
    fn ignition_gets_the_root_and_nothing_of_the_hosts_environment() {
        let line = command(Path::new("/opt/ignition"), "files", Path::new("/m/root")).line();
        let want = format!(
            "env -i {PATH} IGNITION_SYSTEM_CONFIG_DIR=/run/ignition/none /opt/ignition -platform exoscale \
             -config-cache /run/ignition/config.json -log-to-stdout -stage files -root /m/root"
        );
        assert_eq!(line, want);
    }
}
