//! The spec's shape, said once: every field with its type, its default or what decides it, and the
//! document it serves. Reading, `spec explain`, `spec schema` and the reference page all come from it.

mod check;
mod fields;
mod json;
mod markdown;

pub use check::{Checked, check};
pub use fields::ROOT;
pub use json::json_schema;
pub use markdown::markdown;

use crate::flags::Component;
use crate::yaml::Segment;

/// A field of the spec.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Where its value comes from when the user says nothing.
    pub origin: Origin,
    /// The document that it serves.
    pub serves: Document,
    /// What it is for.
    pub summary: &'static str,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A text that a parser accepts; the first part says in words what it is.
    Text(&'static str, fn(&str) -> Result<(), String>),
    /// A whole number within bounds.
    Integer(i64, i64),
    /// `true` or `false`.
    Bool,
    /// One of a few words.
    Words(&'static [&'static str]),
    /// A mapping with these fields.
    Object(&'static [Field]),
    /// A mapping with exactly one of these fields.
    OneOf(&'static [Field]),
    /// A list of values of one kind.
    List(&'static Kind),
    /// Flags of a component, by name without dashes.
    Flags(Component),
    /// Fields of a component's configuration file.
    Config(Component),
}

/// Where a value comes from when the user says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The user must say it.
    Required,
    /// Always this.
    Default(&'static str),
    /// Computed, from what is named.
    Derived(&'static str),
    /// Nothing is set.
    Unset,
}

/// The documents that windlass implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// 000, Launch.
    Launch,
    /// 001, Node bootstrapping flow.
    NodeBootstrap,
    /// 002, Kubernetes Bootstrap.
    KubernetesBootstrap,
    /// 003, Cluster deployment.
    ClusterDeployment,
    /// 004, tectonic-torcx-bootstrap.
    RuntimeAddons,
}

impl Document {
    /// Number and title, as `spec explain` prints them.
    pub fn title(self) -> &'static str {
        match self {
            Document::Launch => "000 Launch",
            Document::NodeBootstrap => "001 Node bootstrapping flow",
            Document::KubernetesBootstrap => "002 Kubernetes Bootstrap",
            Document::ClusterDeployment => "003 Cluster deployment",
            Document::RuntimeAddons => "004 tectonic-torcx-bootstrap",
        }
    }
}

impl Kind {
    /// The type in words.
    pub fn words(&self) -> String {
        match self {
            Kind::Text(what, _) => (*what).to_owned(),
            Kind::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Bool => "true or false".to_owned(),
            Kind::Words(words) => format!("one of {}", words.join(", ")),
            Kind::Object(_) => "a mapping".to_owned(),
            Kind::OneOf(fields) => {
                format!("a mapping with one of {}", fields.iter().map(|f| f.name).collect::<Vec<_>>().join(", "))
            }
            Kind::List(item) => format!("a list, each entry {}", item.words()),
            Kind::Flags(component) => format!("flags of {}, by name without dashes", component.program()),
            Kind::Config(component) => format!("fields of {}", component.config_kind().unwrap_or_default()),
        }
    }

    /// The fields below this one, if it is a mapping of known fields.
    pub fn fields(&self) -> &'static [Field] {
        match self {
            Kind::Object(fields) | Kind::OneOf(fields) => fields,
            Kind::List(item) => item.fields(),
            Kind::Text(..) | Kind::Integer(..) | Kind::Bool | Kind::Words(_) | Kind::Flags(_) | Kind::Config(_) => &[],
        }
    }
}

/// A place in the schema that a path leads to.
#[derive(Debug, Clone)]
pub enum Place {
    /// A field of the schema itself.
    Field(&'static Field),
    /// A flag of a component.
    Flag(Component, String),
    /// A field of a component's configuration, by its dotted path.
    Config(Component, String),
}

/// Finds what a path such as `spec.network.podCIDR` names; the error is the part that names nothing.
pub fn find(path: &[Segment]) -> Result<Place, String> {
    let mut fields: &'static [Field] = ROOT;
    let mut found: Option<&'static Field> = None;
    for (i, segment) in path.iter().enumerate() {
        let Segment::Key(key) = segment else { continue };
        if let Some(field) = found {
            match field.kind {
                Kind::Flags(component) => return Ok(Place::Flag(component, key.clone())),
                Kind::Config(component) => return Ok(Place::Config(component, dotted(&path[i..]))),
                _ => {}
            }
        }
        let next = fields.iter().find(|f| f.name == key).ok_or_else(|| {
            let known = fields.iter().map(|f| f.name);
            format!("there is no {key} here{}", crate::problem::hint(key, known))
        })?;
        fields = next.kind.fields();
        found = Some(next);
    }
    found.map(Place::Field).ok_or_else(|| "name a field, such as spec.network.podCIDR".to_owned())
}

fn dotted(path: &[Segment]) -> String {
    let keys = path.iter().filter_map(|s| match s {
        Segment::Key(key) => Some(key.as_str()),
        Segment::Index(_) => None,
    });
    keys.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::segments;

    #[test]
    fn paths_lead_to_fields_flags_and_configuration() {
        assert!(matches!(find(&segments("spec.network.podCIDR")), Ok(Place::Field(f)) if f.name == "podCIDR"));
        assert!(matches!(find(&segments("spec.instanceGroups[0].count")), Ok(Place::Field(f)) if f.name == "count"));
        let flag = find(&segments("spec.components.etcd.flags.data-dir"));
        assert!(matches!(flag, Ok(Place::Flag(Component::Etcd, name)) if name == "data-dir"));
        let config = find(&segments("spec.components.kubelet.config.authentication.anonymous.enabled"));
        assert!(matches!(config, Ok(Place::Config(Component::Kubelet, p)) if p == "authentication.anonymous.enabled"));
        assert!(find(&segments("spec.netwrk")).unwrap_err().contains("did you mean network?"));
    }

    #[test]
    fn every_field_says_what_it_is_for() {
        fn walk(fields: &[Field]) -> usize {
            fields
                .iter()
                .map(|f| {
                    assert!(f.summary.len() > 10, "{} has no summary", f.name);
                    1 + walk(f.kind.fields())
                })
                .sum()
        }
        assert!(walk(ROOT) > 80);
    }
}
