//! Who has a volume in the simulated world: a file beside it, made in one motion, so that of any number of machines that
//! reach for a volume at the same time exactly one gets it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windlass_steps::host::{self, HostError, Mode};

use super::SimulatedError;

const NAME_LIMIT: u64 = 1 << 10;

/// Gives the volume to the machine, unless another one has it. Repeating it is harmless.
pub fn hold(dir: &Path, volume: &str, machine: &str) -> Result<(), SimulatedError> {
    let (held, claim) = (file(dir, volume), dir.join(format!(".{volume}.holder.{machine}")));
    let written = host::write_file(&claim, machine, Mode::PRIVATE_FILE);
    written.map_err(|source| SimulatedError::KeepFile { path: claim.clone(), source })?;
    // A link is made with its content and only where nothing is.
    let linked = fs::hard_link(&claim, &held);
    let removed = fs::remove_file(&claim).or_else(|error| absent(error, ()));
    removed.map_err(|source| SimulatedError::ChangeFile { attempt: "remove", path: claim, source })?;
    match linked {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match holder(dir, volume)? {
            Some(holder) if holder != machine => Err(SimulatedError::HoldVolume { volume: volume.to_owned(), holder }),
            _ => Ok(()),
        },
        Err(source) => Err(SimulatedError::ChangeFile { attempt: "make", path: held, source }),
    }
}

/// Who has the volume.
pub fn holder(dir: &Path, volume: &str) -> Result<Option<String>, SimulatedError> {
    let path = file(dir, volume);
    match host::read_file(&path, NAME_LIMIT) {
        Ok(name) => Ok(Some(String::from_utf8_lossy(&name).into_owned())),
        Err(HostError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SimulatedError::KeepFile { path, source }),
    }
}

/// Takes the volume from the machine; one that does not have it loses nothing.
pub fn let_go(dir: &Path, volume: &str, machine: &str) -> Result<(), SimulatedError> {
    if holder(dir, volume)?.is_none_or(|holder| holder != machine) {
        return Ok(());
    }
    let path = file(dir, volume);
    let removed = fs::remove_file(&path).or_else(|error| absent(error, ()));
    removed.map_err(|source| SimulatedError::ChangeFile { attempt: "remove", path, source })
}

fn file(dir: &Path, volume: &str) -> PathBuf {
    dir.join(format!("{volume}.holder"))
}

fn absent<T>(error: io::Error, value: T) -> io::Result<T> {
    if error.kind() == io::ErrorKind::NotFound { Ok(value) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_at_a_time_has_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path(), "v").unwrap(), None);
        hold(dir.path(), "v", "a").unwrap();
        hold(dir.path(), "v", "a").unwrap();
        let refused = hold(dir.path(), "v", "b").unwrap_err();
        assert_eq!(refused.to_string(), "volume v is held by a");
        let_go(dir.path(), "v", "b").unwrap();
        assert_eq!(holder(dir.path(), "v").unwrap().as_deref(), Some("a"));
        let_go(dir.path(), "v", "a").unwrap();
        hold(dir.path(), "v", "b").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_that_reach_at_once_exactly_one_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let got = |n: u32| hold(dir.path(), "v", &format!("m-{n}")).is_ok();
        let winners = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|n| scope.spawn(move || got(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(winners, 1);
    }
}
