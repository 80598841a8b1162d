//! What was asked, what answered, and what was chosen and why: kept on the machine, so that a question about a node's
//! versions has an answer long after its first boot.

use std::fmt;

use serde::{Deserialize, Serialize};
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};

use crate::places::Places;

const LIMIT: u64 = 1 << 20;
/// How many operating systems that came later are told of.
const LATER: usize = 8;

/// Why a machine runs what it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The questions, in the order in which they were asked.
    pub asked: Vec<Asked>,
    /// What was chosen.
    pub chosen: Vec<Chosen>,
    /// What was done about it, or would be.
    pub done: Vec<String>,
    /// What was chosen for operating systems that came later, in the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Later>,
}

/// What was chosen for an operating system that was staged while the machine worked already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Later {
    /// Its version.
    pub os: String,
    /// Why it has what it has.
    pub why: Explanation,
}

/// A question to one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What was to be known.
    pub question: String,
    /// Who was asked.
    pub source: String,
    /// What it said, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why it did not, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Of what.
    pub what: String,
    /// What it is.
    pub value: String,
    /// Why that.
    pub why: String,
}

impl Explanation {
    /// Somebody answered.
    pub fn answered(&mut self, question: &str, source: impl fmt::Display, answer: impl fmt::Display) {
        let (question, source, answer) = (question.to_owned(), source.to_string(), Some(answer.to_string()));
        self.asked.push(Asked { question, source, answer, failure: None });
    }

    /// Somebody did not.
    pub fn failed(&mut self, question: &str, source: impl fmt::Display, failure: impl fmt::Display) {
        let (question, source, failure) = (question.to_owned(), source.to_string(), Some(failure.to_string()));
        self.asked.push(Asked { question, source, answer: None, failure });
    }

    /// A choice was made.
    pub fn chose(&mut self, what: &str, value: impl fmt::Display, why: impl fmt::Display) {
        self.chosen.push(Chosen { what: what.to_owned(), value: value.to_string(), why: why.to_string() });
    }

    /// Something was done, or would be.
    pub fn did(&mut self, what: impl fmt::Display) {
        self.done.push(what.to_string());
    }

    /// Another operating system was staged. What was said of the same one before is no longer true, and what was said long
    /// ago goes, so that this has a bound.
    pub fn add(&mut self, os: impl fmt::Display, why: Explanation) {
        let os = os.to_string();
        self.later.retain(|later| later.os != os);
        self.later.push(Later { os, why });
        let surplus = self.later.len().saturating_sub(LATER);
        self.later.drain(..surplus);
    }

    /// What a machine has kept, if it has.
    pub fn read(places: &Places) -> Option<Self> {
        serde_json::from_slice(&read_file(places.explanation(), LIMIT).ok()?).ok()
    }

    /// Keeps it.
    pub fn write(&self, places: &Places) -> Result<(), HostError> {
        let (path, text) = (places.explanation(), serde_json::to_vec(self).expect("texts have a JSON form"));
        make_dir(path.parent().unwrap_or(&path), Mode::PUBLIC_DIR)?;
        write_file(path, text, Mode::PUBLIC)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Asked { question, source, answer, failure } in &self.asked {
            let said = match (answer, failure) {
                (Some(answer), _) => answer.clone(),
                (None, Some(failure)) => format!("no answer: {failure}"),
                (None, None) => "nothing".to_owned(),
            };
            writeln!(f, "asked   {question}: {source}: {said}")?;
        }
        for Chosen { what, value, why } in &self.chosen {
            writeln!(f, "chose   {what}: {value}, {why}")?;
        }
        self.done.iter().try_for_each(|done| writeln!(f, "did     {done}"))?;
        self.later.iter().try_for_each(|Later { os, why }| write!(f, "staged for OS version {os}:\n{why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_kept_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert_eq!(Explanation::read(&places), None);
        let mut explanation = Explanation::default();
        explanation.failed("the cluster's version", "the API", "404");
        explanation.answered("the cluster's version", "kubelet.env", "v1.36.3");
        explanation.chose("Kubernetes", "v1.36.3", "the installer's file says so");
        explanation.did("opened the gate");
        explanation.write(&places).unwrap();
        assert_eq!(Explanation::read(&places).as_ref(), Some(&explanation));
        let want = "asked   the cluster's version: the API: no answer: 404\n\
                    asked   the cluster's version: kubelet.env: v1.36.3\n\
                    chose   Kubernetes: v1.36.3, the installer's file says so\n\
                    did     opened the gate\n";
        assert_eq!(explanation.to_string(), want);
    }

    #[test]
    fn what_was_staged_later_is_told_once_and_not_without_end() {
        let mut explanation = Explanation::default();
        let doing = |what: &str| Explanation { done: vec![what.to_owned()], ..Explanation::default() };
        explanation.did("opened the gate");
        explanation.add("2", doing("fetched x"));
        explanation.add("3", doing("fetched y"));
        explanation.add("2", doing("fetched z"));
        let want = "did     opened the gate\nstaged for OS version 3:\ndid     fetched y\n\
                    staged for OS version 2:\ndid     fetched z\n";
        assert_eq!(explanation.to_string(), want);
        (4..40).for_each(|os| explanation.add(os, doing("fetched")));
        assert_eq!((explanation.later.len(), explanation.later[0].os.as_str()), (LATER, "32"));
        assert_eq!(explanation.done, ["opened the gate"]);
    }
}
