//! What the node flow survives on real machines, at a length that no build has time for: `cargo xtask drill node`. Every
//! machine is a master without a cluster, as in `tests/node`, and meets one blow.

#![expect(clippy::print_stderr, reason = "what was measured is read in the drill's output")]

mod api;
mod buckets;
mod cuts;
mod disk;
mod engine;
mod sign;
mod versions;

use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use windlass_e2e::ground::{Config, Ground, Lone, OnApi};

/// Longer than anything takes on a host that is busy with something else.
const LONG: Duration = Duration::from_secs(300);
/// Two processors boot no more machines at a time.
const AT_ONCE: usize = 6;

/// What every machine is to have in the end.
const WANTED: [&str; 2] = ["containerd-2.2.9", "kubelet-1.36.3"];
const RUNTIME: &str = "2.2.9";
/// The machine keeps its operating system.
const STAY: &str = "--upgrade-os=false";

/// One blow, and the machine that meets it. What comes of it is seen by the drill, which answers it in a few words.
struct Blow<'a> {
    what: &'static str,
    name: &'static str,
    config: Box<dyn FnOnce(Config) -> Config + 'a>,
    drill: Drilled<'a>,
}

type Drilled<'a> = Box<dyn FnOnce(Rc<Lone<'a>>) -> LocalBoxFuture<'a, String> + 'a>;

impl<'a> Blow<'a> {
    fn new<D: Future<Output = String> + 'a>(
        what: &'static str,
        name: &'static str,
        config: impl FnOnce(Config) -> Config + 'a,
        drill: impl FnOnce(Rc<Lone<'a>>) -> D + 'a,
    ) -> Self {
        Blow { what, name, config: Box::new(config), drill: Box::new(|machine| drill(machine).boxed_local()) }
    }
}

/// A machine whose way to a kubelet does not wait for an API: somebody is there and says that he is none.
fn quick(machine: Config, flags: &str) -> Config {
    machine.arguments(flags).on_api(OnApi::Says(404))
}

/// Each blow on its machine, some at a time. One that goes wrong does not keep the others from being seen.
async fn strike<'a>(ground: &'a Ground, blows: Vec<Blow<'a>>) {
    let each = blows.into_iter().map(|blow| async move {
        let Blow { what, name, config, drill } = blow;
        let begun = Instant::now();
        let machine = Rc::new(ground.machine(name, config).await);
        let outcome = AssertUnwindSafe(drill(Rc::clone(&machine))).catch_unwind().await;
        let took = begun.elapsed().as_secs_f64();
        match &outcome {
            Ok(outcome) => eprintln!("blow: {what}: {outcome}: {took:.1} s"),
            Err(_) => eprintln!("blow: {what}: FAILED: {took:.1} s"),
        }
        machine.leave().await;
        outcome.err().map(|_| what)
    });
    let failed = stream::iter(each).buffer_unordered(AT_ONCE).filter_map(async |failed| failed);
    let failed: Vec<&str> = failed.collect().await;
    assert!(failed.is_empty(), "see above what became of: {failed:?}");
}

/// The kubelet runs, with what it should, and never did before its gate was there.
async fn comes_to_its_kubelet(machine: &Lone<'_>, boots: usize) {
    comes_to_its_kubelet_on(machine, "1", boots).await;
}

/// The same on an operating system that may be another one.
async fn comes_to_its_kubelet_on(machine: &Lone<'_>, os: &str, boots: usize) {
    machine.kubelet_runs(LONG).await;
    machine.kubelet_never_started_before_its_gate().await;
    assert_eq!(machine.sh(". /usr/lib/os-release; echo $VERSION_ID").await.trim(), os);
    machine.has_only(&WANTED, os).await;
    machine.runs_with_data_of(RUNTIME).await;
    assert_eq!(machine.boots().await, boots, "boots");
}
