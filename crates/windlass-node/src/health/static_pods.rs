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

/// A static pod by its manifest.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    namespace: String,
    pod: String,
    /// Those that have to end well before the others begin, in order.
    first: Vec<String>,
    /// Those that run from then on.
    containers: Vec<String>,
}

/// Says of each container that does not run why not, and of each that holds the others up by not having ended well.
pub async fn look(places: &Places, commands: &impl Commands) -> Vec<Unmet> {
    let Ok(facts) = Facts::read(places) else { return Vec::new() };
    let mut tasks = Tasks::default();
    if let Err(error) = tasks.look(&places.tasks()) {
        return vec![unmet("the runtime's books can be read", chain(&error).join(": "))];
    }
    let (expected, mut found) = expected(&places.manifests(), &facts.name);
    for pod in &expected {
        let missing: Vec<&String> = pod.containers.iter().filter(|container| !pod.runs(container, &tasks)).collect();
        if missing.is_empty() {
            continue;
        }
        let complaint = kubelet::complaint(commands, &pod.pod).await;
        let seen = Seen { pod, tasks: &tasks, logs: &places.pod_logs(), complaint: complaint.as_deref() };
        let cause = seen.held_up_by();
        if let Some(first) = cause {
            found.push(unmet(format!("{first} of {} ends well", pod.pod), seen.reason(first)));
        }
        for container in missing {
            let reason = cause.map_or_else(|| seen.reason(container), |first| format!("it waits for {first}"));
            found.push(unmet(format!("{container} of {} runs", pod.pod), reason));
        }
    }
    found
}

impl Expected {
    fn runs(&self, container: &str, tasks: &Tasks) -> bool {
        let own = (self.namespace.as_str(), self.pod.as_str(), container);
        tasks.iter().any(|task| (task.namespace.as_str(), task.pod.as_str(), task.container.as_str()) == own)
    }
}

/// What there is to see of a pod that does not run as a whole.
struct Seen<'a> {
    pod: &'a Expected,
    tasks: &'a Tasks,
    logs: &'a Path,
    complaint: Option<&'a str>,
}

impl Seen<'_> {
    /// The container that has to end well and has not. The runtime's books forget what has ended, so that one which is
    /// between two tries is known by the kubelet's complaint, which names it.
    fn held_up_by(&self) -> Option<&str> {
        let Expected { first, containers, .. } = self.pod;
        if containers.iter().any(|container| self.pod.runs(container, self.tasks)) {
            return None;
        }
        let nothing_begun = first.iter().chain(containers).all(|container| self.said(container).is_none());
        let failing = |name: &&String| {
            let blamed = self.complaint.is_some_and(|complaint| complaint.contains(&format!("for \"{name}\"")));
            blamed || self.pod.runs(name, self.tasks)
        };
        let found = first.iter().find(failing).or(first.first().filter(|_| nothing_begun));
        found.map(String::as_str)
    }

    fn said(&self, container: &str) -> Option<last_words::Said> {
        last_words::of(self.logs, &self.pod.namespace, &self.pod.pod, container)
    }

    fn reason(&self, container: &str) -> String {
        match (self.said(container), self.complaint) {
            (said, _) if self.pod.runs(container, self.tasks) => {
                format!("it still runs; last it said: {}", said.map_or("nothing".to_owned(), |said| said.words))
            }
            (Some(said), _) => format!("it has ended, {} times so far; last it said: {}", said.begun, said.words),
            (None, Some(complaint)) => format!("it was not started: {complaint}"),
            (None, None) => "it was not started, and the kubelet says nothing about it".to_owned(),
        }
    }
}

/// The pods of all manifests, and the manifests that are none.
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
            Ok(pods) => expected.extend(pods.iter().map(|pod| read(&pod.body, node))),
            Err(error) => strange.push(unmet(format!("{} is a pod", path.display()), chain(&error).join(": "))),
        }
    }
    (expected, strange)
}

/// The kubelet adds its node's name to the pod's.
fn read(pod: &Value, node: &str) -> Expected {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = match text(&pod["metadata"]["namespace"]) {
        name if name.is_empty() => "default".to_owned(),
        name => name,
    };
    let list = |field: &str| pod["spec"][field].as_array().into_iter().flatten();
    // One that is started again whenever it ends is not waited for: it runs beside the others.
    let (beside, first): (Vec<&Value>, Vec<&Value>) =
        list("initContainers").partition(|container| container["restartPolicy"] == "Always");
    let names = |containers: Vec<&Value>| containers.into_iter().map(|container| text(&container["name"])).collect();
    Expected {
        namespace,
        pod: format!("{}-{node}", text(&pod["metadata"]["name"])),
        first: names(first),
        containers: names(list("containers").chain(beside).collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_cloud_api::Role;
    use windlass_steps::host::{Mode, ScriptedHost, make_dir, write_file};

    use super::*;

    const JOURNAL: &str = "journalctl --unit kubelet.service --no-pager --output cat --lines 600";

    fn put(path: &Path, text: impl AsRef<[u8]>) {
        make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(path, text, Mode::PUBLIC).unwrap();
    }

    fn manifest(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: kube-system\nspec:\n  containers:\n  - name: {name}\n"
        )
    }

    /// A machine that knows who it is.
    fn master(dir: &tempfile::TempDir) -> Places {
        let places = Places::below(dir.path());
        let facts = Facts {
            name: "master-0".into(),
            cluster: "c".into(),
            domain: "d".into(),
            role: Role::Master,
            address: [10, 0, 0, 1].into(),
            etcd_index: None,
        };
        facts.write(&places).unwrap();
        places
    }

    fn start(places: &Places, pod: &str, container: &str) {
        let configuration = json!({"annotations": {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.sandbox-namespace": "kube-system",
            "io.kubernetes.cri.sandbox-name": pod,
            "io.kubernetes.cri.sandbox-uid": "u",
            "io.kubernetes.cri.container-name": container,
        }});
        put(&places.tasks().join(container).join("config.json"), configuration.to_string());
    }

    fn told(found: &[Unmet]) -> Vec<String> {
        found.iter().map(|unmet| format!("{}: {}", unmet.statement, unmet.reason)).collect()
    }

    #[tokio::test]
    async fn each_container_that_does_not_run_is_told_with_the_nearest_cause() {
        let dir = tempfile::tempdir().unwrap();
        let host = ScriptedHost::default()
            .answer(JOURNAL, "E1117 x] \"y\" err=\"no such image\" pod=\"kube-system/new-master-0\"\n");
        let places = Places::below(dir.path());
        assert_eq!(look(&places, &host).await, [], "a machine that does not know who it is has no pods");
        let places = master(&dir);
        for name in ["runs", "ended", "new", "silent"] {
            put(&places.manifests().join(format!("{name}.yaml")), manifest(name));
        }
        put(&places.manifests().join(".half.yaml"), "{");
        put(&places.manifests().join("strange.yaml"), "{ [");
        start(&places, "runs-master-0", "runs");
        put(&places.pod_logs().join("kube-system_ended-master-0_u/ended/2.log"), "T stderr F panic: disk full\n");
        let told = told(&look(&places, &host).await);
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

    /// It had been passed over: of a member that waits for its certificates only "not started" was told.
    #[tokio::test]
    async fn a_container_that_must_end_well_first_is_told_while_it_has_not() {
        let dir = tempfile::tempdir().unwrap();
        let places = master(&dir);
        let text =
            manifest("etcd").replace("  containers:\n", "  initContainers:\n  - name: etcd-certs\n  containers:\n");
        put(&places.manifests().join("etcd.yaml"), text);
        let complaint = |about: &str| {
            let err = format!("err=\"failed to \\\"StartContainer\\\" for \\\"{about}\\\" with trouble\"");
            ScriptedHost::default().answer(JOURNAL, format!("E1117 x] \"y\" {err} pod=\"kube-system/etcd-master-0\"\n"))
        };
        let silent = || ScriptedHost::default().answer(JOURNAL, "");
        let waits = "etcd of etcd-master-0 runs: it waits for etcd-certs";
        let certs = |reason: &str| format!("etcd-certs of etcd-master-0 ends well: {reason}");

        let nothing = "it was not started, and the kubelet says nothing about it";
        assert_eq!(told(&look(&places, &silent()).await), [certs(nothing).as_str(), waits]);

        start(&places, "etcd-master-0", "etcd-certs");
        let log = places.pod_logs().join("kube-system_etcd-master-0_u/etcd-certs/0.log");
        put(&log, "T stderr F observed reason=\"the API answers 401\"\n");
        let runs = "it still runs; last it said: observed reason=\"the API answers 401\"";
        assert_eq!(told(&look(&places, &silent()).await), [certs(runs).as_str(), waits]);

        std::fs::remove_dir_all(places.tasks().join("etcd-certs")).unwrap();
        let ended = "it has ended, 1 times so far; last it said: observed reason=\"the API answers 401\"";
        assert_eq!(told(&look(&places, &complaint("etcd-certs")).await), [certs(ended).as_str(), waits]);

        let image =
            "etcd of etcd-master-0 runs: it was not started: failed to \"StartContainer\" for \"etcd\" with trouble";
        assert_eq!(told(&look(&places, &complaint("etcd")).await), [image], "the first has ended well");

        start(&places, "etcd-master-0", "etcd");
        assert_eq!(look(&places, &silent()).await, []);
    }
}
