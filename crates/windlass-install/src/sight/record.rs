//! What `windlass-node report` prints: one record for each unit of a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The stages of units that stay: there is nothing to tell of them while nothing is unmet.
const STAYING: [&str; 2] = ["serve", "watch"];
/// How many of the last lines of an error are told.
const LAST_WORDS: usize = 3;

/// The records of a machine, by unit.
pub type Records = BTreeMap<String, Record>;

/// What a unit says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Whether it still works.
    pub state: UnitState,
    /// What it does now, or did last.
    pub stage: String,
    /// When it began that, RFC 3339.
    #[serde(default)]
    pub since: String,
    /// When this attempt began, RFC 3339.
    #[serde(default)]
    pub started: String,
    /// When it ended, if it did.
    #[serde(default)]
    pub ended: Option<String>,
    /// Which attempt this is, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    /// What it has done so far and does now, in order.
    #[serde(default)]
    pub stages: Vec<StageLine>,
    /// What it waits for.
    #[serde(default)]
    pub unmet: Vec<UnmetLine>,
    /// Why it failed last, if it did.
    #[serde(default)]
    pub because: Vec<String>,
    /// The last lines of what the command that failed had said.
    #[serde(default)]
    pub said: Vec<String>,
    /// The attempts before this one, in order.
    #[serde(default)]
    pub earlier: Vec<Attempt>,
    /// What else there is to know.
    #[serde(default)]
    pub data: BTreeMap<String, Value>,
}

fn first() -> u32 {
    1
}

/// One thing that a unit does on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageLine {
    /// What it is called.
    pub name: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Seconds that it took, once it ended.
    #[serde(default)]
    pub took: Option<f64>,
}

/// An attempt before the one that a record is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which it was, from 1.
    pub number: u32,
    /// When it began, RFC 3339.
    pub started: String,
    /// When it ended, if it lived to say so.
    #[serde(default)]
    pub ended: Option<String>,
    /// How it ended.
    pub ending: Ending,
    /// What it did last, as far as is known.
    pub stage: String,
    /// Why it failed, if it did.
    #[serde(default)]
    pub because: Vec<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// It did what it is for.
    Done,
    /// It gave up.
    Failed,
    /// It was killed, or its machine went down.
    Cut,
}

/// Whether a unit still works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnitState {
    /// It works, or serves.
    Running,
    /// It has done what it is for.
    Done,
    /// It gave up; systemd may start it again.
    Failed,
}

/// A criterion that does not hold yet, as a unit tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetLine {
    /// What is to be true.
    pub statement: String,
    /// Why it is not.
    pub reason: String,
}

impl Record {
    /// A record with nothing in it but this.
    pub fn at(state: UnitState, stage: &str) -> Self {
        Record {
            state,
            stage: stage.to_owned(),
            since: String::new(),
            started: String::new(),
            ended: None,
            attempt: first(),
            stages: Vec::new(),
            unmet: Vec::new(),
            because: Vec::new(),
            said: Vec::new(),
            earlier: Vec::new(),
            data: BTreeMap::new(),
        }
    }

    /// Where it stands, in one line. Nothing in it changes while nothing happens: waits judge progress by it.
    pub fn words(&self) -> String {
        let Record { stage, .. } = self;
        match self.state {
            UnitState::Done => "has done its work".to_owned(),
            UnitState::Failed => {
                let mut causes = vec![format!("failed at {stage}")];
                causes.extend(self.because.iter().cloned());
                causes.extend(self.last_words());
                causes.join(": ")
            }
            UnitState::Running if self.unmet.is_empty() => format!("is at {stage}"),
            UnitState::Running => {
                let lines = self.unmet.iter().map(|unmet| format!("{}: {}", unmet.statement, unmet.reason));
                format!("is at {stage}: {}", lines.collect::<Vec<_>>().join("; "))
            }
        }
    }

    /// The same, with why it does not do it for the first time.
    pub fn story(&self) -> String {
        let words = self.words();
        let before = self.earlier.last().filter(|_| self.state != UnitState::Done);
        let before = before.and_then(|attempt| {
            let Attempt { stage, because, .. } = attempt;
            match attempt.ending {
                Ending::Done => None,
                Ending::Failed => Some(format!("failed at {stage}: {}", because.join(": "))),
                Ending::Cut => Some(format!("was cut off at {stage}")),
            }
        });
        match before {
            Some(before) => format!("{words} (attempt {}; the one before {before})", self.attempt),
            None => words,
        }
    }

    /// Whether it does what it should, for as long as it should.
    pub fn stays(&self) -> bool {
        self.state == UnitState::Running && self.unmet.is_empty() && STAYING.contains(&self.stage.as_str())
    }

    /// Whether there is something to say about it when somebody asks why: it failed, waits, or tries again.
    pub fn is_in_trouble(&self) -> bool {
        let again = || self.earlier.last().is_some_and(|attempt| attempt.ending == Ending::Failed);
        match self.state {
            UnitState::Done => false,
            UnitState::Failed => true,
            UnitState::Running => !self.unmet.is_empty() || (!self.stays() && again()),
        }
    }

    /// Seconds from the first stage to the end, if it has ended.
    pub fn took(&self) -> Option<f64> {
        self.ended.as_ref()?;
        self.stages.iter().map(|stage| stage.took).sum()
    }

    fn last_words(&self) -> Option<String> {
        let last = &self.said[self.said.len().saturating_sub(LAST_WORDS)..];
        (!last.is_empty()).then(|| last.iter().map(|line| line.trim()).collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A machine is asked for news with the report that was had before: one that changed on its way would be news each time.
    #[test]
    fn a_record_is_told_back_as_it_was_heard() {
        let heard = json!({
            "state": "failed", "stage": "run", "since": "2026-11-18T10:00:01.250Z",
            "started": "2026-11-18T10:00:00.000Z", "ended": "2026-11-18T10:00:02.000Z", "attempt": 2,
            "stages": [
                { "name": "find-image", "started": "2026-11-18T10:00:00.000Z", "took": 1.253 },
                { "name": "run", "started": "2026-11-18T10:00:01.253Z", "took": 0.747 },
            ],
            "unmet": [{ "statement": "s", "reason": "r" }],
            "because": ["the hook driver did not end well", "`x` failed, exit status: 3"],
            "said": ["a", "b", "c", "d"],
            "earlier": [{
                "number": 1, "started": "2026-11-18T09:00:00.000Z", "ended": null, "ending": "cut", "stage": "run", "because": [],
            }],
            "data": { "n": 1.5 },
        });
        let record: Record = serde_json::from_value(heard.clone()).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), heard);
        assert_eq!(record.took(), Some(2.0));
        let words = "failed at run: the hook driver did not end well: `x` failed, exit status: 3: b; c; d";
        assert_eq!(record.words(), words);
        assert_eq!(record.story(), format!("{words} (attempt 2; the one before was cut off at run)"));
    }

    #[test]
    fn an_attempt_that_failed_is_told_until_one_succeeds() {
        let attempt = |ending| Attempt {
            number: 1,
            started: String::new(),
            ended: None,
            ending,
            stage: "install".to_owned(),
            because: vec!["no disk".to_owned()],
        };
        let cases = [
            (
                UnitState::Running,
                Some(Ending::Failed),
                "is at install (attempt 2; the one before failed at install: no disk)",
            ),
            (UnitState::Running, Some(Ending::Done), "is at install"),
            (UnitState::Running, None, "is at install"),
            (UnitState::Done, Some(Ending::Failed), "has done its work"),
            (UnitState::Failed, None, "failed at install"),
        ];
        for (state, before, want) in cases {
            let earlier = before.map(attempt).into_iter().collect();
            let record = Record { attempt: 2, earlier, ..Record::at(state, "install") };
            assert_eq!(record.story(), want);
            let trouble = state == UnitState::Failed || want.contains("the one before");
            assert_eq!(record.is_in_trouble(), trouble, "{want}");
            let serves = Record { stage: "serve".to_owned(), ..record };
            assert_eq!(serves.is_in_trouble(), state == UnitState::Failed, "{want}");
            assert_eq!(serves.stays(), state == UnitState::Running);
        }
    }
}
