//! The bookkeeping behind "this step alone": whose turn it is when one step of a flow was asked for by name.

use tokio::sync::watch;

use crate::step::{StepName, Stop};

/// The step that was asked for, and how far it has come.
pub(super) struct Only {
    wanted: StepName,
    turns: watch::Sender<Turns>,
}

/// The named step may run several times at once, on several machines.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    begun: usize,
    ended: usize,
}

/// Counts as running until dropped, so that a cancelled step ends its turn too.
pub(super) struct Running<'a>(&'a Only);

impl Only {
    pub(super) fn new(wanted: StepName) -> Self {
        Self { wanted, turns: watch::Sender::default() }
    }

    pub(super) fn names(&self, step: &StepName) -> bool {
        *step == self.wanted
    }

    pub(super) fn begin(&self) -> Running<'_> {
        self.turns.send_modify(|turns| turns.begun += 1);
        Running(self)
    }

    /// What an unfinished step is told when another one was asked for.
    ///
    /// It may stand in a join beside the named one, and a join polls all its branches once before any of them is polled
    /// again: after one yield the named step has either begun, and must not be cancelled by our answer, or needs us.
    pub(super) async fn out_of_turn(&self, step: StepName) -> Stop {
        tokio::task::yield_now().await;
        if self.turns.borrow().begun == 0 {
            return Stop::NeedsFirst { wanted: self.wanted.clone(), first: step };
        }
        let mut turns = self.turns.subscribe();
        let ended = turns.wait_for(|turns| turns.begun == turns.ended).await;
        ended.map(drop).expect("self holds the sender, so the channel is open");
        Stop::Reached { step: self.wanted.clone() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.turns.send_modify(|turns| turns.ended += 1);
    }
}
