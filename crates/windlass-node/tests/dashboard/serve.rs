//! What the server answers, whatever the API does.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use windlass_node::dashboard::read::Limits;

use crate::cluster::HOSTILE;
use crate::fake::{FakeApi, Instead};
use crate::http::{Dashboard, limits};

#[tokio::test]
async fn the_page_shows_the_cluster() {
    let api = FakeApi::start().await;
    let page = Dashboard::start(api.address, limits()).await.get("/").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let shown = [
        "Kubernetes v1.36.3",
        ">master-1<",
        ">control-plane<",
        "Kubelet stopped posting node status.",
        "kube-flannel",
        ">4/5<",
        "orders-db",
        "CrashLoopBackOff: back-off 2m40s",
        "Insufficient memory",
        "Back-off restarting failed container app",
        "Waiting: 0 of 1 pods are ready",
        ">4&#x2f;5</span>",
        ">30 min<",
    ];
    for text in shown {
        assert!(page.body.contains(text), "{text} is missing in {}", page.body);
    }
}

#[tokio::test]
async fn no_text_of_the_cluster_becomes_markup() {
    let api = FakeApi::start().await;
    let page = Dashboard::start(api.address, limits()).await.get("/").await;
    assert!(!page.body.contains(HOSTILE) && !page.body.contains("<img") && !page.body.contains("49"));
    assert!(page.body.contains("&lt;img src=x onerror=alert(1)&gt;&quot; onload=&#x27;x&#x27; {{ 7*7 }}"));
}

#[tokio::test]
async fn the_summary_is_the_same_as_data() {
    let api = FakeApi::start().await;
    let answer = Dashboard::start(api.address, limits()).await.get("/api/v1/summary").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let summary = answer.json();
    assert_eq!(summary["time"], "2026-11-16T03:00:00.000Z");
    assert_eq!(summary["api"], json!({"state": "answers", "version": "v1.36.3"}));
    assert_eq!(summary["nodes"]["state"], "listed");
    assert_eq!(summary["nodes"]["objects"], 5);
    let first = json!({
        "name": "worker-2", "state": "unknown", "scheduling": "disabled", "roles": ["worker"],
        "version": "v1.36.3", "age": 1800, "reason": "NodeStatusUnknown: Kubelet stopped posting node status.",
    });
    assert_eq!(summary["nodes"]["rows"][0], first);
    assert_eq!(summary["pods"]["objects"], 23);
    assert_eq!(summary["pods"]["rows"].as_array().unwrap().len(), 3);
    assert_eq!(summary["workloads"]["daemonSets"]["concerns"], 1);
    assert_eq!(summary["workloads"]["replicationControllers"]["rows"], json!([]));
    assert_eq!(summary["events"]["rows"][0]["reason"], "BackOff");
    assert_eq!(summary["addons"]["rows"][0]["name"], "dashboard");
}

#[tokio::test]
async fn every_answer_carries_the_headers() {
    let api = FakeApi::start().await;
    let dashboard = Dashboard::start(api.address, limits()).await;
    let asked = [
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("GET", "/style.css", 200),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/api/v1/summary", 200),
        ("GET", "/no/such/page", 404),
        ("GET", "/../etc/passwd", 404),
        ("POST", "/", 405),
    ];
    for (method, path, status) in asked {
        let answer = dashboard.ask(method, path).await;
        assert_eq!(answer.status, status, "{method} {path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("x-frame-options"), Some("deny"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn only_reading_is_allowed() {
    let api = FakeApi::start().await;
    let dashboard = Dashboard::start(api.address, limits()).await;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "MADEUP"] {
        for path in ["/", "/healthz", "/api/v1/summary", "/no/such/page"] {
            let answer = dashboard.ask(method, path).await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("get, head")), "{method} {path}");
        }
    }
    assert_eq!(api.asked(), [""; 0], "a refusal costs the API nothing");
    let head = dashboard.ask("HEAD", "/").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[tokio::test]
async fn it_is_ready_once_the_api_has_answered_and_stays_so() {
    let api = FakeApi::start().await;
    api.on("/version", Instead::Forbid);
    let dashboard = Dashboard::start(api.address, limits()).await;
    assert_eq!(dashboard.get("/healthz").await.status, 200);
    let answer = dashboard.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("the API answered 403"), "{}", answer.body);
    let other = FakeApi::start().await;
    let dashboard = Dashboard::start(other.address, limits()).await;
    assert_eq!(dashboard.get("/readyz").await.status, 200);
    other.on("/version", Instead::Forbid);
    assert_eq!(dashboard.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn what_the_api_refuses_shows_with_its_reason_beside_the_rest() {
    let api = FakeApi::start().await;
    api.on("/api/v1/nodes", Instead::Forbid);
    api.on("/apis/apps/v1/deployments", Instead::Garble);
    api.on("/api/v1/pods", Instead::NotFound);
    let page = Dashboard::start(api.address, limits()).await.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Cannot list nodes.</strong> the API answered 403: is forbidden"), "{}", page.body);
    assert!(page.body.contains("cannot list &lt;everything&gt;"), "{}", page.body);
    assert!(page.body.contains("Cannot list deployments."));
    assert!(page.body.contains("Cannot list pods."));
    assert!(page.body.contains("kube-flannel"), "the rest is there");
}

#[tokio::test]
async fn an_api_that_is_gone_shows_on_the_page() {
    // Bound and dropped, so that nobody listens there.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let dashboard = Dashboard::start(gone, limits()).await;
    let page = dashboard.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("The API does not answer."), "{}", page.body);
    assert!(page.body.contains("Connection refused"), "{}", page.body);
    assert_eq!(dashboard.get("/healthz").await.status, 200);
    assert_eq!(dashboard.get("/readyz").await.status, 503);
}

#[tokio::test]
async fn a_list_that_never_comes_does_not_hold_up_the_page() {
    let api = FakeApi::start().await;
    api.on("/api/v1/events", Instead::Hang);
    let limits = Limits { deadline: Duration::from_secs(1), ..limits() };
    let page = Dashboard::start(api.address, limits).await.get("/").await;
    assert!(page.body.contains("Cannot list events.</strong> the API did not answer in time"), "{}", page.body);
    assert!(page.body.contains(">master-1<"));
}

#[tokio::test]
async fn a_cluster_without_the_addon_kind_has_none() {
    let api = FakeApi::start().await;
    api.on("/apis/windlass.dev/v1alpha1/addons", Instead::NotFound);
    let dashboard = Dashboard::start(api.address, limits()).await;
    assert_eq!(dashboard.get("/api/v1/summary").await.json()["addons"], json!({"state": "absent"}));
    assert!(dashboard.get("/").await.body.contains("None: this cluster has no Addon objects."));
}

#[tokio::test]
async fn lists_come_in_pages_and_end_at_the_limit() {
    let api = FakeApi::start().await;
    let dashboard = Dashboard::start(api.address, Limits { page: 4, objects: 8, ..limits() }).await;
    let summary = dashboard.get("/api/v1/summary").await.json();
    let asked: Vec<_> = api.asked().into_iter().filter(|asked| asked.starts_with("/api/v1/pods")).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(api.asked().iter().all(|asked| asked.starts_with("/version") || asked.contains("limit=4")));
    assert_eq!((&summary["pods"]["objects"], &summary["pods"]["extent"]), (&json!(8), &json!("part")));
    assert_eq!((&summary["nodes"]["objects"], &summary["nodes"]["extent"]), (&json!(5), &json!("whole")));
}

#[tokio::test]
async fn many_visitors_cost_the_api_one_reading() {
    let api = FakeApi::start_closed().await;
    let dashboard = Dashboard::start(api.address, Limits { lists: 2, ..limits() }).await;
    let visits = async {
        let one = || dashboard.get("/");
        tokio::join!(one(), one(), one(), one(), one(), one())
    };
    let opening = async {
        api.waiting(2).await;
        // By now everybody else could have asked, if anybody were to.
        for _ in 0..20 {
            assert_eq!(dashboard.get("/healthz").await.status, 200);
        }
        api.open();
    };
    let (visits, ()) = tokio::join!(visits, opening);
    assert!([visits.0, visits.1, visits.2, visits.3, visits.4, visits.5].iter().all(|page| page.status == 200));
    assert_eq!(api.most_at_once(), 2);
    assert_eq!(api.asked().len(), 9, "{:?}", api.asked());
    dashboard.clock.advance(Duration::from_secs(1));
    dashboard.get("/").await;
    assert_eq!(api.asked().len(), 9, "still fresh");
    dashboard.clock.advance(Duration::from_secs(1));
    dashboard.get("/").await;
    assert_eq!(api.asked().len(), 18, "no longer");
}

#[tokio::test]
async fn an_interrupt_ends_the_server() {
    let api = FakeApi::start().await;
    let dashboard = Dashboard::start(api.address, limits()).await;
    assert_eq!(dashboard.get("/healthz").await.status, 200);
    dashboard.interrupt.raise();
    dashboard.server.await.unwrap().unwrap();
}
