use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::Instant;
use windlass_pki::signer::self_sign;
use windlass_pki::{KeySource as _, San, SeededKeys, Signer, Subject, Template, Usages};
use windlass_spec::Secret;
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::wait::Change;

use super::*;
use crate::https::{Connections, Https, server_config};
use crate::update_engine::ScriptedEngine;

/// An API that answers `/version` with one status after the other, the last one for ever, and counts how often.
#[derive(Clone)]
struct Scripted {
    statuses: Arc<Mutex<VecDeque<u16>>>,
    asked: Arc<Mutex<usize>>,
}

impl Scripted {
    fn saying(statuses: &[u16]) -> Self {
        Scripted { statuses: Arc::new(Mutex::new(statuses.iter().copied().collect())), asked: Arc::default() }
    }

    fn answer(&self) -> Response {
        *self.asked.lock().unwrap() += 1;
        let mut left = self.statuses.lock().unwrap();
        let status = if left.len() > 1 { left.pop_front().unwrap() } else { left[0] };
        match status {
            200 => {
                let fields = ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
                let rest: String = fields.iter().map(|field| format!(r#","{field}":"x""#)).collect();
                format!(r#"{{"major":"1","minor":"36","gitVersion":"v1.36.3"{rest}}}"#).into_response()
            }
            status => (StatusCode::from_u16(status).unwrap(), "no").into_response(),
        }
    }

    fn router(&self) -> Router {
        let own = self.clone();
        Router::new().route("/version", get(move || async move { own.answer() }))
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

async fn client(server: &str, authority: &str) -> Client {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: '{server}'{authority}}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    Access::KubeconfigText(Secret::new(text)).client().await.unwrap()
}

/// What came of asking for the version, and how long that took.
async fn ask_version(client: Client) -> (Result<String, Unanswered>, Duration) {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let mut observe = |_: Change<'_>| Ok(());
    let machine = Machine::asking(&places, Ok(client), &mut observe).unwrap();
    let begun = Instant::now();
    (machine.api_version().await, begun.elapsed())
}

/// By a clock that runs: paused, it would jump over whoever is slow to answer on a busy host.
const SOON: Duration = Duration::from_secs(10);

/// Where an API listens.
async fn serve(api: &Scripted) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let router = api.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    server
}

#[tokio::test]
async fn an_api_is_asked_again_after_what_passes_and_has_failed_at_once_when_it_refuses() {
    let cases: [(&str, &[u16], Result<usize, &str>); 6] = [
        ("an answer", &[200], Ok(1)),
        ("an approver that is not there for a moment", &[401, 401, 200], Ok(3)),
        ("a server that starts", &[503, 200], Ok(2)),
        ("a server that starts, without its approver", &[503, 401, 500, 200], Ok(4)),
        ("the signer of a bootstrap machine", &[404], Err("404")),
        ("a machine that may not ask", &[403], Err("403")),
    ];
    for (name, statuses, want) in cases {
        let api = Scripted::saying(statuses);
        let (said, took) = ask_version(client(&serve(&api).await, "").await).await;
        match (want, said) {
            (Ok(asked), Ok(version)) => assert_eq!((version.as_str(), api.asked()), ("v1.36.3", asked), "{name}"),
            (Err(word), Err(reason)) => {
                assert!(reason.to_string().contains(word), "{name}: {reason}");
                assert_eq!(api.asked(), 1, "{name}");
            }
            (want, said) => panic!("{name}: {want:?} is not {said:?}"),
        }
        assert!(took < SOON, "{name}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_that_gives_no_answer_has_failed_after_20_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cases = [
        ("a machine whom nobody knows", serve(&Scripted::saying(&[401])).await),
        ("a server that never starts", serve(&Scripted::saying(&[503])).await),
        ("silence", format!("http://{}", silent.local_addr().unwrap())),
        ("nobody", format!("http://{}", gone.local_addr().unwrap())),
    ];
    drop(gone);
    for (name, server) in cases {
        let (said, took) = ask_version(client(&server, "").await).await;
        assert!(said.is_err() && took >= API_PATIENCE && took < API_PATIENCE + 2 * LOOK_LIMIT, "{name}: {took:?}");
    }
}

fn authority(seed: &str) -> (Signer, SeededKeys) {
    let mut keys = SeededKeys::new(seed);
    let (key, serial) = (keys.key("ca"), keys.serial("ca"));
    let subject = Subject { common_name: format!("ca {seed}"), organization: None };
    let own = self_sign(&subject, &key, serial, SystemClock::new().now(), Duration::from_secs(3600)).unwrap();
    (Signer::new(own, key).unwrap(), keys)
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_final_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let ((own, mut keys), (stranger, _)) = (authority("one"), authority("two"));
    let server = keys.key("server");
    let template = Template {
        subject: Subject { common_name: "server".into(), organization: None },
        sans: vec![San::Ip([127, 0, 0, 1].into())],
        usages: Usages::Server,
        lifetime: Duration::from_secs(3600),
    };
    let leaf = own.sign(&template, server.public(), keys.serial("server"), SystemClock::new().now()).unwrap();
    let [certificate, key, trusted] = ["crt", "key", "ca"].map(|name| dir.path().join(name));
    write_file(&certificate, leaf.to_pem(), Mode::PUBLIC).unwrap();
    write_file(&key, server.to_pem().expose(), Mode::PRIVATE_FILE).unwrap();
    let api = Scripted::saying(&[200]);
    let limit = Duration::from_secs(60);
    let limits = crate::https::Limits { connections: 4, handshake: limit, head: limit, life: limit, farewell: limit };
    let tls = server_config(certificate, key).unwrap();
    let https = Https::listen(SocketAddr::from(([127, 0, 0, 1], 0)), tls, limits, Connections::Kept).await.unwrap();
    let server = format!("https://{}", https.address().unwrap());
    let router = api.router();
    tokio::spawn(async move { https.serve(router, &Interrupt::default()).await });
    for (signer, is_trusted) in [(own, true), (stranger, false)] {
        write_file(&trusted, signer.certificate().to_pem(), Mode::PUBLIC).unwrap();
        let words = format!(", certificate-authority: '{}'", trusted.display());
        let (said, took) = ask_version(client(&server, &words).await).await;
        assert_eq!(said.is_ok(), is_trusted, "{said:?}");
        assert!(took < SOON, "{took:?}: {said:?}");
    }
    assert_eq!(api.asked(), 1);
}

fn status(operation: Operation, checked: i64) -> update_engine::Status {
    update_engine::Status { last_checked: checked, progress: 0.0, operation, new_version: "2".to_owned(), new_size: 0 }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_left_after_it_was_asked_was_taken_for_one_that_never_was() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Places::below(dir.path()).update_asked();
    let absent = ScriptedEngine::idle().leaves();
    assert_eq!(absent.next(Duration::ZERO).await.unwrap(), None);
    let ask = async |engine: &ScriptedEngine| next_os(engine, UpgradeOs::Yes, &asked).await;
    assert!(matches!(ask(&absent).await, Err(UpdateTrouble::Absent(_))), "it was never there");
    let leaves = ScriptedEngine::idle().tells(status(Operation::Downloading, 0)).leaves();
    let trouble = ask(&leaves).await.unwrap_err();
    assert!(matches!(&trouble, UpdateTrouble::Stuck(reason) if reason.contains("is gone")), "{trouble:?}");
    assert!(matches!(ask(&absent).await, Err(UpdateTrouble::Stuck(_))), "the next run knows that it was there");
    let staged = ScriptedEngine::showing(status(Operation::UpdatedNeedReboot, 0));
    assert_eq!(ask(&staged).await.unwrap().as_deref(), Some("2"));
    assert!(matches!(ask(&absent).await, Err(UpdateTrouble::Stuck(_))), "an update is staged");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_came_to_an_end_may_leave() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Places::below(dir.path()).update_asked();
    let absent = ScriptedEngine::idle().leaves();
    assert_eq!(absent.next(Duration::ZERO).await.unwrap(), None);
    let newest = ScriptedEngine::idle().tells(status(Operation::Idle, 9));
    let failed = ScriptedEngine::idle().tells(status(Operation::ReportingErrorEvent, 0));
    assert_eq!(next_os(&newest, UpgradeOs::Yes, &asked).await, Ok(None));
    assert!(matches!(next_os(&absent, UpgradeOs::Yes, &asked).await, Err(UpdateTrouble::Absent(_))));
    assert!(matches!(next_os(&failed, UpgradeOs::Yes, &asked).await, Err(UpdateTrouble::Failed(_))));
    assert!(matches!(next_os(&absent, UpgradeOs::Yes, &asked).await, Err(UpdateTrouble::Absent(_))));
    assert_eq!(next_os(&newest, UpgradeOs::No, &asked).await, Ok(None));
    assert!(!asked.exists(), "whoever only looks asks for nothing");
}
