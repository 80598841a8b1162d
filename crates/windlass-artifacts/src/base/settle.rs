//! The configuration of the root, and the two OS versions that are made from it. They differ in what
//! `/etc/os-release` says and in nothing else: an OS update is part of what windlass does, not what Debian does.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use windlass_steps::host::{Commands, Mode, cmd, make_dir, read_file, write_file};

use super::bootstrap::remove;
use super::error::change;
use super::{BaseError, IMAGES, Observer, Stage, need_root};

const LIMIT: u64 = 1 << 20;

/// The OS versions that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OsVersion {
    /// `VERSION_ID=1`, what machines start with.
    V1,
    /// `VERSION_ID=2`, what they are updated to.
    V2,
}

impl OsVersion {
    /// Both, oldest first.
    pub const ALL: [OsVersion; 2] = [OsVersion::V1, OsVersion::V2];

    /// As in `VERSION_ID`.
    pub fn as_str(self) -> &'static str {
        match self {
            OsVersion::V1 => "1",
            OsVersion::V2 => "2",
        }
    }

    /// The name of the base: `base-1`.
    pub fn base_name(self) -> String {
        format!("base-{self}")
    }
}

impl fmt::Display for OsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a base is made from.
#[derive(Debug, Clone)]
pub struct BaseInputs<'a> {
    /// The root that [`super::make_root`] made; it stays as it is.
    pub root: &'a Path,
    /// Which of the two it becomes.
    pub os_version: OsVersion,
    /// Programs that every machine has, by their path in the base.
    pub programs: &'a [(String, PathBuf)],
    /// Image archives, for `/usr/share/windlass/images`; linked if they lie on the same file system, else copied.
    pub images: &'a [PathBuf],
}

/// What pods of others mount from every machine, whether it has anything in it or not: `/usr` is not written to later.
const MOUNTED: [&str; 1] = ["usr/lib/modules"];

/// Makes the base at `out`, which must not exist. Its files are hard links to the root's, so that it costs no space.
pub async fn make_base(
    inputs: &BaseInputs<'_>,
    out: &Path,
    commands: &impl Commands,
    observe: Observer<'_>,
) -> Result<(), BaseError> {
    need_root()?;
    observe(Stage::Derive);
    let copied = commands.run(cmd("cp").arg("-al").arg(inputs.root).arg(out)).await;
    copied.map_err(|source| BaseError::RunTool { attempt: "link the root's files", source })?;
    write(&out.join("usr/lib/os-release"), &os_release(inputs.os_version))?;
    write(&out.join("usr/share/windlass/base"), &format!("{}\n", inputs.os_version.base_name()))?;
    for folder in MOUNTED {
        make_dir(out.join(folder), Mode::PUBLIC_DIR).map_err(|error| change("make", out)(io::Error::other(error)))?;
    }
    for image in inputs.images {
        let name = image.file_name().unwrap_or(image.as_os_str());
        let to = out.join(IMAGES).join(name);
        make_parent(&to)?;
        if fs::hard_link(image, &to).is_err() {
            copy(image, &to, Mode::PUBLIC)?;
        }
    }
    for (path, program) in inputs.programs {
        copy(program, &out.join(path.trim_start_matches('/')), Mode::EXECUTABLE)?;
    }
    Ok(())
}

fn os_release(version: OsVersion) -> String {
    format!(
        "PRETTY_NAME=\"Windlass machine {version} (Debian 12)\"\nNAME=\"Debian GNU/Linux\"\nID=debian\n\
         VERSION_ID=\"{version}\"\nVERSION=\"{version} (bookworm)\"\nVERSION_CODENAME=bookworm\n\
         BUILD_ID=\"{}\"\nHOME_URL=\"https://www.debian.org/\"\n",
        version.base_name()
    )
}

fn copy(from: &Path, to: &Path, mode: Mode) -> Result<(), BaseError> {
    make_parent(to)?;
    remove(to)?;
    fs::copy(from, to).map_err(change("copy", from))?;
    set_mode(to, mode)
}

/// Files that are written as they stand here.
const FILES: &[(&str, &str)] = &[
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
    ("etc/fstab", ""),
    // Ignition's files stage wants it to exist.
    ("etc/selinux/config", "SELINUX=disabled\n"),
    // The first boot enables what a preset says: ours is read after Ignition's (20-) and before Debian's (90-, 99-),
    // which would enable everything.
    ("usr/lib/systemd/system-preset/80-windlass.preset", "enable systemd-sysext.service\ndisable *\n"),
    // Logs outlive a reboot, because reboots are part of a node's way up, but not the disk. The kernel's messages are
    // those of the host and all other machines.
    (
        "usr/lib/systemd/journald.conf.d/10-windlass.conf",
        "[Journal]\nStorage=persistent\nSystemMaxUse=128M\nRuntimeMaxUse=16M\nReadKMsg=no\nForwardToSyslog=no\n",
    ),
    // Nothing starts sshd by itself; whoever does gets host keys of this machine's own.
    (
        "usr/lib/systemd/system/ssh.service.d/10-windlass.conf",
        "[Service]\nExecStartPre=\nExecStartPre=/usr/bin/ssh-keygen -A\nExecStartPre=/usr/sbin/sshd -t\n",
    ),
];

/// Units that make no sense in a container, or ask questions at a first boot that nobody answers.
const MASKED: &[&str] = &[
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "proc-sys-fs-binfmt_misc.automount",
    "ssh.socket",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-firstboot.service",
    "systemd-modules-load.service",
    "systemd-networkd-wait-online.service",
    "systemd-pstore.service",
];

/// Makes the trimmed root one that boots to `running` and has no identity.
pub(super) fn configure(root: &Path) -> Result<(), BaseError> {
    let units = root.join("etc/systemd/system");
    // What packages enabled when they were installed; a first boot only adds to it.
    for entry in fs::read_dir(&units).map_err(change("list", &units))? {
        let path = entry.map_err(change("list", &units))?.path();
        if path.to_string_lossy().ends_with(".wants") || path.is_symlink() {
            remove(&path)?;
        }
    }
    for (path, text) in FILES {
        write(&root.join(path), text)?;
    }
    for unit in MASKED {
        link("/dev/null", &units.join(unit))?;
    }
    // The presets say so too, but an OS slot is only /usr, and extensions carry the runtime.
    link(
        "../systemd-sysext.service",
        &root.join("usr/lib/systemd/system/sysinit.target.wants/systemd-sysext.service"),
    )?;
    lock_accounts(&root.join("etc/shadow"))
}

/// Locks root's password, and forgets when passwords were changed: it would tell when the base was made.
fn lock_accounts(shadow: &Path) -> Result<(), BaseError> {
    let bytes = read_file(shadow, LIMIT).map_err(|error| change("read", shadow)(io::Error::other(error)))?;
    let locked = String::from_utf8_lossy(&bytes).lines().map(locked_account).collect::<String>();
    write(shadow, &locked)?;
    set_mode(shadow, Mode::from_bits(0o640).unwrap_or(Mode::PRIVATE_FILE))?;
    // Group 42 is Debian's `shadow`, the same on every system.
    std::os::unix::fs::chown(shadow, Some(0), Some(42)).map_err(change("change the owner of", shadow))
}

fn locked_account(line: &str) -> String {
    let mut fields: Vec<&str> = line.split(':').collect();
    if let [name, password, changed, ..] = fields.as_mut_slice() {
        *changed = "";
        if *name == "root" {
            *password = "!*";
        }
    }
    fields.join(":") + "\n"
}

fn write(path: &Path, text: &str) -> Result<(), BaseError> {
    make_parent(path)?;
    write_file(path, text, Mode::PUBLIC).map_err(|error| change("write", path)(io::Error::other(error)))
}

fn link(target: &str, path: &Path) -> Result<(), BaseError> {
    make_parent(path)?;
    remove(path)?;
    symlink(target, path).map_err(change("link", path))
}

fn make_parent(path: &Path) -> Result<(), BaseError> {
    let parent = path.parent().unwrap_or(path);
    make_dir(parent, Mode::PUBLIC_DIR).map_err(|error| change("make", parent)(io::Error::other(error)))?;
    Ok(())
}

fn set_mode(path: &Path, mode: Mode) -> Result<(), BaseError> {
    windlass_steps::host::set_mode(path, mode)
        .map_err(|error| change("change the mode of", path)(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_versions_differ_in_version_and_build_only() {
        let [one, two] = OsVersion::ALL.map(os_release);
        assert_eq!(one.replace('1', "2"), two.replace('1', "2"));
        for line in ["ID=debian", "VERSION_ID=\"1\"", "BUILD_ID=\"base-1\""] {
            assert!(one.lines().any(|own| own == line), "{line}");
        }
    }

    #[test]
    fn root_is_locked_and_nobody_else_is_changed() {
        let cases = [
            ("root:*:20000:0:99999:7:::", "root:!*::0:99999:7:::\n"),
            ("root::20000:0:99999:7:::", "root:!*::0:99999:7:::\n"),
            ("sshd:!:20000::::::", "sshd:!:::::::\n"),
        ];
        for (line, want) in cases {
            assert_eq!(locked_account(line), want);
        }
    }
}
