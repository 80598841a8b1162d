//! What a verification creates: a namespace of its own that admits restricted pods only, a pod on every node, two pods
//! wherever the scheduler puts them, and a Service for each of the two.

use serde_json::{Value, json};

/// On every namespace of a verification, with the value `true`.
pub(super) const LABEL: &str = "windlass.dev/verify";
/// The DaemonSet, its Service and its pods' label.
pub(super) const EVERYWHERE: &str = "probe";
/// The Deployment, its Service and its pods' label.
pub(super) const SCHEDULED: &str = "scheduled";
/// The pods' only container.
pub(super) const CONTAINER: &str = "probe";
/// Where the pods serve.
pub(super) const PORT: u16 = 8080;
/// What the kubelet asks for to see whether a pod serves.
pub(super) const READY_PATH: &str = "/ready";
/// How many pods the scheduler has to place.
pub(super) const REPLICAS: usize = 2;

/// Letters and digits that cannot be taken for each other.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// `windlass-verify-` and five characters.
pub(super) fn namespace_name(drawn: u64) -> String {
    let characters = (0..5).map(|n| char::from(ALPHABET[(drawn >> (5 * n)) as usize % 32]));
    format!("windlass-verify-{}", characters.collect::<String>())
}

/// Selects the pods of a workload.
pub(super) fn selector(app: &str) -> String {
    format!("app={app}")
}

/// Everything that is created, the namespace included.
pub(super) fn objects(namespace: &str, image: &str) -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {
                LABEL: "true",
                "pod-security.kubernetes.io/enforce": "restricted",
            }},
        }),
        service(namespace, EVERYWHERE),
        service(namespace, SCHEDULED),
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": EVERYWHERE, "namespace": namespace},
            "spec": {
                "selector": {"matchLabels": {"app": EVERYWHERE}},
                // Every node counts, whatever taint it has.
                "template": template(EVERYWHERE, image, &json!([{"operator": "Exists"}])),
            },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": SCHEDULED, "namespace": namespace},
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": {"app": SCHEDULED}},
                // As a user's: it must find a node without a taint.
                "template": template(SCHEDULED, image, &json!([])),
            },
        }),
    ]
}

fn service(namespace: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    })
}

fn template(app: &str, image: &str, tolerations: &Value) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "terminationGracePeriodSeconds": 2,
            "tolerations": tolerations,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65534, "runAsGroup": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": CONTAINER,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/windlass-node", "probe", "serve", "--listen", format!("0.0.0.0:{PORT}")],
                "ports": [{"name": "http", "containerPort": PORT}],
                "readinessProbe": {"httpGet": {"path": READY_PATH, "port": "http"}, "periodSeconds": 1},
                "resources": {
                    "requests": {"cpu": "5m", "memory": "8Mi"},
                    "limits": {"memory": "64Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
    use k8s_openapi::api::core::v1::{Namespace, Service};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;

    /// What a type does not know is lost on the way through it; a list that is empty means the same as none.
    fn passes_through<T: Serialize + DeserializeOwned>(object: &Value) {
        let typed: T = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), *object);
    }

    #[test]
    fn the_objects_are_of_the_kinds_that_they_name() {
        let mut kinds = Vec::new();
        for object in objects("windlass-verify-abcde", "windlass.dev/windlass-node:v1") {
            let kind = object["kind"].as_str().unwrap().to_owned();
            match kind.as_str() {
                "Namespace" => passes_through::<Namespace>(&object),
                "Service" => passes_through::<Service>(&object),
                "DaemonSet" => passes_through::<DaemonSet>(&object),
                "Deployment" => passes_through::<Deployment>(&object),
                other => panic!("{other}"),
            }
            kinds.push(kind);
        }
        assert_eq!(kinds, ["Namespace", "Service", "Service", "DaemonSet", "Deployment"]);
    }

    #[test]
    fn services_find_the_pods_of_their_workloads() {
        let objects = objects("n", "i");
        for app in [EVERYWHERE, SCHEDULED] {
            let of_kind = |kinds: &[&str]| {
                let mut found = objects.iter().filter(|o| kinds.contains(&o["kind"].as_str().unwrap()));
                found.find(|o| o["metadata"]["name"] == app).unwrap()
            };
            let (service, workload) = (of_kind(&["Service"]), of_kind(&["DaemonSet", "Deployment"]));
            let labels = &workload["spec"]["template"]["metadata"]["labels"];
            assert_eq!(service["spec"]["selector"], *labels);
            assert_eq!(workload["spec"]["selector"]["matchLabels"], *labels);
            assert_eq!(selector(app), format!("app={}", labels["app"].as_str().unwrap()));
        }
    }

    #[test]
    fn a_name_is_drawn_from_five_of_the_characters() {
        let cases = [(0, "windlass-verify-aaaaa"), (u64::MAX, "windlass-verify-99999"), (1, "windlass-verify-baaaa")];
        for (drawn, name) in cases {
            assert_eq!(namespace_name(drawn), name);
        }
        let names: std::collections::BTreeSet<String> = (0..1000).map(|n| namespace_name(n << 15)).collect();
        assert_eq!(names.len(), 1000);
    }
}
