//! What is put into the API: the objects of manifests, and those that only this machine can make, because they hold what
//! no asset may hold: the configs and keys that the twins on the masters serve and sign with, and the burnt tokens.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use windlass_assets::manifest::{ManifestError, objects};
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::host::{HostError, read_file};

use crate::places::Places;

const FILE_LIMIT: u64 = 4 << 20;
const NAMESPACE: &str = "kube-system";
/// What the machine-config server's twin serves.
pub(super) const MACHINE_CONFIG: &str = "machine-config";
/// What the approver signs with and checks tokens by.
pub(super) const CSR_APPROVER: &str = "csr-approver";
/// Which tokens have served their purpose.
pub(super) const BURNT: &str = "windlass-burnt-tokens";

/// Why there is nothing to apply.
#[derive(Debug, Error)]
pub(crate) enum PayloadError {
    #[error("cannot list {}", path.display())]
    List { path: PathBuf, source: io::Error },
    #[error("cannot read what is to be applied")]
    Read { source: HostError },
    #[error("{} is no text", path.display())]
    Decode { path: PathBuf, source: std::str::Utf8Error },
    #[error("cannot understand what is to be applied")]
    Understand { source: Box<ManifestError> },
}

/// The objects of every manifest in a directory, in the order of the files' names.
pub(crate) fn manifests(dir: &Path) -> Result<Vec<Value>, PayloadError> {
    let mut all = Vec::new();
    for path in files(dir)?.into_iter().filter(|path| path.extension() == Some(OsStr::new("yaml"))) {
        let bytes = read(&path)?;
        let text = std::str::from_utf8(&bytes).map_err(|source| PayloadError::Decode { path: path.clone(), source })?;
        let found =
            objects(&name(&path), text).map_err(|source| PayloadError::Understand { source: Box::new(source) })?;
        all.extend(found.into_iter().map(|object| object.body));
    }
    Ok(all)
}

/// The objects that are made of this machine's own files.
pub(super) fn own(places: &Places) -> Result<Vec<Value>, PayloadError> {
    Ok(vec![machine_config(places)?, csr_approver(places)?, burnt(&places.tokens().join("burnt"))?])
}

fn machine_config(places: &Places) -> Result<Value, PayloadError> {
    let configs = places.machine_config();
    let mut data = keys(&[
        ("master.ign", configs.join("master.ign")),
        ("worker.ign", configs.join("worker.ign")),
        ("cluster.json", places.cluster()),
        ("token-key", places.token_key()),
        ("tls.crt", places.pki("machine-config-server.crt")),
        ("tls.key", places.pki("machine-config-server.key")),
    ])?;
    let groups = configs.join("groups");
    if groups.exists() {
        for path in files(&groups)? {
            data.insert(format!("group-{}", name(&path)), encoded(&path)?);
        }
    }
    Ok(secret(MACHINE_CONFIG, data))
}

fn csr_approver(places: &Places) -> Result<Value, PayloadError> {
    let data = keys(&[
        ("cluster.json", places.cluster()),
        ("token-key", places.token_key()),
        ("etcd-ca.crt", places.pki("etcd-ca.crt")),
        ("etcd-ca.key", places.pki("etcd-ca.key")),
    ])?;
    Ok(secret(CSR_APPROVER, data))
}

/// Each file's name is `<purpose>.<machine>`, and its text the time at which the token was burnt.
fn burnt(dir: &Path) -> Result<Value, PayloadError> {
    let mut data = Map::new();
    let all = if dir.exists() { files(dir)? } else { Vec::new() };
    for path in all {
        let written = String::from_utf8_lossy(&read(&path)?).trim().to_owned();
        let time = match OffsetDateTime::parse(&written, &Rfc3339) {
            Ok(_) => written,
            // Burnt is burnt, whatever the file says about it.
            Err(_) => modified(&path)?,
        };
        data.insert(name(&path), time.into());
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": BURNT, "namespace": NAMESPACE }, "data": data,
    }))
}

fn keys(files: &[(&str, PathBuf)]) -> Result<Map<String, Value>, PayloadError> {
    files.iter().map(|(key, path)| Ok(((*key).to_owned(), encoded(path)?))).collect()
}

fn secret(name: &str, data: Map<String, Value>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": { "name": name, "namespace": NAMESPACE },
        "data": data,
    })
}

fn encoded(path: &Path) -> Result<Value, PayloadError> {
    Ok(STANDARD.encode(read(path)?).into())
}

fn read(path: &Path) -> Result<Vec<u8>, PayloadError> {
    read_file(path, FILE_LIMIT).map_err(|source| PayloadError::Read { source })
}

fn modified(path: &Path) -> Result<String, PayloadError> {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    let modified = modified.map_err(|source| PayloadError::List { path: path.to_owned(), source })?;
    Ok(rfc3339_millis(modified.into()))
}

/// The files in a directory by name, without those that are being written.
fn files(dir: &Path) -> Result<Vec<PathBuf>, PayloadError> {
    let failed = |source| PayloadError::List { path: dir.to_owned(), source };
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = name(&path);
        if path.is_file() && !name.starts_with('.') {
            found.insert(name, path);
        }
    }
    Ok(found.into_values().collect())
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::{Mode, make_dir, write_file};

    use super::*;

    fn put(path: PathBuf, text: &str) {
        make_dir(path.parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
        write_file(path, text, Mode::PRIVATE_FILE).unwrap();
    }

    fn decoded(object: &Value) -> BTreeMap<String, String> {
        let text = |value: &Value| String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
        object["data"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), text(value))).collect()
    }

    fn bootstrap_machine(places: &Places) {
        for name in ["machine-config-server.crt", "machine-config-server.key", "etcd-ca.crt", "etcd-ca.key", "ca.key"] {
            put(places.pki(name), name);
        }
        put(places.machine_config().join("master.ign"), "master");
        put(places.machine_config().join("worker.ign"), "worker");
        put(places.machine_config().join("groups/gpu.ign"), "gpu");
        put(places.machine_config().join("groups/.gpu.ign.tmp"), "half");
        put(places.cluster(), "{}");
        put(places.token_key(), "00ff");
    }

    #[test]
    fn the_secrets_hold_what_the_twins_need_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert!(own(&places).is_err(), "half a Secret would be worse than none");
        bootstrap_machine(&places);
        let own = own(&places).unwrap();
        let expected = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let served = expected(&[
            ("master.ign", "master"),
            ("worker.ign", "worker"),
            ("group-gpu.ign", "gpu"),
            ("cluster.json", "{}"),
            ("token-key", "00ff"),
            ("tls.crt", "machine-config-server.crt"),
            ("tls.key", "machine-config-server.key"),
        ]);
        assert_eq!((&own[0]["metadata"]["name"], decoded(&own[0])), (&json!("machine-config"), served));
        let signing = expected(&[
            ("cluster.json", "{}"),
            ("token-key", "00ff"),
            ("etcd-ca.crt", "etcd-ca.crt"),
            ("etcd-ca.key", "etcd-ca.key"),
        ]);
        assert_eq!((&own[1]["metadata"]["name"], decoded(&own[1])), (&json!("csr-approver"), signing));
        assert!(own.iter().all(|object| object["metadata"]["namespace"] == "kube-system"));
    }

    #[test]
    fn burnt_tokens_are_copied_with_the_time_that_was_written_down() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(burnt(&dir.path().join("none")).unwrap()["data"], json!({}));
        put(dir.path().join("config.masters-0"), "2026-11-16T03:00:00.000Z\n");
        put(dir.path().join("config.masters-1"), "");
        put(dir.path().join(".config.masters-2"), "half");
        let object = burnt(dir.path()).unwrap();
        assert_eq!(
            (&object["kind"], &object["metadata"]["name"]),
            (&json!("ConfigMap"), &json!("windlass-burnt-tokens"))
        );
        let data = object["data"].as_object().unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["config.masters-0", "config.masters-1"]);
        assert_eq!(data["config.masters-0"], "2026-11-16T03:00:00.000Z");
        assert!(OffsetDateTime::parse(data["config.masters-1"].as_str().unwrap(), &Rfc3339).is_ok());
    }

    #[test]
    fn manifests_are_read_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let object = |name: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        put(dir.path().join("b.yaml"), &object("b"));
        put(dir.path().join("a.yaml"), &format!("{}---\n{}", object("a1"), object("a2")));
        put(dir.path().join("notes.txt"), "not a manifest");
        let names: Vec<_> = manifests(dir.path()).unwrap().iter().map(|o| o["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["a1", "a2", "b"]);
        put(dir.path().join("c.yaml"), "kind: [");
        assert!(matches!(manifests(dir.path()), Err(PayloadError::Understand { .. })));
    }
}
