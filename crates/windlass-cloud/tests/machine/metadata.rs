//! A small metadata service and machine API for one machine, on a socket made in that machine's network namespace.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::task::JoinHandle;
use windlass_cloud::guest::update_engine::{Next, Os, StageRequest};
use windlass_cloud::machine::{Slot, mounts, slot};

pub struct Metadata {
    answers: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Metadata {
    /// Serves user-data (at once or when told), and offers this slot as the next OS.
    pub fn serve(pin: &Path, user_data: &'static str, answers: bool, directory: PathBuf, next: Slot) -> Self {
        let listener = listen_in(pin);
        let answers = Arc::new(AtomicBool::new(answers));
        let (asked, other) = (answers.clone(), directory.clone());
        let user_data = move || async move {
            match asked.load(Ordering::SeqCst) {
                true => (StatusCode::OK, user_data),
                false => (StatusCode::SERVICE_UNAVAILABLE, "later"),
            }
        };
        let offered = Next { version: next.version.clone(), size: 1000, digest: "sha256:00".to_owned() };
        let os = move || async move {
            let current = slot::current(&other).unwrap().map(|slot| slot.version).unwrap_or_default();
            let next = (offered.version != current).then_some(offered);
            let staged = slot::staged(&other).unwrap().map(|slot| slot.version);
            Json(Os { current, next, staged })
        };
        let stage = move |Json(request): Json<StageRequest>| async move {
            assert_eq!(request.version, next.version);
            slot::stage(&directory, &next).unwrap();
            Body::from("{\"state\":\"downloading\",\"bytes\":500}\n{\"state\":\"verifying\"}\n{\"state\":\"staged\"}\n")
        };
        let router = Router::new().route("/1.0/user-data", get(user_data)).route("/v1/os", get(os));
        let router = router.route("/v1/os/stage", post(stage));
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { answers, task }
    }

    pub fn serve_user_data(&self) {
        self.answers.store(true, Ordering::SeqCst);
    }

    pub fn refuse_user_data(&self) {
        self.answers.store(false, Ordering::SeqCst);
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A socket belongs to the namespace of the thread that made it.
fn listen_in(pin: &Path) -> TcpListener {
    let pin = pin.to_owned();
    let made = std::thread::spawn(move || {
        mounts::enter_network(&pin).unwrap();
        TcpListener::bind("169.254.169.254:80").unwrap()
    });
    let listener = made.join().unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}
