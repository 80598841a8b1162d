//! Waiting for the world to follow: `windlass_steps::wait` on a thread of its own, because its looks stay on one thread
//! and the daemon's futures do not.

use std::convert::Infallible;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::wait::{Wait, WaitError};

/// How often to look: what is waited for here takes milliseconds.
const POLL: Duration = Duration::from_millis(10);

/// Looks until nothing is left to say, for at most this long, and answers with what was said last.
pub(crate) async fn until_silent(
    statement: &'static str,
    limit: Duration,
    look: impl Fn() -> Option<String> + Send + 'static,
) -> Result<(), String> {
    let handle = Handle::current();
    let waiting = tokio::task::spawn_blocking(move || {
        let criterion = Criterion::new(statement, || async {
            Ok(match look() {
                None => Observation::Holds,
                // One mark: the limit is for all of it, whatever changes on the way.
                Some(reason) => Observation::NotYet(Reason::new(reason).at(0)),
            })
        });
        let wait = Wait::stalled_for(limit).poll_every(POLL);
        handle.block_on(wait.until(&[criterion], |_| Ok::<(), Infallible>(())))
    });
    match waiting.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(WaitError::Unmet(unmet))) => Err(unmet.into_iter().map(|one| one.reason).collect::<Vec<_>>().join(", ")),
        Ok(Err(WaitError::Observe(never))) => match never {},
        Err(error) => Err(error.to_string()),
    }
}
