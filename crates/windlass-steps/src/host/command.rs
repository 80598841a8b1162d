//! A command as a value: what to run, with what, and for how long. It can be shown before it runs, and the same line
//! appears in the log and in the error.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::HostError;

const STDOUT_LIMIT: usize = 64 << 20;

/// Starts the description of a command. There is no shell: each argument arrives as it is.
pub fn cmd(program: impl AsRef<OsStr>) -> CommandSpec {
    CommandSpec {
        program: program.as_ref().to_owned(),
        args: Vec::new(),
        env: Vec::new(),
        dir: None,
        stdin: Vec::new(),
        timeout: None,
        accepted: vec![0],
        streams: Streams::Captured,
        end: End::OfOutput,
        stdout_limit: STDOUT_LIMIT,
    }
}

/// What to run. The environment is inherited; stdin is empty unless given.
///
/// Arguments are visible in `ps`, in logs and in errors: hand secrets over through [`CommandSpec::stdin`] or a file.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a command does nothing until it is run"]
pub struct CommandSpec {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) dir: Option<PathBuf>,
    pub(super) stdin: Vec<u8>,
    pub(super) timeout: Option<Duration>,
    pub(super) accepted: Vec<i32>,
    pub(super) streams: Streams,
    pub(super) end: End,
    pub(super) stdout_limit: usize,
}

/// Where the command's stdout and stderr go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    Captured,
    Inherited,
}

/// When a command counts as ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// When nobody holds its output any more.
    OfOutput,
    /// When the process itself has ended.
    OfProcess,
}

impl CommandSpec {
    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets one variable on top of the inherited environment; it is not shown in errors.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs in this directory.
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.dir = Some(dir.as_ref().to_owned());
        self
    }

    /// Feeds these bytes to stdin; a command that ends without reading them all is not an error.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Kills the command and its whole process group when it has not ended by then.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Takes this exit code as success too, for programs that answer with it (`systemctl is-active`, `diff`).
    pub fn accept(mut self, code: i32) -> Self {
        self.accepted.push(code);
        self
    }

    /// Lets stdout and stderr go where ours go, for long builds; the [`Output`] is then empty.
    pub fn inherit(mut self) -> Self {
        self.streams = Streams::Inherited;
        self
    }

    /// Ends when the command itself does, for those that leave something running which keeps their output open. What that
    /// says later is lost.
    pub fn until_exit(mut self) -> Self {
        self.end = End::OfProcess;
        self
    }

    /// Holds at most this many bytes of stdout (64 MiB unless said); more is an error, never a cut answer.
    pub fn stdout_limit(mut self, bytes: usize) -> Self {
        self.stdout_limit = bytes;
        self
    }

    /// The line a person would type to repeat it.
    pub fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(|word| quoted(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())
    }
}

// By hand, because the environment and stdin may hold secrets.
impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommandSpec").field(&self.line()).finish()
    }
}

/// What a command that succeeded left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The command line, for errors about the output.
    pub command: String,
    /// The exit code, one of the accepted ones.
    pub code: i32,
    /// All of stdout.
    pub stdout: Vec<u8>,
    /// The end of stderr, lossily decoded.
    pub stderr: String,
}

impl Output {
    /// Stdout as text without the line break at its end.
    pub fn text(&self) -> Result<&str, HostError> {
        std::str::from_utf8(&self.stdout)
            .map(str::trim_end)
            .map_err(|source| HostError::DecodeOutput { command: self.command.clone(), source })
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let cases: [(&[&str], &str); 5] = [
            (&["mkfs.ext4", "-L", "etcd-0", "/dev/loop3"], "mkfs.ext4 -L etcd-0 /dev/loop3"),
            (&["echo", ""], "echo ''"),
            (&["echo", "two words"], "echo 'two words'"),
            (&["echo", "it's"], r"echo 'it'\''s'"),
            (&["echo", "$HOME;rm"], "echo '$HOME;rm'"),
        ];
        for (words, line) in cases {
            assert_eq!(cmd(words[0]).args(&words[1..]).line(), line);
        }
    }

    #[test]
    fn debug_shows_neither_environment_nor_stdin() {
        let spec = cmd("true").env("TOKEN", "canary").stdin("canary");
        assert!(!format!("{spec:?} {spec}").contains("canary"));
    }
}
