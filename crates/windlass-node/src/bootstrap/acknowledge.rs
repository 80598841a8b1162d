//! Telling the machine-config server that the config has arrived, so that the token that asked for it is burnt.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, StatusCode};
use rustls::ClientConfig;
use tracing::{info, warn};
use windlass_cloud_api::Role;
use windlass_pki::Certificate;
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::host::{Mode, make_dir, read_file, write_file};
use windlass_steps::reason;
use windlass_steps::wait::{Wait, WaitError};

use super::http::{Asking, ask, trusting};
use crate::facts::Facts;
use crate::join::{Observe, listed};
use crate::places::Places;

const PORT: u16 = 22623;
const FILE_LIMIT: u64 = 64 << 10;
/// A token that is not burnt only lives longer, so a machine that cannot reach the server is not held up for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// There is nothing to acknowledge, or it was done before.
    NotNeeded,
    /// The server knows now.
    Told,
    /// The server will not hear of it, and asking again would not change that.
    Refused(StatusCode),
    /// The server could not be reached.
    Unheard,
}

/// What an answer of the server means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Taken,
    Refused,
    Later,
}

/// Acknowledges the config once in the life of a machine. It never fails: the machine works all the same.
pub async fn acknowledge(places: &Places, facts: &Facts, observe: Observe<'_>) -> Acknowledged {
    let Some((token, authority)) = needed(places, facts) else { return Acknowledged::NotNeeded };
    let server = Server { host: &format!("api.{}", facts.domain), port: PORT, tls: trusting(&authority) };
    let outcome = tell(&server, &token, PATIENCE, observe).await;
    match outcome {
        Acknowledged::NotNeeded | Acknowledged::Told => info!("config acknowledged"),
        Acknowledged::Refused(status) => warn!(%status, "acknowledgement refused, going on"),
        Acknowledged::Unheard => warn!("acknowledgement not heard, going on: the token lives until the node is there"),
    }
    if outcome != Acknowledged::Unheard {
        remember(places);
    }
    outcome
}

/// The token and whom to trust, if there is somebody to tell: where there is no machine-config server its authority is
/// not on the machine, and the bootstrap machine has no token.
fn needed(places: &Places, facts: &Facts) -> Option<(String, Certificate)> {
    if facts.role == Role::Bootstrap || places.acknowledged().exists() {
        return None;
    }
    let token = read_file(places.config_token(), FILE_LIMIT).ok()?;
    let token = String::from_utf8(token).ok()?.trim().to_owned();
    let authority = read_file(places.pki("machine-config-ca.crt"), FILE_LIMIT).ok()?;
    match Certificate::parse_pem(&authority) {
        Ok(authority) => Some((token, authority)),
        Err(error) => {
            warn!(%error, "authority of the machine-config server not understood, going on");
            None
        }
    }
}

/// Whom to tell, and whom to trust for it.
struct Server<'a> {
    host: &'a str,
    port: u16,
    tls: Arc<ClientConfig>,
}

async fn tell(server: &Server<'_>, token: &str, patience: Duration, observe: Observe<'_>) -> Acknowledged {
    let outcome = Cell::new(Acknowledged::Unheard);
    let look = || async {
        let asking = Asking {
            method: Method::POST,
            host: server.host,
            port: server.port,
            path: "/ack",
            bearer: Some(token),
            tls: Some(Arc::clone(&server.tls)),
        };
        let status = ask(&asking).await?.status;
        match judge(status) {
            Verdict::Taken => outcome.set(Acknowledged::Told),
            Verdict::Refused => outcome.set(Acknowledged::Refused(status)),
            Verdict::Later => return Ok(Observation::NotYet(reason!("it answers {status}"))),
        }
        Ok::<_, LookError>(Observation::Holds)
    };
    let criteria = [Criterion::new("the machine-config server knows that the config has arrived", look)];
    match Wait::stalled_for(patience).until(&criteria, observe).await {
        Ok(()) => {}
        Err(WaitError::Unmet(unmet)) => warn!(reason = listed(&unmet), "machine-config server not reached"),
        Err(WaitError::Observe(never)) => match never {},
    }
    outcome.get()
}

/// Conflict and gone are how a server says that the token is burnt already: its answer to the first try was lost.
fn judge(status: StatusCode) -> Verdict {
    match status {
        _ if status.is_success() => Verdict::Taken,
        StatusCode::CONFLICT | StatusCode::GONE => Verdict::Taken,
        _ if status.is_client_error() => Verdict::Refused,
        _ => Verdict::Later,
    }
}

fn remember(places: &Places) {
    let path = places.acknowledged();
    let folder = path.parent().unwrap_or(&path);
    let written = make_dir(folder, Mode::PUBLIC_DIR).and_then(|_| write_file(&path, "", Mode::PUBLIC));
    if let Err(error) = written {
        // The next run of the unit tells the server once more, which is no harm.
        warn!(%error, "acknowledgement not remembered");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::pki_types::pem::PemObject as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use windlass_pki::signer::self_sign;
    use windlass_pki::{KeySource as _, San, SeededKeys, Signer, Subject, Template, Usages};
    use windlass_steps::clock::{Clock as _, SystemClock};

    use super::*;

    #[test]
    fn every_status_is_taken_refused_or_for_later() {
        let cases = [
            (204, Verdict::Taken),
            (200, Verdict::Taken),
            (409, Verdict::Taken),
            (410, Verdict::Taken),
            (401, Verdict::Refused),
            (403, Verdict::Refused),
            (404, Verdict::Refused),
            (503, Verdict::Later),
            (500, Verdict::Later),
            (301, Verdict::Later),
        ];
        for (code, want) in cases {
            assert_eq!(judge(StatusCode::from_u16(code).unwrap()), want, "{code}");
        }
    }

    #[test]
    fn nothing_is_needed_without_token_authority_or_after_the_first_time() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let facts = Facts {
            name: "workers-0".into(),
            cluster: "demo-abcde".into(),
            domain: "demo.test".into(),
            role: Role::Worker,
            address: [10, 0, 0, 9].into(),
            etcd_index: None,
        };
        assert!(needed(&places, &facts).is_none());
        make_dir(places.config_token().parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
        make_dir(places.pki(""), Mode::PRIVATE_DIR).unwrap();
        write_file(places.config_token(), "token\n", Mode::PRIVATE_FILE).unwrap();
        assert!(needed(&places, &facts).is_none());
        let (authority, ..) = authority("one");
        write_file(places.pki("machine-config-ca.crt"), authority.certificate().to_pem(), Mode::PUBLIC).unwrap();
        assert_eq!(needed(&places, &facts).unwrap().0, "token");
        assert!(needed(&places, &Facts { role: Role::Bootstrap, ..facts.clone() }).is_none());
        remember(&places);
        assert!(needed(&places, &facts).is_none());
    }

    fn authority(seed: &str) -> (Signer, SeededKeys) {
        let mut keys = SeededKeys::new(seed);
        let key = keys.key("ca");
        let subject = Subject { common_name: format!("ca {seed}"), organization: None };
        let serial = keys.serial("ca");
        let now = SystemClock::new().now();
        let own = self_sign(&subject, &key, serial, now, Duration::from_secs(3600)).unwrap();
        (Signer::new(own, key).unwrap(), keys)
    }

    /// A server with a certificate for `localhost` that answers 503 once and 204 from then on.
    async fn serve(signer: &Signer, keys: &mut SeededKeys) -> (u16, Arc<AtomicU32>) {
        let key = keys.key("server");
        let template = Template {
            subject: Subject { common_name: "server".into(), organization: None },
            sans: vec![San::Dns("localhost".into())],
            usages: Usages::Server,
            lifetime: Duration::from_secs(3600),
        };
        let leaf = signer.sign(&template, key.public(), keys.serial("server"), SystemClock::new().now()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pem = key.to_pem();
        let key = PrivateKeyDer::from_pem_slice(pem.expose().as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![leaf.der().to_vec().into()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = [0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                assert!(String::from_utf8_lossy(&head[..read]).starts_with("POST /ack HTTP/1.1\r\n"));
                let first = count.fetch_add(1, Ordering::SeqCst) == 0;
                let status = if first { "503 Later" } else { "204 Taken" };
                let said = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(said.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap_or_default();
            }
        });
        (port, asked)
    }

    #[tokio::test]
    async fn the_server_is_told_again_until_it_takes_it() {
        let (signer, mut keys) = authority("one");
        let (port, asked) = serve(&signer, &mut keys).await;
        let server = Server { host: "localhost", port, tls: trusting(signer.certificate()) };
        let outcome = tell(&server, "token", PATIENCE, &mut |_| Ok(())).await;
        assert_eq!((outcome, asked.load(Ordering::SeqCst)), (Acknowledged::Told, 2));
    }

    #[tokio::test]
    async fn a_server_of_another_authority_is_told_nothing() {
        let (signer, mut keys) = authority("one");
        let (port, asked) = serve(&signer, &mut keys).await;
        let (stranger, _) = authority("two");
        let server = Server { host: "localhost", port, tls: trusting(stranger.certificate()) };
        let outcome = tell(&server, "token", Duration::from_millis(300), &mut |_| Ok(())).await;
        assert_eq!((outcome, asked.load(Ordering::SeqCst)), (Acknowledged::Unheard, 0));
    }
}
