//! The generator of `crates/windlass-assets/data/openapi-<version>.json`: what the API accepts of the kinds that
//! windlass writes, as JSON Schema, taken from `api/openapi-spec` of the pinned Kubernetes module.
//!
//! Upstream's document is Swagger 2.0 with 4 MB of descriptions, lists and patches, and it accepts unknown fields.
//! The trimmed one has the reachable definitions only and refuses what the API would silently drop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_steps::host::{self, HostError, cmd};

/// Group, version and kind of every object that windlass writes; the core group has no name.
const KINDS: [(&str, &str, &str); 15] = [
    ("", "v1", "ConfigMap"),
    ("", "v1", "Namespace"),
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "ServiceAccount"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("apps", "v1", "DaemonSet"),
    ("apps", "v1", "Deployment"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
];

const KIND_MARK: &str = "x-kubernetes-group-version-kind";
const REFERENCE: &str = "#/definitions/";
/// The specification is 4 MB today.
const LARGEST_SPECIFICATION: u64 = 64 << 20;

/// Why the schema of a version could not be made.
#[derive(Debug, Error)]
pub enum OpenApiError {
    /// The Kubernetes module could not be had, or its specification not be read.
    #[error("cannot fetch the API specification of Kubernetes {version}")]
    FetchSpecification {
        /// The version without its `v`.
        version: String,
        /// What the host said.
        source: HostError,
    },
    /// `go` or the specification did not say what they always say.
    #[error("cannot understand {what}")]
    ParseSpecification {
        /// What was being read.
        what: String,
        /// Where it is wrong.
        source: serde_json::Error,
    },
}

/// The text of `openapi-<version>.json`, made from the module that `artifacts/` pins.
pub fn generate(version: &str) -> Result<String, OpenApiError> {
    let path = module_dir(version)?.join("api/openapi-spec/swagger.json");
    let fetch = |source| OpenApiError::FetchSpecification { version: version.to_owned(), source };
    let bytes = host::read_file(&path, LARGEST_SPECIFICATION).map_err(fetch)?;
    let parse = |source| OpenApiError::ParseSpecification { what: path.display().to_string(), source };
    let swagger: Value = serde_json::from_slice(&bytes).map_err(parse)?;
    Ok(text(&trim(&swagger)))
}

/// Where `go` keeps the module. It runs where the version's `go.sum` lies, so that the pinned digest is checked.
fn module_dir(version: &str) -> Result<PathBuf, OpenApiError> {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../artifacts/kubernetes-{minor}"));
    let module = format!("k8s.io/kubernetes@v{version}");
    let download = cmd("go").args(["mod", "download", "-json", &module]).current_dir(pins);
    let fetch = |source| OpenApiError::FetchSpecification { version: version.to_owned(), source };
    let answer = host::run_blocking(download).map_err(fetch)?;
    let parse = |source| OpenApiError::ParseSpecification { what: answer.command.clone(), source };
    let answer: Download = serde_json::from_slice(&answer.stdout).map_err(parse)?;
    Ok(answer.dir)
}

#[derive(serde::Deserialize)]
struct Download {
    #[serde(rename = "Dir")]
    dir: PathBuf,
}

/// The definitions reachable from [`KINDS`], as a JSON Schema that refuses unknown fields. The definition of a kind
/// keeps its `x-kubernetes-group-version-kind`, so that a reader can find it.
pub fn trim(swagger: &Value) -> Value {
    let no_definitions = Map::new();
    let all = swagger["definitions"].as_object().unwrap_or(&no_definitions);
    let mut wanted: Vec<&String> = all.iter().filter(|(_, d)| is_written(d)).map(|(name, _)| name).collect();
    let mut kept = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if kept.contains_key(name) {
            continue;
        }
        let Some(definition) = all.get(name) else { continue };
        let translated = special(name).unwrap_or_else(|| translate(definition));
        wanted.extend(references(&translated).filter_map(|r| all.get_key_value(r).map(|(name, _)| name)));
        kept.insert(name, translated);
    }
    json!({ "definitions": kept })
}

/// A trimmed schema as a file: one definition a line, so that the difference between two versions can be read.
pub fn text(schema: &Value) -> String {
    let definitions = schema["definitions"].as_object().into_iter().flatten();
    let lines: Vec<String> = definitions.map(|(name, d)| format!("{}:{d}", Value::from(name.as_str()))).collect();
    format!("{{\"definitions\":{{\n{}\n}}}}\n", lines.join(",\n"))
}

fn is_written(definition: &Value) -> bool {
    let marks = definition[KIND_MARK].as_array().into_iter().flatten();
    let mut names = marks.map(|m| (m["group"].as_str(), m["version"].as_str(), m["kind"].as_str()));
    names.any(|n| KINDS.iter().any(|(group, version, kind)| n == (Some(group), Some(version), Some(kind))))
}

/// The types whose Go form reads more than their Swagger form says, or less.
fn special(name: &str) -> Option<Value> {
    let quantity = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";
    let time = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$";
    match name.rsplit_once('.')?.1 {
        "IntOrString" => Some(json!({"anyOf": [bounded_integer(), {"type": "string"}]})),
        "Quantity" => Some(json!({"anyOf": [{"type": "number"}, {"type": "string", "pattern": quantity}]})),
        "Time" | "MicroTime" => Some(json!({"type": ["string", "null"], "pattern": time})),
        // Any object of another type stands here; their own definitions are not ours to check.
        "RawExtension" | "FieldsV1" => Some(json!({"type": "object"})),
        _ => None,
    }
}

fn bounded_integer() -> Value {
    json!({"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX})
}

/// A Swagger schema as JSON Schema: without what only people and patches need, and closed.
fn translate(schema: &Value) -> Value {
    let Some(schema) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("description" | "default" | "format", _) => {}
            ("properties", Value::Object(fields)) => {
                let fields: Map<String, Value> = fields.iter().map(|(k, v)| (k.clone(), translate(v))).collect();
                out.insert(key.clone(), fields.into());
            }
            ("items" | "additionalProperties", inner) => {
                out.insert(key.clone(), translate(inner));
            }
            (KIND_MARK, _) => {
                out.insert(key.clone(), value.clone());
            }
            (other, _) if other.starts_with("x-kubernetes-") => {}
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    add_format(&mut out, schema.get("format").and_then(Value::as_str));
    if out.contains_key("properties") {
        out.entry("additionalProperties").or_insert(false.into());
    }
    out.into()
}

/// Validators ignore the formats of Swagger, so those that bound a value become keywords.
fn add_format(out: &mut Map<String, Value>, format: Option<&str>) {
    match format {
        Some("int32") => {
            out.insert("minimum".into(), i32::MIN.into());
            out.insert("maximum".into(), i32::MAX.into());
        }
        Some("byte") => {
            out.insert("pattern".into(), "^[A-Za-z0-9+/]*={0,2}$".into());
        }
        // JSON's own integers and numbers, or types of `special`.
        Some(_) | None => {}
    }
}

/// The names of the definitions that a schema speaks of.
fn references(schema: &Value) -> impl Iterator<Item = &str> {
    let mut found = Vec::new();
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE)));
                rest.extend(map.values());
            }
            Value::Array(items) => rest.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swagger() -> Value {
        json!({
            "definitions": {
                "io.k8s.api.core.v1.ConfigMap": {
                    "description": "long",
                    "type": "object",
                    "properties": {
                        "binaryData": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
                        "description": {"type": "string", "description": "a field of this name stays"},
                        "limit": {"$ref": "#/definitions/io.k8s.Quantity"},
                        "port": {"type": "integer", "format": "int32"},
                    },
                    "x-kubernetes-group-version-kind": [{"group": "", "kind": "ConfigMap", "version": "v1"}],
                },
                "io.k8s.Quantity": {"type": "string"},
                "io.k8s.api.core.v1.Unreached": {"type": "object"},
                "io.k8s.api.core.v1.ConfigMapOfAnotherGroup": {
                    "type": "object",
                    "x-kubernetes-group-version-kind": [{"group": "other", "kind": "ConfigMap", "version": "v1"}],
                },
            }
        })
    }

    #[test]
    fn only_what_is_reached_from_our_kinds_is_kept() {
        let trimmed = trim(&swagger());
        let kept: Vec<&String> = trimmed["definitions"].as_object().unwrap().keys().collect();
        assert_eq!(kept, ["io.k8s.Quantity", "io.k8s.api.core.v1.ConfigMap"]);
    }

    #[test]
    fn objects_are_closed_and_formats_become_keywords() {
        let trimmed = trim(&swagger());
        let expected = json!({
            "type": "object",
            "properties": {
                "binaryData": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}},
                "description": {"type": "string"},
                "limit": {"$ref": "#/definitions/io.k8s.Quantity"},
                "port": {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX},
            },
            "x-kubernetes-group-version-kind": [{"group": "", "kind": "ConfigMap", "version": "v1"}],
            "additionalProperties": false,
        });
        assert_eq!(trimmed["definitions"]["io.k8s.api.core.v1.ConfigMap"], expected);
    }

    #[test]
    fn the_file_is_json_with_a_definition_a_line() {
        let trimmed = trim(&swagger());
        let text = text(&trimmed);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), trimmed);
        assert_eq!(text.lines().count(), 4);
    }
}
