//! What runs on this machine, by the runtime's own books: containerd keeps a directory for every container that runs, with
//! the container's configuration in it, and removes it when the container ends. After a power cut there is none. No API
//! and no kubelet is needed to read them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;
use windlass_steps::host::read_file;

const LIMIT: u64 = 4 << 20;

/// A container that runs in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's identity.
    pub uid: String,
    /// Its own name within the pod.
    pub container: String,
}

/// Why the books cannot be read.
#[derive(Debug, Error)]
#[error("cannot see what the runtime runs")]
pub struct TasksError {
    /// What the kernel said.
    source: io::Error,
}

/// The books as last read. What a container is never changes, so each is read once.
#[derive(Debug, Default)]
pub struct Tasks {
    known: HashMap<OsString, Option<Task>>,
}

impl Tasks {
    /// Looks again. A folder that is not there means that nothing runs.
    pub fn look(&mut self, folder: &Path) -> Result<(), TasksError> {
        let names = names(folder).map_err(|source| TasksError { source })?;
        self.known.retain(|name, _| names.contains(name));
        for name in names {
            if self.known.contains_key(&name) {
                continue;
            }
            // One that cannot be read is on its way in or out; the next look sees which.
            if let Ok(bytes) = read_file(folder.join(&name).join("config.json"), LIMIT) {
                self.known.insert(name, parse(&bytes));
            }
        }
        Ok(())
    }

    /// Everything that runs.
    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.known.values().flatten()
    }
}

fn names(folder: &Path) -> io::Result<BTreeSet<OsString>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|e| e.file_name())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    annotations: HashMap<String, String>,
}

/// The container in an OCI configuration; nothing for sandboxes, and for what no kubelet started.
fn parse(bytes: &[u8]) -> Option<Task> {
    let mut annotations = serde_json::from_slice::<Configuration>(bytes).ok()?.annotations;
    let mut take = |name: &str| annotations.remove(&format!("io.kubernetes.cri.{name}"));
    if take("container-type")? != "container" {
        return None;
    }
    Some(Task {
        namespace: take("sandbox-namespace")?,
        pod: take("sandbox-name")?,
        uid: take("sandbox-uid")?,
        container: take("container-name")?,
    })
}

#[cfg(test)]
impl Tasks {
    /// A double: these pods of kube-system, by name and identity.
    pub(crate) fn running(pods: &[(&str, &str)]) -> Self {
        let task = |pod: &str, uid: &str| Task {
            namespace: "kube-system".into(),
            pod: pod.into(),
            uid: uid.into(),
            container: "c".into(),
        };
        Tasks { known: pods.iter().map(|(pod, uid)| ((*uid).into(), Some(task(pod, uid)))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    fn configuration(kind: &str, namespace: &str, pod: &str, uid: &str) -> String {
        json!({ "ociVersion": "1.2.1", "process": { "args": ["x"] }, "annotations": {
            "io.kubernetes.cri.container-type": kind,
            "io.kubernetes.cri.sandbox-namespace": namespace,
            "io.kubernetes.cri.sandbox-name": pod,
            "io.kubernetes.cri.sandbox-uid": uid,
            "io.kubernetes.cri.container-name": "c",
        } })
        .to_string()
    }

    #[test]
    fn containers_are_found_as_they_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("k8s.io");
        let mut tasks = Tasks::default();
        tasks.look(&folder).unwrap();
        assert_eq!(tasks.iter().count(), 0);
        let add = |id: &str, text: &str| {
            make_dir(folder.join(id), Mode::PRIVATE_DIR).unwrap();
            write_file(folder.join(id).join("config.json"), text, Mode::PUBLIC).unwrap();
        };
        add("s1", &configuration("sandbox", "kube-system", "kube-apiserver-x7k2p", "u1"));
        add("s2", "not JSON");
        add("s3", "{}");
        make_dir(folder.join("s4"), Mode::PRIVATE_DIR).unwrap();
        tasks.look(&folder).unwrap();
        assert_eq!(tasks.iter().count(), 0, "a sandbox alone is no container, and what says nothing is none either");
        add("c3", &configuration("container", "kube-system", "kube-apiserver-x7k2p", "u1"));
        tasks.look(&folder).unwrap();
        let found: Vec<_> = tasks.iter().map(|task| (task.pod.as_str(), task.container.as_str())).collect();
        assert_eq!(found, [("kube-apiserver-x7k2p", "c")]);
        fs::remove_dir_all(folder.join("c3")).unwrap();
        tasks.look(&folder).unwrap();
        assert_eq!(tasks.iter().count(), 0);
    }

    #[test]
    fn books_that_cannot_be_read_do_not_mean_that_nothing_runs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        write_file(&file, "", Mode::PUBLIC).unwrap();
        assert!(Tasks::default().look(&file).is_err());
    }
}
