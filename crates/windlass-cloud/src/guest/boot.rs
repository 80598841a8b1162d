//! Becoming systemd-nspawn: a child of the runner enters the machine's control groups, makes the machine's mounts in a
//! namespace of its own, and is replaced by nspawn. The mounts live as long as nspawn does, so that every boot has new
//! ones, and a boot into another OS slot is nothing special.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{execvp, getpid};
use sha2::{Digest, Sha256};
use windlass_steps::host::{cmd, run_blocking};

use crate::machine::{Description, MachineError, PROGRAM, Part, mounts, slot};

/// The exit code of nspawn when the machine asked for a reboot.
pub(super) const REBOOT: i32 = 133;
/// A host name has no more.
const LONGEST_NAME: usize = 64;

/// Boots the machine in place of this process; returns only if that failed.
pub(super) fn boot(description: &Description) -> Result<(), MachineError> {
    die_with_the_runner()?;
    let groups = description.groups()?;
    groups.sweep()?;
    groups.enter(Part::Machine, own_pid())?;
    let slot = slot::take(&description.directory, &description.os)?;
    forget_rules(description)?;
    mounts::leave_host(&description.pins, &description.network)?;
    mounts::carry_out(&mounts::of(description, &slot))?;
    become_program(&nspawn(description))
}

/// The machine's network outlives its power, which rules of a packet filter do not: its software would meet what it had
/// made before, and take it for somebody else's.
fn forget_rules(description: &Description) -> Result<(), MachineError> {
    let mut network = OsString::from("--net=");
    network.push(&description.network);
    let flushed = run_blocking(cmd("nsenter").arg(network).args(["nft", "flush", "ruleset"]));
    let attempt = "forget the packet filter's rules of an earlier boot";
    flushed.map(drop).map_err(|source| MachineError::UseHost { attempt, source: Box::new(source) })
}

/// A machine without its runner would run on with nobody to see its end.
pub(super) fn die_with_the_runner() -> Result<(), MachineError> {
    let failed = |source: nix::Error| MachineError::Change {
        attempt: "be tied to the runner",
        path: Path::new("/proc/self").to_owned(),
        source: source.into(),
    };
    set_pdeathsig(Signal::SIGKILL).map_err(failed)
}

pub(super) fn own_pid() -> i32 {
    getpid().as_raw()
}

/// The command line of systemd-nspawn for this machine.
///
/// Every capability, no filter for what container runtimes use, no user namespace: a machine is as its own host, and the
/// local cloud guards against accidents, not against its owner. Without registration and scope: there may be no systemd
/// on the host.
pub fn nspawn(description: &Description) -> Vec<OsString> {
    let with = |name: &str, value: &Path| {
        let mut word = OsString::from(name);
        word.push(value);
        word
    };
    let mut words: Vec<OsString> = [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--capability=all",
        "--private-users=no",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
        "--system-call-filter=@keyring bpf perf_event_open",
        "--bind=/dev/kmsg",
    ]
    .map(OsString::from)
    .to_vec();
    words.push(with("--directory=", &description.root()));
    words.push(format!("--machine={}", host_wide_name(&description.cluster, &description.machine)).into());
    words.push(format!("--hostname={}", description.machine).into());
    words.push(with("--network-namespace-path=", &description.network_copy()));
    words.push(bind("--bind-ro=", &description.program, Path::new(PROGRAM)));
    for one in &description.binds {
        let name = if one.writable { "--bind=" } else { "--bind-ro=" };
        words.push(bind(name, &one.from, &one.at));
    }
    words
}

/// Names of clusters and machines have no dots, so that two different pairs never give the same name.
fn host_wide_name(cluster: &str, machine: &str) -> String {
    let name = format!("{machine}.{cluster}");
    if name.len() <= LONGEST_NAME {
        return name;
    }
    Sha256::digest(&name).iter().take(LONGEST_NAME / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// nspawn takes such words apart at colons.
fn bind(name: &str, from: &Path, at: &Path) -> OsString {
    let escaped = |path: &Path| {
        let escape = |byte: &u8| if matches!(byte, b':' | b'\\') { vec![b'\\', *byte] } else { vec![*byte] };
        path.as_os_str().as_bytes().iter().flat_map(escape).collect::<Vec<u8>>()
    };
    OsString::from_vec([name.as_bytes(), &escaped(from), b":", &escaped(at)].concat())
}

fn become_program(words: &[OsString]) -> Result<(), MachineError> {
    let failed = |source: std::io::Error| MachineError::Change {
        attempt: "become",
        path: words.first().map(std::path::PathBuf::from).unwrap_or_default(),
        source,
    };
    let words: Result<Vec<CString>, _> = words.iter().map(|word| CString::new(word.as_bytes())).collect();
    let words = words.map_err(|error| failed(error.into()))?;
    let program = words.first().cloned().unwrap_or_default();
    match execvp(&program, &words) {
        Ok(never) => match never {},
        Err(error) => Err(failed(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::machine::{Bind, Limits, Slot};

    fn described() -> Description {
        Description {
            cluster: "c".to_owned(),
            machine: "m".to_owned(),
            directory: PathBuf::from("/s/m"),
            run: PathBuf::from("/run/w/m"),
            pins: PathBuf::from("/run/w"),
            network: PathBuf::from("/run/w/m/net"),
            gateway: "10.0.0.1".parse().unwrap(),
            search: Vec::new(),
            image: PathBuf::from("/i/tree"),
            os: Slot { version: "1".to_owned(), tree: PathBuf::from("/i/tree") },
            seeds: Vec::new(),
            binds: vec![
                Bind { from: PathBuf::from("/a:b"), at: PathBuf::from("/c"), writable: true },
                Bind { from: PathBuf::from("/d"), at: PathBuf::from("/e"), writable: false },
            ],
            limits: Limits::default(),
            program: PathBuf::from("/usr/bin/windlass-cloud"),
            ignition: None,
        }
    }

    #[test]
    fn nspawn_boots_the_machines_root_in_its_network_with_our_program_inside() {
        let words: Vec<String> = nspawn(&described()).into_iter().map(|word| word.into_string().unwrap()).collect();
        assert_eq!(words[0], "systemd-nspawn");
        let machines_own = [
            "--directory=/s/m/root",
            "--machine=m.c",
            "--hostname=m",
            "--network-namespace-path=/s/m/net",
            "--bind-ro=/usr/bin/windlass-cloud:/run/windlass-cloud/windlass-cloud",
            "--bind=/a\\:b:/c",
            "--bind-ro=/d:/e",
        ];
        assert_eq!(words[words.len() - machines_own.len()..], machines_own);
        for needed in ["--boot", "--keep-unit", "--register=no", "--capability=all", "--link-journal=no"] {
            assert!(words.iter().any(|word| word == needed), "{needed}");
        }
    }

    #[test]
    fn names_are_unique_over_clusters_and_never_too_long() {
        assert_ne!(host_wide_name("b-c", "a"), host_wide_name("c", "a-b"));
        let (long, other) = ("x".repeat(63), "y".repeat(63));
        let names = [host_wide_name(&long, &other), host_wide_name(&other, &long)];
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME));
        assert_ne!(names[0], names[1]);
    }
}
