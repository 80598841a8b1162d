//! Booting again in the middle of the flow. From the moment on at which a boot is due, neither runtime nor kubelet may
//! start: their units have the note as a condition. Masking them at run time would do nothing, because systemd prefers
//! the units in `/etc` to a mask in `/run`. The note is in `/run`, so that the next boot does not know it.

use std::convert::Infallible;
use std::future::pending;

use windlass_steps::host::{Commands, HostError, Mode, cmd, make_dir, read_file, write_file};

use super::BootstrapError;
use crate::extension::Then;
use crate::places::Places;

const LIMIT: u64 = 1 << 10;

/// Notes that a boot is due, if it is.
pub(super) fn note(places: &Places, then: &Then) -> Result<(), BootstrapError> {
    let Then::Reboot(why) = then else { return Ok(()) };
    let path = places.reboot_due();
    let made = make_dir(path.parent().unwrap_or(&path), Mode::PUBLIC_DIR);
    let noted = made.and_then(|_| write_file(&path, why.to_string(), Mode::PUBLIC));
    noted.map_err(|source| BootstrapError::NoteReboot { source })
}

/// Why a boot is due: for what this run found, or what an earlier run of this boot had noted.
pub(super) fn due(places: &Places, then: &Then) -> Result<Option<String>, BootstrapError> {
    note(places, then)?;
    let path = places.reboot_due();
    if !path.exists() {
        return Ok(None);
    }
    let bytes = read_file(path, LIMIT).map_err(|source| BootstrapError::NoteReboot { source })?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Boots, and does not return: systemd ends this process on its way down.
pub(super) async fn now<T>(commands: &impl Commands) -> Result<T, HostError> {
    commands.run(cmd("systemctl").args(["--no-block", "reboot"])).await?;
    match pending::<Infallible>().await {}
}

#[cfg(test)]
mod tests {
    use windlass_artifacts::addon::OsVersion;

    use super::*;
    use crate::extension::Why;

    #[test]
    fn a_boot_that_is_due_stays_due_until_it_happens() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert_eq!(due(&places, &Then::Nothing).unwrap(), None);
        assert_eq!(due(&places, &Then::Merge).unwrap(), None);
        let os = Then::Reboot(Why::Os { to: OsVersion::parse("2").unwrap() });
        assert_eq!(due(&places, &os).unwrap().as_deref(), Some("into OS version 2"));
        assert_eq!(due(&places, &Then::Nothing).unwrap().as_deref(), Some("into OS version 2"), "a repeated run knows");
    }
}
