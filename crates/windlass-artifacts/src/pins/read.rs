//! Taking a YAML document apart field by field. Every trouble is noted with its line and reading goes on with a
//! stand-in, so that one look shows all of them.

use windlass_spec::Problem;
use windlass_spec::problem::hint;
use windlass_spec::yaml::{Entry, Node, Value, join};

/// The troubles so far.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) problems: Vec<Problem>,
}

/// A mapping whose keys are all known.
pub(super) struct Fields<'n> {
    pub(super) path: String,
    line: usize,
    entries: &'n [Entry],
}

/// A value and where it stands.
#[derive(Clone)]
pub(super) struct Placed<'n> {
    pub(super) path: String,
    pub(super) node: &'n Node,
}

impl Reader {
    pub(super) fn note(&mut self, line: usize, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { line, path: path.to_owned(), message: message.into() });
    }

    /// The value as a mapping; keys that are not in `known` are noted.
    pub(super) fn fields<'n>(&mut self, at: &Placed<'n>, known: &[&str]) -> Fields<'n> {
        let entries: &[Entry] = match &at.node.value {
            Value::Map(entries) => entries,
            other => {
                self.note(at.node.line, &at.path, format!("a mapping is wanted here, not {}", other.kind()));
                &[]
            }
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = format!("there is no such field{}", hint(&entry.key, known.iter().copied()));
            self.note(entry.line, &join(&at.path, &entry.key), message);
        }
        Fields { path: at.path.clone(), line: at.node.line, entries }
    }

    /// A field that may be absent.
    pub(super) fn optional<'n>(&self, fields: &Fields<'n>, key: &str) -> Option<Placed<'n>> {
        let entry = fields.entries.iter().find(|entry| entry.key == key)?;
        Some(Placed { path: join(&fields.path, key), node: &entry.node })
    }

    /// A field that may not.
    pub(super) fn required<'n>(&mut self, fields: &Fields<'n>, key: &str) -> Option<Placed<'n>> {
        let found = self.optional(fields, key);
        // A value that is no mapping was noted already and has no fields at all.
        if found.is_none() && !fields.entries.is_empty() {
            self.note(fields.line, &fields.path, format!("the field {key} is missing"));
        }
        found
    }

    /// A text that meets a rule, or a stand-in.
    pub(super) fn text(&mut self, at: Option<Placed<'_>>, rule: &Rule) -> String {
        let Some(at) = at else { return String::new() };
        let text = match &at.node.value {
            Value::Text(text) | Value::Number(_, text) => text.clone(),
            other => {
                self.note(at.node.line, &at.path, format!("a text is wanted here, not {}", other.kind()));
                return String::new();
            }
        };
        if !(rule.accepts)(&text) {
            self.note(at.node.line, &at.path, format!("{text:?} is not {}", rule.wanted));
        }
        text
    }

    /// The values of a list.
    pub(super) fn list<'n>(&mut self, at: Option<Placed<'n>>) -> Vec<Placed<'n>> {
        let Some(at) = at else { return Vec::new() };
        match &at.node.value {
            Value::List(items) => {
                let placed = |(n, node)| Placed { path: format!("{}[{n}]", at.path), node };
                items.iter().enumerate().map(placed).collect()
            }
            other => {
                self.note(at.node.line, &at.path, format!("a list is wanted here, not {}", other.kind()));
                Vec::new()
            }
        }
    }

    /// A list of texts that meet a rule, none of them twice.
    pub(super) fn texts(&mut self, at: Option<Placed<'_>>, rule: &Rule) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for item in self.list(at) {
            let (line, path) = (item.node.line, item.path.clone());
            let text = self.text(Some(item), rule);
            if texts.contains(&text) {
                self.note(line, &path, format!("{text:?} stands here twice"));
            }
            texts.push(text);
        }
        texts
    }

    /// `true` or `false`, and false if it is missing.
    pub(super) fn flag(&mut self, at: Option<Placed<'_>>) -> bool {
        match at.as_ref().map(|at| &at.node.value) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                let (line, path) = at.as_ref().map_or((0, ""), |at| (at.node.line, at.path.as_str()));
                self.note(line, path, format!("true or false is wanted here, not {}", other.kind()));
                false
            }
        }
    }
}

/// What a text must be like.
pub(super) struct Rule {
    pub(super) wanted: &'static str,
    pub(super) accepts: fn(&str) -> bool,
}
