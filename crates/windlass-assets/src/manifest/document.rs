//! Manifests as documents and objects: how a file of several documents comes apart, and what each one is.

use serde_json::Value;
use windlass_spec::Problems;
use windlass_spec::yaml::{self, Budget};

use super::ManifestError;

/// More than any manifest has; a custom resource definition is the largest a user may add.
const BUDGET: Budget = Budget { bytes: 4 << 20, depth: 100, values: 200_000 };

/// A Kubernetes object of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if the manifest names one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The whole of it.
    pub body: Value,
}

/// The documents of a YAML file: the line (counted from 1) on which each starts, and its text. Those that hold
/// nothing but space and comments are left out.
pub fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut list = Vec::new();
    let mut start = (1, 0);
    let mut at = 0;
    for (i, line) in text.split_inclusive('\n').enumerate() {
        if is_separator(line) {
            list.push((start.0, &text[start.1..at]));
            start = (i + 2, at + line.len());
        }
        at += line.len();
    }
    list.push((start.0, &text[start.1..]));
    list.retain(|(_, document)| document.lines().any(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#')));
    list
}

/// A line that ends a document. What follows `---` on the same line can only be a comment here: a document that
/// begins there is legal YAML, but nobody writes manifests so, and reading it as a comment would lose it.
fn is_separator(line: &str) -> bool {
    let rest = line.strip_prefix("---").map(str::trim);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// The Kubernetes objects of a manifest; `path` is for errors. Anything else in it is an error.
pub fn objects(path: &str, text: &str) -> Result<Vec<Object>, ManifestError> {
    documents(text).into_iter().map(|(line, document)| object(path, line, document)).collect()
}

fn object(path: &str, line: usize, document: &str) -> Result<Object, ManifestError> {
    let body = match yaml::read(document.as_bytes(), &BUDGET) {
        Ok(node) => node.to_json(),
        Err(source) => return Err(ManifestError::ReadYaml { path: path.to_owned(), source: moved(source, line) }),
    };
    let text =
        |pointer: &str| body.pointer(pointer).and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
    let missing = |missing| ManifestError::ReadObject { path: path.to_owned(), line, missing };
    Ok(Object {
        api_version: text("/apiVersion").ok_or_else(|| missing("apiVersion"))?,
        kind: text("/kind").ok_or_else(|| missing("kind"))?,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").ok_or_else(|| missing("metadata.name"))?,
        body,
    })
}

/// Problems of a document as problems of the file that it is part of.
fn moved(Problems(mut list): Problems, line: usize) -> Problems {
    for problem in list.iter_mut().filter(|p| p.line > 0) {
        problem.line += line - 1;
    }
    Problems(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_apart_at_their_separators() {
        for (text, expected) in [
            ("a: 1\n", vec![(1, "a: 1\n")]),
            ("---\na: 1\n---\nb: 2", vec![(2, "a: 1\n"), (4, "b: 2")]),
            ("# why\n---  # next\n---\r\na: |\n  ---\n  x\n", vec![(4, "a: |\n  ---\n  x\n")]),
            ("", vec![]),
            ("a: --- \n--- b\n", vec![(1, "a: --- \n--- b\n")]),
        ] {
            assert_eq!(documents(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_object_is_named_with_its_line() {
        let good = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
        for (second, says) in [
            ("kind: Namespace\n", "line 5: apiVersion is missing"),
            ("apiVersion: v1\nkind: Namespace\nmetadata: {}\n", "line 5: metadata.name is missing"),
            ("[]\n", "line 5: apiVersion is missing"),
            ("apiVersion: v1\nkind: [\n", "cannot read x.yaml"),
        ] {
            let error = objects("x.yaml", &format!("{good}---\n{second}")).unwrap_err().to_string();
            assert!(error.contains(says), "{second:?}: {error}");
        }
    }

    #[test]
    fn problems_count_lines_from_the_top_of_the_file() {
        let error = objects("x.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\na: 1\na: 2\n").unwrap_err();
        let ManifestError::ReadYaml { source: Problems(list), .. } = error else { panic!("{error}") };
        assert_eq!(list[0].line, 6);
    }
}
