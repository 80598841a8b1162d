//! What the manifests promise: the API of their version accepts every object, texts of a spec stay texts, and the
//! rules for static pods hold, in every kind of cluster.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

mod addons;
mod api;
mod bounds;
mod files;
mod flags;
mod hostile;
mod pods;
mod twins;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_assets::Manifests;
use windlass_assets::manifest::{Group, Object, objects};
use windlass_spec::complete::components::arguments;
use windlass_spec::file::{NetworkPlugin, Topology, read_and_complete};
use windlass_spec::{CompleteSpec, KubeVersion};

/// The API of a version: a validator for each kind that windlass writes.
struct Api {
    kinds: BTreeMap<(String, String), Validator>,
}

impl Api {
    fn of(version: KubeVersion) -> Api {
        let text = match version {
            KubeVersion::V1_36_3 => include_str!("../../data/openapi-1.36.3.json"),
            KubeVersion::V1_35_4 => include_str!("../../data/openapi-1.35.4.json"),
        };
        let schema: Value = serde_json::from_str(text).unwrap();
        let mut kinds = BTreeMap::new();
        for (name, definition) in schema["definitions"].as_object().unwrap() {
            for mark in definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
                let (group, version) = (mark["group"].as_str().unwrap(), mark["version"].as_str().unwrap());
                let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
                let root = json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": format!("#/definitions/{name}"), "definitions": schema["definitions"]});
                let validator = jsonschema::validator_for(&root).unwrap();
                kinds.insert((api_version, mark["kind"].as_str().unwrap().to_owned()), validator);
            }
        }
        Api { kinds }
    }

    /// The same API once a definition has been applied to it.
    fn with(mut self, definition: &Value) -> Api {
        let names = &definition["spec"];
        for version in names["versions"].as_array().unwrap() {
            let mut schema = version["schema"]["openAPIV3Schema"].clone();
            let properties = schema["properties"].as_object_mut().unwrap();
            for field in ["apiVersion", "kind"] {
                properties.insert(field.to_owned(), json!({"type": "string"}));
            }
            properties.insert("metadata".to_owned(), json!({"type": "object"}));
            close(&mut schema);
            let api_version = format!("{}/{}", names["group"].as_str().unwrap(), version["name"].as_str().unwrap());
            let kind = names["names"]["kind"].as_str().unwrap().to_owned();
            self.kinds.insert((api_version, kind), jsonschema::validator_for(&schema).unwrap());
        }
        self
    }

    fn problems(&self, object: &Object) -> Vec<String> {
        let Some(validator) = self.kinds.get(&(object.api_version.clone(), object.kind.clone())) else {
            return vec![format!("{} {} is not a kind of the API", object.api_version, object.kind)];
        };
        validator.iter_errors(&object.body).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }
}

/// Refuses what the API would silently drop.
fn close(schema: &mut Value) {
    if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        fields.iter_mut().filter(|(name, _)| *name != "metadata").for_each(|(_, field)| close(field));
        schema["additionalProperties"] = false.into();
    }
    if let Some(items) = schema.get_mut("items") {
        close(items);
    }
}

fn spec(text: &str) -> CompleteSpec {
    read_and_complete(text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}")).1
}

fn plain(extra: &str) -> CompleteSpec {
    spec(&format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  domain: demo.test\n{extra}"
    ))
}

/// A cluster with its manifests and what is in them.
struct Cluster {
    spec: CompleteSpec,
    manifests: Manifests,
    objects: Vec<(String, Object)>,
}

impl Cluster {
    fn of(spec: CompleteSpec) -> Cluster {
        let manifests = Manifests::make(&spec).unwrap();
        let objects = all_objects(&manifests);
        Cluster { spec, manifests, objects }
    }
}

/// A cluster that says nothing about itself.
static DEFAULT: LazyLock<Cluster> = LazyLock::new(|| Cluster::of(plain("")));

/// Every kind of cluster: versions × topologies × plugins × one and three masters.
static CLUSTERS: LazyLock<Vec<Cluster>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for version in KubeVersion::ALL {
        for topology in Topology::WORDS {
            for plugin in NetworkPlugin::WORDS {
                for masters in [1, 3] {
                    list.push(Cluster::of(plain(&format!(
                        "  kubernetesVersion: {version}\n  topology: {topology}\n  network:\n    plugin: {plugin}\n  masters: {masters}\n  workers: 2\n"
                    ))));
                }
            }
        }
    }
    assert_eq!(list.len(), 16);
    list
});

fn describe(cluster: &Cluster) -> String {
    let s = &cluster.spec.spec;
    format!("{} {} {}", s.kubernetes_version, s.topology, s.network.plugin)
}

fn all_objects(manifests: &Manifests) -> Vec<(String, Object)> {
    let read = |(path, text): (&str, &str)| {
        let list = objects(path, text).unwrap_or_else(|e| panic!("{path}: {e:?}"));
        assert!(!list.is_empty(), "{path} holds no object");
        list.into_iter().map(|o| (path.to_owned(), o)).collect::<Vec<_>>()
    };
    manifests.files().flat_map(read).collect()
}

fn one<'a>(objects: &'a [(String, Object)], kind: &str, name: &str) -> &'a Value {
    &only(objects, kind, name).body
}

fn only<'a>(objects: &'a [(String, Object)], kind: &str, name: &str) -> &'a Object {
    let found: Vec<_> = objects.iter().filter(|(_, o)| o.kind == kind && o.name == name).collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    &found[0].1
}

/// The pod that an object is or makes.
fn pod_of(object: &Object) -> Option<&Value> {
    match object.kind.as_str() {
        "Pod" => object.body.get("spec"),
        "DaemonSet" | "Deployment" => object.body.pointer("/spec/template/spec"),
        _ => None,
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().flat_map(|key| pod[key].as_array().into_iter().flatten())
}

/// Pods that run, or may be copied, as static ones.
fn copied(objects: &[(String, Object)]) -> impl Iterator<Item = (&str, &Object)> {
    let mark = "/spec/template/metadata/annotations/windlass.dev~1checkpoint";
    let wanted = move |o: &Object| o.kind == "Pod" || o.body.pointer(mark).is_some_and(|mark| mark == "true");
    objects.iter().filter(move |(_, o)| wanted(o)).map(|(path, o)| (path.as_str(), o))
}
