//! What a runner writes down about itself, so that a daemon that knows nothing finds it again: who it is, how far it has
//! come, and how the machine ended.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_steps::host::{Mode, make_dir, read_file, write_file};

use super::error::{MachineError, change, host};

const LIMIT: u64 = 64 << 10;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A process, told apart from all that had or will have its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since the host booted.
    pub started: u64,
    /// Which boot of the host that was.
    pub boot_id: String,
}

/// How far the runner has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The root is being made.
    Preparing,
    /// Ignition is at work; its log says what it waits for.
    Igniting,
    /// systemd-nspawn runs.
    Booted,
}

/// `runner.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// The runner's process.
    #[serde(flatten)]
    pub identity: Identity,
    /// How far it has come.
    pub phase: Phase,
    /// How often it has booted the machine: more than once after a reboot from inside.
    pub boots: u32,
}

/// How a machine ended; `exit.json` holds all but [`Ended::Lost`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ended", rename_all = "kebab-case")]
pub enum Ended {
    /// It was powered off, or could not boot: nspawn's exit code.
    Exited {
        /// 0 when it was powered off.
        code: i32,
        /// RFC 3339.
        time: String,
    },
    /// Its power was cut.
    Killed {
        /// The signal that ended nspawn.
        signal: i32,
        /// RFC 3339.
        time: String,
    },
    /// It never booted: its root could not be made, or Ignition failed.
    Failed {
        /// Why.
        reason: String,
        /// RFC 3339.
        time: String,
    },
    /// Its runner was killed before it could say.
    Lost,
}

impl Identity {
    /// Of a process that is there now.
    pub fn of(pid: i32) -> Result<Self, MachineError> {
        let stat = Path::new("/proc").join(pid.to_string()).join("stat");
        let text = fs::read_to_string(&stat).map_err(change("read", &stat))?;
        let started = start_time(&text).ok_or_else(|| change("understand", &stat)(std::io::Error::other(text)))?;
        Ok(Self { pid, started, boot_id: boot_id()? })
    }

    /// Whether that very process is still there.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }
}

/// Which boot of the host this is.
pub(crate) fn boot_id() -> Result<String, MachineError> {
    let path = Path::new(BOOT_ID);
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(change("read", path))
}

/// The 22nd field of `/proc/PID/stat`; the second is the program's name, in which anything may stand. A zombie has no
/// start time here: it has ended.
fn start_time(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Reads one of the files, if it is there.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, MachineError> {
    match path.try_exists() {
        Ok(false) => Ok(None),
        Err(source) => Err(change("look for", path)(source)),
        Ok(true) => {
            let bytes = read_file(path, LIMIT).map_err(host("read what was written down about a machine"))?;
            // What a crash of the host leaves of a file that was not to last.
            if bytes.is_empty() {
                return Ok(None);
            }
            let parsed = serde_json::from_slice(&bytes);
            parsed.map(Some).map_err(|source| MachineError::Understand { path: path.to_owned(), source })
        }
    }
}

/// Writes one of the files, and the directory that it lies in: whole or not at all, but not to last beyond a crash of
/// the host, because what it tells does not either.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), MachineError> {
    let bytes = bytes(path, value)?;
    let attempt = "write down how a machine is";
    make_dir(path.parent().unwrap_or(path), Mode::PRIVATE_DIR).map_err(host(attempt))?;
    let temp = path.with_extension("new");
    let opened = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temp);
    let written = opened.and_then(|mut file| file.write_all(&bytes)).and_then(|()| fs::rename(&temp, path));
    written.map_err(change("write", path))
}

/// The same, to last.
pub(crate) fn write_lasting<T: Serialize>(path: &Path, value: &T) -> Result<(), MachineError> {
    let bytes = bytes(path, value)?;
    write_file(path, bytes, Mode::PRIVATE_FILE).map_err(host("write down what a machine is"))
}

fn bytes<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, MachineError> {
    serde_json::to_vec(value).map_err(|source| MachineError::Understand { path: path.to_owned(), source })
}

/// Removes one of the files; one that is not there is gone.
pub(crate) fn remove(path: &Path) -> Result<(), MachineError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(change("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_program_name() {
        let fields = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        let cases = [
            (format!("12 (sh) S {fields}"), Some(4711)),
            (format!("12 (a) b (c d) R {fields}"), Some(4711)),
            (format!("12 (sh) Z {fields}"), None),
            ("12 (sh) S 1 2".to_owned(), None),
            (String::new(), None),
        ];
        for (stat, want) in cases {
            assert_eq!(start_time(&stat), want, "{stat}");
        }
    }

    #[test]
    fn a_process_is_itself_and_no_other() {
        let own = Identity::of(std::process::id().try_into().unwrap()).unwrap();
        assert!(own.is_alive());
        assert!(!Identity { started: own.started + 1, ..own.clone() }.is_alive());
        assert!(!Identity { boot_id: "another".to_owned(), ..own }.is_alive());
    }

    #[test]
    fn what_is_written_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/runner.json");
        assert_eq!(read::<Runner>(&path).unwrap(), None);
        let identity = Identity { pid: 7, started: 8, boot_id: "b".to_owned() };
        let runner = Runner { identity, phase: Phase::Igniting, boots: 0 };
        write(&path, &runner).unwrap();
        assert_eq!(read(&path).unwrap(), Some(runner));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, r#"{"pid":7,"started":8,"boot_id":"b","phase":"igniting","boots":0}"#);
        fs::File::create(&path).unwrap();
        assert_eq!(read::<Runner>(&path).unwrap(), None);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read::<Runner>(&path).unwrap(), None);
    }
}
