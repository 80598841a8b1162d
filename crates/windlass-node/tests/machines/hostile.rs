//! What hostile machines do not get: whatever they send, no config and no certificate comes back, and nothing is
//! remembered as given.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_cloud_api::{Role, Token, TokenKey};
use windlass_node::certificate::Wanted;
use windlass_pki::{KeySource as _, MachineLeaf, SeededKeys, Subject, request};

use crate::support::{Answer, CANARY, Machine, Server, facts, foreign_request, now, request as http};

/// What is sent, and the answers that are right; 0 is a closed connection without one.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    answers: &'static [u16],
}

fn case(name: &'static str, bytes: Vec<u8>, answers: &'static [u16]) -> Case {
    Case { name, bytes, answers }
}

fn get(path: &str, token: &str) -> Vec<u8> {
    http("GET", path, &[&format!("Authorization: Bearer {token}")], b"")
}

async fn try_all(server: &Server, cases: Vec<Case>) {
    for Case { name, bytes, answers } in cases {
        let answer = timeout(Duration::from_secs(60), server.send(&bytes)).await;
        let Answer { status, text } = answer.unwrap_or_else(|_| panic!("{name}: the connection stays open"));
        assert!(answers.contains(&status.unwrap_or(0)), "{name}: {status:?} {text}");
        assert!(!text.contains(CANARY), "{name}: {text}");
        assert!(!text.contains("\"certificate\"") && !text.contains("BEGIN "), "{name}: {text}");
    }
}

#[tokio::test]
async fn the_machine_config_server_gives_strangers_nothing() {
    let machine = Machine::new();
    machine.put("var/lib/windlass/tokens/burnt/config.masters-1", b"then");
    let server = machine.config_server().await;
    let cases: Vec<Case> = credentials(&machine).into_iter().chain(paths(&machine)).chain(forms(&machine)).collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    try_all(&server, cases).await;
    let Answer { status, text } = server.send_plainly(&get("/config/master", &good(&machine))).await;
    assert_eq!((status, text.contains(CANARY)), (None, false));
    assert!(machine.marks("served").is_empty());
    assert_eq!(machine.marks("burnt"), ["config.masters-1"]);
    assert_eq!(
        server.get("/config/master", &good(&machine)).await.status,
        Some(200),
        "an honest one is served after it"
    );
}

fn good(machine: &Machine) -> String {
    machine.token("masters-0", Role::Master, "config")
}

/// Tokens that prove nothing, or something else.
fn credentials(machine: &Machine) -> Vec<Case> {
    let master = |token: &str| get("/config/master", token);
    let token = |name: &str, role| machine.token(name, role, "config");
    let expires = now().unix_timestamp() + 3600;
    let other = |cluster: &str, key: &TokenKey| {
        let (cluster, name, purpose) = (cluster.to_owned(), "masters-0".to_owned(), "config".to_owned());
        Token { cluster, name, role: Role::Master, purpose, expires }.sign(key)
    };
    let bearer = format!("Authorization: Bearer {}", good(machine));
    let cut = good(machine);
    vec![
        case("no token", http("GET", "/config/master", &[], b""), &[401]),
        case("no token for a group", http("GET", "/config/worker/gpu", &[], b""), &[401]),
        case("an empty token", http("GET", "/config/master", &["Authorization: Bearer "], b""), &[401]),
        case("a password", http("GET", "/config/master", &["Authorization: Basic cm9vdDpyb290"], b""), &[401]),
        case("two tokens", http("GET", "/config/master", &[&bearer, &bearer], b""), &[401]),
        case("a token in the query", http("GET", &format!("/config/master?token={cut}"), &[], b""), &[401]),
        case("a cookie", http("GET", "/config/master", &[&format!("Cookie: token={cut}")], b""), &[401]),
        case("garbage", master("garbage"), &[401]),
        case("half a token", master(cut.split_once('.').unwrap().0), &[401]),
        case("a long token", master(&"A.".repeat(3000)), &[401]),
        case("a cut signature", master(&cut[..cut.len() - 4]), &[401, 403]),
        case("a foreign key", master(&other("demo-abcde", &TokenKey::from_seed(&[8; 32]))), &[403]),
        case("another cluster", master(&other("prod-abcde", &machine.key)), &[403]),
        case("a cluster of a longer name", master(&other("demolition-abcde", &machine.key)), &[403]),
        case("an expired token", master(&machine.token_until("masters-0", Role::Master, "config", -1)), &[403]),
        case("a join token", master(&machine.token("masters-0", Role::Master, "join")), &[403]),
        case("a token without a purpose", master(&machine.token("masters-0", Role::Master, "")), &[403]),
        case("a burnt token", master(&token("masters-1", Role::Master)), &[403]),
        case("an unknown machine", master(&token("masters-9", Role::Master)), &[403]),
        case("a nameless machine", master(&token("", Role::Master)), &[403]),
        case("a path for a name", master(&token("../masters-0", Role::Master)), &[403]),
        case("a worker's name as a master", master(&token("workers-0", Role::Master)), &[403]),
        case("the bootstrap machine", master(&token("bootstrap", Role::Bootstrap)), &[403]),
        case("a master's name as bootstrap", master(&token("masters-0", Role::Bootstrap)), &[403]),
    ]
}

/// Configs of others, and paths that lead out.
fn paths(machine: &Machine) -> Vec<Case> {
    let master = good(machine);
    let worker = machine.token("workers-0", Role::Worker, "config");
    vec![
        case("a worker asks for a master's", get("/config/master", &worker), &[403]),
        case("a worker asks for a master's group", get("/config/master/masters", &worker), &[403]),
        case("a worker asks for masters as its group", get("/config/worker/masters", &worker), &[403]),
        case("a worker asks for another group", get("/config/worker/gpu", &worker), &[403]),
        case("a master asks for a worker's", get("/config/worker", &master), &[403]),
        case("a group with a path", get("/config/worker/..%2fmaster", &worker), &[403]),
        case("a group with an encoded path", get("/config/worker/%2e%2e%2f%2e%2e%2fcluster.json", &worker), &[403]),
        case("a group with a zero", get("/config/worker/gpu%00", &worker), &[403]),
        case("a path out", get("/config/../../etc/kubernetes/pki/ca.key", &master), &[404]),
        case("an absolute path", get("//etc/kubernetes/pki/ca.key", &master), &[404]),
        case("a role with a path", get("/config/..%2fcluster.json", &master), &[404]),
        case("the bootstrap machine's", get("/config/bootstrap", &master), &[404]),
        case("a role in capitals", get("/config/MASTER", &master), &[404]),
        case("a file", get("/config/master.ign", &master), &[404]),
        case("the spec", get("/cluster.json", &master), &[404]),
        case("everything", get("/config/", &master), &[404]),
    ]
}

/// Requests of another form.
fn forms(machine: &Machine) -> Vec<Case> {
    let bearer = format!("Authorization: Bearer {}", good(machine));
    let accept = |accept: &str| http("GET", "/config/master", &[&bearer, accept], b"");
    let join = format!("Authorization: Bearer {}", machine.token("masters-0", Role::Master, "join"));
    let foreign = machine.token("masters-9", Role::Master, "config");
    let old = "Accept: application/vnd.coreos.ignition+json;version=2.2.0";
    vec![
        case("only the head", http("HEAD", "/config/master", &[&bearer], b""), &[405]),
        case("posting", http("POST", "/config/master", &[&bearer], b""), &[405]),
        case("deleting", http("DELETE", "/config/master", &[&bearer], b""), &[405]),
        case("a page", accept("Accept: text/html"), &[406]),
        case("an old version", accept(old), &[406]),
        case("acknowledging without a token", http("POST", "/ack", &[], b""), &[401]),
        case("acknowledging with a join token", http("POST", "/ack", &[&join], b""), &[403]),
        case(
            "acknowledging for a stranger",
            http("POST", "/ack", &[&format!("Authorization: Bearer {foreign}")], b""),
            &[403],
        ),
        case("getting the acknowledgement", http("GET", "/ack", &[&bearer], b""), &[405]),
        case("a body of 10 MB", http("POST", "/ack", &[], &vec![b'x'; 10 << 20]), &[401, 0]),
        case(
            "a head of 100 KB",
            http("GET", "/config/master", &[&format!("X: {}", "x".repeat(100 << 10))], b""),
            &[431, 0],
        ),
        case("1,000 headers", http("GET", "/config/master", &["X: x"; 1000], b""), &[431, 400, 0]),
        case("no HTTP", b"\x00\x01\x02\x03\r\n\r\n".to_vec(), &[400, 0]),
        case("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[400, 505, 0]),
    ]
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const USAGES: [&str; 3] = ["digital signature", "server auth", "client auth"];
const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// A request object with one thing changed.
struct Forged(Value);

impl Forged {
    fn of(leaf: MachineLeaf, machine: &str) -> Self {
        let wanted = Wanted::of(leaf, &facts(machine), &SeededKeys::new("hostile").key(machine)).unwrap();
        Forged(json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": wanted.name},
            "spec": {"request": STANDARD.encode(wanted.request_pem), "signerName": wanted.signer, "usages": USAGES},
        }))
    }

    fn with(pointer: &str, value: Value) -> Self {
        let mut forged = Forged::of(MachineLeaf::EtcdPeer, "masters-0");
        *forged.0.pointer_mut(pointer).unwrap() = value;
        forged
    }

    fn request(pem: impl AsRef<[u8]>) -> Self {
        Forged::with("/spec/request", STANDARD.encode(pem).into())
    }

    fn sent(&self, token: &str) -> Vec<u8> {
        posted(token, &serde_json::to_vec(&self.0).unwrap())
    }
}

fn posted(token: &str, body: &[u8]) -> Vec<u8> {
    let headers = [&*format!("Authorization: Bearer {token}"), "Content-Type: application/json"];
    http("POST", REQUESTS, &headers, body)
}

#[tokio::test]
async fn the_signer_gives_strangers_nothing() {
    let machine = Machine::new();
    machine.put("var/lib/windlass/tokens/burnt/join.masters-2", b"then");
    let server = machine.signer().await;
    let cases: Vec<Case> = requesters(&machine)
        .into_iter()
        .chain(objects(&machine))
        .chain(keys(&machine))
        .chain(wishes(&machine))
        .chain(bodies(&machine))
        .chain(looks(&machine))
        .collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    try_all(&server, cases).await;
    assert!(machine.marks("signed").is_empty() && machine.marks("issued").is_empty());
    let honest = Forged::of(MachineLeaf::EtcdPeer, "masters-0").sent(&joiner(&machine));
    assert_eq!(server.send(&honest).await.status, Some(201), "an honest one is served after it");
}

fn joiner(machine: &Machine) -> String {
    machine.token("masters-0", Role::Master, "join")
}

/// Tokens that prove nothing, or somebody else.
fn requesters(machine: &Machine) -> Vec<Case> {
    let peer = Forged::of(MachineLeaf::EtcdPeer, "masters-0");
    let as_machine = |name: &str, role| peer.sent(&machine.token(name, role, "join"));
    let foreign = Token {
        cluster: "demo-abcde".to_owned(),
        name: "masters-0".to_owned(),
        role: Role::Master,
        purpose: "join".to_owned(),
        expires: now().unix_timestamp() + 3600,
    };
    let of_burnt = Forged::of(MachineLeaf::EtcdPeer, "masters-2");
    vec![
        case("no token", http("POST", REQUESTS, &[], &serde_json::to_vec(&peer.0).unwrap()), &[401]),
        case("garbage", peer.sent("garbage"), &[401]),
        case("a config token", peer.sent(&machine.token("masters-0", Role::Master, "config")), &[401]),
        case("an expired token", peer.sent(&machine.token_until("masters-0", Role::Master, "join", 0)), &[401]),
        case("a foreign key", peer.sent(&foreign.sign(&TokenKey::from_seed(&[8; 32]))), &[401]),
        case("another cluster", peer.sent(&Token { cluster: "a-b".into(), ..foreign }.sign(&machine.key)), &[401]),
        case("a burnt token", of_burnt.sent(&machine.token("masters-2", Role::Master, "join")), &[401]),
        case("a path for a name", as_machine("../../masters-0", Role::Master), &[401]),
        case("a worker", as_machine("workers-0", Role::Worker), &[403]),
        case("a worker with a master's name", as_machine("masters-0", Role::Worker), &[403]),
        case("a worker that says it is a master", as_machine("workers-0", Role::Master), &[403]),
        case("the bootstrap machine", as_machine("bootstrap", Role::Bootstrap), &[403]),
        case("an unknown master", as_machine("masters-9", Role::Master), &[403]),
        case("another master's request", as_machine("masters-1", Role::Master), &[422]),
    ]
}

/// Objects that ask for something else.
fn objects(machine: &Machine) -> Vec<Case> {
    let token = joiner(machine);
    let sent = |pointer: &str, value: Value| Forged::with(pointer, value).sent(&token);
    let signer = |name: &str| sent("/spec/signerName", name.into());
    let name = |name: &str| sent("/metadata/name", name.into());
    let usages = |usages: &[&str]| sent("/spec/usages", json!(usages));
    vec![
        case("the API's client signer", signer("kubernetes.io/kube-apiserver-client"), &[403]),
        case("the kubelet's client signer", signer("kubernetes.io/kube-apiserver-client-kubelet"), &[403]),
        case("the kubelet's serving signer", signer("kubernetes.io/kubelet-serving"), &[403]),
        case("a signer of our domain", signer("windlass.dev/etcd-client"), &[403]),
        case("a signer with a path", signer("windlass.dev/etcd-peer/../ca"), &[403]),
        case("no signer", signer(""), &[403]),
        case("a name with a path", name("../../etc/kubernetes/pki/ca.key"), &[422]),
        case("a path behind a name", name("etcd-peer-masters-0-0123456789/../x"), &[422]),
        case("a free name", name("mine"), &[422]),
        case("another machine's name", name("etcd-peer-masters-1-0123456789"), &[422]),
        case("another leaf's name", name("etcd-server-masters-0-0123456789"), &[422]),
        case("a name in capitals", name("etcd-peer-masters-0-ABCDEF0123"), &[422]),
        case("a long name", name(&format!("etcd-peer-masters-0-{}", "0".repeat(300))), &[422]),
        case("no name", sent("/metadata", json!({"generateName": "etcd-peer-masters-0-"})), &[422]),
        case("signing as a usage", usages(&["digital signature", "server auth", "client auth", "cert sign"]), &[422]),
        case("any usage", usages(&["any"]), &[422]),
        case("signing in place of another", usages(&["digital signature", "server auth", "cert sign"]), &[422]),
        case("a usage twice", usages(&["digital signature", "server auth", "server auth"]), &[422]),
        case("no usages", usages(&[]), &[422]),
        case("trying first", http_dry_run(&token), &[400]),
    ]
}

fn http_dry_run(token: &str) -> Vec<u8> {
    let body = serde_json::to_vec(&Forged::of(MachineLeaf::EtcdPeer, "masters-0").0).unwrap();
    http("POST", &format!("{REQUESTS}?dryRun=All"), &[&format!("Authorization: Bearer {token}")], &body)
}

/// Keys that are not proven, or not of our kind.
fn keys(machine: &Machine) -> Vec<Case> {
    let token = joiner(machine);
    let foreign = |key: &[&str], more: &[&str]| {
        Forged::request(foreign_request(key, &[&["-subj", "/CN=etcd-0"], more].concat())).sent(&token)
    };
    let rsa = |bits: &str| ["-algorithm", "RSA", "-pkeyopt", bits].map(str::to_owned);
    let with_rsa = |bits: &str, more: &[&str]| foreign(&rsa(bits).each_ref().map(String::as_str), more);
    let curve = |name| foreign(&["-algorithm", "EC", "-pkeyopt", name], &[]);
    let subject = Subject { common_name: "etcd-0".to_owned(), organization: None };
    let honest = request::make(&subject, &SeededKeys::new("hostile").key("masters-0")).unwrap();
    let swapped = honest.replacen('A', "B", 3);
    let cut = honest[..honest.len() / 2].to_owned();
    let twice = format!("{honest}{honest}");
    vec![
        case("a tiny RSA key", with_rsa("rsa_keygen_bits:512", &["-sha1"]), &[422]),
        case("an RSA key", with_rsa("rsa_keygen_bits:2048", &[]), &[422]),
        case("a huge RSA key", with_rsa("rsa_keygen_bits:4096", &[]), &[422]),
        case("P-224", curve("ec_paramgen_curve:P-224"), &[422]),
        case("P-384", curve("ec_paramgen_curve:P-384"), &[422]),
        case("P-521", curve("ec_paramgen_curve:P-521"), &[422]),
        case("Ed25519", foreign(&["-algorithm", "ED25519"], &[]), &[422]),
        case("SHA-1", foreign(P256, &["-sha1"]), &[422]),
        case("a changed request", Forged::request(swapped).sent(&token), &[422]),
        case("half a request", Forged::request(cut).sent(&token), &[422]),
        case("two requests", Forged::request(twice).sent(&token), &[422]),
        case("a certificate", Forged::request(crate::support::pki_pem()).sent(&token), &[422]),
        case("no request", Forged::request("").sent(&token), &[422]),
        case("17 KiB of request", Forged::request(vec![0x30; 17 << 10]).sent(&token), &[422]),
    ]
}

/// Requests with good keys that ask for more than a machine may have.
fn wishes(machine: &Machine) -> Vec<Case> {
    let token = joiner(machine);
    let wish = |more: &[&str]| Forged::request(foreign_request(P256, more)).sent(&token);
    let with = |extension: &str| wish(&["-subj", "/CN=etcd-0", "-addext", extension]);
    vec![
        case("another common name", wish(&["-subj", "/CN=kubernetes-admin"]), &[422]),
        case("another member", wish(&["-subj", "/CN=etcd-1"]), &[422]),
        case("two common names", wish(&["-subj", "/CN=etcd-0/CN=etcd-0"]), &[422]),
        case("no subject", wish(&["-subj", "/"]), &[422]),
        case("the group of administrators", wish(&["-subj", "/O=system:masters/CN=etcd-0"]), &[422]),
        case("the group of nodes", wish(&["-subj", "/O=system:nodes/CN=system:node:masters-0"]), &[422]),
        case("another unit", wish(&["-subj", "/CN=etcd-0/OU=x"]), &[422]),
        case("a name", with("subjectAltName=DNS:etcd-1.internal.demo.test"), &[422]),
        case("an address", with("subjectAltName=IP:10.9.9.9"), &[422]),
        case("every name", with("subjectAltName=DNS:*"), &[422]),
        case("to be an authority", with("basicConstraints=critical,CA:TRUE"), &[422]),
        case("to sign certificates", with("keyUsage=keyCertSign"), &[422]),
        case("to sign code", with("extendedKeyUsage=serverAuth,codeSigning"), &[422]),
    ]
}

/// Bodies that are no objects of ours.
fn bodies(machine: &Machine) -> Vec<Case> {
    let token = joiner(machine);
    let sent = |body: &[u8]| posted(&token, body);
    let pod = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
    let mut padded = Forged::of(MachineLeaf::EtcdPeer, "masters-0");
    padded.0["metadata"]["annotations"] = json!({"a": "x".repeat(64 << 10)});
    let chunked = format!(
        "POST {REQUESTS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(4)
    );
    vec![
        case("no body", sent(b""), &[400]),
        case("no JSON", sent(b"\xff\xfe\x00"), &[400]),
        case("a list", sent(b"[]"), &[400]),
        case("a pod", sent(pod), &[400]),
        case("a deep list", sent(&vec![b'['; 60_000]), &[400]),
        case("a body one byte too long", sent(&vec![b' '; (64 << 10) + 1]), &[413, 0]),
        case("an object with much around it", padded.sent(&token), &[413, 0]),
        case("a body of 10 MB", sent(&vec![b' '; 10 << 20]), &[413, 0]),
        case("endless chunks", chunked.into_bytes(), &[413, 0]),
    ]
}

/// Looking at what is not one's own.
fn looks(machine: &Machine) -> Vec<Case> {
    let token = joiner(machine);
    let look = |more: &str| get(&format!("{REQUESTS}{more}"), &token);
    let own = "etcd-peer-masters-0-0123456789";
    let change = |method: &str, path: String| http(method, &path, &[&format!("Authorization: Bearer {token}")], b"{}");
    vec![
        case("every request", look(""), &[403]),
        case("a watch of every request", look("?watch=1"), &[403]),
        case(
            "a watch of another's",
            look("?watch=1&fieldSelector=metadata.name%3Detcd-peer-masters-1-0123456789"),
            &[403],
        ),
        case("a list of another's", look("?fieldSelector=metadata.name%3Detcd-peer-masters-1-0123456789"), &[403]),
        case("a watch by another field", look("?watch=1&fieldSelector=spec.signerName%3Da"), &[400]),
        case("another's request", look("/etcd-peer-masters-1-0123456789"), &[404]),
        case("a path", look("/..%2f..%2fsecrets"), &[404]),
        case("approving", change("PUT", format!("{REQUESTS}/{own}/approval")), &[404]),
        case("writing a status", change("PATCH", format!("{REQUESTS}/{own}/status")), &[404]),
        case("deleting", change("DELETE", format!("{REQUESTS}/{own}")), &[405]),
        case("deleting all", change("DELETE", REQUESTS.to_owned()), &[405]),
        case("the version", get("/version", &token), &[404]),
        case("secrets", get("/api/v1/namespaces/kube-system/secrets", &token), &[404]),
        case("a look without a token", http("GET", REQUESTS, &[], b""), &[401]),
    ]
}

#[tokio::test]
async fn another_machine_sees_nothing_of_a_request_that_is_there() {
    let machine = Machine::new();
    let server = machine.signer().await;
    let mut object = Forged::of(MachineLeaf::EtcdPeer, "masters-0");
    let token = joiner(&machine);
    // What the sender claims to be, and to have already, is not believed.
    object.0["spec"]["username"] = "system:admin".into();
    object.0["spec"]["groups"] = json!(["system:masters"]);
    object.0["status"] = json!({"certificate": STANDARD.encode("mine")});
    let made = server.send(&object.sent(&token)).await;
    assert_eq!(made.status, Some(201), "{}", made.text);
    assert!(!made.text.contains("system:admin") && !made.text.contains("system:masters"), "{}", made.text);
    assert!(!made.text.contains(&STANDARD.encode("mine")), "{}", made.text);
    let name = object.0["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&format!("{REQUESTS}/{name}"), &token).await.status, Some(200));
    let other_key = Forged::of(MachineLeaf::EtcdPeer, "masters-0").0;
    let subject = Subject { common_name: "etcd-0".to_owned(), organization: None };
    let pem = request::make(&subject, &SeededKeys::new("hostile").key("other")).unwrap();
    let mut other_key = Forged(other_key);
    other_key.0["spec"]["request"] = STANDARD.encode(pem).into();
    let neighbour = machine.token("masters-1", Role::Master, "join");
    let worker = machine.token("workers-0", Role::Worker, "join");
    let watch = format!("{REQUESTS}?watch=1&fieldSelector=metadata.name%3D{name}");
    let cases = vec![
        case("the same again", Forged::of(MachineLeaf::EtcdPeer, "masters-0").sent(&token), &[409]),
        case("another key under the same name", other_key.sent(&token), &[409]),
        case("a neighbour reads", get(&format!("{REQUESTS}/{name}"), &neighbour), &[404]),
        case("a neighbour watches", get(&watch, &neighbour), &[403]),
        case("a worker reads", get(&format!("{REQUESTS}/{name}"), &worker), &[404]),
        case("a worker watches", get(&watch, &worker), &[403]),
        case("nobody reads", http("GET", &format!("{REQUESTS}/{name}"), &[], b""), &[401]),
        case("nobody watches", http("GET", &watch, &[], b""), &[401]),
    ];
    try_all(&server, cases).await;
}

#[tokio::test]
async fn a_machine_that_makes_ever_more_requests_is_stopped() {
    let machine = Machine::new();
    let server = machine.signer().await;
    let mut answers = Vec::new();
    for n in 0..25 {
        let name = format!("etcd-peer-masters-0-{n:010}");
        answers.push(server.send(&Forged::with("/metadata/name", name.into()).sent(&joiner(&machine))).await.status);
    }
    assert!(answers[..20].iter().all(|status| *status == Some(201)), "{answers:?}");
    assert!(answers[20..].iter().all(|status| *status == Some(403)), "{answers:?}");
    let neighbour = Forged::of(MachineLeaf::EtcdPeer, "masters-1");
    let answer = server.send(&neighbour.sent(&machine.token("masters-1", Role::Master, "join"))).await;
    assert_eq!(answer.status, Some(201));
}
