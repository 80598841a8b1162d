//! One look for many criteria: what the API shows is fetched once a round and judged by each of them.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_steps::criterion::LookError;

/// Shorter than the time between two rounds, longer than the looks of one round are apart.
const FRESH: Duration = Duration::from_millis(100);

/// What was seen last, failures included: a server that does not answer is not asked by every criterion in turn.
#[derive(Debug)]
pub(crate) struct Fresh<T>(Mutex<Option<Seen<T>>>);

/// When it was seen, and what.
type Seen<T> = (Instant, Result<Rc<T>, String>);

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Fresh(Mutex::new(None))
    }
}

impl<T> Fresh<T> {
    /// What was fetched a moment ago, or is fetched now.
    pub(crate) async fn get<F>(&self, fetch: impl FnOnce() -> F) -> Result<Rc<T>, LookError>
    where
        F: Future<Output = Result<T, LookError>>,
    {
        let mut kept = self.0.lock().await;
        let seen = match &*kept {
            Some((at, seen)) if at.elapsed() < FRESH => seen.clone(),
            _ => {
                let seen = fetch().await.map(Rc::new).map_err(|error| error.to_string());
                *kept = Some((Instant::now(), seen.clone()));
                seen
            }
        };
        seen.map_err(LookError::from)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_round_fetches_once_and_the_next_round_again() {
        let fresh = Fresh::default();
        let fetched = Cell::new(0);
        let fetch = || async {
            fetched.set(fetched.get() + 1);
            if fetched.get() == 2 { Err("refused".into()) } else { Ok(fetched.get()) }
        };
        for _ in 0..3 {
            assert_eq!(*fresh.get(fetch).await.unwrap(), 1);
        }
        tokio::time::advance(Duration::from_millis(200)).await;
        for _ in 0..3 {
            assert_eq!(fresh.get(fetch).await.unwrap_err().to_string(), "refused");
        }
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(*fresh.get(fetch).await.unwrap(), 3);
        assert_eq!(fetched.get(), 3);
    }
}
