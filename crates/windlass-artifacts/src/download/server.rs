//! A small web server for tests: it serves what a mirror would, well or badly, and remembers what it was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::digest::{Algorithm, Digest};

/// How a path is answered.
#[derive(Clone)]
pub(crate) enum Answer {
    /// All of it, or the range that was asked for.
    File(Vec<u8>),
    /// The whole length is announced, and the connection ends after so many bytes of each answer.
    Cut { content: Vec<u8>, after: usize },
    /// So many bytes, then silence.
    Stall { content: Vec<u8>, after: usize },
    /// Never ends, and does not say how long it is.
    Endless,
    /// Announces more than it will ever send.
    Boast(u64),
    /// Elsewhere.
    Redirect(String),
    /// Another status.
    Status(u16),
}

/// A server on the loopback interface; it ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) base: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, (Answer, Option<String>)>,
    requests: Vec<String>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let serving = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, serving.clone()));
            }
        });
        Server { base, state }
    }

    pub(crate) fn put(&self, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), (answer, None));
    }

    pub(crate) fn put_tagged(&self, path: &str, answer: Answer, etag: &str) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), (answer, Some(etag.to_owned())));
    }

    /// A file with its checksum beside it.
    pub(crate) fn publish(&self, path: &str, content: &[u8]) {
        self.put(path, Answer::File(content.to_vec()));
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let digits = Digest::of(algorithm, content).hex().to_owned();
            self.put(&format!("{path}.{}", algorithm.as_str()), Answer::File(digits.into_bytes()));
        }
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.lock().unwrap().answers.remove(path);
    }

    pub(crate) fn url(&self, path: &str) -> super::Url {
        format!("{}{path}", self.base).parse().unwrap()
    }

    /// `GET /path` or `GET /path bytes=10-`, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")))?;
        Some(line.split_once(':').unwrap().1.trim().to_owned())
    };
    let mut words = head.split_whitespace();
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (range, if_range) = (header("range"), header("if-range"));
    let answer = {
        let mut state = state.lock().unwrap();
        let asked = format!("{method} {path} {}", range.as_deref().unwrap_or_default());
        state.requests.push(asked.trim().to_owned());
        state.answers.get(path).cloned()
    };
    let (answer, etag) = answer.unwrap_or((Answer::Status(404), None));
    let fresh = if_range.is_none() || if_range == etag;
    let start = range.filter(|_| fresh).and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let sent = reply(&mut stream, method, answer, start, etag).await;
    drop(sent);
}

async fn reply(
    stream: &mut TcpStream,
    method: &str,
    answer: Answer,
    start: Option<usize>,
    etag: Option<String>,
) -> std::io::Result<()> {
    let tag = etag.map(|tag| format!("ETag: {tag}\r\n")).unwrap_or_default();
    let (content, most, then_silence) = match answer {
        Answer::File(content) => {
            let most = content.len();
            (content, most, false)
        }
        Answer::Cut { content, after } => (content, after, false),
        Answer::Stall { content, after } => (content, after, true),
        Answer::Endless => return endless(stream).await,
        Answer::Boast(length) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nx");
            return stream.write_all(head.as_bytes()).await;
        }
        Answer::Redirect(to) => {
            let head =
                format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            return stream.write_all(head.as_bytes()).await;
        }
        Answer::Status(status) => {
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            return stream.write_all(head.as_bytes()).await;
        }
    };
    let total = content.len();
    let (status, from) = match start {
        Some(start) if start >= total => {
            let head = format!("HTTP/1.1 416 X\r\nContent-Range: bytes */{total}\r\nContent-Length: 0\r\n\r\n");
            return stream.write_all(head.as_bytes()).await;
        }
        Some(start) => (format!("206 X\r\nContent-Range: bytes {start}-{}/{total}", total - 1), start),
        None => ("200 OK".to_owned(), 0),
    };
    let head = format!("HTTP/1.1 {status}\r\n{tag}Content-Length: {}\r\nConnection: close\r\n\r\n", total - from);
    stream.write_all(head.as_bytes()).await?;
    if method == "GET" {
        stream.write_all(&content[from..(from + most).min(total)]).await?;
    }
    stream.flush().await?;
    if then_silence {
        // Until the client has had enough.
        stream.read_u8().await?;
    }
    Ok(())
}

async fn endless(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await?;
    loop {
        stream.write_all(&[0; 4096]).await?;
    }
}
