//! What the API server of this machine says about the machine's pods. It is asked all the time, beside the looks, so that
//! one that hangs holds up nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, info};
use windlass_steps::report::chain;

use super::copy::copy_of;
use super::program::Program;

const NAMESPACE: &str = "kube-system";
/// A pod that wants a copy says so.
const CHECKPOINT: &str = "windlass.dev/checkpoint";
/// The kubelet's own word for a pod that is only the image of a static one.
const MIRROR: &str = "kubernetes.io/config.mirror";
const PERIOD: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(2);

/// What the API said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nobody answers.
    Silence,
    /// It answers, but shows no pods: it says no, is not ready, or knows nothing. Absent is not gone.
    Unclear(String),
    /// It shows pods of this machine.
    Pods {
        /// Those that want a copy.
        here: BTreeMap<Program, Here>,
        /// Programs with a copy and no pod here that are ready on another machine.
        elsewhere: BTreeSet<Program>,
    },
}

/// A pod of this machine that wants a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// Its identity.
    pub uid: String,
    /// Whether it has started: whoever never answered a probe is not worth a copy.
    pub started: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Its copy, or why it cannot have one.
    pub copy: Result<String, String>,
}

/// Asks again and again, and never returns. `copied` says which programs have copies here.
pub async fn ask_on(
    client: &Client,
    node: &str,
    copied: impl Fn() -> BTreeSet<Program>,
    answers: watch::Sender<Answer>,
) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let answer = match timeout(LIMIT, ask(&pods, node, &copied())).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(kube::Error::Api(status))) => Answer::Unclear(format!("{} {}", status.code, status.reason)),
            Ok(Err(error)) => {
                debug!(because = chain(&error).join(": "), "API not reached");
                Answer::Silence
            }
            // It took the connection: a server that starts, or one that cannot reach etcd.
            Err(_) => Answer::Silence,
        };
        answers.send_if_modified(|last| {
            let is_new = *last != answer;
            if is_new {
                told(&answer);
                *last = answer;
            }
            is_new
        });
    }
}

async fn ask(pods: &Api<Pod>, node: &str, copied: &BTreeSet<Program>) -> Result<Answer, kube::Error> {
    let list = pods.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await?.items;
    if list.is_empty() {
        return Ok(Answer::Unclear("it shows no pods of this machine".to_owned()));
    }
    let here = here(&list);
    let mut elsewhere = BTreeSet::new();
    for program in copied.iter().filter(|program| !here.contains_key(program)) {
        let all = pods.list(&ListParams::default().labels(&program.selector())).await?.items;
        if is_well(&all, node) {
            elsewhere.insert(program.clone());
        }
    }
    Ok(Answer::Pods { here, elsewhere })
}

fn told(answer: &Answer) {
    match answer {
        Answer::Silence => info!("API does not answer"),
        Answer::Unclear(reason) => info!(reason, "API answers nothing to go by"),
        Answer::Pods { here, .. } => info!(pods = here.len(), "API shows pods"),
    }
}

/// The pods that want a copy, by program. One that is ending still belongs here, unless another has taken its place.
pub fn here(pods: &[Pod]) -> BTreeMap<Program, Here> {
    let mut found: BTreeMap<Program, Here> = BTreeMap::new();
    let ending = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
    let (leaving, staying): (Vec<&Pod>, Vec<&Pod>) = pods.iter().filter(|pod| wants_copy(pod)).partition(ending);
    for pod in leaving.into_iter().chain(staying) {
        if let Some(program) = Program::of(pod) {
            found.insert(program, shown(pod));
        }
    }
    found
}

fn wants_copy(pod: &Pod) -> bool {
    let says = |name: &str| pod.metadata.annotations.as_ref().and_then(|all| all.get(name)).map(String::as_str);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    says(CHECKPOINT) == Some("true") && says(MIRROR).is_none() && !matches!(phase, Some("Failed" | "Succeeded"))
}

fn shown(pod: &Pod) -> Here {
    let status = pod.status.as_ref();
    let is_ending = pod.metadata.deletion_timestamp.is_some();
    let containers = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let started = !containers.is_empty() && containers.iter().all(|c| c.started == Some(true));
    Here {
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        started: started && !is_ending,
        ready: status.is_some_and(is_ready) && !is_ending,
        copy: copy_of(pod).map_err(|error| error.to_string()),
    }
}

/// Whether one of these pods, on another machine, is ready.
fn is_well(pods: &[Pod], node: &str) -> bool {
    let other = |pod: &&Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).is_some_and(|name| name != node);
    pods.iter().filter(other).any(|pod| pod.status.as_ref().is_some_and(is_ready))
}

fn is_ready(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::Router;
    use axum::http::{StatusCode, Uri, header};
    use kube::Config;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::*;

    fn pod(name: &str, change: impl Fn(&mut Value)) -> Pod {
        let mut pod = json!({
            "metadata": {
                "name": format!("{name}-x"), "namespace": NAMESPACE, "uid": "u1",
                "labels": { "k8s-app": name }, "annotations": { CHECKPOINT: "true" },
            },
            "spec": { "nodeName": "masters-0", "containers": [{ "name": "c" }] },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": "True" }],
                "containerStatuses": [{
                    "name": "c", "started": true, "ready": true, "image": "i", "imageID": "i", "restartCount": 0
                }],
            },
        });
        change(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    fn program(name: &str) -> Program {
        Program::parse(name).unwrap()
    }

    #[test]
    fn only_pods_that_ask_for_a_copy_and_are_no_images_count() {
        let pods = [
            pod("a", |_| {}),
            pod("b", |p| p["metadata"]["annotations"] = json!({})),
            pod("c", |p| p["metadata"]["annotations"][MIRROR] = "hash".into()),
            pod("d", |p| p["status"]["phase"] = "Failed".into()),
            pod("e", |p| p["metadata"]["annotations"][CHECKPOINT] = "false".into()),
            pod("f", |p| p["metadata"]["labels"] = json!({ "k8s-app": "../f" })),
            pod("g", |p| p["status"] = json!({ "phase": "Pending" })),
        ];
        let found = here(&pods);
        assert_eq!(found.keys().cloned().collect::<Vec<_>>(), [program("a"), program("g")]);
        let states: Vec<_> = found.values().map(|h| (h.started, h.ready)).collect();
        assert_eq!(states, [(true, true), (false, false)]);
        assert!(found[&program("a")].copy.as_ref().unwrap().contains("checkpoint-a"));
    }

    #[test]
    fn a_pod_that_ends_is_here_until_another_takes_its_place() {
        let ending = pod("a", |p| p["metadata"]["deletionTimestamp"] = "2026-11-16T03:00:00Z".into());
        let new = pod("a", |p| p["metadata"]["uid"] = "u2".into());
        let alone = here(std::slice::from_ref(&ending));
        assert_eq!((alone[&program("a")].started, alone[&program("a")].ready), (false, false));
        for both in [[ending.clone(), new.clone()], [new, ending]] {
            assert_eq!(here(&both)[&program("a")].uid, "u2");
        }
    }

    #[test]
    fn a_program_is_well_elsewhere_only_if_it_is_ready_there() {
        let there = |change: fn(&mut Value)| {
            pod("a", move |p| {
                p["spec"]["nodeName"] = "masters-1".into();
                change(p);
            })
        };
        assert!(is_well(&[there(|_| {})], "masters-0"));
        assert!(!is_well(&[there(|p| p["status"]["conditions"] = json!([]))], "masters-0"));
        assert!(!is_well(&[pod("a", |_| {})], "masters-0"));
        assert!(!is_well(&[pod("a", |p| p["spec"] = json!({ "containers": [] }))], "masters-0"));
        assert!(!is_well(&[], "masters-0"));
    }

    /// Answers lists by their query, and remembers the queries.
    async fn api(answer: fn(&str) -> (StatusCode, Value)) -> (Api<Pod>, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let queries = Arc::clone(&asked);
        let router = Router::new().fallback(move |uri: Uri| async move {
            let query = uri.query().unwrap_or_default().to_owned();
            let (status, body) = answer(&query);
            queries.lock().unwrap().push(query);
            (status, [(header::CONTENT_TYPE, "application/json")], body.to_string())
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let config = Config::new(format!("http://{address}").parse().unwrap());
        (Api::namespaced(Client::try_from(config).unwrap(), NAMESPACE), asked)
    }

    fn list(pods: &[Pod]) -> Value {
        json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods })
    }

    #[tokio::test]
    async fn others_are_asked_about_only_what_is_missing_here() {
        let (pods, asked) = api(|query| {
            let there = |p: &mut Value| p["spec"]["nodeName"] = "masters-1".into();
            let answer = match query.contains("fieldSelector") {
                true => list(&[pod("a", |_| {})]),
                false if query.contains("%3Db") => list(&[pod("b", there)]),
                false => list(&[]),
            };
            (StatusCode::OK, answer)
        })
        .await;
        let copied = BTreeSet::from(["a", "b", "c"].map(program));
        let Answer::Pods { here, elsewhere } = ask(&pods, "masters-0", &copied).await.unwrap() else {
            panic!("no pods")
        };
        assert_eq!(here.into_keys().collect::<Vec<_>>(), [program("a")]);
        assert_eq!(elsewhere, BTreeSet::from([program("b")]));
        let asked = asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked[0].contains("spec.nodeName%3Dmasters-0"), "{asked:?}");
    }

    #[tokio::test]
    async fn an_empty_answer_is_none() {
        let (pods, _) = api(|_| (StatusCode::OK, list(&[]))).await;
        assert!(matches!(ask(&pods, "masters-0", &BTreeSet::new()).await, Ok(Answer::Unclear(_))));
        let (pods, _) =
            api(|_| (StatusCode::FORBIDDEN, json!({ "kind": "Status", "code": 403, "reason": "no" }))).await;
        assert!(matches!(ask(&pods, "masters-0", &BTreeSet::new()).await, Err(kube::Error::Api(_))));
    }
}
