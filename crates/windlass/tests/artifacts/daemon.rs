//! Programs that run beside a test and end with it, however it ends.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot::{self, Sender};
use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::host::{CommandSpec, run};
use windlass_steps::wait::Wait;

/// Runs as long as this lives; its whole process group dies with it.
pub struct Daemon {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub fn start(command: CommandSpec) -> Self {
        let (stop, stopped) = oneshot::channel();
        let body = async move {
            tokio::select! {
                ended = run(command) => panic!("it ended by itself: {ended:?}"),
                _ = stopped => {}
            }
        };
        let thread = std::thread::spawn(move || runtime().block_on(body));
        Daemon { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "a daemon ended before its test");
    }
}

/// Waits until a look says yes; a look that says no says why.
pub fn wait_for(statement: &'static str, look: impl Fn() -> Result<(), String>) {
    let looked = || {
        let seen = match look() {
            Ok(()) => Observation::Holds,
            Err(reason) => Observation::NotYet(Reason::new(reason)),
        };
        async move { Ok(seen) }
    };
    let criterion = Criterion::new(statement, looked);
    let wait = Wait::stalled_for(Duration::from_secs(60)).poll_every(Duration::from_millis(100));
    let waited = runtime().block_on(wait.until(&[criterion], |_| Ok::<(), String>(())));
    waited.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
