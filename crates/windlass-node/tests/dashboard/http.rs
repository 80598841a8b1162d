//! The dashboard under test, and as little of an HTTP client as it takes to ask it anything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use time::macros::datetime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use windlass_cluster::access::Access;
use windlass_node::dashboard::read::{Limits, Reader};
use windlass_node::dashboard::serve::serve;
use windlass_steps::clock::ManualClock;
use windlass_steps::host::{Mode, write_file};
use windlass_steps::interrupt::Interrupt;

/// A dashboard that reads from an API at an address, at three o'clock.
pub struct Dashboard {
    pub address: SocketAddr,
    pub clock: Arc<ManualClock>,
    pub interrupt: Interrupt,
    pub server: JoinHandle<std::io::Result<()>>,
}

/// Deadlines long enough for a busy machine.
pub fn limits() -> Limits {
    Limits { deadline: Duration::from_secs(30), ..Limits::default() }
}

impl Dashboard {
    pub async fn start(api: SocketAddr, limits: Limits) -> Self {
        let clock = Arc::new(ManualClock::at(datetime!(2026-11-16 03:00:00 UTC)));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        write_file(&path, kubeconfig(api), Mode::PRIVATE_FILE).unwrap();
        let client = Access::Kubeconfig(path).client().await.unwrap();
        let reader = Arc::new(Reader::new(client, clock.clone(), limits));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let interrupt = Interrupt::default();
        let stop = interrupt.clone();
        let server = tokio::spawn(async move { serve(listener, reader, &stop).await });
        Self { address, clock, interrupt, server }
    }

    /// Asks for a path.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).await
    }

    /// Sends one request and reads the whole answer.
    pub async fn ask(&self, method: &str, path: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

/// A kubeconfig without credentials.
pub fn kubeconfig(api: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: fake\n\
         clusters:\n- name: fake\n  cluster:\n    server: http://{api}\n\
         contexts:\n- name: fake\n  context:\n    cluster: fake\n    user: nobody\n\
         users:\n- name: nobody\n  user: {{}}\n"
    )
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The body as data.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}
