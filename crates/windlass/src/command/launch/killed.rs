//! Dying at a known moment, so that tests can see what a launch leaves behind there.

use std::io;

use nix::sys::signal::{Signal, raise};
use windlass_steps::event::{Event, Kind, Reader};
use windlass_steps::step::StepName;

use crate::exit::{Exit, Failure};

/// Kills this process, as nothing can prevent, once the journal has an event.
pub(super) struct KilledAt {
    step: StepName,
    kind: Kind,
}

impl KilledAt {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            let because = vec!["it has the form STEP/started or STEP/finished".to_owned()];
            Failure::new(Exit::Usage, format!("{text:?} is no event"), because, "windlass status names the steps")
        };
        let (step, kind) = text.split_once('/').ok_or_else(wrong)?;
        let kind = match kind {
            "started" => Kind::Started,
            "finished" => Kind::Finished,
            _ => return Err(wrong()),
        };
        Ok(KilledAt { step: StepName::parse(step).map_err(|_| wrong())?, kind })
    }
}

impl Reader for KilledAt {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        if event.step == self.step && event.kind == self.kind {
            raise(Signal::SIGKILL)?;
        }
        Ok(())
    }
}
