//! Which flags and configuration fields each component of each version really has. The lists are data,
//! made from the components themselves by `cargo xtask generate flags`, and never written by hand.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::problem::hint;
use crate::version::KubeVersion;

/// A program whose flags the spec decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// The kubelet.
    Kubelet,
    /// kube-proxy.
    Proxy,
    /// etcd.
    Etcd,
}

impl Component {
    /// Every component, in the order of the spec.
    pub const ALL: [Component; 6] = [
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kubelet,
        Component::Proxy,
        Component::Etcd,
    ];

    /// The program's name.
    pub fn program(self) -> &'static str {
        match self {
            Component::ApiServer => "kube-apiserver",
            Component::ControllerManager => "kube-controller-manager",
            Component::Scheduler => "kube-scheduler",
            Component::Kubelet => "kubelet",
            Component::Proxy => "kube-proxy",
            Component::Etcd => "etcd",
        }
    }

    /// The component's key under `spec.components`.
    pub fn key(self) -> &'static str {
        match self {
            Component::ApiServer => "kubeAPIServer",
            Component::ControllerManager => "kubeControllerManager",
            Component::Scheduler => "kubeScheduler",
            Component::Kubelet => "kubelet",
            Component::Proxy => "kubeProxy",
            Component::Etcd => "etcd",
        }
    }

    /// The kind of its configuration file, if it has one.
    pub fn config_kind(self) -> Option<&'static str> {
        match self {
            Component::Kubelet => Some("KubeletConfiguration"),
            Component::Proxy => Some("KubeProxyConfiguration"),
            Component::ApiServer | Component::ControllerManager | Component::Scheduler | Component::Etcd => None,
        }
    }
}

/// A flag as the component itself declares it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Flag {
    /// Its type in the component's own word: `bool`, `int32`, `duration`, `strings` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the component does when the flag is not passed.
    #[serde(default)]
    pub default: String,
    /// Whether the component warns about it.
    #[serde(default)]
    pub deprecated: bool,
    /// What it is for, in the component's words.
    #[serde(default)]
    pub usage: String,
}

type FlagSet = BTreeMap<String, Flag>;

#[derive(Deserialize)]
struct KubernetesData {
    components: BTreeMap<String, ComponentData>,
    configs: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct ComponentData {
    flags: FlagSet,
}

#[derive(Deserialize)]
struct EtcdData {
    flags: FlagSet,
}

static V1_36_3: LazyLock<KubernetesData> = LazyLock::new(|| parse(include_str!("../data/kubernetes-1.36.3.json")));
static V1_35_4: LazyLock<KubernetesData> = LazyLock::new(|| parse(include_str!("../data/kubernetes-1.35.4.json")));
static ETCD: LazyLock<EtcdData> = LazyLock::new(|| parse(include_str!("../data/etcd-3.6.16.json")));

fn parse<T: for<'a> Deserialize<'a>>(text: &str) -> T {
    serde_json::from_str(text).expect("the flag lists are generated and read by the tests")
}

fn kubernetes(version: KubeVersion) -> &'static KubernetesData {
    match version {
        KubeVersion::V1_36_3 => &V1_36_3,
        KubeVersion::V1_35_4 => &V1_35_4,
    }
}

/// Every flag of a component of a version.
pub fn flags(version: KubeVersion, component: Component) -> &'static BTreeMap<String, Flag> {
    match component {
        Component::Etcd => &ETCD.flags,
        Component::ApiServer
        | Component::ControllerManager
        | Component::Scheduler
        | Component::Kubelet
        | Component::Proxy => &kubernetes(version).components[component.program()].flags,
    }
}

/// A flag of a component, or an error that names the nearest one.
pub fn flag(version: KubeVersion, component: Component, name: &str) -> Result<&'static Flag, String> {
    let known = flags(version, component);
    known.get(name).ok_or_else(|| {
        let bare = name.trim_start_matches('-');
        let of = match component {
            Component::Etcd => "etcd 3.6".to_owned(),
            _ => format!("{} {version}", component.program()),
        };
        if bare != name && known.contains_key(bare) {
            return format!("flags are written without dashes: write {bare}");
        }
        format!("{of} has no flag --{bare}{}", hint(bare, known.keys().map(String::as_str)))
    })
}

/// Checks a flag's value against its type. `null` is always right: it removes the flag.
pub fn check_value(flag: &Flag, value: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{value} stands here, {what} is wanted"));
    match (flag.kind.as_str(), value) {
        (_, Value::Null) => Ok(()),
        (_, Value::Object(_)) => wrong("a text, number or boolean"),
        (_, Value::Array(items)) if is_repeatable(&flag.kind) => {
            items.iter().try_for_each(|item| check_scalar("string", item))
        }
        (_, Value::Array(_)) => wrong("one value"),
        (kind, scalar) => check_scalar(kind, scalar),
    }
}

fn is_repeatable(kind: &str) -> bool {
    matches!(kind, "stringArray" | "strings" | "stringSlice" | "namedCertKey" | "mapStringString" | "mapStringBool")
}

fn check_scalar(kind: &str, value: &Value) -> Result<(), String> {
    let text = scalar_text(value);
    // Kubernetes fills `$(NAME)` in when the container starts, so only then is the value known.
    if text.contains("$(") {
        return Ok(());
    }
    let good = match kind {
        "bool" => matches!(text.as_str(), "true" | "false"),
        "int" | "int32" | "int64" => text.parse::<i64>().is_ok(),
        "uint" | "uint32" | "uint64" => text.parse::<u64>().is_ok(),
        "float" | "float32" | "float64" => text.parse::<f64>().is_ok(),
        "duration" => is_duration(&text),
        _ => true,
    };
    if good { Ok(()) } else { Err(format!("{text:?} is not a value of type {kind}")) }
}

/// A scalar as it stands on a command line.
pub fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether Go's `time.ParseDuration` takes the text.
fn is_duration(text: &str) -> bool {
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    if body == "0" {
        return true;
    }
    let mut rest = body;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
        if digits == 0 {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) = ["ns", "us", "µs", "ms", "s", "m", "h"].into_iter().find(|u| rest.starts_with(u)) else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    !body.is_empty()
}

/// Checks a configuration file's fields, each problem with its path below the file's root.
pub fn check_config(version: KubeVersion, component: Component, config: &Value) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    if let Some(schema) = component.config_kind().and_then(|kind| kubernetes(version).configs.get(kind)) {
        walk(schema, config, "", &mut problems);
    }
    problems
}

/// What the component's own schema says of a configuration field, by its dotted path: a mapping with `type`
/// and, where there are any, `default` and `description`.
pub fn config_field(version: KubeVersion, component: Component, path: &str) -> Option<&'static Value> {
    let root = kubernetes(version).configs.get(component.config_kind()?)?;
    let mut schema = root;
    for key in path.split('.') {
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(inner), _) => schema = inner,
            // The rest of the path is a key of the user's, which may have dots of its own.
            (None, Some(value)) => return Some(value),
            (None, None) => return None,
        }
    }
    Some(schema)
}

fn walk(schema: &Value, value: &Value, path: &str, problems: &mut Vec<(String, String)>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    let mut wrong = |what: &str| problems.push((path.to_owned(), format!("{value} stands here, {what} is wanted")));
    match (kind, value) {
        (_, Value::Null) => {}
        ("object", Value::Object(map)) => {
            for (key, child) in map {
                let at = crate::yaml::join(path, key);
                match (schema["properties"].get(key), schema.get("additionalProperties")) {
                    (Some(inner), _) => walk(inner, child, &at, problems),
                    (None, Some(inner)) => walk(inner, child, &at, problems),
                    (None, None) => {
                        let known = schema["properties"].as_object().into_iter().flat_map(|p| p.keys());
                        let hint = hint(key, known.map(String::as_str));
                        problems.push((at, format!("is not a field of the configuration{hint}")));
                    }
                }
            }
        }
        ("object", _) => wrong("a mapping"),
        ("array", Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                walk(&schema["items"], item, &format!("{path}[{i}]"), problems);
            }
        }
        ("array", _) => wrong("a list"),
        ("boolean", Value::Bool(_)) | ("integer" | "number", Value::Number(_)) | ("string", Value::String(_)) => {}
        ("string", Value::Number(_)) if schema["format"] == "quantity" => {}
        ("boolean", _) => wrong("true or false"),
        ("integer" | "number", _) => wrong("a number"),
        ("string", _) => wrong("a text"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lists_hold_every_component_of_every_version() {
        for version in KubeVersion::ALL {
            for component in Component::ALL {
                assert!(flags(version, component).len() > 20, "{component:?} of {version}");
            }
        }
    }

    #[test]
    fn unknown_flags_get_the_nearest_name() {
        let error = |name| flag(KubeVersion::DEFAULT, Component::ApiServer, name).unwrap_err();
        assert!(error("etcd-server").contains("did you mean etcd-servers?"), "{}", error("etcd-server"));
        assert!(error("--etcd-servers").contains("without dashes"));
    }

    #[test]
    fn values_must_fit_their_flag() {
        let flag =
            |kind: &str| Flag { kind: kind.into(), default: String::new(), deprecated: false, usage: String::new() };
        for (kind, good, bad) in [
            ("bool", json!(true), json!("maybe")),
            ("int32", json!(3), json!("three")),
            ("duration", json!("1h30m"), json!("5 minutes")),
            ("string", json!("x"), json!(["x"])),
            ("stringArray", json!(["a", "b"]), json!({"a": 1})),
        ] {
            assert_eq!(check_value(&flag(kind), &good), Ok(()), "{kind}");
            assert!(check_value(&flag(kind), &bad).is_err(), "{kind}");
            assert_eq!(check_value(&flag(kind), &Value::Null), Ok(()), "{kind}");
        }
    }

    #[test]
    fn configuration_fields_are_known_and_typed() {
        let check = |config| check_config(KubeVersion::DEFAULT, Component::Kubelet, &config);
        assert_eq!(check(json!({"authentication": {"anonymous": {"enabled": false}}, "clusterDNS": ["10.0.0.1"]})), []);
        let problems = check(json!({"clusterDns": ["10.0.0.1"], "maxPods": "many", "authentication": {"x": 1}}));
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[0].1.contains("did you mean clusterDNS?"), "{problems:?}");
    }
}
