//! Checking a document against the schema: every problem of shape at once, and what is left without
//! the bad parts, so that the deciding half can report its own problems in the same run.

use serde_json::{Map, Value as Json};

use super::{Field, Kind, Origin, ROOT};
use crate::problem::{Problem, hint};
use crate::yaml::{Entry, Node, Value, join};

/// A document's good parts and all problems of its shape.
#[derive(Debug)]
pub struct Checked {
    /// The document without the parts that are named in `problems`.
    pub good: Json,
    /// What is wrong, with lines.
    pub problems: Vec<Problem>,
}

/// Checks a document against the whole schema.
pub fn check(node: &Node) -> Checked {
    let mut problems = Vec::new();
    let good = object(node, ROOT, "", &mut problems).unwrap_or(Json::Object(Map::new()));
    Checked { good, problems }
}

fn problem(node: &Node, path: &str, message: impl Into<String>) -> Problem {
    Problem { line: node.line, path: path.to_owned(), message: message.into() }
}

fn value(node: &Node, kind: &Kind, path: &str, problems: &mut Vec<Problem>) -> Option<Json> {
    let result = match kind {
        Kind::Text(what, parse) => text(node, what, *parse),
        Kind::Integer(min, max) => integer(node, *min, *max),
        Kind::Bool => boolean(node),
        Kind::Words(words) => word(node, words),
        Kind::Object(fields) => return object(node, fields, path, problems),
        Kind::OneOf(fields) => return one_of(node, fields, path, problems),
        Kind::List(item) => return list(node, item, path, problems),
        Kind::Flags(_) => return flags(node, path, problems),
        Kind::Config(_) => mapping(node).map(|_| node.to_json()),
    };
    result.map_err(|message| problems.push(problem(node, path, message))).ok()
}

fn text(node: &Node, what: &str, parse: fn(&str) -> Result<(), String>) -> Result<Json, String> {
    let text = match &node.value {
        Value::Text(text) | Value::Number(_, text) => text,
        other => return Err(format!("{} stands here, {what} is wanted", other.kind())),
    };
    parse(text).map(|()| Json::from(text.as_str()))
}

fn integer(node: &Node, min: i64, max: i64) -> Result<Json, String> {
    match &node.value {
        Value::Number(n, text) => match n.as_i64() {
            Some(i) if (min..=max).contains(&i) => Ok(i.into()),
            Some(_) | None => Err(format!("{text} is not a whole number from {min} to {max}")),
        },
        other => Err(format!("{} stands here, a whole number from {min} to {max} is wanted", other.kind())),
    }
}

fn boolean(node: &Node) -> Result<Json, String> {
    match &node.value {
        Value::Bool(b) => Ok((*b).into()),
        other => Err(format!("{} stands here, true or false is wanted", other.kind())),
    }
}

fn word(node: &Node, words: &[&str]) -> Result<Json, String> {
    let list = words.join(", ");
    match &node.value {
        Value::Text(text) if words.contains(&text.as_str()) => Ok(text.as_str().into()),
        Value::Text(text) => Err(format!("{text:?} is not one of {list}{}", hint(text, words.iter().copied()))),
        // A plain `on` or `off` is a text in YAML 1.2, but `true` is what a user of YAML 1.1 may mean.
        other => Err(format!("{} stands here, one of {list} is wanted", other.kind())),
    }
}

fn mapping(node: &Node) -> Result<&[Entry], String> {
    match &node.value {
        Value::Map(entries) => Ok(entries),
        Value::Null => Ok(&[]),
        other => Err(format!("{} stands here, a mapping is wanted", other.kind())),
    }
}

fn object(node: &Node, fields: &[Field], path: &str, problems: &mut Vec<Problem>) -> Option<Json> {
    let entries = mapping(node).map_err(|m| problems.push(problem(node, path, m))).ok()?;
    let mut good = Map::new();
    for entry in entries {
        let at = join(path, &entry.key);
        let Some(field) = fields.iter().find(|f| f.name == entry.key) else {
            problems.push(unknown(entry, &at, fields));
            continue;
        };
        if entry.node.value != Value::Null
            && let Some(value) = value(&entry.node, &field.kind, &at, problems)
        {
            good.insert(entry.key.clone(), value);
        }
    }
    for field in fields.iter().filter(|f| f.origin == Origin::Required) {
        if entries.iter().all(|e| e.key != field.name || e.node.value == Value::Null) {
            let message = format!("is missing: {} is wanted", field.kind.words());
            problems.push(problem(node, &join(path, field.name), message));
        }
    }
    Some(good.into())
}

fn unknown(entry: &Entry, path: &str, fields: &[Field]) -> Problem {
    let hint = hint(&entry.key, fields.iter().map(|f| f.name));
    let known = if hint.is_empty() {
        format!("; known here: {}", fields.iter().map(|f| f.name).collect::<Vec<_>>().join(", "))
    } else {
        hint
    };
    Problem { line: entry.line, path: path.to_owned(), message: format!("is not a field of the spec{known}") }
}

fn one_of(node: &Node, fields: &[Field], path: &str, problems: &mut Vec<Problem>) -> Option<Json> {
    let entries = mapping(node).map_err(|m| problems.push(problem(node, path, m))).ok()?;
    let names = || fields.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    let mut good = Map::new();
    for entry in entries {
        let at = join(path, &entry.key);
        match fields.iter().find(|f| f.name == entry.key) {
            None => problems.push(unknown(entry, &at, fields)),
            Some(field) => {
                if let Some(value) = value(&entry.node, &field.kind, &at, problems) {
                    good.insert(entry.key.clone(), value);
                }
            }
        }
    }
    if entries.len() != 1 {
        problems.push(problem(node, path, format!("has {} entries: keep one of {}", entries.len(), names())));
        return None;
    }
    (good.len() == 1).then(|| good.into())
}

fn list(node: &Node, item: &Kind, path: &str, problems: &mut Vec<Problem>) -> Option<Json> {
    let Value::List(items) = &node.value else {
        problems.push(problem(node, path, format!("{} stands here, a list is wanted", node.value.kind())));
        return None;
    };
    let mut good = Vec::new();
    let before = problems.len();
    for (i, child) in items.iter().enumerate() {
        good.extend(value(child, item, &format!("{path}[{i}]"), problems));
    }
    // A list with a hole would shift the places of what follows, so a bad entry takes the list with it.
    let whole = good.len() == items.len() && (item.fields().is_empty() || problems.len() == before);
    whole.then(|| good.into())
}

fn flags(node: &Node, path: &str, problems: &mut Vec<Problem>) -> Option<Json> {
    let entries = mapping(node).map_err(|m| problems.push(problem(node, path, m))).ok()?;
    let mut good = Map::new();
    for entry in entries {
        let at = join(path, &entry.key);
        match &entry.node.value {
            Value::Map(_) => {
                problems.push(problem(&entry.node, &at, "a mapping stands here, a flag's value is wanted"))
            }
            Value::List(items)
                if items.iter().any(|i| matches!(i.value, Value::List(_) | Value::Map(_) | Value::Null)) =>
            {
                problems.push(problem(&entry.node, &at, "a flag's list holds texts and numbers only"));
            }
            Value::Null | Value::Bool(_) | Value::Number(..) | Value::Text(_) | Value::List(_) => {
                good.insert(entry.key.clone(), entry.node.to_json());
            }
        }
    }
    Some(good.into())
}
