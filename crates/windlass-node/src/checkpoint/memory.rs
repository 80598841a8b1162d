//! What a single look cannot tell: for how long something has been so.

use std::collections::{BTreeMap, BTreeSet};

use super::api::{Answer, Here};
use super::files::Copies;
use super::plan::{Elsewhere, Reach, Real, Seen, View, Word};
use super::program::Program;
use crate::tasks::{Task, Tasks};

/// The only namespace whose pods have copies.
const NAMESPACE: &str = "kube-system";

/// Counts looks.
#[derive(Debug, Default)]
pub struct Memory {
    counts: BTreeMap<Program, Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    absent: u32,
    steady: u32,
    gone: u32,
}

impl Memory {
    /// Adds a look, and says what has been seen so far.
    pub fn add(&mut self, answer: &Answer, tasks: &Tasks, copies: &Copies) -> Seen {
        let programs = programs(answer, copies);
        self.counts.retain(|program, _| programs.contains(program));
        let views = programs.into_iter().map(|program| {
            let view = self.view(&program, answer, tasks, copies);
            (program, view)
        });
        let api = if *answer == Answer::Silence { Reach::Silent } else { Reach::Answers };
        Seen { api, programs: views.collect() }
    }

    fn view(&mut self, program: &Program, answer: &Answer, tasks: &Tasks, copies: &Copies) -> View {
        let counts = self.counts.entry(program.clone()).or_default();
        let running = real_pods(tasks, program);
        counts.absent = if running.is_empty() { counts.absent.saturating_add(1) } else { 0 };
        let real = if running.is_empty() { Real::Absent { looks: counts.absent } } else { Real::Runs };
        let word = counts.word(program, answer, &running);
        let (waiting, active) = (copies.waiting.get(program).cloned(), copies.active.get(program).cloned());
        View { real, word, waiting, active }
    }
}

/// The identities of this program's real pods that run here.
fn real_pods<'a>(tasks: &'a Tasks, program: &Program) -> BTreeSet<&'a str> {
    let is_of = |task: &&Task| task.namespace == NAMESPACE && program.is_of_real(&task.pod);
    tasks.iter().filter(is_of).map(|task| task.uid.as_str()).collect()
}

impl Counts {
    fn word(&mut self, program: &Program, answer: &Answer, running: &BTreeSet<&str>) -> Word {
        let Answer::Pods { here, elsewhere } = answer else {
            // A gap in what can be known is no reason to begin again with what was known before it, nor to go on counting.
            self.steady = 0;
            return Word::Unknown;
        };
        let Some(pod) = here.get(program) else {
            (self.steady, self.gone) = (0, self.gone.saturating_add(1));
            let elsewhere = if elsewhere.contains(program) { Elsewhere::Well } else { Elsewhere::Nowhere };
            return Word::Gone { looks: self.gone, elsewhere };
        };
        self.gone = 0;
        let runs = running.contains(pod.uid.as_str());
        self.steady = if runs && pod.ready { self.steady.saturating_add(1) } else { 0 };
        Word::Here { copy: copy(pod, runs), steady: self.steady }
    }
}

/// The API's word may be from before a power cut: only a pod that runs now is worth a copy.
fn copy(pod: &Here, runs: bool) -> Option<String> {
    pod.copy.as_ref().ok().filter(|_| runs && pod.started).cloned()
}

fn programs(answer: &Answer, copies: &Copies) -> BTreeSet<Program> {
    let mut programs: BTreeSet<Program> = copies.waiting.keys().chain(copies.active.keys()).cloned().collect();
    if let Answer::Pods { here, .. } = answer {
        programs.extend(here.keys().cloned());
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(here: Option<Here>, elsewhere: bool) -> Answer {
        let name = Program::api_server();
        Answer::Pods {
            here: here.into_iter().map(|pod| (name.clone(), pod)).collect(),
            elsewhere: if elsewhere { BTreeSet::from([name]) } else { BTreeSet::new() },
        }
    }

    fn pod(uid: &str) -> Here {
        Here { uid: uid.into(), started: true, ready: true, copy: Ok("copy".into()) }
    }

    #[test]
    fn looks_are_counted_until_something_else_is_seen() {
        let name = Program::api_server();
        let mut memory = Memory::default();
        let copies = Copies { waiting: BTreeMap::from([(name.clone(), "copy".into())]), ..Copies::default() };
        let (none, one) = (Tasks::default(), Tasks::running(&[("kube-apiserver-x", "u1")]));
        let mut add = |answer: &Answer, tasks: &Tasks| {
            let seen = memory.add(answer, tasks, &copies);
            (seen.api, seen.programs[&name].clone())
        };
        let here = |steady| Word::Here { copy: Some("copy".into()), steady };
        for looks in 1..4 {
            let (api, view) = add(&Answer::Silence, &none);
            assert_eq!((api, view.real, view.word), (Reach::Silent, Real::Absent { looks }, Word::Unknown));
        }
        let (api, view) = add(&Answer::Unclear(String::new()), &none);
        assert_eq!((api, view.word), (Reach::Answers, Word::Unknown));
        // The word of an API that has just come back is about the time before.
        let (_, view) = add(&pods(Some(pod("u1")), false), &none);
        assert_eq!((view.real, view.word), (Real::Absent { looks: 5 }, Word::Here { copy: None, steady: 0 }));
        for steady in 1..3 {
            let (_, view) = add(&pods(Some(pod("u1")), false), &one);
            assert_eq!((view.real, view.word), (Real::Runs, here(steady)));
        }
        let (_, view) = add(&pods(Some(pod("u2")), false), &one);
        assert_eq!(view.word, Word::Here { copy: None, steady: 0 }, "another pod runs than the API means");
        let gone = |looks, elsewhere| Word::Gone { looks, elsewhere };
        assert_eq!(add(&pods(None, true), &none).1.word, gone(1, Elsewhere::Well));
        assert_eq!(add(&pods(None, false), &none).1.word, gone(2, Elsewhere::Nowhere));
        assert_eq!(add(&Answer::Silence, &none).1.word, Word::Unknown);
        assert_eq!(add(&pods(None, true), &none).1.word, gone(3, Elsewhere::Well));
        add(&pods(Some(pod("u3")), false), &none);
        assert_eq!(add(&pods(None, true), &none).1.word, gone(1, Elsewhere::Well));
    }
}
