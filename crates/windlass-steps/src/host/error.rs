//! What can go wrong at the door: each variant names the attempt and its subject, and keeps the cause as its source.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// A failed command or file operation, with enough in it to repeat the attempt by hand.
#[derive(Debug, Error)]
pub enum HostError {
    /// The program is not installed, or not on `PATH`.
    #[error("cannot find the program {program}")]
    FindProgram {
        /// As it was asked for.
        program: String,
    },
    /// The program is there but could not be started.
    #[error("cannot start `{command}`")]
    StartCommand {
        /// The command line, quoted for a shell.
        command: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The command ran and said no.
    #[error("`{command}` failed, {status}{}", said(.stderr))]
    RunCommand {
        /// The command line, quoted for a shell.
        command: String,
        /// Exit code or signal.
        status: ExitStatus,
        /// The end of what it wrote to stderr; empty if that went to the terminal.
        stderr: String,
    },
    /// The command did not end in time; it and its whole process group were killed.
    #[error("`{command}` did not end within {limit:?} and was killed{}", said(.stderr))]
    AwaitCommand {
        /// The command line, quoted for a shell.
        command: String,
        /// The limit it was given.
        limit: Duration,
        /// The end of what it had written to stderr by then.
        stderr: String,
    },
    /// Feeding stdin, collecting output or reaping the process failed.
    #[error("cannot exchange data with `{command}`")]
    TalkToCommand {
        /// The command line, quoted for a shell.
        command: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The command wrote more to stdout than the caller is ready to hold.
    #[error("`{command}` wrote more than {limit} bytes to stdout and was killed")]
    HoldOutput {
        /// The command line, quoted for a shell.
        command: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The output was to be text and is not UTF-8.
    #[error("cannot read the output of `{command}` as text")]
    DecodeOutput {
        /// The command line, quoted for a shell.
        command: String,
        /// Where it stops being UTF-8.
        source: std::str::Utf8Error,
    },
    /// The file was not written; what was there before is still there.
    #[error("cannot write {}", .path.display())]
    WriteFile {
        /// The final path, not the temporary one.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file was not written, and its temporary file could not be removed either.
    #[error("cannot write {}, nor remove {} ({cleanup})", .path.display(), .temp.display())]
    LeaveTemp {
        /// The final path.
        path: PathBuf,
        /// The temporary file left behind; `sweep_temps` will find it.
        temp: PathBuf,
        /// Why it could not be removed.
        cleanup: io::Error,
        /// Why the file could not be written in the first place.
        source: io::Error,
    },
    /// The file could not be opened or read.
    #[error("cannot read {}", .path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file is larger than the caller is ready to read.
    #[error("cannot read {}: it is larger than {limit} bytes", .path.display())]
    HoldFile {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The directory could not be made.
    #[error("cannot make the directory {}", .path.display())]
    MakeDir {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The mode could not be changed.
    #[error("cannot change the mode of {}", .path.display())]
    SetMode {
        /// The file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The names in the directory may not survive a power cut.
    #[error("cannot sync the directory {}", .path.display())]
    SyncDir {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Left-over temporary files could not be looked for or removed.
    #[error("cannot remove left-over temporary files at {}", .path.display())]
    SweepTemps {
        /// The directory, or the file that would not go.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl HostError {
    /// What the user could do about it, where that is plain from the error alone; it suits a `next:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::FindProgram { program } => {
                Some(format!("install {program}; `windlass host check` lists what this host lacks"))
            }
            Self::StartCommand { .. }
            | Self::RunCommand { .. }
            | Self::AwaitCommand { .. }
            | Self::TalkToCommand { .. }
            | Self::HoldOutput { .. }
            | Self::DecodeOutput { .. }
            | Self::WriteFile { .. }
            | Self::LeaveTemp { .. }
            | Self::ReadFile { .. }
            | Self::HoldFile { .. }
            | Self::MakeDir { .. }
            | Self::SetMode { .. }
            | Self::SyncDir { .. }
            | Self::SweepTemps { .. } => None,
        }
    }
}

fn said(stderr: &str) -> String {
    match stderr.trim_end() {
        "" => String::new(),
        text => format!("; stderr:\n{text}"),
    }
}
