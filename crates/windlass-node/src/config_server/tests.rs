//! The twin in the cluster, against an API that knows one ConfigMap and one Node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures_util::future::join_all;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use time::macros::datetime;
use tokio::net::TcpListener;
use windlass_cloud_api::{Role, Token, TokenKey};
use windlass_pki::{Authority, Pki, SeededKeys};
use windlass_spec::Secret;
use windlass_spec::file::read_and_complete;
use windlass_steps::clock::ManualClock;
use windlass_steps::host::{Mode, make_dir, write_file};

use super::*;
use crate::certificate::client_with;
use crate::https::Peer;

const NOON: time::OffsetDateTime = datetime!(2026-11-16 12:00 UTC);

/// What the API knows, and how often its list was read.
#[derive(Default)]
struct Fake {
    burnt: Option<BTreeMap<String, String>>,
    ready: BTreeMap<String, &'static str>,
    down: bool,
    reads: usize,
}

type Shared = Arc<Mutex<Fake>>;

fn status(code: u16) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": if code == 404 { "NotFound" } else { "InternalError" }, "message": "no"});
    (StatusCode::from_u16(code).unwrap(), status.to_string()).into_response()
}

fn list(burnt: &BTreeMap<String, String>) -> Response {
    let metadata = json!({"name": "windlass-burnt-tokens"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": burnt}).to_string().into_response()
}

async fn burnt(State(fake): State<Shared>) -> Response {
    let mut fake = fake.lock().unwrap();
    fake.reads += 1;
    match (&fake.burnt, fake.down) {
        (_, true) => status(500),
        (Some(burnt), false) => list(burnt),
        (None, false) => status(404),
    }
}

async fn burn(State(fake): State<Shared>, body: Body) -> Response {
    let patch: Value = serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap();
    let mut fake = fake.lock().unwrap();
    let Some(burnt) = &mut fake.burnt else { return status(404) };
    for (name, value) in patch["data"].as_object().unwrap() {
        burnt.insert(name.clone(), value.as_str().unwrap().to_owned());
    }
    list(burnt)
}

async fn node(State(fake): State<Shared>, Path(name): Path<String>) -> Response {
    match fake.lock().unwrap().ready.get(&name) {
        Some(ready) => json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
        .to_string()
        .into_response(),
        None => status(404),
    }
}

/// A twin, its API, and a key that signs tokens for it.
struct Twin {
    fake: Shared,
    service: TowerToHyperService<Router>,
    clock: Arc<ManualClock>,
}

impl Twin {
    async fn start(fake: Fake) -> Self {
        let fake = Arc::new(Mutex::new(fake));
        let text = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  \
            domain: demo.test\n  instanceGroups:\n  - {name: masters, role: master, count: 3}\n  \
            - {name: gpu, role: worker, count: 1}\n";
        let spec = read_and_complete(text.as_bytes()).unwrap().1;
        let dir = tempfile::tempdir().unwrap();
        let source = Source::in_cluster(&Places::below(dir.path()));
        let folder = dir.path().join("etc/windlass/machine-config-server");
        make_dir(&folder, Mode::PRIVATE_DIR).unwrap();
        for name in ["master", "worker", "group-gpu"] {
            write_file(folder.join(format!("{name}.ign")), name, Mode::PRIVATE_FILE).unwrap();
        }
        let clock = Arc::new(ManualClock::at(NOON));
        let desk = Desk {
            tokens: TokenJudge::new(key().public(), &spec),
            expected: Expected::of(&spec),
            configs: Configs::read(&source, &spec).unwrap(),
            book: Book::Api(Box::new(ApiBook::new(client(fake.clone(), &spec).await))),
            clock: clock.clone(),
            limit: Mutex::new(RateLimit::new(Duration::ZERO)),
        };
        Twin { fake, service: TowerToHyperService::new(serve::router(Arc::new(desk))), clock }
    }

    async fn ask(&self, method: &str, path: &str, machine: &str) -> (u16, String) {
        let role = if machine.starts_with("masters") { Role::Master } else { Role::Worker };
        let expires = NOON.unix_timestamp() + 60;
        let (cluster, name, purpose) = ("demo-abcde".to_owned(), machine.to_owned(), "config".to_owned());
        let token = Token { cluster, name, role, purpose, expires }.sign(&key());
        let request = Request::builder().method(method).uri(path).header("Authorization", format!("Bearer {token}"));
        let request = request.extension(Peer(([127, 0, 0, 1], 1).into())).body(Body::empty()).unwrap();
        let answer = self.service.call(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    async fn config(&self, machine: &str) -> (u16, String) {
        self.ask("GET", "/config/master", machine).await
    }
}

fn key() -> TokenKey {
    TokenKey::from_seed(&[3; 32])
}

async fn client(fake: Shared, spec: &windlass_spec::CompleteSpec) -> kube::Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tokens = "/api/v1/namespaces/kube-system/configmaps/windlass-burnt-tokens";
    let routes = Router::new().route(tokens, get(burnt).patch(burn)).route("/api/v1/nodes/{name}", get(node));
    tokio::spawn(async move { axum::serve(listener, routes.with_state(fake)).await });
    let pki = Pki::make(spec, None, &mut SeededKeys::new("twin"), NOON).unwrap();
    let authority = pki.certificate(Authority::Cluster);
    client_with(&format!("http://{address}"), authority, &Secret::new("token".to_owned())).unwrap()
}

fn moved() -> Fake {
    Fake { burnt: Some(BTreeMap::from([("config.masters-1".to_owned(), "then".to_owned())])), ..Fake::default() }
}

#[tokio::test]
async fn the_twin_asks_the_api_who_was_served_and_who_is_ready() {
    let twin = Twin::start(moved()).await;
    assert_eq!(twin.config("masters-0").await, (200, "master".to_owned()));
    assert_eq!(twin.ask("GET", "/config/worker/gpu", "gpu-0").await, (200, "group-gpu".to_owned()));
    assert_eq!(twin.config("masters-1").await.0, 403, "burnt before the pivot");
    twin.fake.lock().unwrap().ready.insert("masters-2".to_owned(), "False");
    assert_eq!(twin.config("masters-2").await.0, 200, "a node that is not ready may need its config again");
    twin.fake.lock().unwrap().ready.insert("masters-2".to_owned(), "True");
    assert_eq!(twin.config("masters-2").await.0, 403);
    for _ in 0..2 {
        assert_eq!(twin.ask("POST", "/ack", "masters-0").await.0, 204);
    }
    assert_eq!(twin.config("masters-0").await.0, 403);
    let burnt = twin.fake.lock().unwrap().burnt.clone().unwrap();
    assert_eq!(burnt["config.masters-0"], "2026-11-16T12:00:00.000Z");
    twin.clock.advance(Duration::from_secs(60));
    assert_eq!(twin.ask("POST", "/ack", "masters-0").await.0, 403, "expired");
}

#[tokio::test]
async fn while_the_api_does_not_say_the_answer_is_later() {
    let twin = Twin::start(Fake::default()).await;
    assert_eq!(twin.config("masters-0").await, (503, "not now, ask again\n".to_owned()), "no list is not an empty one");
    assert_eq!(twin.ask("POST", "/ack", "masters-0").await.0, 503);
    *twin.fake.lock().unwrap() = Fake { down: true, ..moved() };
    assert_eq!(twin.config("masters-0").await.0, 503);
    twin.fake.lock().unwrap().down = false;
    assert_eq!(twin.config("masters-0").await.0, 200);
}

#[tokio::test]
async fn a_crowd_shares_few_readings() {
    let twin = Twin::start(moved()).await;
    let machines: Vec<String> = (0..200).map(|n| format!("masters-{}", n % 3)).collect();
    let answers = join_all(machines.iter().map(|machine| twin.config(machine))).await;
    for (machine, (code, _)) in machines.iter().zip(answers) {
        assert_eq!(code, if machine == "masters-1" { 403 } else { 200 }, "{machine}");
    }
    assert!(twin.fake.lock().unwrap().reads < 20, "{}", twin.fake.lock().unwrap().reads);
}
