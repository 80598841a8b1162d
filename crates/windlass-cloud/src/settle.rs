//! Short waits for the kernel to finish what it was told: a process to end, a device to let go. They look off the
//! runtime's own threads, so that whoever awaits them may be any task.

use std::convert::Infallible;
use std::time::Duration;

use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::wait::{Unmet, Wait, WaitError};

const POLL: Duration = Duration::from_millis(10);

/// Waits until the look finds that the statement holds, for at most about this long.
pub(crate) async fn settle<L>(statement: String, limit: Duration, look: L) -> Result<(), Unmet>
where
    L: Fn() -> Result<Observation, LookError> + Send + 'static,
{
    let lost = unmet(statement.clone(), "the wait for it was given up".to_owned());
    let waiting = tokio::task::spawn_blocking(move || settle_blocking(statement, limit, look));
    waiting.await.unwrap_or(Err(lost))
}

/// The same for code that is not asynchronous.
pub(crate) fn settle_blocking<L>(statement: String, limit: Duration, look: L) -> Result<(), Unmet>
where
    L: Fn() -> Result<Observation, LookError>,
{
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return Err(unmet(statement, format!("could not look: {error}"))),
    };
    let look = &look;
    let criteria = [Criterion::new(statement.clone(), || async move { look() })];
    let wait = Wait::stalled_for(limit).poll_every(POLL);
    match runtime.block_on(wait.until(&criteria, |_| Ok::<(), Infallible>(()))) {
        Ok(()) => Ok(()),
        Err(WaitError::Unmet(all)) => {
            Err(all.into_iter().next().unwrap_or_else(|| unmet(statement, "never looked at".to_owned())))
        }
        Err(WaitError::Observe(never)) => match never {},
    }
}

fn unmet(statement: String, reason: String) -> Unmet {
    Unmet { statement, reason, lasted: Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use windlass_steps::reason;

    use super::*;

    #[tokio::test]
    async fn it_ends_when_the_statement_holds_or_the_time_is_up() {
        let looks = AtomicU32::new(0);
        let third = move || match looks.fetch_add(1, Ordering::Relaxed) {
            2 => Ok(Observation::Holds),
            _ => Ok(Observation::NotYet(reason!("too early"))),
        };
        settle("it holds".to_owned(), Duration::from_secs(10), third).await.unwrap();
        let never = || Ok(Observation::NotYet(reason!("held by a test")));
        let unmet = settle("it holds".to_owned(), Duration::from_millis(30), never).await.unwrap_err();
        assert_eq!((unmet.statement.as_str(), unmet.reason.as_str()), ("it holds", "held by a test"));
        let blind = || Err("no eyes".into());
        let unmet = settle("it holds".to_owned(), Duration::from_millis(30), blind).await.unwrap_err();
        assert_eq!(unmet.reason, "could not look: no eyes");
    }
}
