//! What is wrong with a spec: one line each, with the place in the file and the remedy. Problems are
//! collected, never thrown one at a time, because a user wants to mend a file once.

use std::fmt;

/// One thing that is wrong with a spec, and where.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// Line in the file, counted from 1; 0 where the file has no such line (a missing field).
    pub line: usize,
    /// Path of the value, such as `spec.instanceGroups[0].count`; empty for the document itself.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem whose line is not known yet; the reader of the file fills it in.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { line: 0, path: path.into(), message: message.into() }
    }

    /// A problem of the document as a whole, at a line of it.
    pub fn in_document(line: usize, message: impl Into<String>) -> Self {
        Problem { line, path: String::new(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.path.as_str()) {
            (0, "") => write!(f, "{}", self.message),
            (0, path) => write!(f, "{path}: {}", self.message),
            (line, "") => write!(f, "line {line}: {}", self.message),
            (line, path) => write!(f, "line {line}: {path}: {}", self.message),
        }
    }
}

/// All that is wrong with a spec, in the order of the file; never empty when returned as an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the spec has {} problem{}", .0.len(), if .0.len() == 1 { "" } else { "s" })]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// The problems in the order in which a reader of the file meets them.
    pub fn sorted(mut list: Vec<Problem>) -> Self {
        list.sort_by(|a, b| (a.line, &a.path, &a.message).cmp(&(b.line, &b.path, &b.message)));
        list.dedup();
        Problems(list)
    }
}

/// The nearest of `known` to a misspelt `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |candidate: &&'a str| {
        let distance = strsim::osa_distance(&word.to_lowercase(), &candidate.to_lowercase());
        (distance <= 1 + candidate.len() / 4).then_some(distance)
    };
    known.into_iter().filter_map(|c| near(&c).map(|d| (d, c))).min().map(|(_, c)| c)
}

/// `, did you mean "…"?` where there is a nearest name, nothing otherwise.
pub fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_offered_and_a_far_one_is_not() {
        let known = ["kubernetesVersion", "topology", "domain"];
        assert_eq!(nearest("kubernetsVersion", known), Some("kubernetesVersion"));
        assert_eq!(nearest("Domain", known), Some("domain"));
        assert_eq!(nearest("nodes", known), None);
    }

    #[test]
    fn a_problem_reads_as_one_line() {
        let problem = Problem { line: 7, path: "spec.domain".into(), message: "is empty".into() };
        assert_eq!(problem.to_string(), "line 7: spec.domain: is empty");
        assert_eq!(Problem::at("spec", "is missing").to_string(), "spec: is missing");
    }
}
