//! Running a command inside a machine, from outside: all namespaces of its first process, an environment of its own, and
//! everything captured.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use windlass_steps::host::{CommandSpec, HostError, cmd, run};

use super::On;
use crate::machine::error::{MachineError, host};

/// What a login would set.
const ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
    "container=systemd-nspawn",
];

/// A command for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// After which it is killed, with all it started.
    pub timeout: Duration,
}

/// What a command left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Its exit code; 128 and more is a signal, as a shell says it.
    pub code: i32,
    /// All of stdout.
    pub stdout: Vec<u8>,
    /// The end of stderr.
    pub stderr: String,
}

impl Command {
    /// Without input, for at most half a minute.
    pub fn new<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self { words, stdin: Vec::new(), timeout: Duration::from_secs(30) }
    }

    /// The same, with this to read.
    pub fn with_stdin(self, stdin: impl Into<Vec<u8>>) -> Self {
        Self { stdin: stdin.into(), ..self }
    }
}

impl On {
    /// Runs the command and returns what it left behind, whatever its exit code.
    pub async fn exec(&self, command: Command) -> Result<Executed, MachineError> {
        let leader = self.leader()?;
        match run(entering(&self.description.program, leader, command)).await {
            Ok(output) => Ok(Executed { code: output.code, stdout: output.stdout, stderr: output.stderr }),
            Err(HostError::RunCommand { status, stderr, .. }) => {
                let code = 128 + status.signal().unwrap_or_default();
                Ok(Executed { code, stdout: Vec::new(), stderr })
            }
            Err(source) => Err(host("run a command in the machine")(source)),
        }
    }
}

/// By our own program and not by nsenter: while systemd shuts down it stops every process for a moment, and nsenter,
/// seeing that of its child, stops itself outside, where nobody lets it go on. The child is then never reaped, and the
/// shutdown waits for it for a minute and a half.
fn entering(program: &Path, leader: i32, command: Command) -> CommandSpec {
    let entering = cmd(program).args(["guest", "enter", "--leader", &leader.to_string()]);
    let entering = entering.args(["--", "/usr/bin/env", "-i"]).args(ENVIRONMENT).args(command.words);
    let any_code = |spec: CommandSpec, code| spec.accept(code);
    (1..=255).fold(entering.stdin(command.stdin).timeout(command.timeout), any_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_enters_everything_and_brings_nothing_along() {
        let line = entering(Path::new("/p"), 7, Command::new(["cat", "a b"])).line();
        assert!(line.starts_with("/p guest enter --leader 7 -- /usr/bin/env -i PATH="), "{line}");
        assert!(line.ends_with(" cat 'a b'"), "{line}");
    }
}
