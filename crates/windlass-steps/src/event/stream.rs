//! The stream itself: the journal reads first, because nothing may be announced that a crash could take back; then
//! everyone else.

use std::fmt;
use std::io;
use std::mem;

use serde_json::Value;
use tracing::warn;

use super::Event;
use crate::journal::{Journal, JournalError};
use crate::step::StepName;

/// Someone who follows the events, such as a progress display.
pub trait Reader: Send {
    /// Takes in one event. A reader that fails is not asked again; the run goes on without it.
    fn read(&mut self, event: &Event) -> io::Result<()>;
}

/// Several readers of one stream, and at most one journal among them.
#[derive(Default)]
pub struct Stream {
    journal: Option<Journal>,
    readers: Vec<Box<dyn Reader>>,
}

impl Stream {
    /// Nobody reads yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps this journal; without one nothing is remembered, which suits flows that may be repeated at will.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Adds a reader.
    pub fn reader(mut self, reader: impl Reader + 'static) -> Self {
        self.readers.push(Box::new(reader));
        self
    }

    /// Brings the event, and what the step promises if it finished, to the journal; then the event to every reader.
    pub fn publish(&mut self, event: &Event, done: Option<&Value>) -> Result<(), JournalError> {
        if let Some(journal) = &mut self.journal {
            journal.append(event, done)?;
        }
        self.announce(event);
        Ok(())
    }

    /// Brings the event to the readers alone, when the journal is what failed.
    pub fn announce(&mut self, event: &Event) {
        let readers = mem::take(&mut self.readers);
        self.readers = readers.into_iter().filter_map(|reader| still_reading(reader, event)).collect();
    }

    /// What the journal knows about a step that finished on this machine, or without a machine if none is named.
    pub fn finished(&self, step: &StepName, machine: Option<&str>) -> Option<&Value> {
        self.journal.as_ref()?.finished(step, machine)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("journal", &self.journal).field("readers", &self.readers.len()).finish()
    }
}

fn still_reading(mut reader: Box<dyn Reader>, event: &Event) -> Option<Box<dyn Reader>> {
    match reader.read(event) {
        Ok(()) => Some(reader),
        Err(error) => {
            warn!(%error, "an event reader failed, going on without it: the journal has everything");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use time::macros::datetime;

    use super::super::{JsonLines, Subject};
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Reads a number of events and then fails for good.
    struct Tired(u32, Arc<Mutex<u32>>);

    impl Reader for Tired {
        fn read(&mut self, _: &Event) -> io::Result<()> {
            *self.1.lock().unwrap() += 1;
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(())
        }
    }

    #[test]
    fn every_reader_sees_every_event_and_a_broken_one_is_left_behind() {
        let (lines, asked) = (Shared::default(), Arc::new(Mutex::new(0)));
        let mut stream = Stream::new().reader(Tired(1, Arc::clone(&asked))).reader(JsonLines::to(lines.clone()));
        let subject = Subject { cluster: "demo".into(), step: StepName::new("preflight"), machine: None };
        let time = datetime!(2026-11-16 03:00:00 UTC);
        let done = serde_json::json!({"not": "for readers"});
        for event in [subject.started(time), subject.observed(time, "s", None)] {
            stream.publish(&event, None).unwrap();
        }
        stream.publish(&subject.finished(time, Duration::ZERO), Some(&done)).unwrap();
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let kinds: Vec<_> =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone()).collect();
        assert_eq!(kinds, ["started", "observed", "finished"]);
        assert!(!text.contains("done"));
        assert_eq!(*asked.lock().unwrap(), 2);
    }
}
