//! What honest machines get.

use std::fs;
use std::time::{Duration, Instant};

use windlass_cloud_api::Role;
use windlass_node::certificate::{Wanted, obtain};
use windlass_node::etcd_certs::ensure;
use windlass_node::places::Places;
use windlass_pki::{Authority, Certificate, KeySource as _, MachineIdentity, MachineLeaf, SeededKeys};
use windlass_spec::complete::machines;
use windlass_steps::clock::SystemClock;
use windlass_steps::host::{Mode, cmd, make_dir, run_blocking, write_file};

use crate::support::{CANARY, Machine, PROGRAM, facts, pki, request, spec};

#[tokio::test]
async fn a_machine_gets_its_config_until_it_says_that_it_has_it() {
    let machine = Machine::new();
    let mut server = machine.config_server().await;
    let master = machine.token("masters-1", Role::Master, "config");
    let gpu = machine.token("gpu-0", Role::Worker, "config");
    let accept = "Accept: application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1";
    let bearer = format!("Authorization: Bearer {master}");
    for _ in 0..2 {
        let answer = server.send(&request("GET", "/config/master", &[accept, &bearer], b"")).await;
        assert_eq!(answer.status, Some(200), "{}", answer.text);
        assert!(answer.text.contains(&format!("{{\"{CANARY}\": \"master\"")), "{}", answer.text);
        assert!(answer.text.contains("content-type: application/vnd.coreos.ignition+json; version=3.3.0"));
    }
    assert!(server.get("/config/worker", &gpu).await.text.contains("\"worker\""));
    assert!(server.get("/config/worker/gpu", &gpu).await.text.contains("\"groups/gpu\""));
    let none = machine.token("workers-0", Role::Worker, "config");
    assert_eq!(server.get("/config/worker/workers", &none).await.status, Some(404));
    for _ in 0..2 {
        assert_eq!(server.post("/ack", &master, b"").await.status, Some(204));
    }
    assert_eq!(server.get("/config/master", &master).await.status, Some(403));
    assert_eq!(machine.marks("burnt"), ["config.masters-1"]);
    assert_eq!(machine.recorded("machine-config-server", "acknowledged"), r#"["masters-1"]"#);
    for path in ["/readyz", "/livez"] {
        assert_eq!(server.send(&request("GET", path, &[], b"")).await.status, Some(200));
    }
    // Being served is written beside the answer; the end waits for it.
    let told = Instant::now();
    assert_eq!(server.stop().await, 0);
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    assert_eq!(machine.marks("served"), ["gpu-0", "masters-1"]);
    assert_eq!(machine.recorded("machine-config-server", "served"), r#"["gpu-0","masters-1"]"#);
    let server = machine.config_server().await;
    assert_eq!(server.get("/config/master", &master).await.status, Some(403));
    assert_eq!(machine.recorded("machine-config-server", "served"), r#"["gpu-0","masters-1"]"#);
}

/// A master's own disk.
fn member() -> (tempfile::TempDir, Places) {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    make_dir(places.pki(""), Mode::PRIVATE_DIR).unwrap();
    write_file(places.pki("etcd-ca.crt"), pki().certificate(Authority::Etcd).to_pem(), Mode::PUBLIC).unwrap();
    (dir, places)
}

async fn make(machine: &Machine, server: &crate::support::Server, places: &Places, seed: &str) {
    let client = machine.client(server, "masters-2", Role::Master);
    let mut observe = |_: &str, _: Option<&str>| {};
    let clock = SystemClock::new();
    let mut keys = SeededKeys::new(seed);
    ensure(places, &facts("masters-2"), &client, &mut keys, &clock, &mut observe).await.unwrap();
}

fn read(places: &Places, file: &str) -> Vec<u8> {
    fs::read(places.pki(&format!("etcd/{file}"))).unwrap()
}

#[tokio::test]
async fn a_member_gets_the_certificates_of_the_table_once() {
    let machine = Machine::new();
    let mut server = machine.signer().await;
    let (_dir, places) = member();
    make(&machine, &server, &places, "one").await;
    assert_eq!(machine.marks("issued"), ["masters-2"]);
    assert_eq!(machine.recorded("etcd-signer", "issued"), r#"["masters-2"]"#);
    let identity = machines(spec()).iter().find(|m| m.name.as_str() == "masters-2").map(MachineIdentity::from).unwrap();
    for (leaf, file) in [(MachineLeaf::EtcdServer, "server"), (MachineLeaf::EtcdPeer, "peer")] {
        let certificate = Certificate::parse_pem(&read(&places, &format!("{file}.crt"))).unwrap();
        assert!(certificate.says(&leaf.template(spec(), &identity).unwrap()), "{file}");
        assert!(certificate.is_signed_by(pki().certificate(Authority::Etcd)), "{file}");
    }
    let before = [read(&places, "server.crt"), read(&places, "server.key"), read(&places, "peer.crt")];
    let now = || [read(&places, "server.crt"), read(&places, "server.key"), read(&places, "peer.crt")];
    make(&machine, &server, &places, "two").await;
    assert_eq!(now(), before, "what fits is left alone");
    fs::remove_file(places.pki("etcd/server.crt")).unwrap();
    make(&machine, &server, &places, "three").await;
    assert_eq!(now(), before, "a lost answer is the same answer");
    assert_eq!(server.stop().await, 0);
    let server = machine.signer().await;
    fs::remove_file(places.pki("etcd/peer.crt")).unwrap();
    make(&machine, &server, &places, "four").await;
    assert_eq!(now()[..2], before[..2]);
    assert_ne!(now()[2], before[2], "a signer that has forgotten signs again, for the same key");
    write_file(places.pki("etcd/server.crt"), pki().certificate(Authority::Etcd).to_pem(), Mode::PUBLIC).unwrap();
    make(&machine, &server, &places, "five").await;
    assert_eq!(now()[1], before[1], "another certificate in the place of ours is replaced, the key stays");
    assert_eq!(machine.recorded("etcd-signer", "issued"), r#"["masters-2"]"#);
}

#[tokio::test]
async fn an_ordinary_client_reads_lists_and_watches_its_request() {
    use futures_util::StreamExt as _;
    use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
    use kube::api::{Api, ListParams, WatchEvent, WatchParams};

    let machine = Machine::new();
    let server = machine.signer().await;
    let client = machine.client(&server, "masters-0", Role::Master);
    let wanted = Wanted::of(MachineLeaf::EtcdPeer, &facts("masters-0"), &SeededKeys::new("a").key("a")).unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let field = format!("metadata.name={}", wanted.name);
    let before = requests.list(&ListParams::default().fields(&field)).await.unwrap();
    assert!(before.items.is_empty());
    let version = before.metadata.resource_version.unwrap();
    let mut events = requests.watch(&WatchParams::default().fields(&field), &version).await.unwrap().boxed();
    let mut said = Vec::new();
    let mut observe = |statement: &str, reason: Option<&str>| said.push((statement.to_owned(), reason.is_none()));
    let chain = obtain(&client, &wanted, &mut observe).await.unwrap();
    assert_eq!(said, [(format!("the certificate {} is issued", wanted.name), true)]);
    let Some(Ok(WatchEvent::Added(watched))) = events.next().await else { panic!("no event") };
    let read = requests.get(&wanted.name).await.unwrap();
    assert_eq!(watched, read);
    assert_eq!(read.spec.username.as_deref(), Some("windlass:machine:masters-0"));
    assert_eq!(read.status.unwrap().certificate.unwrap().0, chain.as_bytes());
    assert_eq!(requests.list(&ListParams::default().fields(&field)).await.unwrap().items, [watched]);
    assert!(machine.marks("issued").is_empty(), "one of two certificates is not both");
    let Err(kube::Error::Api(status)) = client.apiserver_version().await else { panic!("there is no version") };
    assert_eq!(status.code, 404);
}

#[tokio::test]
async fn the_signer_frees_its_port_at_once_also_under_a_watch() {
    let machine = Machine::new();
    let mut server = machine.signer().await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests?watch=1&fieldSelector=metadata.name%3D";
    let path = format!("{path}etcd-peer-masters-0-0123456789");
    let token = machine.token("masters-0", Role::Master, "join");
    let address = server.address;
    let began = Instant::now();
    {
        let mut watching = std::pin::pin!(server.get(&path, &token));
        let short = tokio::time::timeout(Duration::from_millis(300), &mut watching).await;
        assert!(short.is_err(), "a watch waits");
        server.tell_to_end();
        watching.await;
    }
    assert_eq!(server.ended().await, 0);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    std::net::TcpListener::bind(address).unwrap();
}

#[test]
fn the_agent_says_whether_starting_it_again_helps() {
    let (dir, places) = member();
    let agent = || {
        let agent = cmd(PROGRAM).arg("--root").arg(dir.path()).arg("etcd-certs");
        let ended = run_blocking(agent.accept(75).accept(78).timeout(Duration::from_secs(60))).unwrap();
        (ended.code, ended.stderr)
    };
    let (code, said) = agent();
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("error: cannot tell which member this is"), "{said}");
    facts("masters-0").write(&places).unwrap();
    let (code, said) = agent();
    assert_eq!(code, 75, "{said}");
    assert!(said.contains("error: cannot ask for certificates"), "{said}");
    facts("workers-0").write(&places).unwrap();
    let (code, said) = agent();
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("error: workers-0 carries no etcd member"), "{said}");
}
