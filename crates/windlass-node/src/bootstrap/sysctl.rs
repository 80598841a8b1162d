//! The kernel's settings. systemd would set them at boot, but the file arrives with the machine's config, and a machine
//! that is a container may set some of them and not others.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tracing::{debug, warn};
use windlass_steps::host::read_file;

use crate::places::Places;

const LIMIT: u64 = 64 << 10;

/// A setting: `net.ipv4.ip_forward` and what it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name, with dots.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Sets what can be set, and says in the log what cannot.
pub fn apply(places: &Places) {
    let text = match read_file(places.sysctl_conf(), LIMIT) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            warn!(%error, "kernel settings not found, going on");
            return;
        }
    };
    for setting in parse(&text) {
        let path = setting.below(&places.sysctls());
        if let Err(error) = set(&path, &setting.value) {
            told(&setting, &error);
        }
    }
}

/// The settings in a file of `sysctl.d`; lines that are none are left out, as systemd does.
pub fn parse(text: &str) -> Vec<Setting> {
    let setting = |line: &str| {
        let line = line.trim();
        let (name, value) = line.split_once('=')?;
        let name = name.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(plain);
        let is_safe = !name.split('.').any(str::is_empty);
        (is_name && is_safe).then(|| Setting { name: name.to_owned(), value: value.trim().to_owned() })
    };
    text.lines().filter_map(setting).collect()
}

impl Setting {
    fn below(&self, sysctls: &Path) -> PathBuf {
        sysctls.join(self.name.replace('.', "/"))
    }
}

/// The kernel's files are written to, not replaced.
fn set(path: &Path, value: &str) -> io::Result<()> {
    let now = read_file(path, LIMIT).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    if now.is_ok_and(|now| now == value) {
        return Ok(());
    }
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

/// Packets of pods are lost without the network's settings; the others belong to the host where this is a container.
fn told(setting: &Setting, error: &io::Error) {
    let Setting { name, value } = setting;
    if name.starts_with("net.") {
        warn!(name, value, %error, "kernel setting refused");
    } else {
        debug!(name, value, %error, "kernel setting refused");
    }
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    #[test]
    fn a_file_of_settings_is_read_as_systemd_reads_it() {
        let text = "# comment\n; another\n\nnet.ipv4.ip_forward = 1\nkernel.panic=10\n-vm.x = 1\n../../etc/passwd = x\n\
                    net..x = 1\n.net = 1\nno value\nnet.ipv4.conf.all.rp_filter\t=\t0 \n";
        let names: Vec<_> = parse(text).into_iter().map(|s| (s.name, s.value)).collect();
        let want = [("net.ipv4.ip_forward", "1"), ("kernel.panic", "10"), ("net.ipv4.conf.all.rp_filter", "0")];
        assert_eq!(names, want.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn settings_are_written_and_those_that_are_not_there_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        apply(&places);
        let forward = places.sysctls().join("net/ipv4/ip_forward");
        for path in [&forward, &places.sysctl_conf()] {
            make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        }
        write_file(&forward, "0\n", Mode::PUBLIC).unwrap();
        let conf = "net.ipv4.ip_forward = 1\nkernel.panic = 10\nnet.none = 1\n";
        write_file(places.sysctl_conf(), conf, Mode::PUBLIC).unwrap();
        for _ in 0..2 {
            apply(&places);
            assert_eq!(read_file(&forward, 10).unwrap(), b"1");
        }
        assert!(!places.sysctls().join("kernel/panic").exists());
    }
}
