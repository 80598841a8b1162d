//! The way out of a cluster, when it is asked for: a user-mode network (pasta or slirp4netns) puts a tap device into
//! the cluster's namespace, and what machines send beyond their subnet is translated to its address. The host's own
//! routes and firewall are not involved, and its loopback cannot be reached this way.
//!
//! The program runs detached and outlives the daemon. It is found again by its command line, which names the pinned
//! namespace, so nothing has to be remembered.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use thiserror::Error;
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::host::{CommandSpec, Commands, HostError, cmd};
use windlass_steps::reason;
use windlass_steps::wait::{Wait, WaitError};

use super::link::{BRIDGE, LinkError};
use super::namespace::Namespace;
use super::netlink::{set, within};

/// The tap device inside the cluster's namespace.
pub const TAP: &str = "egress0";
// Of the range kept for benchmarks, which no cluster and no real network uses.
const TAP_NETWORK: &str = "198.18.0.0/24";
const TAP_ADDRESS: &str = "198.18.0.100";
const TAP_GATEWAY: &str = "198.18.0.2";
const TABLE: &str = "ip windlass-egress";
const LIMIT: Duration = Duration::from_secs(10);

/// What can carry packets out without privileges on the host's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// From the passt project; preferred, because it keeps up with more connections.
    Pasta,
    /// The older one.
    Slirp4netns,
}

/// Why there is no way out, or why it is still open.
#[derive(Debug, Error)]
pub enum EgressError {
    /// The program did not start.
    #[error("cannot start {} for {}", .program.name(), .path.display())]
    Start {
        /// Which one.
        program: Program,
        /// The cluster's namespace.
        path: PathBuf,
        /// What it said.
        source: HostError,
    },
    /// The program runs but its device does not show, or it does not end.
    #[error("{} in {}: {unmet}", .program.name(), .path.display())]
    Await {
        /// Which one.
        program: Program,
        /// The cluster's namespace.
        path: PathBuf,
        /// What was waited for.
        unmet: String,
    },
    /// The rules of address translation were not taken.
    #[error("cannot change the address translation in {}", .path.display())]
    Translate {
        /// The cluster's namespace.
        path: PathBuf,
        /// What nft said.
        source: HostError,
    },
    /// The namespace did not take the setting that forwards packets.
    #[error("cannot change forwarding in {}", .path.display())]
    Forwarding {
        /// The cluster's namespace.
        path: PathBuf,
        /// Why not.
        source: LinkError,
    },
    /// A program that was found could not be told to end.
    #[error("cannot end process {pid}, which carries packets out of {}", .path.display())]
    End {
        /// The program's process.
        pid: i32,
        /// The cluster's namespace.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The process table could not be read.
    #[error("cannot look for the program that carries packets out of {}", .path.display())]
    Look {
        /// The cluster's namespace.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Program {
    /// As it is started.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pasta => "pasta",
            Self::Slirp4netns => "slirp4netns",
        }
    }

    /// The command that attaches it to the namespace pinned at this path, and returns while it goes on.
    pub fn command(self, path: &Path, mtu: u16) -> CommandSpec {
        match self {
            Self::Pasta => pasta(path, mtu),
            Self::Slirp4netns => slirp4netns(path, mtu),
        }
    }
}

/// The program this host has, if any.
pub async fn installed(commands: &impl Commands) -> Option<Program> {
    for program in [Program::Pasta, Program::Slirp4netns] {
        if commands.run(cmd(program.name()).arg("--version").timeout(LIMIT)).await.is_ok() {
            return Some(program);
        }
    }
    None
}

/// Opens the way out; one that is open stays as it is.
pub async fn start(
    commands: &impl Commands,
    cluster: &Namespace,
    program: Program,
    mtu: u16,
) -> Result<(), EgressError> {
    let path = cluster.path();
    translate(commands, cluster, &ruleset()).await?;
    forwarding(cluster, "1")?;
    if carriers(path)?.is_empty() {
        let trouble = |source| EgressError::Start { program, path: path.to_owned(), source };
        commands.run(program.command(path, mtu)).await.map_err(trouble)?;
    }
    let shown = Criterion::new("the device for packets to the outside is there", || async {
        let found = within(cluster, async |net| net.link(TAP).await)?;
        Ok(match found {
            Some(link) if link.up => Observation::Holds,
            Some(_) => Observation::NotYet(reason!("{TAP} is down")),
            None => Observation::NotYet(reason!("there is no {TAP}")),
        })
    });
    until(shown, program, path).await
}

/// Closes the way out; does nothing where none is open.
pub async fn stop(commands: &impl Commands, cluster: &Namespace) -> Result<(), EgressError> {
    end_carriers(cluster.path()).await?;
    translate(commands, cluster, &no_rules()).await?;
    forwarding(cluster, "0")
}

/// Ends the programs that carry packets out of the namespace pinned at this path, also when the pin is gone already.
pub async fn end_carriers(path: &Path) -> Result<(), EgressError> {
    for (pid, program) in carriers(path)? {
        match kill(Pid::from_raw(pid), Signal::SIGTERM) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(EgressError::End { pid, path: path.to_owned(), source: errno.into() }),
        }
        let ended = Criterion::new("the program that carried packets out has ended", || async {
            let still = carriers(path)?.iter().any(|(other, _)| *other == pid);
            Ok(if still { Observation::NotYet(reason!("process {pid} runs")) } else { Observation::Holds })
        });
        until(ended, program, path).await?;
    }
    Ok(())
}

/// The processes that carry packets out of the namespace pinned at this path.
pub fn carriers(path: &Path) -> Result<Vec<(i32, Program)>, EgressError> {
    let trouble = |source| EgressError::Look { path: path.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").map_err(trouble)? {
        let name = entry.map_err(trouble)?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may end while we look, and then it is none of ours.
        let line = fs::read(Path::new("/proc").join(&name).join("cmdline")).unwrap_or_default();
        found.extend(carrier(&line, path).map(|program| (pid, program)));
    }
    Ok(found)
}

/// The nft script that translates what leaves by the tap, and forwards nothing else.
pub fn ruleset() -> String {
    let none = no_rules();
    format!(
        r#"{none}table {TABLE} {{
  chain forward {{
    type filter hook forward priority 0; policy drop;
    iifname "{BRIDGE}" oifname "{TAP}" accept
    iifname "{TAP}" oifname "{BRIDGE}" ct state established,related accept
  }}
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
    oifname "{TAP}" masquerade
  }}
}}
"#
    )
}

fn no_rules() -> String {
    format!("table {TABLE} {{}}\ndelete table {TABLE}\n")
}

// As root it would change to nobody, who may not enter the namespace. It goes into the background by itself.
fn pasta(path: &Path, mtu: u16) -> CommandSpec {
    cmd("pasta")
        .args(["--runas", "0:0", "--quiet", "--config-net", "--ipv4-only", "--no-map-gw"])
        .args(["--ns-ifname", TAP, "--address", TAP_ADDRESS, "--netmask", "24", "--gateway", TAP_GATEWAY])
        .args(["--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none"])
        .args(["--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra", "--mtu", &mtu.to_string()])
        .arg("--netns")
        .arg(path)
        .timeout(LIMIT)
}

// It stays in the foreground, so it gets a session of its own; with captured output we would wait for its end.
fn slirp4netns(path: &Path, mtu: u16) -> CommandSpec {
    cmd("setsid")
        .args(["--fork", "slirp4netns", "--netns-type=path", "--configure", "--disable-host-loopback"])
        .args(["--disable-dns", "--enable-sandbox"])
        .arg(format!("--cidr={TAP_NETWORK}"))
        .arg(format!("--mtu={mtu}"))
        .arg(path)
        .arg(TAP)
        .inherit()
        .timeout(LIMIT)
}

fn carrier(line: &[u8], path: &Path) -> Option<Program> {
    let mut words = line.split(|byte| *byte == 0);
    let name = words.next()?.rsplit(|byte| *byte == b'/').next()?;
    let program = [Program::Pasta, Program::Slirp4netns].into_iter().find(|one| name == one.name().as_bytes())?;
    words.any(|word| word == path.as_os_str().as_encoded_bytes()).then_some(program)
}

async fn translate(commands: &impl Commands, cluster: &Namespace, script: &str) -> Result<(), EgressError> {
    let nft = cluster.command("nft").args(["-f", "-"]).stdin(script).timeout(LIMIT);
    let trouble = |source| EgressError::Translate { path: cluster.path().to_owned(), source };
    commands.run(nft).await.map(drop).map_err(trouble)
}

fn forwarding(cluster: &Namespace, value: &str) -> Result<(), EgressError> {
    within(cluster, async |_| set("ipv4/ip_forward", value))
        .map_err(|source| EgressError::Forwarding { path: cluster.path().to_owned(), source })
}

async fn until(criterion: Criterion<'_>, program: Program, path: &Path) -> Result<(), EgressError> {
    let wait = Wait::stalled_for(LIMIT).poll_every(Duration::from_millis(20));
    let done = wait.until(&[criterion], |_| Ok::<(), std::convert::Infallible>(())).await;
    done.map_err(|error| {
        let unmet = match error {
            WaitError::Unmet(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            WaitError::Observe(never) => match never {},
        };
        EgressError::Await { program, path: path.to_owned(), unmet }
    })
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::ScriptedHost;

    use super::*;

    #[test]
    fn the_programs_are_started_without_any_way_in() {
        let path = Path::new("/run/windlass/clusters/demo/net");
        assert_eq!(
            Program::Pasta.command(path, 1500).line(),
            "pasta --runas 0:0 --quiet --config-net --ipv4-only --no-map-gw --ns-ifname egress0 \
             --address 198.18.0.100 --netmask 24 --gateway 198.18.0.2 --tcp-ports none --udp-ports none \
             --tcp-ns none --udp-ns none --no-dhcp --no-dhcpv6 --no-ndp --no-ra --mtu 1500 \
             --netns /run/windlass/clusters/demo/net"
        );
        assert_eq!(
            Program::Slirp4netns.command(path, 1400).line(),
            "setsid --fork slirp4netns --netns-type=path --configure --disable-host-loopback --disable-dns \
             --enable-sandbox --cidr=198.18.0.0/24 --mtu=1400 /run/windlass/clusters/demo/net egress0"
        );
    }

    #[test]
    fn a_carrier_is_known_by_its_command_line() {
        let path = Path::new("/run/w/net");
        let cases: [(&[u8], Option<Program>); 6] = [
            (b"pasta\0--netns\0/run/w/net\0", Some(Program::Pasta)),
            (b"/usr/bin/slirp4netns\0-c\0/run/w/net\0egress0\0", Some(Program::Slirp4netns)),
            (b"pasta\0--netns\0/run/w/net2\0", None),
            (b"setsid\0--fork\0slirp4netns\0/run/w/net\0", None),
            (b"vi\0/run/w/net\0", None),
            (b"", None),
        ];
        for (line, wanted) in cases {
            assert_eq!(carrier(line, path), wanted, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn only_what_a_machine_began_comes_back() {
        let rules = ruleset();
        assert!(rules.starts_with("table ip windlass-egress {}\ndelete table ip windlass-egress\n"));
        assert!(rules.contains("hook forward priority 0; policy drop;"));
        assert!(rules.contains(r#"iifname "egress0" oifname "lan0" ct state established,related accept"#));
        assert!(rules.contains(r#"oifname "egress0" masquerade"#));
    }

    #[tokio::test]
    async fn pasta_is_preferred_and_none_is_an_answer() {
        let both = ScriptedHost::default().answer("pasta --version", "1").answer("slirp4netns --version", "1");
        let old = ScriptedHost::default().answer("slirp4netns --version", "1");
        assert_eq!(installed(&both).await, Some(Program::Pasta));
        assert_eq!(installed(&old).await, Some(Program::Slirp4netns));
        assert_eq!(installed(&ScriptedHost::default()).await, None);
    }
}
