//! The reader. Files come from users and from networks, so size, depth, the number of values and the
//! use of aliases are bounded before anything is built.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Number;

use super::{Entry, Node, Value};
use crate::problem::{Problem, Problems};

/// How much a document may cost to read.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The largest file, in bytes.
    pub bytes: usize,
    /// The deepest nesting.
    pub depth: usize,
    /// The most values, those that aliases repeat included.
    pub values: usize,
}

impl Budget {
    /// Enough for any spec that a person or a generator writes.
    pub const SPEC: Budget = Budget { bytes: 4 << 20, depth: 40, values: 200_000 };
}

/// Reads one YAML document, or says what is wrong with it.
pub fn read(bytes: &[u8], budget: &Budget) -> Result<Node, Problems> {
    if bytes.len() > budget.bytes {
        let message = format!("the file is larger than {} MiB, which no spec needs", budget.bytes >> 20);
        return Err(Problems(vec![Problem::in_document(0, message)]));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        Problems(vec![Problem::in_document(line, "the file is not UTF-8 text: save it as UTF-8")])
    })?;
    let mut builder = Builder::new(budget);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let step = match event {
            Ok((event, span)) => builder.take(event, &span),
            Err(error) => {
                let line = error.marker().line();
                // The parser's own bound on flow nesting lies beyond ours and speaks of itself.
                let message = match error.info() {
                    "recursion limit exceeded" => too_deep(budget),
                    info => format!("this is not YAML: {info}"),
                };
                Err(Problem::in_document(line, message))
            }
        };
        if let Err(problem) = step {
            builder.problems.push(problem);
            return Err(Problems::sorted(builder.problems));
        }
    }
    builder.finish()
}

/// A mapping or list whose end has not come yet.
enum Open {
    List { line: usize, anchor: usize, items: Vec<Node> },
    Map { line: usize, anchor: usize, entries: Vec<Entry>, key: Option<(String, usize)> },
}

struct Builder<'a> {
    budget: &'a Budget,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    values: usize,
    documents: usize,
    root: Option<Node>,
    problems: Vec<Problem>,
}

impl<'a> Builder<'a> {
    fn new(budget: &'a Budget) -> Self {
        Builder {
            budget,
            open: Vec::new(),
            anchors: HashMap::new(),
            values: 0,
            documents: 0,
            root: None,
            problems: Vec::new(),
        }
    }

    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Problem> {
        let line = span.start.line();
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Problem::in_document(line, "a second document starts here: a spec is one document"));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                if let Some(tag) = tag.filter(|t| !t.is_yaml_core_schema()) {
                    return Err(Problem::in_document(
                        line,
                        format!("the tag {}{} is not known here", tag.handle, tag.suffix),
                    ));
                }
                self.spend(1, line)?;
                let value = if style == ScalarStyle::Plain { plain(&text) } else { Value::Text(text.into_owned()) };
                self.add(Node { line, value }, anchor, 1)
            }
            Event::SequenceStart(anchor, _) => self.push(Open::List { line, anchor, items: Vec::new() }, line),
            Event::MappingStart(anchor, _) => {
                self.push(Open::Map { line, anchor, entries: Vec::new(), key: None }, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(Problem::in_document(
                        line,
                        "this alias names an anchor that holds it: write the value out",
                    ));
                };
                self.spend(size, line)?;
                self.add(Node { line, value: node.value }, 0, size)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn spend(&mut self, values: usize, line: usize) -> Result<(), Problem> {
        self.values = self.values.saturating_add(values);
        if self.values > self.budget.values {
            let most = self.budget.values;
            return Err(Problem::in_document(
                line,
                format!("more than {most} values, aliases counted each time: write less"),
            ));
        }
        Ok(())
    }

    fn push(&mut self, open: Open, line: usize) -> Result<(), Problem> {
        if self.open.len() >= self.budget.depth {
            return Err(Problem::in_document(line, too_deep(self.budget)));
        }
        self.spend(1, line)?;
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Problem> {
        let (node, anchor) = match self.open.pop() {
            Some(Open::List { line, anchor, items }) => (Node { line, value: Value::List(items) }, anchor),
            Some(Open::Map { line, anchor, entries, .. }) => (Node { line, value: Value::Map(entries) }, anchor),
            None => return Ok(()),
        };
        let size = count(&node);
        self.add(node, anchor, size)
    }

    fn add(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Problem> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, .. }) => match key.take() {
                None => *key = Some((key_text(&node)?, node.line)),
                Some((name, line)) => {
                    if let Some(first) = entries.iter().find(|e| e.key == name) {
                        let message = format!("{name} stands here again, it was set on line {}: keep one", first.line);
                        self.problems.push(Problem::in_document(line, message));
                    } else {
                        entries.push(Entry { key: name, line, node });
                    }
                }
            },
        }
        Ok(())
    }

    fn finish(self) -> Result<Node, Problems> {
        if !self.problems.is_empty() {
            return Err(Problems::sorted(self.problems));
        }
        match self.root {
            Some(Node { value: Value::Null, .. }) | None => {
                let message = "the file is empty: `windlass spec init` writes one to start from";
                Err(Problems(vec![Problem::in_document(0, message)]))
            }
            Some(root) => Ok(root),
        }
    }
}

fn too_deep(budget: &Budget) -> String {
    format!("nested more than {} deep, which no spec needs", budget.depth)
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|e| 1 + count(&e.node)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(..) | Value::Text(_) => 0,
    }
}

fn key_text(node: &Node) -> Result<String, Problem> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        Value::Number(_, text) => Ok(text.clone()),
        Value::Bool(b) => Ok(b.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => {
            let message = format!("{} cannot be a key here: keys are texts", node.value.kind());
            Err(Problem::in_document(node.line, message))
        }
    }
}

/// A plain scalar by YAML 1.2's core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Value::Text(text.to_owned());
    }
    let number = if let Some(hex) = text.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok().map(Number::from)
    } else if let Some(octal) = text.strip_prefix("0o") {
        i64::from_str_radix(octal, 8).ok().map(Number::from)
    } else if digits.bytes().all(|b| b.is_ascii_digit()) {
        text.parse::<i64>().ok().map(Number::from)
    } else if digits.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b)) {
        text.parse::<f64>().ok().and_then(Number::from_f64)
    } else {
        None
    };
    match number {
        Some(number) => Value::Number(number, text.to_owned()),
        None => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let Problems(list) = read(text.as_bytes(), &Budget::SPEC).unwrap_err();
        list.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        let node =
            read(b"[null, ~, true, 12, 1.10, 0x10, 0o10, -3, 1.2.3, 12:30, yes, '1', v1]", &Budget::SPEC).unwrap();
        let expected = serde_json::json!([null, null, true, 12, 1.1, 16, 8, -3, "1.2.3", "12:30", "yes", "1", "v1"]);
        assert_eq!(node.to_json(), expected);
    }

    #[test]
    fn hostile_documents_are_refused_within_the_budget() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(",")));
        }
        for (name, text, says) in [
            ("alias bomb", bomb.as_str(), "aliases counted each time"),
            ("deep flow", &"[".repeat(100_000), "nested more than"),
            ("deep block", &(0..200).map(|i| format!("{}a:\n", " ".repeat(i))).collect::<String>(), "nested more than"),
            ("self alias", "a: &x [*x]", "alias"),
            ("twice", "a: 1\nb: 2\na: 3\n", "line 3: a stands here again, it was set on line 1"),
            ("two documents", "a: 1\n---\nb: 1\n", "second document"),
            ("empty", "# nothing\n", "is empty"),
            ("map key", "{a: 1}: 2", "cannot be a key"),
            ("tag", "a: !secret b", "tag"),
            ("syntax", "a: [1, 2\nb: 3\n", "not YAML"),
            ("large", &"x".repeat(5 << 20), "larger than 4 MiB"),
        ] {
            let said = problem(text);
            assert!(said.contains(says), "{name}: {said}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_with_its_line() {
        let Problems(list) = read(b"a: 1\nb: \xff\n", &Budget::SPEC).unwrap_err();
        assert_eq!(list[0].line, 2);
        assert!(list[0].message.contains("not UTF-8"));
    }

    #[test]
    fn an_alias_repeats_its_anchor() {
        let node = read(b"a: &x {b: 1}\nc: *x\n", &Budget::SPEC).unwrap();
        assert_eq!(node.to_json(), serde_json::json!({"a": {"b": 1}, "c": {"b": 1}}));
    }
}
