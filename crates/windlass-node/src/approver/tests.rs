use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use windlass_cloud_api::{Role, Token, TokenKey};
use windlass_pki::{KeySource as _, MachineIdentity, MachineLeaf, Pki, SeededKeys, request};
use windlass_spec::complete::CompleteSpec;
use windlass_spec::file::read_and_complete;
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::host::{Mode, make_dir, write_file};

use super::*;
use crate::certificate::{request_name, signer_name, usages};
use crate::follow::fake::{CONFIG_MAPS, FakeApi, NODES, REQUESTS};

const BURNT: &str = "windlass-burnt-tokens";
const LABEL: &str = "node-role.kubernetes.io/control-plane";

fn spec() -> CompleteSpec {
    let text = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  domain: demo.test\n";
    read_and_complete(text.as_bytes()).unwrap().1
}

fn token_key() -> TokenKey {
    TokenKey::from_seed(&[7; 32])
}

/// A cluster's API, an approver beside it, and the files that it reads.
struct World {
    api: FakeApi,
    address: SocketAddr,
    pki: Pki,
    interrupt: Interrupt,
    serving: JoinHandle<()>,
    _files: tempfile::TempDir,
}

impl World {
    async fn start(api: FakeApi) -> Self {
        let files = tempfile::tempdir().unwrap();
        let places = Places::below(files.path());
        let now = SystemClock::new().now();
        let pki = Pki::make(&spec(), None, &mut SeededKeys::new("approver"), now).unwrap();
        let settings = write(&places, &pki);
        let client = api.client().await;
        let approver = Approver::start(client, &settings, Arc::new(SystemClock::new())).await.unwrap();
        let (address, interrupt) = (approver.address().unwrap(), Interrupt::default());
        let until = interrupt.clone();
        // Spawned, as bootkube may do it too.
        let serving = tokio::spawn(async move { approver.serve(&until).await });
        World { api, address, pki, interrupt, serving, _files: files }
    }

    /// Puts a machine's request into the API as if it had been made there with its token.
    fn ask(&self, leaf: MachineLeaf, machine: &str, role: &str) -> String {
        self.ask_at(leaf, machine, role, SystemClock::new().now())
    }

    fn ask_at(&self, leaf: MachineLeaf, machine: &str, role: &str, made: OffsetDateTime) -> String {
        let spec = spec();
        let found = windlass_spec::complete::machines(&spec).into_iter().find(|m| m.name.as_str() == machine).unwrap();
        let template = leaf.template(&spec, &MachineIdentity::from(&found)).unwrap();
        let key = SeededKeys::new("machine").key(machine);
        let name = request_name(leaf, machine, key.public());
        let pem = request::make(&template.subject, &key).unwrap();
        let made = rfc3339_millis(made);
        self.api.put(
            REQUESTS,
            json!({
                "metadata": {"name": name, "creationTimestamp": made},
                "spec": {
                    "request": STANDARD.encode(pem), "signerName": signer_name(leaf), "usages": usages(leaf),
                    "username": format!("windlass:machine:{machine}"),
                    "groups": ["system:bootstrappers", "windlass:machines", "system:authenticated"],
                    "extra": {"windlass.dev/role": [role]},
                },
            }),
        );
        name
    }

    /// Returns once the request has this condition.
    async fn settled(&self, name: &str, condition: &str) -> Value {
        let has = |request: &Value| {
            request["status"]["conditions"].as_array().is_some_and(|list| list.iter().any(|c| c["type"] == condition))
        };
        self.api.until(|api| api.get(REQUESTS, name).as_ref().is_some_and(has)).await;
        self.api.get(REQUESTS, name).unwrap()
    }

    /// A request over TLS, trusted by the cluster's authority: status and body.
    async fn over_tls(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut roots = rustls::RootCertStore::empty();
        let ca = self.pki.authority(windlass_pki::Authority::Cluster).certificate.to_pem();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
        let head = format!("{head} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        // A server that has refused already need not read on.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn review(&self, token: &str) -> Value {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                            "spec": {"token": token, "audiences": ["https://kubernetes.default.svc"]}});
        let (code, body) = self.over_tls("POST /token-review", review.to_string().as_bytes()).await;
        assert_eq!(code, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&answer["kind"], &answer["apiVersion"]),
            (&json!("TokenReview"), &json!("authentication.k8s.io/v1"))
        );
        answer["status"].clone()
    }

    /// Returns once the approver has seen what it needs.
    async fn ready(&self) {
        let ready = async { while self.over_tls("GET /readyz", b"").await.0 != 200 {} };
        tokio::time::timeout(Duration::from_secs(20), ready).await.expect("it becomes ready");
    }

    async fn end(self) {
        self.interrupt.raise();
        tokio::time::timeout(Duration::from_secs(10), self.serving).await.expect("it ends when told").unwrap();
    }
}

fn write(places: &Places, pki: &Pki) -> Settings {
    let settings = Settings { listen: "127.0.0.1:0".parse().unwrap(), ..Settings::in_pod(places) };
    let put = |path: &Path, bytes: &[u8]| {
        make_dir(path.parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
        write_file(path, bytes, Mode::PRIVATE_FILE).unwrap();
    };
    put(&settings.cluster, spec().to_json().to_string().as_bytes());
    let hex: String = token_key().public().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    put(&settings.token_key, hex.as_bytes());
    let etcd = pki.authority(windlass_pki::Authority::Etcd);
    put(&settings.etcd_ca, etcd.certificate.to_pem().as_bytes());
    put(&settings.etcd_ca_key, etcd.key.to_pem().expose().as_bytes());
    let api = pki.leaf(windlass_pki::Leaf::ApiServer);
    put(&settings.serving, api.certificate.to_pem().as_bytes());
    put(&settings.serving_key, api.key.to_pem().expose().as_bytes());
    settings
}

fn token(machine: &str, role: Role, change: impl FnOnce(&mut Token)) -> String {
    let mut token = Token {
        cluster: "demo-abcde".to_owned(),
        name: machine.to_owned(),
        role,
        purpose: "join".to_owned(),
        expires: SystemClock::new().now().unix_timestamp() + 600,
    };
    change(&mut token);
    token.sign(&token_key())
}

#[tokio::test]
async fn expected_machines_get_their_certificates_and_others_do_not() {
    let world = World::start(FakeApi::start().await).await;
    // One before the approver looks and one while it watches: both are seen.
    let kubelet = world.ask(MachineLeaf::KubeletClient, "master-0", "master");
    let approved = world.settled(&kubelet, "Approved").await;
    assert_eq!(approved["status"]["conditions"][0]["reason"], "WindlassApproved");
    assert_eq!(approved["status"]["certificate"], Value::Null, "kubernetes' own signer signs this one");

    let liar = world.ask(MachineLeaf::KubeletClient, "master-1", "worker");
    let denied = world.settled(&liar, "Denied").await;
    assert_eq!(denied["status"]["conditions"][0]["message"], "the machine is expected in another role");

    let member = world.ask(MachineLeaf::EtcdPeer, "master-1", "master");
    world.api.until(|api| api.get(REQUESTS, &member).unwrap()["status"]["certificate"].is_string()).await;
    let signed = world.settled(&member, "Approved").await;
    let pem = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap()).unwrap();
    let certificate = Certificate::parse_pem(&pem).unwrap();
    assert!(certificate.is_signed_by(&world.pki.authority(windlass_pki::Authority::Etcd).certificate));
    assert_eq!(certificate.subject().to_string(), "CN=etcd-1");

    let worker = world.ask(MachineLeaf::EtcdServer, "master-2", "worker");
    let denied = world.settled(&worker, "Denied").await;
    assert_eq!(denied["status"]["certificate"], Value::Null);
    world.end().await;
}

/// A Node that is not Ready had been taken for one that still joins, and a member's request was not held against it at all.
#[tokio::test]
async fn a_machine_whose_node_is_there_gets_nothing_by_its_token() {
    let world = World::start(FakeApi::start().await).await;
    for (name, ready) in [("worker-0", "True"), ("worker-1", "False"), ("master-0", "False")] {
        let ready = json!([{"type": "Ready", "status": ready}]);
        world.api.put(NODES, json!({"metadata": {"name": name}, "status": {"conditions": ready}}));
    }
    for (leaf, machine, role) in [
        (MachineLeaf::KubeletClient, "worker-0", "worker"),
        (MachineLeaf::KubeletClient, "worker-1", "worker"),
        (MachineLeaf::EtcdServer, "master-0", "master"),
        (MachineLeaf::EtcdPeer, "master-0", "master"),
    ] {
        let denied = world.settled(&world.ask(leaf, machine, role), "Denied").await;
        let message = &denied["status"]["conditions"][0]["message"];
        assert_eq!(message, "the machine's node is there, so that it needs no token", "{machine}");
        assert_eq!(denied["status"]["certificate"], Value::Null);
    }
    world.end().await;
}

#[tokio::test]
async fn an_etcd_request_that_is_too_old_to_be_waited_for_is_not_signed() {
    let world = World::start(FakeApi::start().await).await;
    let three_hours = Duration::from_secs(3 * 3600);
    let old = world.ask_at(MachineLeaf::EtcdPeer, "master-0", "master", SystemClock::new().now() - three_hours);
    let denied = world.settled(&old, "Denied").await;
    assert_eq!(denied["status"]["certificate"], Value::Null);
    world.end().await;
}

#[tokio::test]
async fn what_was_approved_and_not_signed_is_signed_and_an_old_watch_is_begun_anew() {
    let api = FakeApi::start().await;
    let world = World::start(api).await;
    let first = world.ask(MachineLeaf::EtcdServer, "master-0", "master");
    world.api.until(|api| api.get(REQUESTS, &first).unwrap()["status"]["certificate"].is_string()).await;
    let mut half = world.api.get(REQUESTS, &first).unwrap();
    half["status"].as_object_mut().unwrap().remove("certificate");
    world.api.put(REQUESTS, half);
    world.api.until(|api| api.get(REQUESTS, &first).unwrap()["status"]["certificate"].is_string()).await;

    let lists = world.api.asked(&format!("GET {REQUESTS}"));
    world.api.expire(REQUESTS);
    world.api.until(|api| api.asked(&format!("GET {REQUESTS}")) >= lists + 2).await;
    let second = world.ask(MachineLeaf::EtcdServer, "master-1", "master");
    world.settled(&second, "Approved").await;
    world.end().await;
}

#[tokio::test]
async fn a_masters_node_is_labelled_and_its_token_burnt() {
    let world = World::start(FakeApi::start().await).await;
    let (master, worker) = (token("master-0", Role::Master, |_| {}), token("worker-0", Role::Worker, |_| {}));
    world.api.until(|api| api.get(CONFIG_MAPS, BURNT).is_some()).await;
    // The list is there; the approver sees it a moment later.
    world.ready().await;

    let known = world.review(&master).await;
    assert_eq!(known["authenticated"], true);
    assert_eq!(known["user"]["username"], "windlass:machine:master-0");
    assert_eq!(known["user"]["groups"], json!(["system:bootstrappers", "windlass:machines"]));
    assert_eq!(known["user"]["extra"], json!({"windlass.dev/role": ["master"]}));

    for name in ["master-0", "worker-0", "stranger"] {
        world.api.put(NODES, json!({"metadata": {"name": name, "labels": {"a": "b"}}}));
    }
    let burnt = |api: &FakeApi, entry: &str| api.get(CONFIG_MAPS, BURNT).unwrap()["data"][entry].is_string();
    world.api.until(|api| burnt(api, "join.master-0") && burnt(api, "join.worker-0")).await;
    world.api.until(|api| api.get(NODES, "master-0").unwrap()["metadata"]["labels"][LABEL] == "").await;
    assert_eq!(world.api.get(NODES, "master-0").unwrap()["metadata"]["labels"]["a"], "b");
    assert_eq!(world.api.get(NODES, "worker-0").unwrap()["metadata"]["labels"], json!({"a": "b"}));
    assert!(!burnt(&world.api, "join.stranger"));

    for used in [master, worker] {
        let refused = world.review(&used).await;
        assert_eq!((&refused["authenticated"], &refused["error"]), (&json!(false), &json!("the token is used up")));
    }
    let other = token("master-1", Role::Master, |_| {});
    assert_eq!(world.review(&other).await["authenticated"], true);

    // Whoever deletes the list does not make used tokens good again.
    world.api.remove(CONFIG_MAPS, BURNT);
    world.api.until(|api| api.get(CONFIG_MAPS, BURNT).is_some()).await;
    assert!(burnt(&world.api, "join.master-0"));
    world.ready().await;
    assert_eq!(world.review(&token("master-0", Role::Master, |_| {})).await["authenticated"], false);
    world.end().await;
}

/// Its acknowledgement was not heard while one machine-config server had stopped and the next had not started.
#[tokio::test]
async fn a_config_that_was_never_acknowledged_leaves_no_token_once_the_node_is_there() {
    let world = World::start(FakeApi::start().await).await;
    world.api.until(|api| api.get(CONFIG_MAPS, BURNT).is_some()).await;
    world.api.put(NODES, json!({"metadata": {"name": "worker-0"}}));
    let burnt = |api: &FakeApi, entry: &str| api.get(CONFIG_MAPS, BURNT).unwrap()["data"][entry].is_string();
    world.api.until(|api| burnt(api, "config.worker-0")).await;
    assert!(!burnt(&world.api, "config.worker-1"), "a machine without a Node may still need its config");
    world.end().await;
}

#[tokio::test]
async fn no_token_is_believed_before_the_burnt_list_was_seen() {
    let api = FakeApi::start().await;
    api.forbid(&[CONFIG_MAPS]);
    let world = World::start(api).await;
    world.api.until(|api| api.asked(&format!("GET {CONFIG_MAPS}")) > 0).await;
    let good = token("master-0", Role::Master, |_| {});
    let refused = world.review(&good).await;
    assert_eq!(refused["authenticated"], false);
    assert_eq!(refused["error"], "the list of burnt tokens has not been read yet");
    assert_eq!(world.over_tls("GET /readyz", b"").await.0, 503);
    world.api.forbid(&[]);
    let seen = world.api.asked(&format!("GET {CONFIG_MAPS}"));
    world.api.until(|api| api.asked(&format!("GET {CONFIG_MAPS}")) > seen + 1).await;
    world.ready().await;
    assert_eq!(world.review(&good).await["authenticated"], true);
    world.end().await;
}

#[tokio::test]
async fn a_review_of_anything_else_proves_nothing() {
    let world = World::start(FakeApi::start().await).await;
    world.ready().await;
    let cases = [
        ("config", token("master-0", Role::Master, |t| t.purpose = "config".to_owned())),
        ("expired", token("master-0", Role::Master, |t| t.expires = 1)),
        ("of another cluster", token("master-0", Role::Master, |t| t.cluster = "demonstration-abcde".to_owned())),
        ("a path for a name", token("../master-0", Role::Master, |_| {})),
        ("no name", token("", Role::Master, |_| {})),
        ("of another key", {
            let payload = token("master-0", Role::Master, |_| {});
            let other = Token::verify(&payload, &token_key().public(), "join", SystemClock::new().now()).unwrap();
            other.sign(&TokenKey::from_seed(&[8; 32]))
        }),
    ];
    for (name, token) in cases {
        let refused = world.review(&token).await;
        assert_eq!(refused["authenticated"], false, "{name}");
        assert!(refused["error"].is_string() && refused["user"].is_null(), "{name}: {refused}");
    }
    // A token of somebody else's is not ours to call wrong.
    for foreign in ["", "abc", "a.b.c"] {
        assert_eq!(world.review(foreign).await, json!({}), "{foreign}");
    }
    let good = token("master-0", Role::Master, |_| {});
    let review = json!({"apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview", "spec": {"token": good}});
    for (head, body, code) in [
        ("POST /token-review", b"".to_vec(), 400),
        ("POST /token-review", b"[]".to_vec(), 400),
        ("POST /token-review", review.to_string().into_bytes(), 400),
        ("POST /token-review", vec![b' '; 100_000], 400),
        ("GET /token-review", Vec::new(), 405),
        ("POST /", Vec::new(), 404),
    ] {
        assert_eq!(world.over_tls(head, &body).await.0, code, "{head}");
    }
    world.end().await;
}
