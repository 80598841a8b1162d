//! A client that never stops asking: ten times a second, with one retry, as a patient user's program would. Each time it asks
//! whether or not the times before have been answered, so that a gap is met by all that fall into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

const EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(5);
/// What an API server that goes asks for, with 429 and `Retry-After: 1`; every client of Kubernetes' own does as it is asked.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// More than can be on their way if each is given up, with its retry, when its time is over.
const AT_ONCE: usize = 128;

/// Every cluster has it.
const NAMESPACE: &str = "kube-system";

/// How the asking went.
#[derive(Debug, Default)]
pub struct Answers {
    /// Requests that were answered.
    pub good: usize,
    /// Requests that were answered only by their retry.
    pub retried: usize,
    /// Requests that failed twice: when they were asked, and why.
    pub failed: Vec<(Duration, String)>,
    /// The slowest, with its retry; not with a wait that a server had asked for.
    pub slowest: Duration,
}

/// Asks until it is told to stop.
pub struct Poller {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<Answers>,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// The API's version, which a server knows by itself.
    Version,
    /// A namespace as it is now, for which a server needs its etcd.
    Namespace,
}

impl Poller {
    /// Begins to ask the API for its version.
    pub fn start(client: Client) -> Self {
        Poller::asking(move || ask(client.clone(), Question::Version))
    }

    /// Begins to read an object.
    pub fn reading(client: Client) -> Self {
        Poller::asking(move || ask(client.clone(), Question::Namespace))
    }

    fn asking<A>(ask: impl Fn() -> A + Clone + Send + 'static) -> Self
    where
        A: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let asking = tokio::spawn(keep_asking(ask, Arc::clone(&stop)));
        Poller { stop, asking }
    }

    /// Stops, waits for what is on its way, and says how it went.
    pub async fn stop(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        self.asking.await.expect("asking does not panic")
    }
}

/// What came of one request.
struct Probe {
    at: Duration,
    took: Duration,
    retried: bool,
    outcome: Result<(), Refusal>,
}

struct Refusal {
    reason: String,
    wait: Duration,
}

impl Answers {
    fn take(&mut self, probe: Probe) {
        self.slowest = self.slowest.max(probe.took);
        match probe.outcome {
            Ok(()) => {
                self.good += 1;
                self.retried += usize::from(probe.retried);
            }
            Err(refusal) => self.failed.push((probe.at, refusal.reason)),
        }
    }
}

async fn keep_asking<A>(ask: impl Fn() -> A + Clone + Send + 'static, stop: Arc<AtomicBool>) -> Answers
where
    A: Future<Output = Result<(), Refusal>> + Send + 'static,
{
    let (begun, mut answers, mut probes) = (Instant::now(), Answers::default(), JoinSet::new());
    let mut ticks = tokio::time::interval(EVERY);
    // What was missed is not made up for: many requests of one moment say no more than one.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        while let Some(probe) = probes.try_join_next() {
            answers.take(probe.expect("asking does not panic"));
        }
        match probes.len() < AT_ONCE {
            true => drop(probes.spawn(probe(ask.clone(), begun))),
            false => answers.failed.push((begun.elapsed(), format!("{AT_ONCE} before it have no answer"))),
        }
    }
    while let Some(probe) = probes.join_next().await {
        answers.take(probe.expect("asking does not panic"));
    }
    answers.failed.sort();
    answers
}

/// Asks, and asks once more if need be.
async fn probe<A: Future<Output = Result<(), Refusal>>>(ask: impl Fn() -> A, begun: Instant) -> Probe {
    let asked = Instant::now();
    let at = asked - begun;
    let Err(refusal) = ask().await else {
        return Probe { at, took: asked.elapsed(), retried: false, outcome: Ok(()) };
    };
    // Nothing is to happen meanwhile.
    let _over = tokio::time::timeout(refusal.wait, std::future::pending::<()>()).await;
    let outcome = ask().await;
    Probe { at, took: asked.elapsed().saturating_sub(refusal.wait), retried: true, outcome }
}

async fn ask(client: Client, question: Question) -> Result<(), Refusal> {
    let wait = |error: &kube::Error| match error {
        kube::Error::Api(status) if status.code == 429 => RETRY_AFTER,
        _ => Duration::ZERO,
    };
    let asking = async {
        match question {
            Question::Version => client.apiserver_version().await.map(drop),
            Question::Namespace => Api::<Namespace>::all(client).get(NAMESPACE).await.map(drop),
        }
    };
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Refusal { wait: wait(&error), reason: error.to_string() }),
        Err(_) => Err(Refusal { wait: Duration::ZERO, reason: format!("no answer in {LIMIT:?}") }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const REFUSED: &str = "refused";

    /// Asks for two seconds whoever answers the request of this number.
    async fn answers<A>(say: impl Fn(usize) -> A + Clone + Send + Sync + 'static) -> Answers
    where
        A: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        let number = Arc::new(AtomicUsize::new(0));
        let poller = Poller::asking(move || say(number.fetch_add(1, Ordering::Relaxed)));
        after(Duration::from_millis(1950)).await;
        poller.stop().await
    }

    async fn after(wait: Duration) {
        let _over = tokio::time::timeout(wait, std::future::pending::<()>()).await;
    }

    fn refused(wait: Duration) -> Result<(), Refusal> {
        Err(Refusal { reason: REFUSED.to_owned(), wait })
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_for_its_answer_keeps_nobody_from_asking() {
        let answers = answers(|number| async move {
            let wait = if number == 3 { Duration::from_millis(1400) } else { Duration::from_millis(500) };
            after(wait).await;
            Ok(())
        })
        .await;
        assert_eq!((answers.good, answers.retried, answers.failed.len()), (21, 0, 0));
        assert_eq!(answers.slowest, Duration::from_millis(1400));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_counts_and_a_wait_that_was_asked_for_does_not() {
        let answers = answers(|number| async move {
            after(Duration::from_millis(20)).await;
            if number == 0 { refused(RETRY_AFTER) } else { Ok(()) }
        })
        .await;
        assert_eq!((answers.good, answers.retried, answers.failed.len()), (21, 1, 0));
        assert_eq!(answers.slowest, Duration::from_millis(40));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_twice_has_failed() {
        let answers = answers(|_| async { refused(Duration::ZERO) }).await;
        assert_eq!((answers.good, answers.failed.len()), (0, 21));
        assert_eq!(answers.failed[1], (EVERY, REFUSED.to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_on_their_way_than_can_be_looked_after() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let poller = Poller::asking(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async {
                after(Duration::from_secs(60)).await;
                Ok(())
            }
        });
        after(EVERY * 140).await;
        let answers = poller.stop().await;
        assert_eq!(asked.load(Ordering::Relaxed), AT_ONCE);
        assert_eq!(answers.good, AT_ONCE);
        assert!(!answers.failed.is_empty());
    }
}
