//! `spec explain`: what a field is, what value it has, and where that value came from. Provenance is
//! not stored in the complete spec: it follows from what the user wrote and from the schema.

use serde::Serialize;
use serde_json::Value;

use crate::complete::table::{Target, decided};
use crate::complete::{CompleteSpec, Decided};
use crate::flags::{self, Component};
use crate::schema::{Document, Field, Kind, Origin, Place, find};
use crate::yaml::{Node, Segment, segments};

/// What `spec explain` answers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The path that was asked for.
    pub path: String,
    /// What the field is for.
    pub summary: String,
    /// Its type in words.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is when nobody writes it.
    pub default: String,
    /// The value that this spec gives it; nothing where it is not set.
    pub value: Option<Value>,
    /// Where that value came from.
    pub source: Source,
    /// The document it serves.
    pub document: String,
    /// The fields below it, if it is a mapping.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "from", content = "what")]
pub enum Source {
    /// The user wrote it, on this line.
    User(String),
    /// windlass' default.
    Default(String),
    /// Derived from other values.
    Derived(String),
    /// Nobody set it; for a flag, the component's own default holds.
    Unset(String),
}

impl Source {
    /// The source in words.
    pub fn words(&self) -> String {
        match self {
            Source::User(what) => format!("user: {what}"),
            Source::Default(what) => format!("default: {what}"),
            Source::Derived(what) => format!("derived from {what}"),
            Source::Unset(what) => format!("not set: {what}"),
        }
    }
}

/// Explains the field at a path of a spec, or says which part of the path names nothing.
pub fn explain(written: &Node, spec: &CompleteSpec, path: &str) -> Result<Explanation, String> {
    let segments = segments(path);
    let place = find(&segments)?;
    let value = lookup(&spec.to_json(), &segments);
    let user = written.at(path).map(|_| Source::User(format!("line {} of the spec", written.line_of(path))));
    match place {
        Place::Field(field) => Ok(field_explanation(field, path, value, user)),
        Place::Flag(component, name) => flag_explanation(spec, component, &name, path, value, user),
        Place::Config(component, below) => config_explanation(spec, component, &below, path, value, user),
    }
}

fn lookup(value: &Value, path: &[Segment]) -> Option<Value> {
    let found = path.iter().try_fold(value, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(i) => value.get(i),
    });
    found.cloned()
}

fn field_explanation(field: &Field, path: &str, value: Option<Value>, user: Option<Source>) -> Explanation {
    let (default, source) = match field.origin {
        Origin::Required => ("none, it must be written".to_owned(), Source::Unset("it must be written".to_owned())),
        Origin::Default(value) => (value.to_owned(), Source::Default(value.to_owned())),
        Origin::Derived(from) => (format!("derived from {from}"), Source::Derived(from.to_owned())),
        Origin::Unset => ("not set".to_owned(), Source::Unset("nothing is written".to_owned())),
    };
    let names = field.kind.fields().iter().map(|f| f.name.to_owned()).collect();
    Explanation {
        path: path.to_owned(),
        summary: field.summary.to_owned(),
        kind: field.kind.words(),
        default,
        // A mapping or list is mixed: its parts say where each came from.
        source: user.unwrap_or(source),
        value,
        document: field.serves.title().to_owned(),
        fields: if matches!(field.kind, Kind::List(_)) { Vec::new() } else { names },
    }
}

fn decided_source(decided: Option<&Decided>, otherwise: &str) -> Source {
    match decided {
        Some(d) if d.from.is_empty() => Source::Default(d.why.to_owned()),
        Some(d) => Source::Derived(format!("{}: {}", d.from.join(", "), d.why)),
        None => Source::Unset(otherwise.to_owned()),
    }
}

fn decided_default(decided: Option<&Decided>, upstream: &str) -> String {
    decided.map_or_else(|| upstream.to_owned(), |d| flags::scalar_text(&d.value))
}

fn flag_explanation(
    spec: &CompleteSpec,
    component: Component,
    name: &str,
    path: &str,
    value: Option<Value>,
    user: Option<Source>,
) -> Result<Explanation, String> {
    let flag = flags::flag(spec.spec.kubernetes_version, component, name)?;
    let table = decided(&spec.metadata, &spec.spec, component, Target::Flag);
    let row = table.get(name);
    let upstream = format!("{}'s own default, {:?}", component.program(), flag.default);
    Ok(Explanation {
        path: path.to_owned(),
        summary: if flag.usage.is_empty() { format!("A flag of {}.", component.program()) } else { flag.usage.clone() },
        kind: flag.kind.clone(),
        default: decided_default(row, &upstream),
        value,
        source: user.unwrap_or_else(|| decided_source(row, &upstream)),
        document: Document::KubernetesBootstrap.title().to_owned(),
        fields: Vec::new(),
    })
}

fn config_explanation(
    spec: &CompleteSpec,
    component: Component,
    below: &str,
    path: &str,
    value: Option<Value>,
    user: Option<Source>,
) -> Result<Explanation, String> {
    let table = decided(&spec.metadata, &spec.spec, component, Target::Config);
    let row = table.get(below).or_else(|| {
        // A field inside a decided mapping, such as one of evictionHard's, was decided with it.
        table.iter().find(|(name, _)| below.starts_with(&format!("{name}."))).map(|(_, d)| d)
    });
    let kind = component.config_kind().unwrap_or_default();
    let field = flags::config_field(spec.spec.kubernetes_version, component, below)
        .ok_or_else(|| format!("{kind} of {} has no field {below}", spec.spec.kubernetes_version))?;
    let upstream = match field.get("default") {
        Some(default) => format!("{kind}'s own default, {default}"),
        None => format!("{kind}'s own default"),
    };
    let summary = field["description"].as_str().map_or_else(|| format!("A field of {kind}."), str::to_owned);
    Ok(Explanation {
        path: path.to_owned(),
        summary,
        kind: field["type"].as_str().unwrap_or("a text or a number").to_owned(),
        default: decided_default(table.get(below), &upstream),
        source: user.unwrap_or_else(|| decided_source(row, &upstream)),
        value,
        document: Document::KubernetesBootstrap.title().to_owned(),
        fields: Vec::new(),
    })
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.path)?;
        writeln!(f, "  {}", self.summary)?;
        writeln!(f, "  type:     {}", self.kind)?;
        writeln!(f, "  default:  {}", self.default)?;
        if let Some(value) = &self.value {
            match value {
                Value::Object(_) | Value::Array(_) => writeln!(f, "  value:    (see below, or -o json)")?,
                other => writeln!(f, "  value:    {}", flags::scalar_text(other))?,
            }
        }
        writeln!(f, "  source:   {}", self.source.words())?;
        writeln!(f, "  document: {}", self.document)?;
        if !self.fields.is_empty() {
            writeln!(f, "  fields:   {}", self.fields.join(", "))?;
        }
        if let Some(value @ (Value::Object(_) | Value::Array(_))) = &self.value {
            let text = crate::yaml::emit(value);
            text.lines().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}
