//! Whoever has a machine has the tokens of the pods on it. With them only that machine's Node can be changed, and of it
//! only what those pods change.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use windlass_cluster::access::Access;
use windlass_e2e::{Installation, until};

const NODE: &str = "worker-0";
const OTHER: &str = "worker-1";
const NEEDED: &str = "container-linux-update.v1.coreos.com/reboot-needed";

/// What the worker's own pods may say is taken, and everything else refused, by the policy that names the reason.
pub async fn agents_change_nothing_but_their_own_node(cluster: &Installation) {
    every_agent_has_spoken(cluster).await;
    let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    let foreign = json!({"metadata": {"annotations": {"example.test/foreign": "yes"}}});
    let waits = json!({"metadata": {"annotations": {"windlass.dev/reboot-waits-for": "the test"}}});
    let turn = json!({"metadata": {"annotations": {"container-linux-update.v1.coreos.com/reboot-ok": "true"}}});
    let closed = json!({"spec": {"unschedulable": true}});
    let tainted = json!({"spec": {"taints": [{"key": "example.test/taint", "effect": "NoExecute"}]}});
    let not_its_own = "this token is of the Node 'worker-0'";

    let agent = Holder::of(cluster, "kube-system", "update-agent", Part::Whole).await;
    for (node, patch, why) in [
        (NODE, &waits, None),
        (NODE, &closed, None),
        (NODE, &role, Some("does not change the labels node-role.kubernetes.io/control-plane")),
        (NODE, &foreign, Some("does not change the annotations example.test/foreign")),
        (NODE, &turn, Some("does not change the annotations container-linux-update.v1.coreos.com/reboot-ok")),
        (NODE, &tainted, Some("does not change spec.taints")),
        (OTHER, &waits, Some(not_its_own)),
        (OTHER, &closed, Some(not_its_own)),
    ] {
        agent.is_answered(node, patch, why).await;
    }
    let place = json!({"metadata": {"annotations": {"flannel.alpha.coreos.com/public-ip": "192.0.2.1"}}});
    let flannel = Holder::of(cluster, "kube-flannel", "flannel", Part::Status).await;
    for (node, patch, why) in
        [(NODE, &place, None), (NODE, &role, Some("flannel changes no labels")), (OTHER, &place, Some(not_its_own))]
    {
        flannel.is_answered(node, patch, why).await;
    }
}

/// The agents themselves are not refused.
async fn every_agent_has_spoken(cluster: &Installation) {
    until("every agent has spoken", Duration::from_secs(30), async || {
        let nodes = read(cluster, &["get", "nodes"]).await;
        let silent = nodes["items"].as_array().into_iter().flatten().find(|node| {
            let metadata = &node["metadata"];
            metadata["annotations"][NEEDED] != "false" || metadata["labels"][NEEDED] != "false"
        });
        silent.map_or(Ok(()), |node| Err(node["metadata"].to_string()))
    })
    .await;
}

/// What of a Node is asked to be changed.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    Status,
}

/// Somebody who has taken a pod's token from the worker.
struct Holder {
    nodes: Api<Node>,
    part: Part,
    policy: String,
}

impl Holder {
    /// The account is called as its app.
    async fn of(cluster: &Installation, namespace: &str, app: &str, part: Part) -> Self {
        let (app_is, node_is) = (format!("k8s-app={app}"), format!("spec.nodeName={NODE}"));
        let pods = read(cluster, &["get", "pods", "-n", namespace, "-l", &app_is, "--field-selector", &node_is]).await;
        let pod = pods["items"][0]["metadata"]["name"].as_str().unwrap_or_else(|| panic!("{app} on {NODE}: {pods}"));
        let bound = ["--bound-object-kind", "Pod", "--bound-object-name", pod];
        let words = [["create", "token", app, "-n", namespace].as_slice(), &bound].concat();
        let token = cluster.kubectl(&words).await.ended(0).stdout;

        // With the administrator's certificate in it, the token would not count.
        let mut config = read(cluster, &["config", "view", "--raw", "--minify"]).await;
        config["users"][0]["user"] = json!({ "token": token.trim() });
        let file = format!("{app}.kubeconfig");
        cluster.put(&file, &config.to_string());
        let access = Access::Kubeconfig(cluster.directory().join(file));
        let client = access.client().await.expect("the kubeconfig is one");
        Holder { nodes: Api::all(client), part, policy: format!("ValidatingAdmissionPolicy '{app}.windlass.dev'") }
    }

    /// Asks for a change, which is judged and not made: it is taken, or refused for this reason.
    async fn is_answered(&self, node: &str, patch: &Value, why: Option<&str>) {
        let (params, change) = (PatchParams { dry_run: true, ..PatchParams::default() }, Patch::Merge(patch));
        let answer = match self.part {
            Part::Whole => self.nodes.patch(node, &params, &change).await,
            Part::Status => self.nodes.patch_status(node, &params, &change).await,
        };
        match (answer, why) {
            (Ok(_), None) => {}
            (Err(refusal), Some(why)) => {
                let said = refusal.to_string();
                assert!(said.contains(&self.policy) && said.contains(why), "{node}, {patch}: {why}: {said}");
            }
            (Ok(_), Some(why)) => panic!("{node}, {patch}: taken, although {why}"),
            (Err(refusal), None) => panic!("{node}, {patch}: {refusal}"),
        }
    }
}

async fn read(cluster: &Installation, words: &[&str]) -> Value {
    let said = cluster.kubectl(&[words, &["-o", "json"]].concat()).await.ended(0).stdout;
    serde_json::from_str(&said).expect("kubectl writes JSON")
}
