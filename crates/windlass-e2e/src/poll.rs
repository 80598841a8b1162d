//! A client that never stops asking: ten times a second, with one retry, as a patient user's program would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::task::JoinHandle;

const EVERY: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(5);
/// What an API server that goes asks for, with 429 and `Retry-After: 1`; every client of Kubernetes' own does as it is asked.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Every cluster has it.
const NAMESPACE: &str = "kube-system";

/// How the asking went.
#[derive(Debug, Default)]
pub struct Answers {
    /// Requests that were answered.
    pub good: usize,
    /// Requests that needed their retry.
    pub retried: usize,
    /// Requests that failed twice: when, and why.
    pub failed: Vec<(Duration, String)>,
    /// The slowest.
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
        Poller::asking(client, Question::Version)
    }

    /// Begins to read an object.
    pub fn reading(client: Client) -> Self {
        Poller::asking(client, Question::Namespace)
    }

    fn asking(client: Client, question: Question) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let asking = tokio::spawn(async move {
            let (begun, mut answers, mut ticks) = (Instant::now(), Answers::default(), tokio::time::interval(EVERY));
            while !seen.load(Ordering::Relaxed) {
                ticks.tick().await;
                let asked = Instant::now();
                match ask(&client, question).await {
                    Ok(()) => answers.good += 1,
                    Err(refusal) => match again(&client, question, &refusal).await {
                        Ok(()) => {
                            answers.good += 1;
                            answers.retried += 1;
                        }
                        Err(refusal) => answers.failed.push((begun.elapsed(), refusal.reason)),
                    },
                }
                answers.slowest = answers.slowest.max(asked.elapsed());
            }
            answers
        });
        Poller { stop, asking }
    }

    /// Stops, and says how it went.
    pub async fn stop(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        self.asking.await.expect("asking does not panic")
    }
}

struct Refusal {
    reason: String,
    wait: Duration,
}

async fn again(client: &Client, question: Question, refusal: &Refusal) -> Result<(), Refusal> {
    // Nothing is to happen meanwhile.
    let _over = tokio::time::timeout(refusal.wait, std::future::pending::<()>()).await;
    ask(client, question).await
}

async fn ask(client: &Client, question: Question) -> Result<(), Refusal> {
    let wait = |error: &kube::Error| match error {
        kube::Error::Api(status) if status.code == 429 => RETRY_AFTER,
        _ => Duration::ZERO,
    };
    let asking = async {
        match question {
            Question::Version => client.apiserver_version().await.map(drop),
            Question::Namespace => Api::<Namespace>::all(client.clone()).get(NAMESPACE).await.map(drop),
        }
    };
    match tokio::time::timeout(LIMIT, asking).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Refusal { wait: wait(&error), reason: error.to_string() }),
        Err(_) => Err(Refusal { wait: Duration::ZERO, reason: format!("no answer in {LIMIT:?}") }),
    }
}
