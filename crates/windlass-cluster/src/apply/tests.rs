use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;
use windlass_spec::Secret;

use super::*;
use crate::access::Access;

/// What the fake answers to the n-th request of a path; `None` is success.
type Script = fn(path: &str, nth: usize) -> Option<StatusCode>;

struct Fake {
    script: Script,
    asked: Mutex<Vec<String>>,
}

async fn answer(State(fake): State<Arc<Fake>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let line = format!("{} {path}", request.method());
    if request.method() == Method::PATCH {
        assert_eq!(request.uri().query(), Some("&force=true&fieldManager=windlass"));
        assert_eq!(request.headers()["content-type"], "application/apply-patch+yaml");
    }
    let nth = {
        let mut asked = fake.asked.lock().unwrap();
        asked.push(line.clone());
        asked.iter().filter(|known| **known == line).count()
    };
    if let Some(code) = (fake.script)(&path, nth) {
        let status = json!({"kind": "Status", "status": "Failure", "message": "told so", "code": code.as_u16()});
        return (code, status.to_string()).into_response();
    }
    let body = match path.as_str() {
        "/apis/other.test/v1" => json!({
            "kind": "APIResourceList", "groupVersion": "other.test/v1",
            "resources": [{"name": "things", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get"]}],
        }),
        path if path.starts_with("/apis/apiextensions") && request.method() == Method::GET => {
            let state = if nth > 1 { "True" } else { "False" };
            json!({
                "metadata": {"name": "fish.x.test"},
                "spec": {"group": "g", "names": {"kind": "K", "plural": "k"}, "scope": "Cluster", "versions": []},
                "status": {"conditions": [{"type": "Established", "status": state,
                                           "lastTransitionTime": "2026-11-16T03:00:00Z"}]},
            })
        }
        _ => json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}}),
    };
    body.to_string().into_response()
}

async fn start(script: Script) -> (Arc<Fake>, Applier) {
    let fake = Arc::new(Fake { script, asked: Mutex::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(Arc::clone(&fake));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (fake, applier(&format!("http://{address}")).await)
}

async fn applier(server: &str) -> Applier {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    let client = Access::KubeconfigText(Secret::new(text)).client().await.unwrap();
    Applier::new(client).within(Duration::from_secs(2))
}

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}})
}

fn definition() -> Value {
    let mut definition = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "fish.x.test");
    definition["spec"] = json!({"group": "x.test", "scope": "Namespaced", "versions": [{"name": "v1"}],
                                "names": {"kind": "Fish", "plural": "fish"}});
    definition
}

#[tokio::test]
async fn objects_are_applied_in_the_order_that_their_kinds_need() {
    let (fake, applier) = start(|_, _| None).await;
    let objects = [
        object("other.test/v1", "Thing", Some("n"), "t"),
        object("x.test/v1", "Fish", None, "f"),
        object("apps/v1", "Deployment", Some("n"), "d"),
        object("v1", "Service", Some("n"), "s"),
        object("v1", "Secret", Some("n"), "k"),
        definition(),
        object("v1", "Namespace", None, "n"),
    ];
    let applied = applier.apply(&objects).await.unwrap();
    let names: Vec<String> = applied.objects.iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "Namespace n",
            "CustomResourceDefinition fish.x.test",
            "Secret n/k",
            "Service n/s",
            "Deployment n/d",
            "Thing n/t",
            "Fish f"
        ]
    );
    let asked = fake.asked.lock().unwrap().clone();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fish.x.test";
    assert_eq!(
        asked[..7],
        [
            "PATCH /api/v1/namespaces/n".to_owned(),
            format!("PATCH {definition}"),
            format!("GET {definition}"),
            format!("GET {definition}"),
            "PATCH /api/v1/namespaces/n/secrets/k".to_owned(),
            "PATCH /api/v1/namespaces/n/services/s".to_owned(),
            "PATCH /apis/apps/v1/namespaces/n/deployments/d".to_owned(),
        ]
    );
    let mut last = asked[7..].to_vec();
    last.sort();
    assert_eq!(
        last,
        [
            "GET /apis/other.test/v1",
            "PATCH /apis/other.test/v1/namespaces/n/things/t",
            "PATCH /apis/x.test/v1/namespaces/default/fish/f",
        ]
    );
}

#[tokio::test]
async fn what_passes_is_tried_again_and_told() {
    let (fake, applier) = start(|_, nth| match nth {
        1 => Some(StatusCode::SERVICE_UNAVAILABLE),
        2 => Some(StatusCode::NOT_FOUND),
        3 => Some(StatusCode::TOO_MANY_REQUESTS),
        _ => None,
    })
    .await;
    let mut told = Vec::new();
    let mut tell = |statement: &str, reason: Option<&str>| told.push((statement.to_owned(), reason.map(str::to_owned)));
    applier.apply_and_tell(&[object("v1", "Secret", Some("n"), "k")], &mut tell).await.unwrap();
    assert_eq!(fake.asked.lock().unwrap().len(), 4);
    assert!(told.iter().all(|(statement, _)| statement == "Secret n/k is applied"));
    assert_eq!(told[0].1.as_deref(), Some("the API answered 503: told so"));
    assert_eq!(told.last().unwrap().1, None);
}

#[tokio::test]
async fn a_refusal_names_the_object_at_once() {
    let (fake, applier) = start(|path, _| path.ends_with("/b").then_some(StatusCode::UNPROCESSABLE_ENTITY)).await;
    let objects = [object("v1", "ConfigMap", Some("n"), "a"), object("v1", "ConfigMap", Some("n"), "b")];
    let error = applier.apply(&objects).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot apply ConfigMap n/b");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "the API answered 422: told so");
    assert_eq!(fake.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn nobody_listening_fails_at_the_deadline_and_says_so() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let applier = applier(&format!("http://{free}")).await.within(Duration::from_millis(300));
    let error = applier.apply(&[object("v1", "Secret", Some("n"), "k")]).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot apply Secret n/k");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("refused"), "{cause}");
}

#[tokio::test]
async fn what_is_no_object_is_refused_before_anything_is_sent() {
    let (fake, applier) = start(|_, _| None).await;
    let good = object("v1", "Secret", None, "k");
    for (bad, missing) in [
        (json!({"kind": "Secret", "metadata": {"name": "a"}}), "apiVersion"),
        (json!({"apiVersion": "v1", "metadata": {"name": "a"}}), "kind"),
        (json!({"apiVersion": "v1", "kind": "Secret"}), "metadata.name"),
        (json!([]), "apiVersion"),
        (Value::Null, "apiVersion"),
    ] {
        let error = applier.apply(&[good.clone(), bad]).await.unwrap_err();
        assert_eq!(error.to_string(), format!("object 1 has no {missing}"));
    }
    assert_eq!(*fake.asked.lock().unwrap(), [""; 0]);
}
