//! The writer: block style, one line a value. It quotes every text that a YAML 1.1 reader could take
//! for something else (`yes`, `1.36`, `12:30`), because Kubernetes' own readers are of that kind; the
//! emitters at hand follow 1.2 and leave those plain.

use serde_json::Value;

/// A value as a block-style YAML document, ending in a newline.
pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(value, 0, &mut out),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        _ => {
            scalar(value, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// A non-empty mapping or list, each entry on lines of its own.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                pad(indent, out);
                text(key, out);
                out.push(':');
                after_key(child, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                pad(indent, out);
                out.push('-');
                match item {
                    Value::Object(map) if !map.is_empty() => {
                        // The first key stands beside the dash, the rest below it.
                        let mut inner = String::new();
                        block(item, indent + 2, &mut inner);
                        out.push(' ');
                        out.push_str(&inner[indent + 2..]);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        block(item, indent + 2, out);
                    }
                    _ => after_dash(item, indent, out),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value, indent, out),
    }
}

fn after_key(child: &Value, indent: usize, out: &mut String) {
    match child {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(child, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(child, indent, out);
        }
        _ => after_dash(child, indent, out),
    }
}

fn after_dash(child: &Value, indent: usize, out: &mut String) {
    out.push(' ');
    scalar(child, indent, out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

fn scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&n.to_string()),
        Value::String(s) if is_literal(s) => literal(s, indent, out),
        Value::String(s) => text(s, out),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn text(s: &str, out: &mut String) {
    if is_plain(s) {
        out.push_str(s);
    } else {
        out.push_str(&quoted(&Value::from(s)));
    }
}

/// A value as JSON that every YAML reader takes as the same value. Plain JSON leaves some characters raw that
/// YAML 1.1 readers refuse or take for line breaks.
pub fn quoted(value: &Value) -> String {
    let json = value.to_string();
    if json.chars().all(is_printable) {
        return json;
    }
    let escape = |c: char| if is_printable(c) { c.to_string() } else { format!("\\u{:04X}", u32::from(c)) };
    json.chars().map(escape).collect()
}

/// Whether every YAML reader takes the character as itself: not a control, line break, byte-order mark or
/// non-character (YAML 1.1 §5.1 and §5.4, which Kubernetes' reader follows). All others are below U+10000.
pub fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
}

fn literal(s: &str, indent: usize, out: &mut String) {
    out.push_str(if s.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in s.lines() {
        if !line.is_empty() {
            pad(indent + 2, out);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Whether a text of several lines can stand as a literal block and come back as it was.
fn is_literal(s: &str) -> bool {
    let body = s.strip_suffix('\n').unwrap_or(s);
    body.contains('\n')
        && !body.ends_with('\n')
        && !s.starts_with([' ', '\n'])
        && s.chars().all(|c| c == '\n' || c == '\t' || (' '..='~').contains(&c))
        && body.lines().all(|l| !l.ends_with([' ', '\t']) && !l.starts_with('\t'))
}

/// Whether a text can stand without quotes and be a text for every reader.
fn is_plain(s: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-+=@$()<>,;".contains(c);
    let word = s.to_ascii_lowercase();
    let reserved = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&word.as_str());
    s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '$')
        && s.chars().enumerate().all(|(i, c)| {
            safe(c)
                || (c == ':' && !s[i + 1..].is_empty() && !s[i + 1..].starts_with(' '))
                || (c == ' ' && !s.ends_with(' ') && !s[i + 1..].starts_with('#'))
        })
        && !s.contains(": ")
        && !reserved
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::yaml::{Budget, read};

    #[test]
    fn texts_that_look_like_something_else_are_quoted() {
        let value = json!({"a": "yes", "b": "1.36", "c": "12:30", "d": "", "e": "a: b", "f": "x #y", "g": "https://a.b:1/c", "h": "two\nlines\n", "i": ["- x", {}, [], null, true, 3]});
        let expected = "a: \"yes\"\nb: \"1.36\"\nc: \"12:30\"\nd: \"\"\ne: \"a: b\"\nf: \"x #y\"\ng: https://a.b:1/c\nh: |\n  two\n  lines\ni:\n- \"- x\"\n- {}\n- []\n- null\n- true\n- 3\n";
        assert_eq!(emit(&value), expected);
    }

    #[test]
    fn characters_that_older_readers_take_for_line_breaks_are_escaped() {
        assert_eq!(emit(&json!({"a": "x\u{2028}y\u{85}\u{feff}"})), "a: \"x\\u2028y\\u0085\\uFEFF\"\n");
    }

    #[test]
    fn the_first_key_of_a_listed_mapping_stands_beside_its_dash() {
        let value = json!({"a": [{"b": {"c": 1}, "d": [[1, 2]]}]});
        assert_eq!(emit(&value), "a:\n- b:\n    c: 1\n  d:\n  -\n    - 1\n    - 2\n");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            "[a-z0-9 :#\n\t-]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z0-9.:/ -]{1,8}", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(value in any_value()) {
            let wrapped = json!({"v": value});
            let text = emit(&wrapped);
            let back = read(text.as_bytes(), &Budget::SPEC);
            prop_assert!(back.is_ok(), "{text}\n{back:?}");
            prop_assert_eq!(back.unwrap().to_json(), wrapped, "{}", text);
        }
    }
}
