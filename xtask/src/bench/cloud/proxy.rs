//! The two balancers as processes of their own.

use std::error::Error;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_cloud::balancer::{Balancer, BalancerConfig, Check, Limits, Target};
use windlass_steps::clock::SystemClock;
use windlass_steps::host::{CommandSpec, HostError, Mode, Output, cmd, run, write_file};

use super::load::is_there;
use crate::report::Failure;

const START: Duration = Duration::from_secs(10);
const THREADS: usize = 2;
/// Where Debian has it, which is not on every user's path.
const HAPROXY: &str = "/usr/sbin/haproxy";

/// Which balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The local cloud's, in this program.
    Ours,
    /// Debian's.
    HaProxy,
}

/// A balancer that runs as long as this value lives.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    running: JoinHandle<Result<Output, HostError>>,
    _config: NamedTempFile,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Dropping the command kills its process group.
        self.running.abort();
    }
}

impl Proxy {
    /// Starts it in front of these targets, and waits until it carries.
    pub async fn start(kind: Kind, targets: &[SocketAddr]) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let address = free_port().await?;
        let config = NamedTempFile::new()?;
        let command = match kind {
            Kind::Ours => ours(address, targets)?,
            Kind::HaProxy => {
                write_file(config.path(), haproxy_config(address, targets), Mode::PRIVATE_FILE)?;
                cmd(HAPROXY).arg("-db").arg("-f").arg(config.path())
            }
        };
        let mut proxy = Self { address, running: tokio::spawn(run(command)), _config: config };
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        let carries = async {
            while is_there(address).await.is_err() {
                ticks.tick().await;
            }
        };
        tokio::select! {
            carried = tokio::time::timeout(START, carries) => carried.map_err(|_| format!("{kind:?} did not start"))?,
            ended = &mut proxy.running => return Err(ended?.err().map_or_else(|| "it ended".into(), Into::into)),
        }
        Ok(proxy)
    }
}

/// A port that nobody has; between this and its use someone could take it, which the start then says.
async fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0").await?.local_addr()
}

fn ours(address: SocketAddr, targets: &[SocketAddr]) -> std::io::Result<CommandSpec> {
    let command = cmd(std::env::current_exe()?).arg("bench-balancer").arg(address.to_string());
    Ok(command.args(targets.iter().map(ToString::to_string)))
}

/// As Debian's defaults have it, with the checks and the choice of target that ours has.
fn haproxy_config(address: SocketAddr, targets: &[SocketAddr]) -> String {
    let mut text = format!(
        "global\n  nbthread {THREADS}\n  maxconn 8192\ndefaults\n  mode tcp\n  timeout connect 1s\n  timeout client 1m\n  \
         timeout server 1m\nlisten bench\n  bind {address}\n  balance leastconn\n"
    );
    for (at, target) in targets.iter().enumerate() {
        let _never = writeln!(text, "  server t{at} {target} check inter 200 rise 1 fall 2");
    }
    text
}

/// Is our balancer until it is killed: what [`Kind::Ours`] runs.
pub fn serve(listen: SocketAddr, targets: &[SocketAddr]) -> Result<(), Failure> {
    let trouble = || Failure::new("the balancer of the benchmark ended", "look at the cause");
    let name = |(at, address): (usize, &SocketAddr)| Target { name: format!("t{at}"), address: *address };
    let targets = targets.iter().enumerate().map(name).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(|error| trouble().because(error))?.block_on(async {
        let listener = TcpListener::bind(listen).await.map_err(|error| trouble().because(error))?;
        let config = watch::Sender::new(BalancerConfig { targets, check: Check::Tcp });
        let balancer = Balancer::new(Limits::default(), Arc::new(SystemClock::new()));
        // Spawned, so that it has the two threads of the runtime and not this one too.
        let served = tokio::spawn(balancer.serve(listener, config.subscribe())).await;
        served.map_err(|error| trouble().because(error))?.map_err(|error| trouble().because(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn haproxy_gets_the_same_threads_targets_and_checks() {
        let text = haproxy_config("127.0.0.1:1".parse().unwrap(), &["127.0.0.1:2".parse().unwrap()]);
        for line in ["nbthread 2", "bind 127.0.0.1:1", "server t0 127.0.0.1:2 check inter 200 rise 1 fall 2"] {
            assert!(text.contains(line), "{text}");
        }
    }
}
