//! Which static copies should wait, run, or go: a pure decision from what was seen.
//!
//! - A copy that waits is kept like its pod, as long as the pod has started and runs.
//! - A pod that does not run although it should, and has a copy, is replaced by it; at once when nothing of the control
//!   plane runs here (after a power cut), with patience otherwise (the kubelet starts a pod again by itself).
//! - Whatever is no API server waits for one: without it, it would only fail and back off.
//! - When the pod runs again and has been ready for a while, its copy stops.
//! - Copies go only on the word of an API that shows pods: when the program has left this machine and is well elsewhere, or
//!   has been nowhere for very long.
//! - The checkpointer's own copy always runs, and goes last.

use std::collections::BTreeMap;

use super::program::Program;

/// Looks without anything running before the copies start; one look may have come too early.
const COLD: u32 = 2;
/// Looks without a pod before its copy starts, while others run: restarts and updates take some seconds.
const PATIENCE: u32 = 10;
/// Looks with a pod ready before its copy stops. Pod and copy share a port and so each other's probes: only time tells
/// that the pod would do without.
const STEADY: u32 = 20;
/// Looks without a pod before its copy goes, if the program is well on another machine.
const GONE: u32 = 60;
/// The same, if it is well nowhere: then the copy may be all that is left.
const LOST: u32 = 1200;

/// What was seen of the control plane on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whether an API server answers here.
    pub api: Reach,
    /// Each program that has a pod or a copy here.
    pub programs: BTreeMap<Program, View>,
}

/// Whether an API server answers here, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nobody answers.
    Silent,
    /// Somebody does.
    Answers,
}

/// What was seen of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// What the runtime says about its real pod.
    pub real: Real,
    /// What the API says about its real pod.
    pub word: Word,
    /// The copy that waits.
    pub waiting: Option<String>,
    /// The copy that runs, or is about to.
    pub active: Option<String>,
}

/// What the runtime says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Real {
    /// A container of it runs.
    Runs,
    /// None does.
    Absent {
        /// For so many looks.
        looks: u32,
    },
}

/// What the API says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Nothing that can be believed.
    Unknown,
    /// The pod belongs on this machine.
    Here {
        /// Its copy, if it has started and runs.
        copy: Option<String>,
        /// For how many looks it has been running and ready.
        steady: u32,
    },
    /// There is no such pod on this machine.
    Gone {
        /// For so many looks.
        looks: u32,
        /// And on others.
        elsewhere: Elsewhere,
    },
}

/// How a program is on other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// One is ready.
    Well,
    /// None is.
    Nowhere,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Let this copy wait.
    Keep(Program, String),
    /// Let this copy run.
    Activate(Program, String),
    /// Stop the copy.
    Deactivate(Program),
    /// The copy need not wait any more.
    Forget(Program),
}

/// What to do now.
pub fn plan(seen: &Seen) -> Vec<Change> {
    let own = Program::checkpointer();
    let others = seen.programs.iter().filter(|(program, _)| **program != own);
    let mut changes: Vec<Change> = others.clone().flat_map(|(program, view)| of_other(seen, program, view)).collect();
    if let Some(view) = seen.programs.get(&own) {
        let alone = others.into_iter().all(|(_, view)| is_over(view) || view.is_nothing());
        changes.extend(of_own(&own, view, alone));
    }
    changes
}

fn of_other(seen: &Seen, program: &Program, view: &View) -> Vec<Change> {
    if is_over(view) {
        return removal(program, view);
    }
    let mut changes = kept(program, view);
    match (&view.active, view.next_waiting()) {
        (Some(_), _) if is_steady(view) => changes.push(Change::Deactivate(program.clone())),
        (None, Some(copy)) if is_needed(seen, program, view) => {
            changes.push(Change::Activate(program.clone(), copy.clone()));
        }
        _ => {}
    }
    changes
}

/// The checkpointer's own: what waits also runs.
fn of_own(own: &Program, view: &View, alone: bool) -> Vec<Change> {
    if is_over(view) && alone {
        return removal(own, view);
    }
    let mut changes = kept(own, view);
    if let Some(copy) = view.next_waiting().filter(|&copy| view.active.as_ref() != Some(copy)) {
        changes.push(Change::Activate(own.clone(), copy.clone()));
    }
    changes
}

fn kept(program: &Program, view: &View) -> Vec<Change> {
    let new = view.next_waiting().filter(|&copy| view.waiting.as_ref() != Some(copy));
    new.map(|copy| Change::Keep(program.clone(), copy.clone())).into_iter().collect()
}

/// What runs goes first: a copy that ran without one that waits would be there for ever after a power cut.
fn removal(program: &Program, view: &View) -> Vec<Change> {
    let stop = view.active.as_ref().map(|_| Change::Deactivate(program.clone()));
    let forget = view.waiting.as_ref().map(|_| Change::Forget(program.clone()));
    stop.into_iter().chain(forget).collect()
}

fn is_over(view: &View) -> bool {
    match view.word {
        Word::Gone { looks, elsewhere: Elsewhere::Well } => looks >= GONE,
        Word::Gone { looks, elsewhere: Elsewhere::Nowhere } => looks >= LOST,
        Word::Unknown | Word::Here { .. } => false,
    }
}

fn is_steady(view: &View) -> bool {
    matches!((&view.real, &view.word), (Real::Runs, Word::Here { steady, .. }) if *steady >= STEADY)
}

fn is_needed(seen: &Seen, program: &Program, view: &View) -> bool {
    let Real::Absent { looks } = view.real else { return false };
    let may_start = *program == Program::api_server() || seen.api == Reach::Answers;
    let is_well_elsewhere = matches!(view.word, Word::Gone { elsewhere: Elsewhere::Well, .. });
    let is_cold = seen.programs.values().all(|view| view.real != Real::Runs);
    may_start && !is_well_elsewhere && looks >= if is_cold { COLD } else { PATIENCE }
}

impl View {
    /// The copy that will wait once it has been kept like its pod.
    fn next_waiting(&self) -> Option<&String> {
        match &self.word {
            Word::Here { copy: Some(copy), .. } => Some(copy),
            _ => self.waiting.as_ref(),
        }
    }

    fn is_nothing(&self) -> bool {
        self.waiting.is_none() && self.active.is_none() && !matches!(self.word, Word::Here { .. })
    }
}

#[cfg(test)]
mod tests;
