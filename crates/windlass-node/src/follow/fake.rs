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
use windlass_cluster::access::Access;

pub(crate) const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/kube-system/pods";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// What there is: objects by collection and name, and every event there was.
#[derive(Default)]
struct Store {
    objects: BTreeMap<(String, String), Value>,
    events: Vec<(String, Value)>,
    forbidden: Vec<&'static str>,
    unevictable: Vec<String>,
    asked: HashMap<String, usize>,
}

/// A running fake.
#[derive(Clone)]
pub(crate) struct FakeApi {
    pub(crate) address: SocketAddr,
    store: Arc<Mutex<Store>>,
    changed: Arc<watch::Sender<usize>>,
}

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = FakeApi { address, store: Arc::default(), changed: Arc::new(watch::Sender::new(0)) };
        let router = Router::new().fallback(answer).with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        api
    }

    /// Refuses everything about a collection, or no longer.
    pub(crate) fn forbid(&self, collections: &[&'static str]) {
        self.store.lock().unwrap().forbidden = collections.to_vec();
    }

    /// Refuses to evict these pods, or no longer.
    pub(crate) fn keep(&self, pods: &[&str]) {
        self.store.lock().unwrap().unevictable = pods.iter().map(|name| (*name).to_owned()).collect();
        self.changed.send_modify(|_| {});
    }

    /// A client of it.
    pub(crate) async fn client(&self) -> kube::Client {
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n",
            self.address
        );
        Access::KubeconfigText(windlass_spec::Secret::new(text)).client().await.unwrap()
    }

    /// Puts an object there and tells who watches.
    pub(crate) fn put(&self, collection: &str, mut object: Value) -> Value {
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
    pub(crate) fn remove(&self, collection: &str, name: &str) {
        let mut store = self.store.lock().unwrap();
        let object = store.objects.remove(&(collection.to_owned(), name.to_owned())).unwrap();
        store.events.push((collection.to_owned(), json!({"type": "DELETED", "object": object})));
        self.changed.send_replace(store.events.len());
    }

    /// Tells who watches that what they know is too old.
    pub(crate) fn expire(&self, collection: &str) {
        let mut store = self.store.lock().unwrap();
        let gone =
            json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
        store.events.push((collection.to_owned(), json!({"type": "ERROR", "object": gone})));
        self.changed.send_replace(store.events.len());
    }

    pub(crate) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(&(collection.to_owned(), name.to_owned())).cloned()
    }

    fn has(&self, collection: &str, object: &Value) -> bool {
        self.get(collection, object["metadata"]["name"].as_str().unwrap_or_default()).is_some()
    }

    /// How often something was asked: `PUT /apis/…`.
    pub(crate) fn asked(&self, line: &str) -> usize {
        self.store.lock().unwrap().asked.get(line).copied().unwrap_or(0)
    }

    /// Returns once this holds; it is looked at whenever something was asked or has changed.
    pub(crate) async fn until(&self, mut holds: impl FnMut(&Self) -> bool) {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            while !holds(self) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it comes to hold");
    }

    fn list(&self, chosen: &Chosen) -> Response {
        let store = self.store.lock().unwrap();
        let items: Vec<&Value> =
            store.objects.iter().filter(|((at, _), o)| chosen.takes(at, o)).map(|(_, o)| o).collect();
        let metadata = json!({"resourceVersion": store.events.len().to_string()});
        json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string().into_response()
    }

    /// Events after a version, for ever.
    fn watch(&self, chosen: Chosen, version: usize) -> Response {
        let start = (self.clone(), self.changed.subscribe(), version);
        let lines = stream::unfold(start, move |(api, mut changed, mut at)| {
            let chosen = chosen.clone();
            async move {
                loop {
                    while let Some((place, event)) = api.event(at) {
                        at += 1;
                        if chosen.takes(&place, &event["object"]) {
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
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != object["metadata"]["resourceVersion"] {
            return refused(StatusCode::CONFLICT);
        }
        merge(&mut object, patch);
        self.put(collection, object).to_string().into_response()
    }

    fn evict(&self, collection: &str, name: &str) -> Response {
        if self.store.lock().unwrap().unevictable.iter().any(|kept| kept == name) {
            return refused(StatusCode::TOO_MANY_REQUESTS);
        }
        match self.get(collection, name) {
            None => refused(StatusCode::NOT_FOUND),
            Some(_) => {
                self.remove(collection, name);
                (StatusCode::CREATED, json!({"kind": "Status", "status": "Success"}).to_string()).into_response()
            }
        }
    }
}

/// What a list or watch asks for.
#[derive(Debug, Clone)]
struct Chosen {
    collection: String,
    fields: Option<String>,
    apps: Option<Vec<String>>,
}

impl Chosen {
    fn takes(&self, collection: &str, object: &Value) -> bool {
        // Without a namespace all of them are meant.
        let (group, plural) = self.collection.rsplit_once('/').unwrap();
        let everywhere =
            collection.starts_with(&format!("{group}/namespaces/")) && collection.ends_with(&format!("/{plural}"));
        // An error has no name, and is for everybody.
        let is_error = object["kind"] == "Status";
        (collection == self.collection || everywhere) && (is_error || (self.has_field(object) && self.has_app(object)))
    }

    fn has_field(&self, object: &Value) -> bool {
        let Some((path, value)) = self.fields.as_deref().and_then(|fields| fields.split_once('=')) else { return true };
        object.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str) == Some(value)
    }

    fn has_app(&self, object: &Value) -> bool {
        let app = object["metadata"]["labels"]["k8s-app"].as_str().unwrap_or_default();
        self.apps.as_ref().is_none_or(|apps| apps.iter().any(|one| one == app))
    }
}

fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else { return object.clone_from(patch) };
    for (name, value) in fields {
        match value {
            Value::Null => drop(object.as_object_mut().and_then(|object| object.remove(name))),
            value => merge(&mut object[name.as_str()], value),
        }
    }
}

/// The collection, the object's name and the rest, by the API's way of naming.
fn parts(path: &str) -> Option<(String, String, String)> {
    let words: Vec<&str> = path.trim_matches('/').split('/').collect();
    let group = match *words.first()? {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    let plural = match words.get(group) {
        Some(&"namespaces") if words.len() > group + 2 => group + 2,
        _ => group,
    };
    let word = |at: usize| words.get(at).map(|word| (*word).to_owned()).unwrap_or_default();
    let collection = format!("/{}", words.get(..=plural)?.join("/"));
    Some((collection, word(plural + 1), word(plural + 2)))
}

fn refused(code: StatusCode) -> Response {
    let status = json!({"kind": "Status", "status": "Failure", "message": "told so", "code": code.as_u16()});
    (code, status.to_string()).into_response()
}

async fn answer(State(api): State<FakeApi>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    *api.store.lock().unwrap().asked.entry(format!("{} {path}", head.method)).or_default() += 1;
    api.changed.send_modify(|_| {});
    let Some((collection, name, rest)) = parts(&path) else { return refused(StatusCode::NOT_FOUND) };
    if api.store.lock().unwrap().forbidden.contains(&collection.as_str()) {
        return refused(StatusCode::FORBIDDEN);
    }
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let query: HashMap<String, String> =
        url::form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
    let apps = query
        .get("labelSelector")
        .and_then(|label| label.strip_prefix("k8s-app in ("))
        .map(|apps| apps.trim_end_matches(')').split(',').map(|app| app.trim().to_owned()).collect());
    let chosen = Chosen { collection: collection.clone(), fields: query.get("fieldSelector").cloned(), apps };
    match (head.method, name.as_str(), rest.as_str()) {
        (Method::GET, "", _) if query.get("watch").is_some_and(|watch| watch == "true") => {
            api.watch(chosen, query["resourceVersion"].parse().unwrap())
        }
        (Method::GET, "", _) => api.list(&chosen),
        (Method::GET, name, _) => match api.get(&collection, name) {
            Some(object) => object.to_string().into_response(),
            None => refused(StatusCode::NOT_FOUND),
        },
        (Method::POST, name, "eviction") => api.evict(&collection, name),
        (Method::POST, "", _) if api.has(&collection, &body) => refused(StatusCode::CONFLICT),
        (Method::POST, "", _) => api.put(&collection, body).to_string().into_response(),
        (Method::PUT, name, _) => api.replace(&collection, name, body),
        (Method::PATCH, name, _) => api.merge(&collection, name, &body),
        _ => refused(StatusCode::METHOD_NOT_ALLOWED),
    }
}
