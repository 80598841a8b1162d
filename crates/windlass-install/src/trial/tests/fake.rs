//! An API that plays a cluster: namespaces come and go, pods are as written, and the streams of pods are spoken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use windlass_cluster::access::Access;
use windlass_spec::Secret;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// What the cluster does.
pub(super) struct Played {
    /// Namespaces of earlier verifications.
    pub(super) earlier: &'static [&'static str],
    /// What a pod is told about a URL the n-th time.
    pub(super) exec: fn(pod: &str, url: &str, nth: usize) -> Exec,
    /// Whether a forwarded port answers, or what the kubelet says.
    pub(super) forward: Result<(), &'static str>,
    /// Nodes whose pod does not serve.
    pub(super) unready: &'static [&'static str],
    /// The end of a path that is not taken.
    pub(super) refused: Option<&'static str>,
    /// Whether namespaces stay for ever.
    pub(super) stays: bool,
}

/// How a program in a pod ends.
pub(super) enum Exec {
    Answers(&'static str),
    Fails(&'static str),
    BreaksOff,
}

impl Default for Played {
    fn default() -> Self {
        let exec = |_: &str, _: &str, _| Exec::Answers("probe-a");
        Played { earlier: &[], exec, forward: Ok(()), unready: &[], refused: None, stays: false }
    }
}

pub(super) struct Fake {
    played: Played,
    /// For each namespace, how often it is shown after its deletion; nothing while nobody deletes it.
    namespaces: Mutex<BTreeMap<String, Option<u32>>>,
    executed: Mutex<Vec<String>>,
    requested: Mutex<Vec<String>>,
}

impl Fake {
    pub(super) async fn start(played: Played) -> (Arc<Self>, Client) {
        let namespaces = played.earlier.iter().map(|&name| (name.to_owned(), None)).collect();
        let fake = Arc::new(Fake {
            played,
            namespaces: Mutex::new(namespaces),
            executed: Mutex::default(),
            requested: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&fake));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        (fake, Access::KubeconfigText(Secret::new(text)).client().await.unwrap())
    }

    /// The namespaces that are there.
    pub(super) fn left(&self) -> Vec<String> {
        self.namespaces.lock().unwrap().keys().cloned().collect()
    }

    /// What was run in which pod.
    pub(super) fn executed(&self) -> Vec<String> {
        self.executed.lock().unwrap().clone()
    }

    fn namespaces(&self) -> Value {
        let mut all = self.namespaces.lock().unwrap();
        let shown = |(name, left): (&String, &Option<u32>)| match left {
            None => json!({"metadata": {"name": name}}),
            Some(_) => json!({
                "metadata": {"name": name, "deletionTimestamp": "2026-11-16T03:00:00Z"},
                "status": {"conditions": [{"type": "NamespaceContentRemaining", "status": "True",
                                           "message": "pods remain", "lastTransitionTime": null}]},
            }),
        };
        let list = all.iter().map(shown).collect::<Vec<_>>();
        if !self.played.stays {
            all.retain(|_, left| *left != Some(0));
            all.values_mut().flatten().for_each(|left| *left -= 1);
        }
        json!({"items": list})
    }

    fn pods(&self, namespace: &str, query: &str) -> Value {
        let pod = |name: &str, app: &str, node: &str, address: &str| {
            let ready = !(app == "probe" && self.played.unready.contains(&node));
            let condition = match ready {
                true => json!({"type": "Ready", "status": "True"}),
                false => json!({"type": "Ready", "status": "False", "reason": "NoRoom", "message": "too small"}),
            };
            json!({
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
                "spec": {"nodeName": node, "containers": []},
                "status": {"podIP": ready.then_some(address), "conditions": [condition]},
            })
        };
        let all = [
            pod("probe-a", "probe", "a", "10.2.0.1"),
            pod("probe-b", "probe", "b", "10.2.0.2"),
            pod("scheduled-1", "scheduled", "a", "10.2.0.3"),
            pod("scheduled-2", "scheduled", "b", "10.2.0.4"),
        ];
        let wanted = |pod: &&Value| match query.split_once("labelSelector=app%3D") {
            Some((_, app)) => pod["metadata"]["labels"]["app"] == app,
            None => true,
        };
        json!({"items": all.iter().filter(wanted).collect::<Vec<_>>()})
    }

    fn exec(&self, pod: &str, query: &str) -> Exec {
        let words = query.split('&').filter_map(|pair| pair.strip_prefix("command="));
        let plain = |word: &str| word.replace("%3A", ":").replace("%2F", "/");
        let command: Vec<String> = words.map(plain).collect();
        let line = format!("{pod}: {}", command.join(" "));
        let mut executed = self.executed.lock().unwrap();
        executed.push(line.clone());
        let nth = executed.iter().filter(|known| **known == line).count();
        (self.played.exec)(pod, command.last().unwrap(), nth)
    }
}

async fn answer(State(fake): State<Arc<Fake>>, mut request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let any = json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}});
    let body = match (request.method(), words.as_slice()) {
        (&Method::PATCH, _) if fake.played.refused.is_some_and(|end| path.ends_with(end)) => {
            let status = json!({"kind": "Status", "status": "Failure", "message": "told so", "code": 422});
            return (StatusCode::UNPROCESSABLE_ENTITY, status.to_string()).into_response();
        }
        (&Method::PATCH, ["api", "v1", "namespaces", name]) => {
            fake.namespaces.lock().unwrap().insert((*name).to_owned(), None);
            any
        }
        (&Method::PATCH, _) => any,
        (&Method::DELETE, ["api", "v1", "namespaces", name]) => {
            fake.namespaces.lock().unwrap().insert((*name).to_owned(), Some(0));
            any
        }
        (&Method::DELETE, [.., "pods"]) => json!({"items": []}),
        (&Method::GET, ["api", "v1", "namespaces"]) => {
            assert_eq!(query, "&labelSelector=windlass.dev%2Fverify%3Dtrue");
            fake.namespaces()
        }
        (&Method::GET, ["api", "v1", "nodes"]) => {
            let ready = |name| {
                json!({"metadata": {"name": name},
                                      "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
            };
            json!({"items": [ready("a"), ready("b")]})
        }
        (&Method::GET, [.., "deployments", "scheduled"]) => json!({
            "metadata": {"generation": 1}, "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
                       "availableReplicas": 2},
        }),
        (&Method::GET, [.., "daemonsets", "probe"]) => json!({"metadata": {"generation": 1}}),
        (&Method::GET, [.., namespace, "pods"]) => fake.pods(namespace, &query),
        (&Method::GET, [.., "pods", _, "log"]) => return log(&fake).into_response(),
        (&Method::GET, [.., "pods", pod, "exec"]) => {
            let end = fake.exec(pod, &query);
            return upgraded(&mut request, async |socket| run(socket, end).await);
        }
        (&Method::GET, [.., "pods", _, "portforward"]) => {
            let fake = Arc::clone(&fake);
            return upgraded(&mut request, async move |socket| forward(socket, &fake).await);
        }
        (method, _) => panic!("{method} {path}"),
    };
    body.to_string().into_response()
}

fn log(fake: &Fake) -> String {
    let ready = std::iter::once("/ready".to_owned());
    let requested = fake.requested.lock().unwrap().clone();
    ready.chain(requested).map(|path| format!("INFO request path=\"{path}\"\n")).collect()
}

/// Becomes a web socket, as the API does for the streams of a pod.
fn upgraded<F, T>(request: &mut Request, speak: F) -> Response
where
    F: FnOnce(Socket) -> T + Send + 'static,
    T: Future<Output = ()> + Send,
{
    let accepted = derive_accept_key(request.headers()[header::SEC_WEBSOCKET_KEY].as_bytes());
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let stream = TokioIo::new(upgrade.await.unwrap());
        speak(WebSocketStream::from_raw_socket(stream, Role::Server, None).await).await;
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "websocket");
    let response = response.header(header::SEC_WEBSOCKET_ACCEPT, accepted);
    response.header(header::SEC_WEBSOCKET_PROTOCOL, "v4.channel.k8s.io").body(Body::empty()).unwrap()
}

async fn say(socket: &mut Socket, channel: u8, words: &[u8]) {
    socket.send(Message::binary([&[channel], words].concat())).await.unwrap();
}

async fn run(mut socket: Socket, end: Exec) {
    let (channel, output, status) = match end {
        Exec::Answers(name) => (1, format!("10.3.0.9:80\n{name}\n"), json!({"status": "Success"})),
        Exec::Fails(report) => (2, report.to_owned(), json!({"status": "Failure", "message": "exit code 75"})),
        Exec::BreaksOff => return socket.close(None).await.unwrap(),
    };
    say(&mut socket, channel, output.as_bytes()).await;
    say(&mut socket, 3, status.to_string().as_bytes()).await;
    let _ = socket.close(None).await;
}

async fn forward(mut socket: Socket, fake: &Fake) {
    // Both channels of a port begin with its number.
    for channel in [0, 1] {
        say(&mut socket, channel, &8080_u16.to_le_bytes()).await;
    }
    if let Err(words) = fake.played.forward {
        say(&mut socket, 1, words.as_bytes()).await;
        return socket.close(None).await.unwrap();
    }
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let Some(Ok(Message::Binary(frame))) = socket.next().await else { return };
        assert_eq!(frame[0], 0);
        head.push_str(std::str::from_utf8(&frame[1..]).unwrap());
    }
    fake.requested.lock().unwrap().push(head.split(' ').nth(1).unwrap().to_owned());
    say(&mut socket, 0, b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nprobe-a\n").await;
    let _ = socket.next().await;
}
