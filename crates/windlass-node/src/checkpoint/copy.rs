//! A pod as a static one: what needs the API to start, or to be scheduled, is left out. A pod that cannot live without an
//! object of the API has no copy.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use thiserror::Error;
use windlass_spec::yaml::emit;

use super::program::Program;

/// Says whose copy a static pod is.
const COPY_OF: &str = "windlass.dev/checkpoint-of";

/// Why a pod has no copy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CopyError {
    /// Nobody knows which program it is.
    #[error("the pod {pod} has no label k8s-app that could name a file")]
    NameProgram {
        /// The pod.
        pod: String,
    },
    /// There is nothing in it.
    #[error("the pod {pod} has no spec")]
    FindSpec {
        /// The pod.
        pod: String,
    },
    /// A volume is an object of the API.
    #[error("the volume {volume} needs the API")]
    KeepVolume {
        /// The volume.
        volume: String,
    },
    /// A variable comes from an object of the API.
    #[error("the environment of the container {container} needs the API")]
    KeepEnvironment {
        /// The container.
        container: String,
    },
    /// It claims a device through the API.
    #[error("the resource claims of the pod {pod} need the API")]
    KeepClaims {
        /// The pod.
        pod: String,
    },
}

/// The static copy of a pod, as YAML. The same template gives the same text, whichever of its pods is copied.
pub fn copy_of(pod: &Pod) -> Result<String, CopyError> {
    let name = || pod.metadata.name.clone().unwrap_or_default();
    let program = Program::of(pod).ok_or_else(|| CopyError::NameProgram { pod: name() })?;
    let spec = pod.spec.clone().ok_or_else(|| CopyError::FindSpec { pod: name() })?;
    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        return Err(CopyError::KeepClaims { pod: name() });
    }
    let metadata = ObjectMeta {
        name: Some(program.copy_name()),
        namespace: pod.metadata.namespace.clone(),
        labels: Some(program.copy_labels().into()),
        annotations: Some(BTreeMap::from([(COPY_OF.to_owned(), program.to_string())])),
        ..ObjectMeta::default()
    };
    let copy = Pod { metadata, spec: Some(alone(spec)?), status: None };
    Ok(emit(&serde_json::to_value(copy).expect("a pod is plain data")))
}

/// The spec without what only the API or the scheduler can serve.
fn alone(mut spec: PodSpec) -> Result<PodSpec, CopyError> {
    spec.node_name = None;
    spec.service_account_name = None;
    spec.service_account = None;
    spec.image_pull_secrets = None;
    spec.ephemeral_containers = None;
    spec.resource_claims = None;
    spec.scheduling_gates = None;
    spec.scheduler_name = None;
    // The kubelet checks these against the labels of its Node, and without an API it knows only those that it sets itself:
    // the control-plane label is not among them, and the copy would be turned away just when it is needed.
    spec.node_selector = None;
    spec.affinity = None;
    spec.topology_spread_constraints = None;
    let dropped = drop_tokens(&mut spec.volumes)?;
    for container in spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut()) {
        lonely(container, &dropped)?;
    }
    Ok(spec)
}

/// Drops the volumes with service account tokens, and says which they were; others that need the API are refused.
fn drop_tokens(volumes: &mut Option<Vec<Volume>>) -> Result<BTreeSet<String>, CopyError> {
    let mut dropped = BTreeSet::new();
    for volume in volumes.iter().flatten() {
        if holds_token(volume) {
            dropped.insert(volume.name.clone());
        } else if volume.host_path.is_none() && volume.empty_dir.is_none() && volume.downward_api.is_none() {
            return Err(CopyError::KeepVolume { volume: volume.name.clone() });
        }
    }
    if let Some(volumes) = volumes {
        volumes.retain(|volume| !dropped.contains(&volume.name));
    }
    Ok(dropped)
}

fn holds_token(volume: &Volume) -> bool {
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    sources.into_iter().any(|source| source.service_account_token.is_some())
}

fn lonely(container: &mut Container, dropped: &BTreeSet<String>) -> Result<(), CopyError> {
    let needs_api = |variable: &EnvVar| {
        let source = variable.value_from.as_ref();
        source.is_some_and(|s| s.secret_key_ref.is_some() || s.config_map_key_ref.is_some())
    };
    let from_objects = container.env_from.as_ref().is_some_and(|list| !list.is_empty());
    if from_objects || container.env.iter().flatten().any(needs_api) {
        return Err(CopyError::KeepEnvironment { container: container.name.clone() });
    }
    if let Some(mounts) = &mut container.volume_mounts {
        mounts.retain(|mount| !dropped.contains(&mount.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_assets::Manifests;
    use windlass_assets::manifest::{Group, objects};
    use windlass_spec::file::read_and_complete;
    use windlass_spec::yaml;

    use super::*;

    const SPEC: &str =
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  domain: demo.test\n";

    /// The pods of the real control plane that are to have copies, as the API would show them.
    pub(super) fn real_pods() -> Vec<Pod> {
        let spec = read_and_complete(SPEC.as_bytes()).unwrap().1;
        let manifests = Manifests::make(&spec).unwrap();
        let mut pods = Vec::new();
        for (path, text) in manifests.group(Group::ControlPlane) {
            for object in objects(path, text).unwrap() {
                let template = &object.body["spec"]["template"];
                if template["metadata"]["annotations"]["windlass.dev/checkpoint"] == "true" {
                    pods.push(as_shown(&object.name, template));
                }
            }
        }
        pods
    }

    /// What the API, its admission and the DaemonSet controller add.
    fn as_shown(name: &str, template: &Value) -> Pod {
        let mut pod = template.clone();
        pod["metadata"]["name"] = format!("{name}-x7k2p").into();
        pod["metadata"]["namespace"] = "kube-system".into();
        pod["metadata"]["uid"] = "7b0c".into();
        pod["metadata"]["labels"]["pod-template-hash"] = "5d4f".into();
        pod["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "1" }]);
        let spec = &mut pod["spec"];
        spec["nodeName"] = "masters-0".into();
        spec["serviceAccountName"] = "default".into();
        spec["serviceAccount"] = "default".into();
        spec["schedulerName"] = "default-scheduler".into();
        spec["affinity"] = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["masters-0"] }] }]
        } } });
        let token = json!({ "name": "kube-api-access-b4x", "projected": { "sources": [
            { "serviceAccountToken": { "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt" } }
        ] } });
        spec["volumes"].as_array_mut().unwrap().push(token);
        let mount =
            json!({ "name": "kube-api-access-b4x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" });
        spec["containers"][0]["volumeMounts"].as_array_mut().unwrap().push(mount);
        pod["status"] = json!({ "phase": "Running" });
        serde_json::from_value(pod).unwrap()
    }

    fn read(text: &str) -> Value {
        yaml::read(text.as_bytes(), &yaml::Budget::SPEC).unwrap().to_json()
    }

    #[test]
    fn every_pod_of_the_control_plane_has_a_copy_that_needs_no_api() {
        let pods = real_pods();
        let names: Vec<_> = pods.iter().filter_map(Program::of).map(|p| p.to_string()).collect();
        for name in ["checkpointer", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            assert!(names.contains(&name.to_owned()), "{name} of {names:?}");
        }
        for pod in &pods {
            let program = Program::of(pod).unwrap();
            let copy = read(&copy_of(pod).unwrap());
            assert_eq!((&copy["apiVersion"], &copy["kind"]), (&"v1".into(), &"Pod".into()));
            let metadata = json!({
                "annotations": { "windlass.dev/checkpoint-of": program.to_string() },
                "labels": { "k8s-app": format!("checkpoint-{program}") },
                "name": format!("checkpoint-{program}"),
                "namespace": "kube-system",
            });
            assert_eq!(copy["metadata"], metadata);
            assert!(copy.get("status").is_none());
            for word in ["serviceAccount", "kube-api-access", "nodeName: ", "nodeSelector", "ffinity", "masters-0"] {
                assert!(!copy_of(pod).unwrap().contains(word), "{program}: {word}");
            }
        }
    }

    #[test]
    fn the_rest_of_the_pod_is_as_it_was() {
        for pod in real_pods() {
            let copy: Pod = serde_json::from_value(read(&copy_of(&pod).unwrap())).unwrap();
            let (copy, real) = (copy.spec.unwrap(), pod.spec.unwrap());
            assert_eq!(copy.tolerations, real.tolerations);
            assert_eq!((copy.host_network, copy.priority), (Some(true), real.priority));
            let (container, was) = (&copy.containers[0], &real.containers[0]);
            assert_eq!((&container.command, &container.env), (&was.command, &was.env));
            assert_eq!(container.readiness_probe, was.readiness_probe);
            assert_eq!(copy.volumes.unwrap().len(), real.volumes.unwrap().len() - 1);
            let mounts = |c: &Container| c.volume_mounts.as_ref().map_or(0, Vec::len);
            assert_eq!(mounts(container), mounts(was) - 1);
        }
    }

    #[test]
    fn two_pods_of_one_template_have_the_same_copy() {
        for pod in real_pods() {
            let mut other = pod.clone();
            other.metadata.name = Some("another-abcde".into());
            other.metadata.uid = Some("2".into());
            if let Some(spec) = &mut other.spec {
                spec.node_name = Some("masters-1".into());
            }
            assert_eq!(copy_of(&pod), copy_of(&other));
        }
    }

    #[test]
    fn what_needs_the_api_has_no_copy() {
        let pod = |labels: Value, spec: Value| -> Pod {
            serde_json::from_value(json!({ "metadata": { "name": "p", "labels": labels }, "spec": spec })).unwrap()
        };
        let with = |volumes: Value, env: Value, from: Value| {
            let container = json!({ "name": "c", "env": env, "envFrom": from });
            pod(json!({ "k8s-app": "a" }), json!({ "containers": [container], "volumes": volumes }))
        };
        let volume = || CopyError::KeepVolume { volume: "v".into() };
        let environment = || CopyError::KeepEnvironment { container: "c".into() };
        let variable = |from: Value| json!([{ "name": "X", "valueFrom": from }]);
        let cases = [
            (with(json!([{ "name": "v", "secret": { "secretName": "s" } }]), json!([]), json!([])), volume()),
            (with(json!([{ "name": "v", "configMap": { "name": "s" } }]), json!([]), json!([])), volume()),
            (
                with(json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "s" } }]), json!([]), json!([])),
                volume(),
            ),
            (
                with(json!([]), variable(json!({ "secretKeyRef": { "name": "s", "key": "k" } })), json!([])),
                environment(),
            ),
            (
                with(json!([]), variable(json!({ "configMapKeyRef": { "name": "s", "key": "k" } })), json!([])),
                environment(),
            ),
            (with(json!([]), json!([]), json!([{ "secretRef": { "name": "s" } }])), environment()),
            (pod(json!({}), json!({ "containers": [] })), CopyError::NameProgram { pod: "p".into() }),
            (
                pod(json!({ "k8s-app": "../x" }), json!({ "containers": [] })),
                CopyError::NameProgram { pod: "p".into() },
            ),
        ];
        for (pod, want) in cases {
            assert_eq!(copy_of(&pod), Err(want));
        }
        let fine = variable(json!({ "fieldRef": { "fieldPath": "spec.nodeName" } }));
        assert!(copy_of(&with(json!([{ "name": "v", "emptyDir": {} }]), fine, json!([]))).is_ok());
    }
}
