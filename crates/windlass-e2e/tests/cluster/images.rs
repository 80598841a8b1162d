//! A user's own image: `windlass image load` brings it to every machine, and pods that may not pull it run there.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tar::{Archive, Builder};
use windlass_e2e::{Installation, until};

const NAME: &str = "registry.example/loaded:1";
const ANNOTATIONS: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
const INDEX: &str = "index.json";
const ARCHIVE: &str = "loaded.tar";
/// A kubelet that did not find an image looks again after some seconds.
const LONG: Duration = Duration::from_secs(90);

pub async fn of_a_user_run_where_they_were_loaded(cluster: &Installation) {
    let archive = cluster.directory().join(ARCHIVE);
    rename(&cached(cluster, "pause").await, &archive);
    let loaded = cluster.windlass(&["image", "load", archive.to_str().expect("the target directory is text")]).await;
    let loaded = loaded.ended(0).stdout;
    assert!(loaded.contains("5 machines"), "{loaded}");
    let machines = ["worker-0", "master-0"];
    let pods: Vec<Value> = machines.iter().map(|machine| pod(machine)).collect();
    cluster.put("loaded.json", &json!({ "apiVersion": "v1", "kind": "List", "items": pods }).to_string());
    let file = cluster.directory().join("loaded.json");
    let file = file.to_str().expect("the target directory is text");
    cluster.kubectl(&["apply", "-f", file]).await.ended(0);
    for machine in machines {
        let name = format!("loaded-{machine}");
        until(&format!("{name} runs"), LONG, async || {
            let status = cluster.kubectl(&["get", "pod", &name, "-o", "jsonpath={.status}"]).await.ended(0).stdout;
            match serde_json::from_str::<Value>(&status) {
                Ok(seen) if seen["phase"] == "Running" => Ok(()),
                _ => Err(status),
            }
        })
        .await;
    }
    cluster.kubectl(&["delete", "--now", "-f", file]).await.ended(0);
}

/// The archive in which an image lies in the cache.
async fn cached(cluster: &Installation, name: &str) -> String {
    let list = cluster.windlass(&["artifacts", "list", "-o", "json"]).await.ended(0).stdout;
    let list: Value = serde_json::from_str(&list).expect("the list is JSON");
    let mut images = list.as_array().into_iter().flatten().filter(|one| one["kind"] == "image" && one["name"] == name);
    let path = images.next().and_then(|image| image["path"].as_str());
    path.unwrap_or_else(|| panic!("{name} is in the cache: {list}")).to_owned()
}

/// Copies an OCI archive, in which only the index says what its image is called.
fn rename(from: &str, to: &Path) {
    let mut archive = Archive::new(File::open(from).expect("the archive can be read"));
    let mut copy = Builder::new(File::create(to).expect("the cluster directory can be written"));
    for entry in archive.entries().expect("it is an archive") {
        let mut entry = entry.expect("it is whole");
        let mut header = entry.header().clone();
        let path = entry.path().expect("a member has a name").into_owned();
        if path != Path::new(INDEX) {
            copy.append_data(&mut header, &path, &mut entry).expect("a member can be copied");
            continue;
        }
        let mut index: Value = serde_json::from_reader(&mut entry).expect("an index is JSON");
        index["manifests"][0]["annotations"] = ANNOTATIONS.map(|name| (name.to_owned(), NAME)).into_iter().collect();
        let index = index.to_string();
        header.set_size(index.len() as u64);
        copy.append_data(&mut header, &path, index.as_bytes()).expect("an index can be written");
    }
    copy.finish().expect("the archive can be ended");
}

/// A pod for this machine, whatever keeps others off it.
fn pod(machine: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("loaded-{machine}"), "namespace": "default" },
        "spec": {
            "nodeName": machine,
            "tolerations": [{ "operator": "Exists" }],
            "terminationGracePeriodSeconds": 1,
            "containers": [{ "name": "sits", "image": NAME, "imagePullPolicy": "Never" }],
        },
    })
}
