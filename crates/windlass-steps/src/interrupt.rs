//! A request to end, made once and seen by every step that runs. A step that is interrupted is dropped where it waits,
//! and its commands are killed with it.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Can be raised from anywhere; clones share one state.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<watch::Sender<State>>);

#[derive(Debug, PartialEq, Eq)]
enum State {
    Quiet,
    Raised,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(State::Quiet)))
    }
}

impl Interrupt {
    /// Is raised by SIGINT or SIGTERM; needs a running tokio runtime.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = Self::default();
        let (mut int, mut term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let raised = interrupt.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = int.recv() => {}
                _ = term.recv() => {}
            }
            raised.raise();
        });
        Ok(interrupt)
    }

    /// Asks every run that knows this interrupt to end.
    pub fn raise(&self) {
        self.0.send_replace(State::Raised);
    }

    /// Returns once it is raised, at once if it already was.
    pub async fn raised(&self) {
        let mut receiver = self.0.subscribe();
        let raised = receiver.wait_for(|state| *state == State::Raised).await;
        raised.map(drop).expect("self holds a sender, so the channel is open");
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[tokio::test]
    async fn a_raised_interrupt_stays_raised_for_every_clone() {
        let interrupt = Interrupt::default();
        let clone = interrupt.clone();
        tokio::join!(clone.raised(), async { interrupt.raise() });
        clone.raised().await;
    }

    #[tokio::test]
    async fn a_signal_raises_the_interrupt() {
        let interrupt = Interrupt::on_signals().unwrap();
        raise(Signal::SIGTERM).unwrap();
        interrupt.raised().await;
    }
}
