//! The objects of a cluster with three masters and two workers, one of them in trouble.

use serde_json::{Value, json};

/// A text that means something in HTML, in attributes and in templates.
pub const HOSTILE: &str = "<img src=x onerror=alert(1)>\" onload='x' {{ 7*7 }}";

/// What `GET path` lists.
pub fn items(path: &str) -> Option<Vec<Value>> {
    Some(match path {
        "/api/v1/nodes" => nodes(),
        "/api/v1/pods" => pods(),
        "/api/v1/events" => events(),
        "/api/v1/replicationcontrollers" => vec![],
        "/apis/apps/v1/deployments" => vec![
            workload("kube-system", "coredns", 2, 2),
            workload("kube-system", "kube-controller-manager", 3, 3),
            workload("shop", "checkout", 1, 3),
            workload("shop", "old-checkout", 0, 0),
        ],
        "/apis/apps/v1/daemonsets" => {
            vec![daemons("kube-apiserver", 3, 3), daemons("kube-flannel", 4, 5), daemons("kube-proxy", 5, 5)]
        }
        "/apis/apps/v1/statefulsets" => vec![workload("shop", "orders-db", 1, 1)],
        "/apis/windlass.dev/v1alpha1/addons" => vec![
            addon("network", "True", "Applied", "flannel runs on 5 nodes"),
            addon("dns", "True", "Applied", ""),
            addon("dashboard", "False", "Waiting", "0 of 1 pods are ready"),
        ],
        _ => return None,
    })
}

fn nodes() -> Vec<Value> {
    let master = json!({"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
    let lost = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    });
    let mut nodes: Vec<_> = (1..=3).map(|n| node(&format!("master-{n}"), master.clone(), ready.clone())).collect();
    nodes.push(node("worker-1", json!({}), ready));
    let mut gone = node("worker-2", json!({}), lost);
    gone["spec"] = json!({"unschedulable": true});
    nodes.push(gone);
    nodes
}

fn node(name: &str, labels: Value, condition: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-11-16T02:30:00Z"},
        "spec": {},
        "status": {"conditions": [condition], "nodeInfo": {
            "kubeletVersion": "v1.36.3", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "osImage": "",
            "systemUUID": "",
        }},
    })
}

fn pods() -> Vec<Value> {
    let well = |n: i32| {
        json!({
            "metadata": {"namespace": "kube-system", "name": format!("well-{n}")},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    let mut pods: Vec<_> = (0..20).map(well).collect();
    pods.push(json!({
        "metadata": {"namespace": "shop", "name": "checkout-7d9", "creationTimestamp": "2026-11-16T02:50:00Z"},
        "spec": {"nodeName": "worker-1", "containers": []},
        "status": {"phase": "Running", "containerStatuses": [{
            "name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 6,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container"}},
        }]},
    }));
    pods.push(json!({
        "metadata": {"namespace": "shop", "name": "checkout-8x2", "creationTimestamp": "2026-11-16T02:50:00Z"},
        "status": {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/5 nodes are available: 3 had untolerated taints, 2 Insufficient memory.",
        }]},
    }));
    pods.push(json!({
        "metadata": {"namespace": "shop", "name": HOSTILE},
        "status": {"phase": HOSTILE, "reason": HOSTILE, "message": HOSTILE},
    }));
    pods
}

fn events() -> Vec<Value> {
    let event = |kind: &str, reason: &str, about: Value, message: &str, time: &str| {
        json!({
            "metadata": {"namespace": "shop", "name": reason}, "involvedObject": about, "type": kind,
            "reason": reason, "message": message, "lastTimestamp": time, "count": 3,
        })
    };
    let pod = json!({"kind": "Pod", "namespace": "shop", "name": "checkout-7d9"});
    let node = json!({"kind": "Node", "name": "worker-2"});
    vec![
        event("Normal", "Pulled", pod.clone(), "Container image already present on machine", "2026-11-16T02:51:00Z"),
        event("Warning", "BackOff", pod.clone(), "Back-off restarting failed container app", "2026-11-16T02:59:40Z"),
        event("Normal", "NodeNotReady", node, "Node worker-2 status is now: NodeNotReady", "2026-11-16T02:58:00Z"),
        event("Warning", HOSTILE, pod, HOSTILE, "2026-11-16T02:40:00Z"),
    ]
}

fn workload(namespace: &str, name: &str, ready: i32, desired: i32) -> Value {
    let conditions = json!([{
        "type": "Available", "status": if ready < desired { "False" } else { "True" },
        "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability.",
    }]);
    json!({
        "metadata": {
            "namespace": namespace, "name": name, "generation": 1, "creationTimestamp": "2026-11-15T01:00:00Z",
        },
        "spec": {"replicas": desired, "selector": {}, "template": {}, "serviceName": name},
        "status": {
            "observedGeneration": 1, "replicas": desired, "readyReplicas": ready, "conditions": conditions,
        },
    })
}

fn daemons(name: &str, ready: i32, desired: i32) -> Value {
    json!({
        "metadata": {
            "namespace": "kube-system", "name": name, "generation": 1, "creationTimestamp": "2026-11-16T02:31:00Z",
        },
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": desired, "numberReady": ready,
            "currentNumberScheduled": desired, "numberMisscheduled": 0,
        },
    })
}

fn addon(name: &str, done: &str, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Addon",
        "metadata": {"name": name, "creationTimestamp": "2026-11-16T02:32:00Z"},
        "status": {"conditions": [{"type": "Done", "status": done, "reason": reason, "message": message}]},
    })
}
