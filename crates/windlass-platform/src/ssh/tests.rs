//! The push against a server of its own kind, russh's, which runs commands as sshd does, and against sshd where there is one.

use std::net::Ipv4Addr;
use std::sync::Arc;

use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::{PrivateKey, PublicKey};
use russh::server::{self, Auth, ChannelOpenHandle, Handle, Msg, VerifiedPublicKey};
use russh::{Channel, ChannelId};
use tokio::net::TcpListener;
use windlass_steps::host;

use super::*;

/// Keys as another program writes them.
fn keys(seed: u8) -> SshKeys {
    let key = |which: u8| {
        let pair = Ed25519Keypair::from_seed(&[seed, which].repeat(16).try_into().unwrap());
        PrivateKey::from(pair).to_openssh(LineEnding::LF).unwrap()
    };
    SshKeys::parse(&key(0), &key(1)).unwrap()
}

/// A host that has the one key and lets the other in.
#[derive(Clone)]
struct Double {
    client: PublicKey,
    command: String,
    stdin: Vec<u8>,
}

impl server::Handler for Double {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        let known = user == "root" && key.public_key.key_data() == self.client.key_data();
        Ok(if known { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut server::Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        self.command = String::from_utf8_lossy(data).into_owned();
        session.channel_success(channel)
    }

    async fn data(&mut self, _: ChannelId, data: &[u8], _: &mut server::Session) -> Result<(), russh::Error> {
        self.stdin.extend_from_slice(data);
        Ok(())
    }

    async fn channel_eof(&mut self, channel: ChannelId, session: &mut server::Session) -> Result<(), russh::Error> {
        let spec = host::cmd("sh").args(["-c", &self.command]).stdin(self.stdin.clone());
        tokio::spawn(answer(spec, session.handle(), channel));
        Ok(())
    }
}

/// What a shell makes of the command; one that kills itself ends without a code.
async fn answer(spec: host::CommandSpec, handle: Handle, channel: ChannelId) {
    let ran = host::run((1..=255).fold(spec, host::CommandSpec::accept)).await;
    if let Ok(ran) = ran {
        let _ = handle.data(channel, ran.text().unwrap_or_default().as_bytes().to_vec()).await;
        let _ = handle.extended_data(channel, 1, ran.stderr.clone().into_bytes()).await;
        let _ = handle.exit_status_request(channel, u32::try_from(ran.code).unwrap_or(255)).await;
    }
    let _ = handle.eof(channel).await;
    let _ = handle.close(channel).await;
}

/// Where a double listens that has these keys.
async fn host_with(keys: &SshKeys) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(server::Config {
        keys: vec![PrivateKey::from_openssh(keys.host.to_text().expose()).unwrap()],
        auth_rejection_time: Duration::ZERO,
        ..server::Config::default()
    });
    let client = PublicKey::from_openssh(&keys.client.public_line()).unwrap();
    let double = Double { client, command: String::new(), stdin: Vec::new() };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (config, double) = (Arc::clone(&config), double.clone());
            tokio::spawn(async move {
                if let Ok(session) = server::run_stream(config, stream, double).await {
                    let _ = session.await;
                }
            });
        }
    });
    address
}

fn shell(script: &str) -> Task {
    Task::new(["sh", "-c", script], Duration::from_secs(20))
}

#[tokio::test]
async fn a_pinned_host_runs_commands_and_nobody_else_gets_anywhere() {
    let keys = keys(1);
    behaves(host_with(&keys).await, &keys).await;
}

/// The same with sshd itself and the configuration that machines get, where this host has one that root may start.
#[tokio::test]
async fn sshd_behaves_the_same_with_the_configuration_of_machines() {
    let keys = keys(1);
    let Some(sshd) = Sshd::start(&keys).await else { return };
    behaves(sshd.address, &keys).await;
    sshd.stop().await;
}

async fn behaves(address: SocketAddr, known: &SshKeys) {
    let other = keys(2);
    // More than a window of the protocol, so that both sides have to wait for each other.
    let long = "x".repeat(5 << 20);
    let ran = run(address, known, &shell("wc -c; echo \"it's bad\" >&2; exit 3").reading(long.as_str())).await.unwrap();
    assert_eq!((ran.code, ran.stdout.trim(), ran.stderr.as_str()), (3, "5242880", "it's bad\n"));
    let ran = run(address, known, &Task::new(["true"], Duration::from_secs(20))).await.unwrap();
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));

    let another_host = SshKeys { host: other.host, client: known.client.clone() };
    let error = run(address, &another_host, &shell("true")).await.unwrap_err();
    assert!(matches!(error, SshError::KnowHost { .. }), "{error:?}");
    assert!(error.to_string().contains("does not have the host key that this machine was given"), "{error}");

    let another_client = SshKeys { host: known.host.clone(), client: other.client };
    let error = run(address, &another_client, &shell("true")).await.unwrap_err();
    assert!(matches!(error, SshError::LetIn { .. }), "{error:?}");
}

/// What machines get; only the places of its keys are others here.
const MACHINES: &str = include_str!("../../../windlass-assets/configs/sshd.conf");

struct Sshd {
    dir: tempfile::TempDir,
    address: SocketAddr,
}

impl Sshd {
    async fn start(keys: &SshKeys) -> Option<Self> {
        let program = std::env::var_os("WINDLASS_SSHD").unwrap_or_else(|| "/usr/sbin/sshd".into());
        let dir = tempfile::tempdir().unwrap();
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (place, pam) = (dir.path().display(), std::path::Path::new("/etc/pam.d/sshd").exists());
        let lines = MACHINES.lines().filter(|line| !line.starts_with("HostKey")).collect::<Vec<_>>().join("\n");
        let config = format!(
            "ListenAddress {address}\nPidFile {place}/pid\nHostKey {place}/host\nAuthorizedKeysFile {place}/clients\n\
             StrictModes no\nUsePAM {}\n{lines}\n",
            if pam { "yes" } else { "no" }
        );
        for (name, text) in [
            ("config", config),
            ("host", keys.host.to_text().expose().clone()),
            ("clients", format!("restrict {}\n", keys.client.public_line())),
        ] {
            host::write_file(at(name), text, host::Mode::PRIVATE_FILE).unwrap();
        }
        // Not there, not root, no user of its own: then there is nothing to try. Started, it goes to the background.
        let started = host::run(host::cmd(&program).arg("-f").arg(at("config"))).await;
        let listens =
            || async { Ok(if at("pid").exists() { Observation::Holds } else { Observation::NotYet(reason!("")) }) };
        match started {
            Ok(_) => {
                let wait = Wait::stalled_for(Duration::from_secs(5)).poll_every(Duration::from_millis(20));
                let criteria = [Criterion::new("sshd listens", listens)];
                assert!(wait.until(&criteria, |_| Ok::<(), ()>(())).await.is_ok(), "sshd has not said who it is");
                drop(criteria);
                Some(Sshd { dir, address })
            }
            Err(_) => None,
        }
    }

    async fn stop(self) {
        let pid = host::read_file(self.dir.path().join("pid"), 100).unwrap();
        host::run(host::cmd("kill").arg(String::from_utf8(pid).unwrap().trim())).await.unwrap();
    }
}

#[tokio::test]
async fn a_host_that_comes_late_is_waited_for_and_one_that_never_comes_is_told() {
    let keys = keys(1);
    // A free port that nobody listens on yet.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
    let refused = open(address, &keys, Duration::from_millis(250)).await;
    assert!(matches!(refused, Err(SshError::Connect { .. })));
    // One that takes connections and drops them, as a door does whose machine still boots.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let dropped = open(address, &keys, Duration::from_millis(250)).await;
    assert!(matches!(dropped, Err(SshError::Talk { .. })));
}

#[tokio::test]
async fn a_command_that_does_not_end_is_given_up() {
    let keys = keys(1);
    let address = host_with(&keys).await;
    let task = Task { limit: Duration::from_millis(300), ..shell("read line < /dev/null; exec sleep 5") };
    let error = run(address, &keys, &task).await.unwrap_err();
    assert!(matches!(error, SshError::Await { .. }), "{error:?}");
}

#[test]
fn words_survive_the_shell() {
    let words = ["/opt/windlass/bin/windlass-node", "--stdin", "", "a b", "it's", "$HOME", "*"].map(str::to_owned);
    assert_eq!(quoted(&words), r"/opt/windlass/bin/windlass-node --stdin '' 'a b' 'it'\''s' '$HOME' '*'");
}
