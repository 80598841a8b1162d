//! An API server on loopback that lists what the test says, page by page, and remembers what it was asked.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::cluster;

/// What to do when one path is asked for.
#[derive(Clone, Copy)]
pub enum Instead {
    /// Refuse, as to an account without the right.
    Forbid,
    /// Know nothing of it.
    NotFound,
    /// Never answer.
    Hang,
    /// Answer with something that is no list.
    Garble,
}

/// A running fake.
pub struct FakeApi {
    pub address: SocketAddr,
    state: Arc<Fake>,
}

struct Fake {
    instead: Mutex<HashMap<&'static str, Instead>>,
    asked: Mutex<Vec<String>>,
    gate: Semaphore,
    waiting: watch::Sender<usize>,
    most: Mutex<usize>,
}

impl FakeApi {
    /// Answers everything from [`cluster::items`].
    pub async fn start() -> Self {
        let api = Self::start_closed().await;
        api.open();
        api
    }

    /// Takes requests but answers none until it is opened.
    pub async fn start_closed() -> Self {
        let state = Arc::new(Fake {
            instead: Mutex::default(),
            asked: Mutex::default(),
            gate: Semaphore::new(0),
            waiting: watch::Sender::new(0),
            most: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, state }
    }

    /// Answers all that wait and all to come.
    pub fn open(&self) {
        self.state.gate.add_permits(1000);
    }

    /// Does something else for one path.
    pub fn on(&self, path: &'static str, instead: Instead) {
        self.state.instead.lock().unwrap().insert(path, instead);
    }

    /// Returns once that many requests wait for the gate.
    pub async fn waiting(&self, count: usize) {
        self.state.waiting.subscribe().wait_for(|waiting| *waiting >= count).await.unwrap();
    }

    /// Every path and query that was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.state.asked.lock().unwrap().clone()
    }

    /// How many requests waited at the same time, at most.
    pub fn most_at_once(&self) -> usize {
        *self.state.most.lock().unwrap()
    }
}

async fn answer(State(fake): State<Arc<Fake>>, uri: Uri) -> Response {
    fake.asked.lock().unwrap().push(uri.to_string());
    fake.waiting.send_modify(|waiting| {
        *waiting += 1;
        let mut most = fake.most.lock().unwrap();
        *most = (*most).max(*waiting);
    });
    let permit = fake.gate.acquire().await.unwrap();
    fake.waiting.send_modify(|waiting| *waiting -= 1);
    drop(permit);
    let instead = fake.instead.lock().unwrap().get(uri.path()).copied();
    match instead {
        Some(Instead::Hang) => pending().await,
        Some(Instead::Garble) => json_answer(StatusCode::OK, &json!("no list")),
        Some(Instead::NotFound) => status(404, "NotFound", "the server could not find the requested resource"),
        Some(Instead::Forbid) => status(403, "Forbidden", "is forbidden: User \"nobody\" cannot list <everything>"),
        None if uri.path() == "/version" => json_answer(StatusCode::OK, &version()),
        None => match cluster::items(uri.path()) {
            Some(items) => json_answer(StatusCode::OK, &page(&uri, &items)),
            None => status(404, "NotFound", "the server could not find the requested resource"),
        },
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "",
        "goVersion": "", "compiler": "", "platform": "",
    })
}

/// As the real one: `limit` items, and a token for the rest.
fn page(uri: &Uri, items: &[Value]) -> Value {
    let parameter = |name: &str| {
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse::<usize>().ok())
    };
    let start = parameter("continue").unwrap_or(0);
    let end = (start + parameter("limit").unwrap_or(items.len())).min(items.len());
    let mut meta = json!({"resourceVersion": "1"});
    if end < items.len() {
        meta["continue"] = json!(end.to_string());
        meta["remainingItemCount"] = json!(items.len() - end);
    }
    json!({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items[start..end]})
}

fn status(code: u16, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message,
    });
    json_answer(StatusCode::from_u16(code).unwrap(), &body)
}

fn json_answer(code: StatusCode, body: &Value) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
