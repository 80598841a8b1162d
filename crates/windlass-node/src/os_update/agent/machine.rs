//! The machine itself: which boot this is, and how to end it. Both are asked of systemd on the system bus.

use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use zbus::{Connection, OwnedObjectPath, Proxy, connection};

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const INTERFACE: &str = "org.freedesktop.systemd1.Manager";
const ANSWER: Duration = Duration::from_secs(25);

/// What the agent does to its machine.
#[expect(async_fn_in_trait, reason = "the agent awaits its machine, nobody spawns it")]
pub trait Machine {
    /// What names this boot, as no other.
    async fn boot(&self) -> Result<String, MachineError>;

    /// Has the machine stop everything in order and start again; it answers when that has begun.
    async fn reboot(&self) -> Result<(), MachineError>;
}

/// Why the machine does not do it.
#[derive(Debug, Error)]
pub enum MachineError {
    /// There is no bus.
    #[error("cannot reach the system bus at {}", path.display())]
    ReachBus {
        /// Its socket.
        path: PathBuf,
        /// Why not.
        source: Box<zbus::Error>,
    },
    /// Nobody knows which boot this is.
    #[error("cannot learn from systemd when it started")]
    LearnBoot {
        /// What it said.
        source: Box<zbus::Error>,
    },
    /// It does not reboot.
    #[error("cannot have systemd reboot the machine")]
    Reboot {
        /// What it said.
        source: Box<zbus::Error>,
    },
}

/// The machine whose bus has this socket. Each question is a connection of its own, because there are two in a life.
#[derive(Debug, Clone)]
pub struct SystemdMachine {
    socket: PathBuf,
}

impl SystemdMachine {
    /// The machine behind this socket.
    pub fn behind(socket: &Path) -> Self {
        SystemdMachine { socket: socket.to_owned() }
    }

    async fn connect(&self) -> Result<Connection, MachineError> {
        let address = format!("unix:path={}", self.socket.display());
        let connected = connection::Builder::address(address.as_str()).method_timeout(ANSWER).build().await;
        connected.map_err(|source| MachineError::ReachBus { path: self.socket.clone(), source: Box::new(source) })
    }
}

impl Machine for SystemdMachine {
    async fn boot(&self) -> Result<String, MachineError> {
        boot(&self.connect().await?).await.map_err(|source| MachineError::LearnBoot { source: Box::new(source) })
    }

    async fn reboot(&self) -> Result<(), MachineError> {
        reboot(&self.connect().await?).await.map_err(|source| MachineError::Reboot { source: Box::new(source) })
    }
}

/// When systemd started, in microseconds. The kernel's boot id would be the host's where the machine is a container.
async fn boot(connection: &Connection) -> zbus::Result<String> {
    let systemd = Proxy::new(connection, NAME, PATH, INTERFACE).await?;
    let started: u64 = systemd.get_property("UserspaceTimestamp").await?;
    Ok(started.to_string())
}

/// As `systemctl reboot` does it where there is no logind. The manager's own method `Reboot` would stop no unit.
async fn reboot(connection: &Connection) -> zbus::Result<()> {
    let systemd = Proxy::new(connection, NAME, PATH, INTERFACE).await?;
    let _job: OwnedObjectPath = systemd.call("StartUnit", &("reboot.target", "replace-irreversibly")).await?;
    Ok(())
}

/// A double: it counts its boots.
#[derive(Debug, Default)]
pub struct CountingMachine {
    boots: std::sync::atomic::AtomicU64,
}

impl CountingMachine {
    /// How often it was rebooted.
    pub fn reboots(&self) -> u64 {
        self.boots.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Machine for CountingMachine {
    async fn boot(&self) -> Result<String, MachineError> {
        Ok(format!("boot-{}", self.reboots()))
    }

    async fn reboot(&self) -> Result<(), MachineError> {
        self.boots.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Mutex};

    use zbus::{Guid, fdo, interface};

    use super::*;

    struct Systemd {
        started: Arc<Mutex<Vec<(String, String)>>>,
    }

    #[interface(name = "org.freedesktop.systemd1.Manager")]
    impl Systemd {
        fn start_unit(&self, unit: String, mode: String) -> fdo::Result<OwnedObjectPath> {
            self.started.lock().unwrap().push((unit, mode));
            Ok(OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/1").unwrap())
        }

        #[zbus(property)]
        fn userspace_timestamp(&self) -> u64 {
            1_700_000_000_000_001
        }
    }

    #[tokio::test]
    async fn systemd_says_which_boot_it_is_and_ends_it_in_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let started = Arc::default();
        let service = Systemd { started: Arc::clone(&started) };
        let server = connection::Builder::unix_stream(theirs).server(Guid::generate()).p2p();
        let server = server.serve_at(PATH, service).build();
        let (_server, client) = tokio::try_join!(server, connection::Builder::unix_stream(ours).p2p().build()).unwrap();
        assert_eq!(boot(&client).await.unwrap(), "1700000000000001");
        reboot(&client).await.unwrap();
        let want = ("reboot.target".to_owned(), "replace-irreversibly".to_owned());
        assert_eq!(*started.lock().unwrap(), [want]);
    }

    #[tokio::test]
    async fn a_machine_without_a_bus_cannot_be_asked() {
        let machine = SystemdMachine::behind(Path::new("/no/such/socket"));
        assert!(matches!(machine.boot().await, Err(MachineError::ReachBus { .. })));
        assert!(matches!(machine.reboot().await, Err(MachineError::ReachBus { .. })));
    }
}
