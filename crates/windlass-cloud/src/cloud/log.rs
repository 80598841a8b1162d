//! What happened, for people: the last thousand events, and troubles that last.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use windlass_cloud_api::{Event, Label};
use windlass_steps::clock::{Clock as _, SystemClock, rfc3339_millis};

const KEPT: usize = 1000;

/// The last events.
#[derive(Default)]
pub struct Log {
    events: Mutex<VecDeque<Event>>,
    troubles: Mutex<BTreeSet<String>>,
}

impl Log {
    /// Notes that something happened to a thing of a cluster.
    pub fn note(&self, clock: &SystemClock, cluster: Option<&Label>, subject: Option<String>, message: String) {
        let event = Event { time: rfc3339_millis(clock.now()), cluster: cluster.cloned(), subject, message };
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push_back(event);
        if events.len() > KEPT {
            events.pop_front();
        }
    }

    /// Notes what people should know as long as the daemon runs.
    pub fn trouble(&self, words: String) {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).insert(words);
    }

    /// Those.
    pub fn troubles(&self) -> Vec<String> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
