//! The root: debootstrap, then everything away that machines do not need or that would make them all the same one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass_steps::host::{CommandSpec, Commands, Heard, HostError, cmd};

use super::error::change;
use super::settle::configure;
use super::{BaseError, Mirror, Observer, Stage, need_root};

/// The release of Debian that machines run.
const SUITE: &str = "bookworm";
/// A slow mirror is waited for, a dead one is not.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// How many warnings and errors of debootstrap are repeated when it failed.
const TROUBLE: usize = 5;

/// What machines need beyond the minimum: systemd, the tools of networks and file systems, and a way in.
pub const PACKAGES: &[&str] = &[
    "ca-certificates",
    "conntrack",
    "dbus",
    "e2fsprogs",
    "ethtool",
    "iproute2",
    "ipset",
    "iptables",
    "kmod",
    "nftables",
    "openssh-server",
    "socat",
    "systemd",
    "systemd-sysv",
    "util-linux",
];

/// What the root is made from.
#[derive(Debug, Clone)]
pub struct RootInputs<'a> {
    /// The host's apt configuration, `/etc/apt`: its Debian mirror and keys are used.
    pub apt: &'a Path,
    /// Another mirror than the host's.
    pub mirror: Option<&'a str>,
    /// Where downloaded packages are kept for the next time, if anywhere.
    pub packages: Option<&'a Path>,
}

/// Makes the root at `out`, which must not exist, in a directory that the caller owns.
pub async fn make_root(
    inputs: &RootInputs<'_>,
    out: &Path,
    commands: &impl Commands,
    observe: Observer<'_>,
) -> Result<(), BaseError> {
    need_root()?;
    observe(Stage::Debootstrap);
    let mirror = match inputs.mirror {
        Some(uri) => Mirror { uri: uri.to_owned(), suites: Vec::new(), keyring: None },
        None => Mirror::find(inputs.apt, SUITE)?,
    };
    let proxy = proxy(commands).await?;
    let said = Said::default();
    let command = debootstrap(inputs, &mirror, proxy.as_deref(), out);
    let run = commands.follow(command, &|_, line| said.hear(line, observe)).await;
    run.map_err(|source| BaseError::InstallPackages { said: said.trouble(), source })?;
    observe(Stage::Trim);
    trim(out)?;
    observe(Stage::Configure);
    configure(out)
}

/// In its own process and mount namespaces, tied to our life: when we are killed, so is everything in them, and the
/// mounts that debootstrap makes in the tree go as well.
fn debootstrap(inputs: &RootInputs<'_>, mirror: &Mirror, proxy: Option<&str>, out: &Path) -> CommandSpec {
    let mut command = cmd("setpriv").args(["--pdeathsig", "KILL", "unshare"]);
    command = command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    command = command.args(["debootstrap", "--variant=minbase", "--merged-usr"]);
    command = command.arg(format!("--include={}", PACKAGES.join(",")));
    if let Some(keyring) = &mirror.keyring {
        command = command.arg("--keyring").arg(keyring);
    }
    if let Some(packages) = inputs.packages {
        command = command.arg("--cache-dir").arg(packages);
    }
    if let Some(proxy) = proxy {
        command = command.env("http_proxy", proxy).env("https_proxy", proxy);
    }
    // The tree is thrown away after a power cut, so that dpkg need not sync every file.
    command.arg(SUITE).arg(out).arg(&mirror.uri).env("DPKG_FORCE", "unsafe-io").env("LC_ALL", "C.UTF-8").timeout(LIMIT)
}

/// What debootstrap says on stdout, where it also says what is wrong: `I: Unpacking dpkg...`, `E: Couldn't download …`.
#[derive(Default)]
struct Said {
    trouble: Mutex<Vec<String>>,
}

impl Said {
    fn hear(&self, line: &str, observe: Observer<'_>) -> Heard {
        if let Some(words) = line.strip_prefix("I: ") {
            observe(Stage::Package(words.trim_end_matches('.').to_owned()));
        } else if line.starts_with("E: ") || line.starts_with("W: ") {
            self.trouble.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        }
        Heard::Keep
    }

    /// The last of its warnings and errors.
    fn trouble(self) -> String {
        let trouble = self.trouble.into_inner().unwrap_or_else(PoisonError::into_inner);
        trouble[trouble.len().saturating_sub(TROUBLE)..].join("; ")
    }
}

/// apt may reach its mirrors through a proxy; debootstrap has to be told.
async fn proxy(commands: &impl Commands) -> Result<Option<String>, BaseError> {
    let asked = cmd("apt-config").args(["dump", "--format", "%v%n", "Acquire::http::Proxy"]);
    match commands.run(asked).await {
        Ok(output) => {
            let text = output.text().map_err(|source| BaseError::RunTool { attempt: "read apt's proxy", source })?;
            Ok(text.lines().next().filter(|line| line.starts_with("http")).map(str::to_owned))
        }
        Err(HostError::FindProgram { .. }) => Ok(None),
        Err(source) => Err(BaseError::RunTool { attempt: "read apt's proxy", source }),
    }
}

/// Directories that stay, empty.
const EMPTIED: &[&str] = &[
    "dev",
    "run",
    "tmp",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache",
    "var/lib/apt/lists",
    "var/log",
    "var/tmp",
];

/// What goes. The first ones would make all machines the same one; resolver, name and hosts are this host's.
const REMOVED: &[&str] = &[
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/passwd-",
    "etc/shadow-",
    "etc/group-",
    "etc/gshadow-",
    "etc/apt/sources.list",
    "etc/ssh/ssh_host_ecdsa_key",
    "etc/ssh/ssh_host_ecdsa_key.pub",
    "etc/ssh/ssh_host_ed25519_key",
    "etc/ssh/ssh_host_ed25519_key.pub",
    "etc/ssh/ssh_host_rsa_key",
    "etc/ssh/ssh_host_rsa_key.pub",
    "usr/share/bash-completion",
    "usr/share/bug",
    "usr/share/lintian",
    "usr/share/zsh",
    "var/lib/dpkg/info/format-old",
    "var/lib/dpkg/status-old",
];

fn trim(root: &Path) -> Result<(), BaseError> {
    for directory in EMPTIED {
        empty(&root.join(directory))?;
    }
    for path in REMOVED {
        remove(&root.join(path))?;
    }
    // Licences ask to be kept with what they are for.
    let documents = root.join("usr/share/doc");
    for package in list(&documents)? {
        let is_link = fs::symlink_metadata(&package).map_err(change("look at", &package))?.is_symlink();
        for document in if is_link { Vec::new() } else { list(&package)? } {
            if document.file_name().is_none_or(|name| name != "copyright") {
                remove(&document)?;
            }
        }
    }
    Ok(())
}

fn empty(directory: &Path) -> Result<(), BaseError> {
    list(directory)?.iter().try_for_each(|path| remove(path))
}

fn list(directory: &Path) -> Result<Vec<PathBuf>, BaseError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(change("list", directory))?,
    };
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(change("list", directory))).collect()
}

/// What is not there is as good as removed.
pub(super) fn remove(path: &Path) -> Result<(), BaseError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(change("remove", path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debootstrap_takes_the_hosts_mirror_and_dies_with_us() {
        let inputs = RootInputs { apt: Path::new("/etc/apt"), mirror: None, packages: Some(Path::new("/p")) };
        let keyring = Some(PathBuf::from("/k.gpg"));
        let mirror = Mirror { uri: "http://m.example/debian".to_owned(), suites: Vec::new(), keyring };
        let line = debootstrap(&inputs, &mirror, None, Path::new("/out")).line();
        assert!(line.starts_with("setpriv --pdeathsig KILL unshare --mount "), "{line}");
        assert!(line.ends_with("--keyring /k.gpg --cache-dir /p bookworm /out http://m.example/debian"), "{line}");
    }

    #[test]
    fn what_debootstrap_says_is_told_and_its_errors_are_kept() {
        let (said, told) = (Said::default(), Mutex::new(Vec::new()));
        let observe = |stage: Stage| told.lock().unwrap().push(stage);
        for line in ["I: Unpacking dpkg...", "W: slow", "E: Couldn't download dpkg", "", "anything"] {
            said.hear(line, &observe);
        }
        assert_eq!(told.into_inner().unwrap(), [Stage::Package("Unpacking dpkg".to_owned())]);
        assert_eq!(said.trouble(), "W: slow; E: Couldn't download dpkg");
    }

    #[test]
    fn trimming_takes_identity_and_documents_but_keeps_licences() {
        let dir = tempfile::tempdir().unwrap();
        let gone = [
            "etc/machine-id",
            "etc/ssh/ssh_host_rsa_key",
            "var/log/dpkg.log",
            "usr/share/doc/a/changelog.gz",
            "dev/null",
        ];
        let kept = ["etc/passwd", "usr/share/doc/a/copyright", "usr/bin/a"];
        for path in gone.iter().chain(&kept) {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap();
        }
        for _ in 0..2 {
            trim(dir.path()).unwrap();
            assert!(gone.iter().all(|path| !dir.path().join(path).exists()));
            assert!(kept.iter().all(|path| dir.path().join(path).exists()));
            assert!(dir.path().join("dev").is_dir());
        }
    }
}
