//! Requests that nobody should send.

use std::os::unix::fs::PermissionsExt as _;

use hyper::Method;
use serde_json::Value;
use windlass_cloud_api::{ClientError, NewObject, ObjectContent};

use crate::support::{Daemon, label};

/// Method, path, body, status, and a word of the answer.
const BAD: &[(&str, &str, &str, u16, &str)] = &[
    ("GET", "/v1/nothing", "", 404, "no such request"),
    ("GET", "/", "", 404, "no such request"),
    ("GET", "/v1/clusters/none", "", 404, "no cluster none"),
    ("GET", "/v1/clusters/none/machines", "", 404, "no cluster none"),
    ("GET", "/v1/clusters/demo/machines/none", "", 404, "no machine none"),
    ("GET", "/v1/clusters/..%2f..%2fetc/machines", "", 400, "is no name"),
    ("GET", "/v1/clusters/UPPER", "", 400, "is no name"),
    ("PUT", "/v1/clusters/demo/machines/-x", "{}", 400, "is no name"),
    ("PUT", "/v1/clusters/demo/machines/m", "", 400, "makes no sense"),
    ("PUT", "/v1/clusters/demo/machines/m", "{", 400, "makes no sense"),
    ("PUT", "/v1/clusters/demo/machines/m", "[]", 400, "makes no sense"),
    ("PUT", "/v1/clusters/demo/machines/m", r#"{"image":"base","colour":"red"}"#, 400, "makes no sense"),
    ("PUT", "/v1/clusters/demo/machines/m", r#"{"image":"none"}"#, 404, "no image none"),
    ("PUT", "/v1/clusters/demo/machines/m", r#"{"image":"base","memory":1}"#, 422, "too little"),
    ("PUT", "/v1/clusters/demo/machines/m", r#"{"image":"base","cpus":1}"#, 422, "too little"),
    ("PUT", "/v1/clusters/demo/machines/m", r#"{"image":"base","address":"192.0.2.1"}"#, 422, "no host address"),
    ("PUT", "/v1/clusters/demo/machines/m", r#"{"image":"base","address":"10.64.0.1"}"#, 409, "is taken"),
    ("POST", "/v1/clusters/demo/machines/none/start", "", 404, "no machine none"),
    ("POST", "/v1/clusters/demo/machines/none/explode", "", 404, "start, stop, reboot"),
    ("POST", "/v1/clusters/demo/machines/none/exec", r#"{"command":[]}"#, 400, "no command"),
    ("PUT", "/v1/clusters/demo/volumes/v", r#"{"size":0}"#, 422, "a volume has between"),
    ("PUT", "/v1/clusters/demo/volumes/v", r#"{"size":-1}"#, 400, "makes no sense"),
    ("PUT", "/v1/clusters/demo/volumes/v", r#"{"size":99999999999999999}"#, 422, "a volume has between"),
    ("POST", "/v1/clusters/demo/volumes/none/attach", r#"{"machine":"m"}"#, 404, "no volume none"),
    ("DELETE", "/v1/clusters/demo/volumes/none", "", 404, "no volume none"),
    ("PUT", "/v1/clusters/demo/records/x", r#"{"kind":"A","values":["nonsense"]}"#, 422, "IPv4"),
    ("PUT", "/v1/clusters/demo/records/X", r#"{"kind":"A","values":[]}"#, 400, "is no record name"),
    (
        "PUT",
        "/v1/clusters/demo/records/x",
        r#"{"kind":"A","values":["10.0.0.1"],"onlyIf":{"version":7}}"#,
        409,
        "not there",
    ),
    ("PUT", "/v1/clusters/demo/balancers/b", r#"{"ports":[],"targets":[],"check":{"kind":"tcp"}}"#, 422, "ports"),
    (
        "PUT",
        "/v1/clusters/demo/balancers/b",
        r#"{"ports":[1,1],"targets":[],"check":{"kind":"tcp"}}"#,
        422,
        "each once",
    ),
    (
        "PUT",
        "/v1/clusters/demo/balancers/b",
        r#"{"ports":[1],"targets":[],"check":{"kind":"https","path":"/readyz","ca":"none","name":"api"}}"#,
        422,
        "authority",
    ),
    (
        "PUT",
        "/v1/clusters/demo/balancers/b",
        r#"{"ports":[1],"targets":[],"check":{"kind":"https","path":"readyz","ca":"","name":"api"}}"#,
        422,
        "not the path",
    ),
    (
        "PUT",
        "/v1/clusters/demo/balancers/b",
        r#"{"ports":[1],"targets":[],"check":{"kind":"https","path":"/","ca":"","name":"a b"}}"#,
        422,
        "not the name",
    ),
    ("GET", "/v1/clusters/demo/balancers/none", "", 404, "no balancer none"),
    ("PUT", "/v1/clusters/demo/groups/g", r#"{"count":100000,"template":{"image":"base"}}"#, 422, "at most"),
    (
        "PUT",
        "/v1/clusters/demo/groups/forty-characters-and-none-left-for-numbers",
        r#"{"count":1,"template":{"image":"base"}}"#,
        422,
        "too long",
    ),
    ("PUT", "/v1/clusters/demo/objects/a/../b", "x", 400, "is no object key"),
    ("PUT", "/v1/clusters/demo/objects/.hidden", "x", 400, "is no object key"),
    ("PUT", "/v1/clusters/demo/objects/a/.b", "x", 400, "is no object key"),
    ("DELETE", "/v1/clusters/demo/objects/a/.b", "", 400, "is no object key"),
    ("POST", "/v1/clusters/none/objects", "[]", 404, "no cluster none"),
    ("POST", "/v1/clusters/demo/objects", "{}", 400, "makes no sense"),
    ("POST", "/v1/clusters/demo/objects", r#"[{"key":"../a","content":{"text":"x"}}]"#, 400, "is no object key"),
    ("POST", "/v1/clusters/demo/objects", r#"[{"key":"a","content":{"bytes":"x"}}]"#, 400, "makes no sense"),
    (
        "POST",
        "/v1/clusters/demo/objects",
        r#"[{"key":"a","content":{"file":{"path":"/etc/passwd","digest":"sha256:00"}}}]"#,
        422,
        "is not a SHA-256 digest",
    ),
    ("POST", "/v1/clusters/demo/urls/.hidden", r#"{"seconds":60}"#, 400, "is no object key"),
    ("POST", "/v1/clusters/demo/urls/none", r#"{"seconds":60}"#, 404, "no object none"),
    ("POST", "/v1/clusters/demo/urls/none", r#"{"seconds":0}"#, 422, "a URL works"),
    ("PUT", "/v1/clusters/two", r#"{"domain":"Two!","subnet":"10.0.0.0/16"}"#, 422, "is no domain"),
    ("PUT", "/v1/clusters/two", r#"{"domain":"two.example","subnet":"8.8.0.0/16"}"#, 422, "private"),
    ("PUT", "/v1/clusters/two", r#"{"domain":"two.example","subnet":"10.0.0.0/31"}"#, 422, "no subnet between"),
    ("PUT", "/v1/clusters/two", r#"{"domain":"two.example","subnet":"10.0.0.0/16","mtu":1}"#, 422, "MTU"),
    ("PUT", "/v1/clusters/demo", r#"{"domain":"other.example","subnet":"10.64.0.0/14"}"#, 409, "is another one"),
    ("PUT", "/v1/images/i", r#"{"tree":"/nonexistent","digest":"sha256:00","osVersion":"1"}"#, 422, "no file"),
    ("POST", "/v1/leave", "", 409, "stays"),
    ("POST", "/v1/destroy", r#""novalue""#, 400, "makes no sense"),
];

#[ignore = "starts a daemon"]
#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_answered_and_do_no_harm() {
    let daemon = Daemon::start().await;
    let cluster = daemon.cluster("demo").await;
    let before = daemon.client.machines(&cluster).await.unwrap();
    for (method, path, body, status, word) in BAD {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = daemon.client.send::<Value>(method.clone(), path, body.as_bytes().to_vec()).await;
        let Err(ClientError::Refused { status: got, refusal }) = answer else {
            panic!("{method} {path} {body}: {answer:?}")
        };
        assert_eq!(got, *status, "{method} {path} {body}: {refusal}");
        assert!(refusal.to_string().contains(word), "{method} {path} {body}: {refusal}");
    }
    for length in [201, 512] {
        let path = format!("/v1/clusters/demo/objects/{}", "k".repeat(length));
        let answer = daemon.client.send::<Value>(Method::PUT, &path, b"x".to_vec()).await;
        assert!(matches!(answer, Err(ClientError::Refused { status: 400, .. })), "{length}: {answer:?}");
    }
    // Ten megabytes are too much for a document; they are refused or the conversation ends, and the daemon goes on.
    let large = vec![b' '; 10 << 20];
    match daemon.client.send::<Value>(Method::PUT, "/v1/clusters/demo/machines/m", large).await {
        Err(ClientError::Refused { status, .. }) => assert_eq!(status, 413),
        Err(ClientError::Talk { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(daemon.client.machines(&cluster).await.unwrap(), before);
    assert!(daemon.client.status().await.is_ok());
    assert!(daemon.client.destroy(&cluster).await.unwrap().is_clean());
}

#[ignore = "starts a daemon"]
#[tokio::test(flavor = "multi_thread")]
async fn the_socket_and_the_state_are_their_owners_alone() {
    let daemon = Daemon::start().await;
    for (path, mode) in [
        (daemon.run().join("cloud.sock"), 0o600),
        (daemon.run(), 0o700),
        (daemon.state(), 0o700),
        (daemon.state().join("cloud.redb"), 0o600),
    ] {
        let found = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
}

#[ignore = "starts a daemon"]
#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_leaves_with_its_last_cluster_and_takes_its_run_directory_along() {
    let mut daemon = Daemon::start().await;
    let (one, two) = (daemon.cluster("one").await, daemon.cluster("two").await);
    assert!(daemon.client.destroy(&one).await.unwrap().is_clean());
    assert!(daemon.client.status().await.is_ok());
    let tag = windlass_cloud_api::Tag::parse("owner=two").unwrap();
    let receipt = daemon.client.destroy_tagged(&tag).await.unwrap();
    assert_eq!(receipt.clusters, [two]);
    assert!(receipt.is_clean());
    daemon.left().await;
    assert!(!daemon.run().exists());
}

#[ignore = "starts a daemon"]
#[tokio::test(flavor = "multi_thread")]
async fn destroying_what_is_not_there_is_no_error() {
    let daemon = Daemon::start().await;
    daemon.cluster("keep").await;
    let receipt = daemon.client.destroy(&label("nothing")).await.unwrap();
    assert!(receipt.is_clean() && receipt.before.is_empty());
}

#[ignore = "starts a daemon"]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_host_is_kept_by_its_path_and_outlives_a_kill() {
    let mut daemon = Daemon::start().await;
    let cluster = daemon.cluster("demo").await;
    let file = daemon.state().join("file");
    windlass_steps::host::write_file(&file, "bytes", windlass_steps::host::Mode::PUBLIC).unwrap();
    let digest = windlass_cloud::object::ObjectDigest::of(b"bytes").to_string();
    let object = |key: &str, content| NewObject { key: key.parse().unwrap(), content };
    let objects = [
        object("b/archive", ObjectContent::File { path: file, digest: digest.clone() }),
        object("b/manifest", ObjectContent::Text("text".to_owned())),
    ];
    let kept = daemon.client.put_objects(&cluster, &objects).await.unwrap();
    assert_eq!((kept.len(), &kept[0].digest), (2, &digest));
    daemon.kill();
    daemon.again().await;
    assert_eq!(daemon.client.objects(&cluster).await.unwrap(), kept);
    assert_eq!(daemon.client.put_objects(&cluster, &objects).await.unwrap(), kept);
    assert!(daemon.client.destroy(&cluster).await.unwrap().is_clean());
}
