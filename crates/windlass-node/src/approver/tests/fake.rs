//! An API server on loopback that keeps objects, counts their versions, and lets clients watch them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(super) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

/// What there is: objects by collection and name, and every event there was.
#[derive(Default)]
struct Store {
    objects: BTreeMap<(String, String), Value>,
    events: Vec<(String, Value)>,
    forbidden: Vec<&'static str>,
    asked: HashMap<String, usize>,
}

/// A running fake.
#[derive(Clone)]
pub(super) struct FakeApi {
    pub(super) address: SocketAddr,
    store: Arc<Mutex<Store>>,
    changed: Arc<watch::Sender<usize>>,
}

impl FakeApi {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = FakeApi { address, store: Arc::default(), changed: Arc::new(watch::Sender::new(0)) };
        let router = Router::new().fallback(answer).with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        api
    }

    /// Refuses everything about a collection, or no longer.
    pub(super) fn forbid(&self, collections: &[&'static str]) {
        self.store.lock().unwrap().forbidden = collections.to_vec();
    }

    /// Puts an object there and tells who watches.
    pub(super) fn put(&self, collection: &str, mut object: Value) -> Value {
        let mut store = self.store.lock().unwrap();
        let key = (collection.to_owned(), object["metadata"]["name"].as_str().unwrap().to_owned());
        let kind = if store.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        let version = store.events.len() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        store.objects.insert(key, object.clone());
        store.events.push((collection.to_owned(), json!({"type": kind, "object": object})));
        self.changed.send_replace(version);
        object
    }

    /// Takes an object away and tells who watches.
    pub(super) fn remove(&self, collection: &str, name: &str) {
        let mut store = self.store.lock().unwrap();
        let object = store.objects.remove(&(collection.to_owned(), name.to_owned())).unwrap();
        store.events.push((collection.to_owned(), json!({"type": "DELETED", "object": object})));
        self.changed.send_replace(store.events.len());
    }

    /// Tells who watches that what they know is too old.
    pub(super) fn expire(&self, collection: &str) {
        let mut store = self.store.lock().unwrap();
        let gone =
            json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
        store.events.push((collection.to_owned(), json!({"type": "ERROR", "object": gone})));
        self.changed.send_replace(store.events.len());
    }

    pub(super) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(&(collection.to_owned(), name.to_owned())).cloned()
    }

    /// How often something was asked: `PUT /apis/…`.
    pub(super) fn asked(&self, line: &str) -> usize {
        self.store.lock().unwrap().asked.get(line).copied().unwrap_or(0)
    }

    /// Returns once this holds; it is looked at whenever something was asked or has changed.
    pub(super) async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            while !holds(self) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it comes to hold");
    }

    fn list(&self, collection: &str, name: Option<&str>) -> Response {
        let store = self.store.lock().unwrap();
        let of_it = store.objects.iter().filter(|((place, _), _)| place == collection);
        let items: Vec<&Value> =
            of_it.filter(|((_, n), _)| name.is_none_or(|name| name == n)).map(|(_, o)| o).collect();
        let metadata = json!({"resourceVersion": store.events.len().to_string()});
        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string().into_response()
    }

    /// Events after a version, for ever.
    fn watch(&self, collection: &str, name: Option<String>, version: usize) -> Response {
        let start = (self.clone(), self.changed.subscribe(), version);
        let collection = collection.to_owned();
        let lines = stream::unfold(start, move |(api, mut changed, mut at)| {
            let (collection, name) = (collection.clone(), name.clone());
            async move {
                loop {
                    while let Some((place, event)) = api.event(at) {
                        at += 1;
                        let named = event["object"]["metadata"]["name"].as_str();
                        if place == collection && (named.is_none() || name.is_none() || named == name.as_deref()) {
                            return Some((Ok::<_, std::io::Error>(format!("{event}\n")), (api, changed, at)));
                        }
                    }
                    changed.changed().await.ok()?;
                }
            }
        });
        Body::from_stream(lines).into_response()
    }

    fn event(&self, at: usize) -> Option<(String, Value)> {
        self.store.lock().unwrap().events.get(at).cloned()
    }

    /// Replaces what a client read before, unless somebody else was faster.
    fn replace(&self, collection: &str, name: &str, object: Value) -> Response {
        match self.get(collection, name) {
            None => refused(StatusCode::NOT_FOUND),
            Some(now) if now["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] => {
                refused(StatusCode::CONFLICT)
            }
            Some(_) => self.put(collection, object).to_string().into_response(),
        }
    }

    fn merge(&self, collection: &str, name: &str, patch: &Value) -> Response {
        let Some(mut object) = self.get(collection, name) else { return refused(StatusCode::NOT_FOUND) };
        merge(&mut object, patch);
        self.put(collection, object).to_string().into_response()
    }
}

fn merge(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| merge(&mut object[name.as_str()], value)),
        other => *object = other.clone(),
    }
}

fn refused(code: StatusCode) -> Response {
    let status = json!({"kind": "Status", "status": "Failure", "message": "told so", "code": code.as_u16()});
    (code, status.to_string()).into_response()
}

async fn answer(State(api): State<FakeApi>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    *api.store.lock().unwrap().asked.entry(format!("{} {path}", parts.method)).or_default() += 1;
    api.changed.send_modify(|_| {});
    let Some(collection) = [REQUESTS, NODES, CONFIG_MAPS].into_iter().find(|place| path.starts_with(place)) else {
        return refused(StatusCode::NOT_FOUND);
    };
    if api.store.lock().unwrap().forbidden.contains(&collection) {
        return refused(StatusCode::FORBIDDEN);
    }
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let name = path[collection.len()..].split('/').nth(1).unwrap_or_default();
    let query: HashMap<String, String> =
        url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let only = query.get("fieldSelector").map(|field| field.trim_start_matches("metadata.name=").to_owned());
    match (parts.method, name) {
        (Method::GET, "") if query.get("watch").is_some_and(|watch| watch == "true") => {
            api.watch(collection, only, query["resourceVersion"].parse().unwrap())
        }
        (Method::GET, "") => api.list(collection, only.as_deref()),
        (Method::GET, name) => match api.get(collection, name) {
            Some(object) => object.to_string().into_response(),
            None => refused(StatusCode::NOT_FOUND),
        },
        (Method::POST, "") => api.put(collection, body).to_string().into_response(),
        (Method::PUT, name) => api.replace(collection, name, body),
        (Method::PATCH, name) => api.merge(collection, name, &body),
        _ => refused(StatusCode::METHOD_NOT_ALLOWED),
    }
}
