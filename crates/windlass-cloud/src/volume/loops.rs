//! Loop devices: what makes a disk of a file. They are made and let go by `losetup` and looked at through `/sys/block`.
//! Letting go is lazy in the kernel: a device that someone has open or mounted stays until the last one closes it, so
//! [`release`] looks until it is gone and says who holds it if it does not go.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_steps::criterion::{LookError, Observation};
use windlass_steps::host::{self, HostError, cmd};
use windlass_steps::reason;

use super::{VolumeError, holders};
use crate::process::is_gone;
use crate::settle::settle;

const PATIENCE: Duration = Duration::from_secs(3);
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// A loop device that has a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loop {
    /// `/dev/loop<n>`.
    pub device: PathBuf,
    /// The file behind it; its last known path if it was deleted.
    pub file: PathBuf,
    /// Whether the file's name is gone.
    pub is_deleted: bool,
    /// Whether it goes away with its last user.
    pub is_leaving: bool,
    /// `major:minor`, as mount tables have it.
    pub numbers: String,
}

/// Every loop device of the host that has a file, in the order of their numbers.
pub fn list() -> Result<Vec<Loop>, VolumeError> {
    list_in(Path::new("/sys/block")).map_err(|source| VolumeError::ListLoops { source })
}

fn list_in(sys: &Path) -> io::Result<Vec<Loop>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(sys)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse::<u32>().ok());
        if let Some(number) = number
            && let Some(one) = read_loop(&sys.join(&name), Path::new("/dev").join(&name))?
        {
            found.push((number, one));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, one)| one).collect())
}

/// The files of a device that loses its file at this moment vanish one by one.
fn read_loop(dir: &Path, device: PathBuf) -> io::Result<Option<Loop>> {
    let read = |name: &str| match fs::read(dir.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_gone(&error) || is_unbound(&error) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(backing) = read("loop/backing_file")? else { return Ok(None) };
    let (file, is_deleted) = parse_backing(&backing);
    let is_leaving = read("loop/autoclear")?.is_some_and(|flag| flag.starts_with(b"1"));
    let numbers = String::from_utf8_lossy(&read("dev")?.unwrap_or_default()).trim().to_owned();
    Ok(Some(Loop { device, file, is_deleted, is_leaving, numbers }))
}

fn is_unbound(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(nix::errno::Errno::ENXIO as i32) || code == Some(nix::errno::Errno::ENODEV as i32)
}

fn parse_backing(text: &[u8]) -> (PathBuf, bool) {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    match line.strip_suffix(b" (deleted)") {
        Some(name) => (path(name), true),
        None => (path(line), false),
    }
}

/// The loop device of a file that is there, if it has one.
pub fn loop_of(file: &Path) -> Result<Option<Loop>, VolumeError> {
    let file = settled(file);
    Ok(list()?.into_iter().find(|one| one.file == file && !one.is_deleted))
}

/// Puts the file on a loop device, or finds the one it is on.
pub async fn attach(file: &Path) -> Result<PathBuf, VolumeError> {
    let file = settled(file);
    match loop_of(&file)? {
        Some(one) if one.is_leaving => return Err(VolumeError::AwaitRelease { file, device: one.device }),
        Some(one) => return Ok(one.device),
        None => {}
    }
    let command = cmd("losetup").args(["--find", "--show", "--nooverlap"]).arg(&file).timeout(COMMAND_LIMIT);
    let made = host::run(command).await;
    let output = made.map_err(|source| VolumeError::ChangeLoop { attempt: "make", file: file.clone(), source })?;
    let name = output.stdout.trim_ascii_end();
    Ok(PathBuf::from(OsString::from_vec(name.to_vec())))
}

/// Makes the loop device as large as its file has become; a file without one needs nothing.
pub async fn refresh(file: &Path) -> Result<(), VolumeError> {
    let Some(one) = loop_of(file)? else { return Ok(()) };
    let command = cmd("losetup").arg("--set-capacity").arg(&one.device).timeout(COMMAND_LIMIT);
    let resized = host::run(command).await;
    resized.map(drop).map_err(|source| VolumeError::ChangeLoop { attempt: "resize", file: file.to_owned(), source })
}

/// Takes the file off its loop device and proves that the device is gone. A file without one needs nothing.
pub async fn release(file: &Path) -> Result<(), VolumeError> {
    let file = settled(file);
    for one in list()?.into_iter().filter(|one| one.file == file) {
        let_go(&one).await?;
    }
    Ok(())
}

/// Lets one loop device go and proves it.
pub async fn let_go(one: &Loop) -> Result<(), VolumeError> {
    let command = cmd("losetup").arg("--detach").arg(&one.device).timeout(COMMAND_LIMIT);
    match host::run(command).await {
        Ok(_) => {}
        // Someone else was faster, or its last user just left.
        Err(HostError::RunCommand { .. }) if !is_there(one)? => return Ok(()),
        Err(source) => return Err(VolumeError::ChangeLoop { attempt: "release", file: one.file.clone(), source }),
    }
    let watched = one.clone();
    let statement = format!("{} has no file", one.device.display());
    let gone = settle(statement, PATIENCE, move || look(&watched)).await;
    gone.map_err(|unmet| VolumeError::Release { file: one.file.clone(), unmet })
}

fn look(one: &Loop) -> Result<Observation, LookError> {
    if !is_there(one)? {
        return Ok(Observation::Holds);
    }
    let users = holders::of(&one.numbers)?;
    let words: Vec<String> = users.iter().take(5).map(ToString::to_string).collect();
    // One mark for every text: new names among the holders are no progress.
    Ok(Observation::NotYet(match words.is_empty() {
        true => reason!("the kernel still has it").at(0),
        false => reason!("held by {}", words.join(", ")).at(0),
    }))
}

fn is_there(one: &Loop) -> Result<bool, VolumeError> {
    Ok(list()?.iter().any(|now| now.device == one.device && now.file == one.file))
}

/// The path as the kernel would tell it, also of a file that is gone.
fn settled(file: &Path) -> PathBuf {
    let whole = fs::canonicalize(file);
    let by_parent = || Some(fs::canonicalize(file.parent()?).ok()?.join(file.file_name()?));
    whole.ok().or_else(by_parent).unwrap_or_else(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    #[test]
    fn the_file_behind_a_device_is_read_whatever_its_name() {
        let cases: [(&[u8], &str, bool); 5] = [
            (b"/var/lib/windlass/a.img\n", "/var/lib/windlass/a.img", false),
            (b"/a b\\040.img\n", "/a b\\040.img", false),
            (b"/a.img (deleted)\n", "/a.img", true),
            (b"/a\nb.img\n", "/a\nb.img", false),
            (b"/a.img", "/a.img", false),
        ];
        for (text, file, is_deleted) in cases {
            assert_eq!(parse_backing(text), (PathBuf::from(file), is_deleted));
        }
    }

    #[test]
    fn only_devices_with_a_file_are_listed_in_the_order_of_their_numbers() {
        let sys = tempfile::tempdir().unwrap();
        for name in ["loop10", "loop9", "loop1", "loop-control", "vda", "loopx"] {
            make_dir(sys.path().join(name).join("loop"), Mode::PUBLIC_DIR).unwrap();
            write_file(sys.path().join(name).join("dev"), "7:10\n", Mode::PUBLIC).unwrap();
        }
        for (name, file, flag) in
            [("loop10", "/b\n", "0\n"), ("loop9", "/a (deleted)\n", "1\n"), ("vda", "/c\n", "0\n")]
        {
            write_file(sys.path().join(name).join("loop/backing_file"), file, Mode::PUBLIC).unwrap();
            write_file(sys.path().join(name).join("loop/autoclear"), flag, Mode::PUBLIC).unwrap();
        }
        let found = list_in(sys.path()).unwrap();
        let words: Vec<_> =
            found.iter().map(|one| (one.device.as_os_str().as_bytes(), one.is_deleted, one.is_leaving)).collect();
        assert_eq!(words, [(&b"/dev/loop9"[..], true, true), (&b"/dev/loop10"[..], false, false)]);
        assert_eq!(found[0].numbers, "7:10");
    }
}
