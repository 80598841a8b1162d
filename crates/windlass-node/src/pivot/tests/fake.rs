//! An API server that keeps what is applied to it and shows it again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A running fake; clones show the same objects.
#[derive(Clone)]
pub(crate) struct FakeApi {
    address: SocketAddr,
    shelf: Arc<Mutex<Shelf>>,
}

#[derive(Default)]
struct Shelf {
    objects: BTreeMap<String, Value>,
    asked: Vec<String>,
}

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let shelf = Arc::new(Mutex::new(Shelf::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shelf));
        tokio::spawn(async move { axum::serve(listener, router).await });
        FakeApi { address, shelf }
    }

    /// A client of this API.
    pub(crate) fn client(&self) -> Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = Config::new(format!("http://{}", self.address).parse().unwrap());
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// Puts an object at its path.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.shelf.lock().unwrap().objects.insert(path.to_owned(), object);
    }

    /// The object at a path.
    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.shelf.lock().unwrap().objects.get(path).cloned()
    }

    /// Changes every object whose path holds this.
    pub(crate) fn change(&self, part: &str, change: impl Fn(&mut Value)) {
        let mut shelf = self.shelf.lock().unwrap();
        shelf.objects.iter_mut().filter(|(path, _)| path.contains(part)).for_each(|(_, object)| change(object));
    }

    /// What was written and deleted, in order: `PATCH /api/v1/…`.
    pub(crate) fn written(&self) -> Vec<String> {
        let shelf = self.shelf.lock().unwrap();
        shelf.asked.iter().filter(|line| !line.starts_with("GET")).cloned().collect()
    }
}

async fn answer(State(shelf): State<Arc<Mutex<Shelf>>>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = to_bytes(request.into_body(), 16 << 20).await.unwrap();
    let mut shelf = shelf.lock().unwrap();
    shelf.asked.push(format!("{method} {path}"));
    match method {
        Method::GET if path == "/readyz" => "ok".into_response(),
        Method::GET => match shelf.objects.get(&path) {
            Some(object) => shown(object),
            None => listed(&shelf.objects, &path),
        },
        Method::PATCH => shown(&applied(&mut shelf.objects, &path, &body)),
        Method::DELETE => match shelf.objects.remove(&path) {
            Some(_) => shown(&json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})),
            None => absent(),
        },
        other => panic!("nobody asks {other} {path}"),
    }
}

/// What is applied replaces what was there, except for a status, which has a path of its own.
fn applied(objects: &mut BTreeMap<String, Value>, path: &str, body: &Bytes) -> Value {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    if let Some(whole) = path.strip_suffix("/status") {
        let kept = objects.get_mut(whole).expect("a status is of something");
        kept["status"] = object["status"].clone();
        return kept.clone();
    }
    if let Some(known) = objects.get(path) {
        object["status"] = known["status"].clone();
    } else if object["kind"] == "CustomResourceDefinition" {
        let now = "2026-11-16T03:00:00Z";
        let established = json!({"type": "Established", "status": "True", "lastTransitionTime": now});
        object["status"] = json!({"conditions": [established]});
    }
    objects.insert(path.to_owned(), object.clone());
    object
}

/// The objects of a kind, in one namespace or in all.
fn listed(objects: &BTreeMap<String, Value>, collection: &str) -> Response {
    let Some((above, _)) = collection.rsplit_once('/').filter(|(above, _)| above.len() > 1) else { return absent() };
    let everywhere = format!("{above}/namespaces/");
    let is_of = |path: &str| {
        let rest = match path.strip_prefix(&everywhere) {
            Some(in_namespace) if !collection.contains("/namespaces/") => {
                format!("{above}/{}", in_namespace.split_once('/').map_or("", |(_, rest)| rest))
            }
            _ => path.to_owned(),
        };
        rest.strip_prefix(collection).and_then(|rest| rest.strip_prefix('/')).is_some_and(|name| !name.contains('/'))
    };
    let items: Vec<&Value> = objects.iter().filter(|(path, _)| is_of(path)).map(|(_, object)| object).collect();
    let is_collection = !items.is_empty() || collection.rsplit('/').next().is_some_and(|plural| plural.ends_with('s'));
    if is_collection { shown(&json!({"metadata": {}, "items": items})) } else { absent() }
}

fn absent() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
                        "reason": "NotFound", "message": "not found"});
    (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}

fn shown(object: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}
