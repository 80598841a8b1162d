use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::routing::get;
use serde_json::{Value, json};
use time::macros::datetime;
use tokio::net::TcpListener;
use windlass_cloud_api::Role;
use windlass_pki::signer::self_sign;
use windlass_pki::{KeySource as _, SeededKeys, Signer};
use windlass_spec::Secret;

use super::*;

const NOW: time::OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An API that knows one request. What it does on the next posts and watches is written down before.
#[derive(Default)]
struct Fake {
    posts: VecDeque<u16>,
    watches: VecDeque<Turn>,
    object: Option<Value>,
}

/// What happens to the request while it is watched.
enum Turn {
    Status(Value),
    Removed,
    Closed,
}

type Shared = Arc<Mutex<Fake>>;

async fn post(State(fake): State<Shared>, body: axum::body::Body) -> (StatusCode, String) {
    let body: Value = serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap()).unwrap();
    let mut fake = fake.lock().unwrap();
    let code = fake.posts.pop_front().unwrap_or(if fake.object.is_some() { 409 } else { 201 });
    if code == 201 {
        fake.object = Some(body.clone());
        return (StatusCode::CREATED, body.to_string());
    }
    let reason = if code == 409 { "AlreadyExists" } else { "Whatever" };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": format!("said {code}")});
    (StatusCode::from_u16(code).unwrap(), status.to_string())
}

async fn one(State(fake): State<Shared>, Path(_): Path<String>) -> String {
    fake.lock().unwrap().object.as_ref().unwrap().to_string()
}

async fn watched(State(fake): State<Shared>, uri: Uri) -> Bytes {
    assert!(uri.query().unwrap().contains("fieldSelector=metadata.name%3Detcd-peer-masters-0-"), "{uri}");
    let mut fake = fake.lock().unwrap();
    let event = match fake.watches.pop_front().expect("a watch that was foreseen") {
        Turn::Status(status) => {
            fake.object.as_mut().unwrap()["status"] = status;
            "MODIFIED"
        }
        Turn::Removed => "DELETED",
        Turn::Closed => return Bytes::new(),
    };
    let line = format!("{}\n", json!({"type": event, "object": fake.object}));
    if event == "DELETED" {
        fake.object = None;
    }
    line.into()
}

fn key() -> PrivateKey {
    SeededKeys::new("certificate").key("machine")
}

fn wanted() -> Wanted {
    let facts = Facts {
        name: "masters-0".into(),
        cluster: "demo-abcde".into(),
        domain: "demo.test".into(),
        role: Role::Master,
        address: [10, 0, 0, 2].into(),
        etcd_index: Some(0),
    };
    Wanted::of(MachineLeaf::EtcdPeer, &facts, &key()).unwrap()
}

fn signer() -> Signer {
    let mut keys = SeededKeys::new("certificate");
    let (subject, key) = (subject_of("ca"), keys.key("ca"));
    Signer::new(self_sign(&subject, &key, keys.serial("ca"), NOW, DAY * 10).unwrap(), key).unwrap()
}

fn subject_of(name: &str) -> Subject {
    Subject { common_name: name.to_owned(), organization: None }
}

/// A certificate of a key, with the authority's behind it.
fn chain_for(key: &PrivateKey) -> String {
    let template =
        windlass_pki::Template { subject: subject_of("etcd-0"), sans: vec![], usages: Usages::Both, lifetime: DAY };
    let serial = SeededKeys::new("certificate").serial("leaf");
    let certificate = signer().sign(&template, key.public(), serial, NOW).unwrap();
    certificate.to_pem() + &signer().certificate().to_pem()
}

fn issued(key: &PrivateKey) -> Turn {
    Turn::Status(serde_json::to_value(json!({"certificate": ByteString(chain_for(key).into_bytes())})).unwrap())
}

fn condition(kind: &str) -> Turn {
    Turn::Status(json!({"conditions": [{"type": kind, "status": "True", "message": "because"}]}))
}

/// Asks a fake; gives the outcome and every reason that was told on the way.
async fn ask(fake: Fake) -> (Result<String, String>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let routes = Router::new().route(path, get(watched).post(post)).route(&format!("{path}/{{name}}"), get(one));
    let routes = routes.with_state(Arc::new(Mutex::new(fake)));
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });
    let token = Secret::new("token".to_owned());
    let client = client_with(&format!("http://{address}"), signer().certificate(), &token).unwrap();
    let mut reasons = Vec::new();
    let mut observe = |_: &str, reason: Option<&str>| reasons.extend(reason.map(str::to_owned));
    let outcome = obtain(&client, &wanted(), &mut observe).await.map_err(|error| error.to_string());
    server.abort();
    (outcome, reasons)
}

#[tokio::test]
async fn what_may_pass_is_waited_for() {
    let watches = VecDeque::from([Turn::Closed, Turn::Removed, Turn::Closed, issued(&key())]);
    let fake = Fake { posts: VecDeque::from([503, 401, 403, 201, 429]), watches, object: None };
    let (outcome, reasons) = ask(fake).await;
    assert_eq!(outcome, Ok(chain_for(&key())));
    for code in ["said 503", "said 401", "said 403", "said 429", "nobody has signed it"] {
        assert!(reasons.iter().any(|reason| reason.contains(code)), "{code}: {reasons:?}");
    }
}

#[tokio::test]
async fn what_will_not_pass_is_given_up() {
    let other = SeededKeys::new("certificate").key("other");
    let foreign = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(request::make(&subject_of("etcd-0"), &other).unwrap().into_bytes()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    let foreign = serde_json::to_value(foreign).unwrap();
    let turn = |turn| Fake { watches: VecDeque::from([turn]), ..Fake::default() };
    let cases = [
        ("denied: because", turn(condition("Denied"))),
        ("failed: because", turn(condition("Failed"))),
        ("not a certificate of our key", turn(issued(&other))),
        ("for another key", Fake { object: Some(foreign), ..Fake::default() }),
        ("said 422", Fake { posts: VecDeque::from([422]), ..Fake::default() }),
        ("said 400", Fake { posts: VecDeque::from([400]), ..Fake::default() }),
    ];
    for (words, fake) in cases {
        let (outcome, _) = ask(fake).await;
        let error = outcome.expect_err(words);
        assert!(error.contains(words) && error.contains("was refused"), "{words}: {error}");
    }
}

#[test]
fn a_request_is_named_after_its_leaf_machine_and_key() {
    let wanted = wanted();
    assert!(is_request_name(&wanted.name, MachineLeaf::EtcdPeer, "masters-0"), "{}", wanted.name);
    assert_eq!(wanted.signer, "windlass.dev/etcd-peer");
    assert_eq!(wanted.usages, ["digital signature", "server auth", "client auth"]);
    assert_eq!(usages(MachineLeaf::KubeletClient), ["digital signature", "client auth"]);
    let other = request_name(MachineLeaf::EtcdPeer, "masters-0", SeededKeys::new("x").key("y").public());
    assert_ne!(wanted.name, other);
}
