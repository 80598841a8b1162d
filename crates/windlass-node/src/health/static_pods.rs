//! Static pods that should run by their manifests and do not by the runtime's books.

use std::path::Path;

use serde_json::Value;
use windlass_assets::manifest::objects;
use windlass_steps::host::{Commands, read_file};
use windlass_steps::report::chain;

use super::{kubelet, last_words, unmet};
use crate::facts::Facts;
use crate::places::Places;
use crate::record::Unmet;
use crate::tasks::Tasks;

const LIMIT: u64 = 1 << 20;

/// A container of a static pod.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    namespace: String,
    pod: String,
    container: String,
}

/// Says of each container that does not run why not.
pub async fn look(places: &Places, commands: &impl Commands) -> Vec<Unmet> {
    let Ok(facts) = Facts::read(places) else { return Vec::new() };
    let mut tasks = Tasks::default();
    if let Err(error) = tasks.look(&places.tasks()) {
        return vec![unmet("the runtime's books can be read", chain(&error).join(": "))];
    }
    let (expected, mut found) = expected(&places.manifests(), &facts.name);
    for Expected { namespace, pod, container } in expected {
        let runs = tasks.iter().any(|t| (&t.namespace, &t.pod, &t.container) == (&namespace, &pod, &container));
        if runs {
            continue;
        }
        let reason = match last_words::of(&places.pod_logs(), &namespace, &pod, &container) {
            Some(said) => format!("it has ended, {} times so far; last it said: {}", said.begun, said.words),
            None => match kubelet::complaint(commands, &pod).await {
                Some(complaint) => format!("it was not started: {complaint}"),
                None => "it was not started, and the kubelet says nothing about it".to_owned(),
            },
        };
        found.push(unmet(format!("{container} of {pod} runs"), reason));
    }
    found
}

/// The containers of all manifests, and the manifests that are none.
fn expected(folder: &Path, node: &str) -> (Vec<Expected>, Vec<Unmet>) {
    let (mut expected, mut strange) = (Vec::new(), Vec::new());
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let bytes = read_file(&path, LIMIT).unwrap_or_default();
        match objects(&name, &String::from_utf8_lossy(&bytes)) {
            Ok(pods) => expected.extend(pods.iter().flat_map(|pod| containers(&pod.body, node))),
            Err(error) => strange.push(unmet(format!("{} is a pod", path.display()), chain(&error).join(": "))),
        }
    }
    (expected, strange)
}

/// The kubelet adds its node's name to the pod's.
fn containers(pod: &Value, node: &str) -> Vec<Expected> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = match text(&pod["metadata"]["namespace"]) {
        name if name.is_empty() => "default".to_owned(),
        name => name,
    };
    let all = pod["spec"]["containers"].as_array().into_iter().flatten();
    let one = |container: &Value| Expected {
        namespace: namespace.clone(),
        pod: format!("{}-{node}", text(&pod["metadata"]["name"])),
        container: text(&container["name"]),
    };
    all.map(one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_cloud_api::Role;
    use windlass_steps::host::{Mode, ScriptedHost, make_dir, write_file};

    use super::*;

    fn put(path: &Path, text: impl AsRef<[u8]>) {
        make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(path, text, Mode::PUBLIC).unwrap();
    }

    fn manifest(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: kube-system\nspec:\n  containers:\n  - name: {name}\n"
        )
    }

    #[tokio::test]
    async fn each_container_that_does_not_run_is_told_with_the_nearest_cause() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let journal = "journalctl --unit kubelet.service --no-pager --output cat --lines 600";
        let host = ScriptedHost::default()
            .answer(journal, "E1117 x] \"y\" err=\"no such image\" pod=\"kube-system/new-master-0\"\n");
        assert_eq!(look(&places, &host).await, [], "a machine that does not know who it is has no pods");
        let facts = Facts {
            name: "master-0".into(),
            cluster: "c".into(),
            domain: "d".into(),
            role: Role::Master,
            address: [10, 0, 0, 1].into(),
            etcd_index: None,
        };
        facts.write(&places).unwrap();
        for name in ["runs", "ended", "new", "silent"] {
            put(&places.manifests().join(format!("{name}.yaml")), manifest(name));
        }
        put(&places.manifests().join(".half.yaml"), "{");
        put(&places.manifests().join("strange.yaml"), "{ [");
        let configuration = json!({"annotations": {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.sandbox-namespace": "kube-system",
            "io.kubernetes.cri.sandbox-name": "runs-master-0",
            "io.kubernetes.cri.sandbox-uid": "u",
            "io.kubernetes.cri.container-name": "runs",
        }});
        put(&places.tasks().join("c1/config.json"), configuration.to_string());
        put(&places.pod_logs().join("kube-system_ended-master-0_u/ended/2.log"), "T stderr F panic: disk full\n");
        let found = look(&places, &host).await;
        let told: Vec<String> = found.iter().map(|unmet| format!("{}: {}", unmet.statement, unmet.reason)).collect();
        assert!(told[0].contains("strange.yaml is a pod"), "{told:?}");
        assert_eq!(
            told[1..],
            [
                "ended of ended-master-0 runs: it has ended, 3 times so far; last it said: panic: disk full",
                "new of new-master-0 runs: it was not started: no such image",
                "silent of silent-master-0 runs: it was not started, and the kubelet says nothing about it",
            ]
        );
    }
}
