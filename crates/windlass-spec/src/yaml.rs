//! YAML as it enters and leaves: a reader that keeps the line of every value and stays within a budget,
//! and a writer whose output YAML 1.1 readers (Kubernetes' own) and YAML 1.2 readers take alike.

mod emit;
mod read;

pub use emit::{emit, is_printable, quoted};
pub use read::{Budget, read};

use serde_json::{Map, Number};

/// A YAML value that knows the line it stands on.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// The value itself.
    pub value: Value,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, with the text it was written as, so that `1.10` stays `1.10` where a text is wanted.
    Number(Number, String),
    /// A text, quoted or plain.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// One key of a mapping with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The line of the key.
    pub line: usize,
    /// The value.
    pub node: Node,
}

impl Value {
    /// What kind of value this is, as an error message names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(..) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The value without its lines.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(b) => (*b).into(),
            Value::Number(n, _) => n.clone().into(),
            Value::Text(t) => t.clone().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect::<Vec<_>>().into(),
            Value::Map(entries) => {
                entries.iter().map(|e| (e.key.clone(), e.node.to_json())).collect::<Map<_, _>>().into()
            }
        }
    }

    /// The child of a mapping by its key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.node),
            Value::Null | Value::Bool(_) | Value::Number(..) | Value::Text(_) | Value::List(_) => None,
        }
    }

    /// The node at a path such as `spec.instanceGroups[0].count`.
    pub fn at(&self, path: &str) -> Option<&Node> {
        segments(path).into_iter().try_fold(self, |node, segment| match (segment, &node.value) {
            (Segment::Key(key), _) => node.get(&key),
            (Segment::Index(i), Value::List(items)) => items.get(i),
            (Segment::Index(_), _) => None,
        })
    }

    /// The line of the deepest part of `path` that is in the file; 0 for none of it.
    pub fn line_of(&self, path: &str) -> usize {
        let mut node = self;
        let mut line = 0;
        for segment in segments(path) {
            let next = match (&segment, &node.value) {
                (Segment::Key(key), Value::Map(entries)) => {
                    entries.iter().find(|e| e.key == *key).map(|e| (e.line, &e.node))
                }
                (Segment::Index(i), Value::List(items)) => items.get(*i).map(|n| (n.line, n)),
                _ => None,
            };
            match next {
                Some((at, child)) => (line, node) = (at, child),
                None => return line,
            }
        }
        line
    }
}

/// One part of a path: a key or a place in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// A key of a mapping.
    Key(String),
    /// A place in a list, counted from 0.
    Index(usize),
}

/// Takes a path such as `a.b[2].c` apart. Keys with dots are written in quotes: `a."b.c"`.
pub fn segments(path: &str) -> Vec<Segment> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']').unwrap_or((inner, ""));
            parts.push(index.parse().map_or_else(|_| Segment::Key(index.to_owned()), Segment::Index));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else if let Some(inner) = rest.strip_prefix('"') {
            let (key, after) = inner.split_once('"').unwrap_or((inner, ""));
            parts.push(Segment::Key(key.to_owned()));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            parts.push(Segment::Key(rest[..end].to_owned()));
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    parts
}

/// Adds a key to a path.
pub fn join(path: &str, key: &str) -> String {
    let key = if key.contains(['.', '[', '"']) { format!("{key:?}") } else { key.to_owned() };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_apart_and_find_their_lines() {
        let node = read(b"a:\n  b:\n    - c: 1\n    - c: 2\n", &Budget::SPEC).unwrap();
        assert_eq!(node.line_of("a.b[1].c"), 4);
        assert_eq!(node.line_of("a.b[1].missing"), 4);
        assert_eq!(node.line_of("x"), 0);
        assert_eq!(node.at("a.b[0].c").unwrap().to_json(), serde_json::json!(1));
        assert_eq!(segments("x.\"a.b\"[2]")[1], Segment::Key("a.b".into()));
        assert_eq!(join("a", "b.c"), "a.\"b.c\"");
    }
}
