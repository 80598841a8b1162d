use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get;
use kube::Config;
use tokio::net::TcpListener;
use windlass_steps::host::{ScriptedHost, make_dir};

use super::*;

async fn client(router: Router) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_signer_is_not_yet_the_api() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let version = move || async move {
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => (StatusCode::NOT_FOUND, "no").into_response(),
            1 => (StatusCode::UNAUTHORIZED, "no").into_response(),
            2 => "not even JSON".into_response(),
            _ => {
                let fields = ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
                let rest: String = fields.iter().map(|field| format!(r#","{field}":"x""#)).collect();
                format!(r#"{{"major":"1","minor":"36","gitVersion":"v1.36.3"{rest}}}"#).into_response()
            }
        }
    };
    let client = client(Router::new().route("/version", get(version))).await;
    let mut reasons = Vec::new();
    let mut observe = |change: Change<'_>| {
        reasons.push(change.reason.map(str::to_owned));
        Ok(())
    };
    await_api(&client, &mut observe).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert_eq!(reasons[0].as_deref(), Some("only the signer of the bootstrap machine answers"));
    assert!(reasons[1].as_deref().unwrap().contains("401"), "{reasons:?}");
    assert_eq!(reasons[3], None);
}

#[test]
fn a_version_that_is_none_does_not_count() {
    assert_eq!(serves(Ok("v1.36.3".into())), Observation::Holds);
    for text in ["", "404", "nginx"] {
        assert!(matches!(serves(Ok(text.into())), Observation::NotYet(_)), "{text}");
    }
}

#[tokio::test]
async fn the_kubelet_is_restarted_with_its_second_file_and_a_failure_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let works = || ScriptedHost::default().answer("systemctl restart kubelet.service", "");
    assert!(matches!(restart(&places, &works()).await, Err(JoinError::PlaceEnv { .. })));
    make_dir(places.installer(), Mode::PRIVATE_DIR).unwrap();
    write_file(places.installer().join("kubelet-join.env"), "KUBELET_ARGS='--v=2'\n", Mode::PUBLIC).unwrap();
    let error = restart(&places, &ScriptedHost::default()).await.unwrap_err();
    assert!(matches!(error, JoinError::RestartKubelet { .. }));
    assert!(!places.kubelet_join_env().exists());
    for _ in 0..2 {
        let host = works();
        restart(&places, &host).await.unwrap();
        assert_eq!(host.ran(), ["systemctl restart kubelet.service"]);
        assert_eq!(read_file(places.kubelet_join_env(), 100).unwrap(), b"KUBELET_ARGS='--v=2'\n");
    }
}
