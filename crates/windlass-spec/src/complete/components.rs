//! Flags and configuration: what the table decides, with what the user wrote laid over it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::table::{Target, decided};
use super::{CompleteCluster, CompleteMetadata, Components, Flags, FlagsAndConfig, FlagsOnly};
use crate::file::ComponentFile;
use crate::flags::{self, Component};
use crate::problem::Problem;

/// Who makes control groups for the kubelet: itself, as the configuration of the container runtime on every machine has it.
pub const CGROUP_DRIVER: &str = "cgroupfs";

/// Decides every component. `spec` is whole but for its components.
pub(super) fn decide(
    metadata: &CompleteMetadata,
    spec: &CompleteCluster,
    written: &BTreeMap<String, ComponentFile>,
    problems: &mut Vec<Problem>,
) -> Components {
    let nothing = ComponentFile::default();
    let mut flags_of = |component: Component| {
        let written = written.get(component.key()).unwrap_or(&nothing);
        check_flags(spec, component, &written.flags, problems);
        let mut flags: Flags = decided(metadata, spec, component, Target::Flag)
            .into_iter()
            .map(|(name, d)| (name.to_owned(), d.value))
            .collect();
        flags.extend(written.flags.clone());
        flags
    };
    let api_server = flags_of(Component::ApiServer);
    let controller_manager = flags_of(Component::ControllerManager);
    let scheduler = flags_of(Component::Scheduler);
    let kubelet = flags_of(Component::Kubelet);
    let proxy = flags_of(Component::Proxy);
    let etcd = flags_of(Component::Etcd);
    let mut config_of = |component: Component| {
        let written = written.get(component.key()).unwrap_or(&nothing);
        check_config(spec, component, &written.config, problems);
        let mut config = Map::new();
        for (path, d) in decided(metadata, spec, component, Target::Config) {
            set(&mut config, path, d.value);
        }
        merge(&mut config, &written.config);
        sorted(config)
    };
    Components {
        kube_api_server: FlagsOnly { flags: api_server },
        kube_controller_manager: FlagsOnly { flags: controller_manager },
        kube_scheduler: FlagsOnly { flags: scheduler },
        kubelet: FlagsAndConfig { flags: kubelet, config: config_of(Component::Kubelet) },
        kube_proxy: FlagsAndConfig { flags: proxy, config: config_of(Component::Proxy) },
        etcd: FlagsOnly { flags: etcd },
    }
}

fn check_flags(spec: &CompleteCluster, component: Component, written: &Flags, problems: &mut Vec<Problem>) {
    for (name, value) in written {
        let path = crate::yaml::join(&format!("spec.components.{}.flags", component.key()), name);
        let checked = flags::flag(spec.kubernetes_version, component, name).and_then(|f| flags::check_value(f, value));
        let foreign = match (component, name.as_str()) {
            (Component::Kubelet, "cgroup-driver") => foreign_driver(value),
            _ => None,
        };
        problems.extend(checked.err().or(foreign).map(|message| Problem::at(path, message)));
    }
}

fn check_config(
    spec: &CompleteCluster,
    component: Component,
    written: &Map<String, Value>,
    problems: &mut Vec<Problem>,
) {
    let root = format!("spec.components.{}.config", component.key());
    let value = Value::Object(written.clone());
    for (path, message) in flags::check_config(spec.kubernetes_version, component, &value) {
        problems.push(Problem::at(format!("{root}.{path}"), message));
    }
    // What is no text is a problem already.
    let driver = written.get("cgroupDriver").filter(|word| component == Component::Kubelet && word.is_string());
    let driver = driver.and_then(foreign_driver);
    problems.extend(driver.map(|message| Problem::at(format!("{root}.cgroupDriver"), message)));
}

/// What is wrong with a kubelet's cgroup driver; nothing if it is the runtime's. One that is removed is upstream's default,
/// which is the same.
pub fn foreign_driver(written: &Value) -> Option<String> {
    if written.is_null() || written == CGROUP_DRIVER {
        return None;
    }
    Some(format!(
        "{written} is not the cgroup driver of the container runtime, which windlass sets up for {CGROUP_DRIVER}: \
         use {CGROUP_DRIVER}, or leave it out"
    ))
}

/// Sets a field by its dotted path, making the mappings on the way.
fn set(config: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            config.insert(path.to_owned(), value);
        }
        Some((key, rest)) => {
            let inner = config.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// Lays `over` on `config`: mappings are merged, everything else is replaced, `null` stays as a mark.
fn merge(config: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (config.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(over)) => merge(inner, over),
            _ => {
                config.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The same mapping with its keys in order, so that equal configurations are equal texts.
fn sorted(map: Map<String, Value>) -> Map<String, Value> {
    let ordered: BTreeMap<String, Value> = map.into_iter().map(|(k, v)| (k, sorted_value(v))).collect();
    ordered.into_iter().collect()
}

fn sorted_value(value: Value) -> Value {
    match value {
        Value::Object(map) => sorted(map).into(),
        Value::Array(items) => items.into_iter().map(sorted_value).collect::<Vec<_>>().into(),
        other => other,
    }
}

/// A configuration as it is written to a file: without the marks of what was removed.
pub fn without_removed(config: &Map<String, Value>) -> Map<String, Value> {
    config
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| match value {
            Value::Object(inner) => (key.clone(), without_removed(inner).into()),
            other => (key.clone(), other.clone()),
        })
        .collect()
}

/// Flags as a command line takes them, in order, without those that were removed.
pub fn arguments(flags: &Flags) -> Vec<String> {
    let each = |(name, value): (&String, &Value)| match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(|v| format!("--{name}={}", flags::scalar_text(v))).collect(),
        other => vec![format!("--{name}={}", flags::scalar_text(other))],
    };
    flags.iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn removed_and_repeated_flags_become_the_right_arguments() {
        let flags: Flags =
            [("a".to_owned(), json!(null)), ("b".to_owned(), json!(["x", 2])), ("c".to_owned(), json!(false))].into();
        assert_eq!(arguments(&flags), ["--b=x", "--b=2", "--c=false"]);
    }

    #[test]
    fn a_written_field_goes_over_a_decided_one_and_null_stays_a_mark() {
        let mut config = Map::new();
        set(&mut config, "a.b", json!(1));
        set(&mut config, "a.c", json!(2));
        merge(&mut config, json!({"a": {"b": null, "d": 3}}).as_object().unwrap());
        assert_eq!(Value::from(config.clone()), json!({"a": {"b": null, "c": 2, "d": 3}}));
        assert_eq!(Value::from(without_removed(&config)), json!({"a": {"c": 2, "d": 3}}));
    }
}
