//! One connection: the host's key is compared with the one that is known, and nothing is sent before.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{self, Handle, Handler};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, PrivateKey, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{AlgorithmKind, ChannelMsg, Disconnect, Preferred};
use tokio::net::TcpStream;
use windlass_assets::SshKeys;

use super::SshError;
use crate::seen::Executed;

const USER: &str = "root";
/// How long nothing may come from the other side.
const SILENCE: Duration = Duration::from_secs(60);
/// As much of a command's output as is kept, of each of its two.
const OUTPUT_LIMIT: usize = 1 << 20;

/// A connection to a machine that proved to be the one.
pub struct Session {
    handle: Handle<Pinned>,
    address: SocketAddr,
}

/// Takes one host key and no other.
struct Pinned(KeyData);

impl Handler for Pinned {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        Ok(matches!(shown, PublicKeyOrCertificate::PublicKey { key, .. } if *key.key_data() == self.0))
    }
}

impl Session {
    /// Connects, sees that the host is the one, and is let in.
    pub async fn open(address: SocketAddr, keys: &SshKeys) -> Result<Self, SshError> {
        let taken = |source| SshError::TakeKeys { source };
        let host = PublicKey::from_openssh(&keys.host.public_line()).map_err(taken)?;
        let client = PrivateKey::from_openssh(keys.client.to_text().expose()).map_err(taken)?;
        let socket = TcpStream::connect(address).await.map_err(|source| SshError::Connect { address, source })?;
        // Small messages go back and forth before the first byte of a command does.
        let _ = socket.set_nodelay(true);
        let pinned = Pinned(host.key_data().clone());
        let handle = client::connect_stream(Arc::new(config()), socket, pinned).await;
        let mut handle = handle.map_err(|source| greeted(address, source))?;
        let key = PrivateKeyWithHashAlg::new(Arc::new(client), None);
        let let_in = handle.authenticate_publickey(USER, key).await;
        match let_in.map_err(|source| SshError::Talk { address, source })?.success() {
            true => Ok(Session { handle, address }),
            false => Err(SshError::LetIn { address }),
        }
    }

    /// Runs a command that a shell reads, and feeds it these bytes.
    pub async fn run(&self, command: &str, stdin: &[u8]) -> Result<Executed, SshError> {
        let talk = |source| SshError::Talk { address: self.address, source };
        let channel = self.handle.channel_open_session().await.map_err(talk)?;
        channel.exec(true, command).await.map_err(talk)?;
        let (mut read, write) = channel.split();
        let feed = async {
            write.data(stdin).await?;
            write.eof().await
        };
        tokio::pin!(feed);
        let (mut fed, mut heard) = (false, Heard::default());
        loop {
            tokio::select! {
                // A command that ends early takes no more; how it ended is what counts then.
                sent = &mut feed, if !fed => { fed = true; drop(sent) }
                message = read.wait() => match message {
                    Some(message) => heard.take(message),
                    None => break,
                }
            }
        }
        heard.ended(command)
    }

    /// Says goodbye; a connection that is gone already needs none.
    pub async fn close(self) {
        let _ = self.handle.disconnect(Disconnect::ByApplication, "", "en").await;
    }
}

/// What came of a command so far.
#[derive(Default)]
struct Heard {
    code: Option<u32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Heard {
    fn take(&mut self, message: ChannelMsg) {
        let keep = |to: &mut Vec<u8>, data: &[u8]| {
            let room = OUTPUT_LIMIT.saturating_sub(to.len()).min(data.len());
            to.extend_from_slice(&data[..room]);
        };
        match message {
            ChannelMsg::Data { data } => keep(&mut self.stdout, &data),
            // The only other stream of a command is its complaints.
            ChannelMsg::ExtendedData { data, .. } => keep(&mut self.stderr, &data),
            ChannelMsg::ExitStatus { exit_status } => self.code = Some(exit_status),
            _ => {}
        }
    }

    fn ended(self, command: &str) -> Result<Executed, SshError> {
        let code = self.code.and_then(|code| i32::try_from(code).ok());
        let code = code.ok_or_else(|| SshError::End { command: command.to_owned() })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Executed { code, stdout: text(&self.stdout), stderr: text(&self.stderr) })
    }
}

fn config() -> client::Config {
    // The key that is known is of this kind, so that another kind cannot be it.
    let preferred = Preferred { key: Cow::Borrowed(&[Algorithm::Ed25519]), ..Preferred::default() };
    client::Config { preferred, inactivity_timeout: Some(SILENCE), nodelay: true, ..client::Config::default() }
}

fn greeted(address: SocketAddr, source: russh::Error) -> SshError {
    match source {
        russh::Error::UnknownKey | russh::Error::NoCommonAlgo { kind: AlgorithmKind::Key, .. } => {
            SshError::KnowHost { address }
        }
        source => SshError::Talk { address, source },
    }
}
