//! A web server on loopback: it serves what a mirror would, well or badly, and remembers what it was asked.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use windlass_artifacts::digest::{Algorithm, Digest};

/// How a path is answered; one that nobody put there is not found.
#[derive(Clone)]
pub enum Answer {
    Bytes(Vec<u8>),
    File(PathBuf),
    /// A few bytes, then silence until the client has had enough.
    Stall,
    /// Zeros for ever.
    Endless,
    Status(u16),
}

/// It serves until the test ends.
pub struct Server {
    pub base: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    asked: Vec<String>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = shared.clone();
                // A client that goes away in the middle is what some of the tests are about.
                std::thread::spawn(move || drop(serve(stream.unwrap(), &state)));
            }
        });
        Server { base, state }
    }

    pub fn put(&self, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), answer);
    }

    /// A file with its checksum beside it.
    pub fn publish(&self, path: &str, file: &Path) {
        let digest = Digest::of_reader(Algorithm::Sha512, File::open(file).unwrap()).unwrap();
        self.put(path, Answer::File(file.to_owned()));
        self.put(&format!("{path}.sha512"), Answer::Bytes(digest.hex().into()));
        self.put(&format!("{path}.sha256"), Answer::Bytes(b"only asked whether it is there".into()));
    }

    pub fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let answer = {
        let mut state = state.lock().unwrap();
        state.asked.push(format!("{method} {path}"));
        state.answers.get(path).cloned().unwrap_or(Answer::Status(404))
    };
    let head = |status: u16, length: u64| {
        format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")
    };
    match answer {
        Answer::Status(status) => stream.write_all(head(status, 0).as_bytes()),
        Answer::Bytes(bytes) => {
            stream.write_all(head(200, bytes.len() as u64).as_bytes())?;
            if method == "GET" { stream.write_all(&bytes) } else { Ok(()) }
        }
        Answer::File(path) => {
            let mut file = File::open(path)?;
            stream.write_all(head(200, file.metadata()?.len()).as_bytes())?;
            if method == "GET" { io::copy(&mut file, &mut stream).map(drop) } else { Ok(()) }
        }
        Answer::Stall => {
            stream.write_all(head(200, 1 << 20).as_bytes())?;
            stream.write_all(b"and then ...")?;
            stream.read(&mut [0]).map(drop)
        }
        Answer::Endless => {
            stream.write_all(b"HTTP/1.1 200 X\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[0; 1 << 16])?;
            }
        }
    }
}
