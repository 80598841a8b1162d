//! A bootstrap machine below a temporary root, its servers, and as little of an HTTPS client as it takes to ask them
//! anything, also what no client would.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use windlass_cloud_api::{Role, Token, TokenKey};
use windlass_node::facts::Facts;
use windlass_node::places::Places;
use windlass_node::record;
use windlass_pki::{Authority, Pki, SeededKeys};
use windlass_spec::Secret;
use windlass_spec::complete::{CompleteSpec, machines};
use windlass_spec::file::read_and_complete;
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::host::{HostError, Mode, Output, cmd, make_dir, run, run_blocking, write_file};
use windlass_steps::reason;
use windlass_steps::wait::Wait;

/// In every config, and nowhere else.
pub const CANARY: &str = "canary-in-a-config";
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-node");
/// Disks that are busy with a build take their time to sync.
const PATIENCE: Duration = Duration::from_secs(180);

const SPEC: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata:
  name: demo
spec:
  domain: demo.test
  instanceGroups:
  - {name: masters, role: master, count: 3}
  - {name: workers, role: worker, count: 2}
  - {name: gpu, role: worker, count: 1}
";

static SPEC_AND_PKI: LazyLock<(CompleteSpec, Pki)> = LazyLock::new(|| {
    let spec = read_and_complete(SPEC.as_bytes()).expect("the spec is good").1;
    let pki = Pki::make(&spec, None, &mut SeededKeys::new("machines"), now()).expect("the table is good");
    (spec, pki)
});

pub fn now() -> OffsetDateTime {
    SystemClock::new().now()
}

/// A bootstrap machine as Ignition leaves it.
pub struct Machine {
    pub dir: TempDir,
    pub places: Places,
    pub key: TokenKey,
}

impl Machine {
    pub fn new() -> Self {
        Machine::with_configs_of(0)
    }

    /// With that much in each config besides the canary.
    pub fn with_configs_of(bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine { places: Places::below(dir.path()), key: TokenKey::from_seed(&[7; 32]), dir };
        for file in pki().files() {
            let path = file.path.strip_prefix("pki/").unwrap().to_owned();
            machine.put(&format!("etc/kubernetes/pki/{path}"), file.contents.expose());
        }
        let hex: String = machine.key.public().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        machine.put("etc/windlass/token-key", format!("{hex}\n").as_bytes());
        machine.put("opt/windlass/cluster.json", &serde_json::to_vec(spec()).unwrap());
        for name in ["master", "worker", "groups/gpu"] {
            let text = format!("{{\"{CANARY}\": \"{name}\", \"x\": \"{}\"}}", "x".repeat(bytes));
            machine.put(&format!("opt/windlass/machine-config/{name}.ign"), text.as_bytes());
        }
        machine
    }

    pub fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.dir.path().join(path);
        make_dir(path.parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
        write_file(path, bytes, Mode::PRIVATE_FILE).unwrap();
    }

    /// The names of the marks of a kind.
    pub fn marks(&self, kind: &str) -> Vec<String> {
        let entries = fs::read_dir(self.places.tokens().join(kind)).into_iter().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a unit's record says under a name, in words.
    pub fn recorded(&self, unit: &str, name: &str) -> String {
        record::collect(&self.places).get(unit).and_then(|record| record.data.get(name)).unwrap().to_string()
    }

    /// A token that says this, good for an hour.
    pub fn token(&self, name: &str, role: Role, purpose: &str) -> String {
        self.token_until(name, role, purpose, 3600)
    }

    pub fn token_until(&self, name: &str, role: Role, purpose: &str, seconds: i64) -> String {
        let expires = now().unix_timestamp() + seconds;
        let (name, purpose) = (name.to_owned(), purpose.to_owned());
        Token { cluster: "demo-abcde".to_owned(), name, role, purpose, expires }.sign(&self.key)
    }

    /// A client of the signer, as a machine has one.
    pub fn client(&self, server: &Server, machine: &str, role: Role) -> kube::Client {
        let token = Secret::new(self.token(machine, role, "join"));
        let authority = pki().certificate(Authority::Cluster);
        windlass_node::certificate::client_with(&format!("https://{}", server.address), authority, &token).unwrap()
    }

    pub async fn config_server(&self) -> Server {
        Server::start(self, "machine-config-server", Authority::MachineConfig).await
    }

    pub async fn signer(&self) -> Server {
        Server::start(self, "etcd-signer", Authority::Cluster).await
    }
}

pub fn spec() -> &'static CompleteSpec {
    &SPEC_AND_PKI.0
}

pub fn pki() -> &'static Pki {
    &SPEC_AND_PKI.1
}

/// Who a machine of the spec is.
pub fn facts(name: &str) -> Facts {
    let machine = machines(spec()).into_iter().find(|machine| machine.name.as_str() == name).unwrap();
    Facts {
        name: name.to_owned(),
        cluster: "demo-abcde".to_owned(),
        domain: "demo.test".to_owned(),
        role: if machine.etcd_index.is_some() { Role::Master } else { Role::Worker },
        address: machine.address.into(),
        etcd_index: machine.etcd_index,
    }
}

/// A server that runs until it is dropped or told to end.
pub struct Server {
    pub address: SocketAddr,
    pub pid: i32,
    running: JoinHandle<Result<Output, HostError>>,
    tls: TlsConnector,
}

/// What was answered; no status if nothing was.
#[derive(Debug)]
pub struct Answer {
    pub status: Option<u16>,
    pub text: String,
}

impl Server {
    async fn start(machine: &Machine, unit: &'static str, authority: Authority) -> Self {
        let _ = fs::remove_file(machine.places.record(unit));
        let script = r#"echo $$ > "$1/pid-$2"; exec "$3" --root "$1" "$2" --listen 127.0.0.1:0"#;
        let shell = cmd("sh").args(["-c", script, "sh"]).arg(machine.dir.path()).args([unit, PROGRAM]);
        let running = tokio::spawn(run(shell));
        let listening = || async {
            let records = record::collect(&machine.places);
            let listens = records.get(unit).is_some_and(|record| record.data.contains_key("listen"));
            Ok(if listens { Observation::Holds } else { Observation::NotYet(reason!("no address yet")) })
        };
        let criteria = [Criterion::new("the server listens", listening)];
        let wait = Wait::stalled_for(PATIENCE).poll_every(Duration::from_millis(20));
        wait.until(&criteria, |_| Ok::<(), Infallible>(())).await.unwrap();
        let address = machine.recorded(unit, "listen").trim_matches('"').parse().unwrap();
        let pid = fs::read_to_string(machine.dir.path().join(format!("pid-{unit}"))).unwrap();
        Server { address, pid: pid.trim().parse().unwrap(), running, tls: trusting(authority) }
    }

    /// Tells it to end; gives its exit code.
    pub async fn stop(&mut self) -> i32 {
        self.tell_to_end();
        self.ended().await
    }

    pub fn tell_to_end(&self) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), nix::sys::signal::Signal::SIGTERM).unwrap();
    }

    pub async fn ended(&mut self) -> i32 {
        timeout(PATIENCE, &mut self.running).await.unwrap().unwrap().unwrap().code
    }

    /// Sends these bytes and takes what comes back until the connection is closed.
    pub async fn send(&self, bytes: &[u8]) -> Answer {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::from(self.address.ip());
        exchange(self.tls.connect(name, stream).await.unwrap(), bytes).await
    }

    /// The same without TLS.
    pub async fn send_plainly(&self, bytes: &[u8]) -> Answer {
        exchange(TcpStream::connect(self.address).await.unwrap(), bytes).await
    }

    /// Asks for a path by a token.
    pub async fn get(&self, path: &str, token: &str) -> Answer {
        self.send(&request("GET", path, &[&format!("Authorization: Bearer {token}")], b"")).await
    }

    pub async fn post(&self, path: &str, token: &str, body: &[u8]) -> Answer {
        let headers = [&*format!("Authorization: Bearer {token}"), "Content-Type: application/json"];
        self.send(&request("POST", path, &headers, body)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// One request as it travels.
pub fn request(method: &str, path: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n");
    [head.as_bytes(), body].concat()
}

/// The server may close before it has read everything; what it said until then is the answer.
async fn exchange(stream: impl AsyncRead + AsyncWrite, bytes: &[u8]) -> Answer {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut answer = Vec::new();
    let talk = async {
        let write = async {
            let _ = writer.write_all(bytes).await;
            let _ = writer.flush().await;
        };
        let read = async {
            let _ = reader.read_to_end(&mut answer).await;
        };
        let mut write = std::pin::pin!(write);
        let mut read = std::pin::pin!(read);
        tokio::select! {
            () = &mut read => {}
            () = &mut write => read.await,
        }
    };
    timeout(PATIENCE, talk).await.expect("the server answers or closes");
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    Answer { status, text }
}

fn trusting(authority: Authority) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pki().certificate(authority).der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    // Every connection is a fresh one, as a booting machine's is.
    config.resumption = rustls::client::Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}

/// A request made by `openssl req` with a new key of a kind.
pub fn foreign_request(key: &[&str], more: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let openssl = |arguments: &[&str]| run_blocking(cmd("openssl").args(arguments)).unwrap().stdout;
    let path = path.to_str().unwrap();
    openssl(&[&["genpkey", "-out", path], key].concat());
    openssl(&[&["req", "-new", "-key", path], more].concat())
}

/// A certificate, in the place of a request.
pub fn pki_pem() -> String {
    pki().certificate(Authority::Etcd).to_pem()
}
