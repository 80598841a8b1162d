//! How long machines take to run, beside a bare systemd-nspawn boot of the same root. The answer is one line of JSON on
//! stdout, in seconds; `cargo bench -p windlass-cloud --bench machine` gives it, as root and with fetched artifacts. It
//! fails if a promised limit is exceeded, and `cargo xtask bench cloud` with it.

#![expect(clippy::unwrap_used, reason = "the helpers are those of tests")]

#[path = "../tests/machine/artifact.rs"]
mod artifact;
#[path = "../tests/machine/fixture.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod fixture;
#[path = "../tests/machine/host.rs"]
mod host;
#[path = "../tests/machine/metadata.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod metadata;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fixture::{Fixture, User};
use futures_util::future::join_all;
use serde_json::json;
use windlass_cloud::guest::nspawn;
use windlass_cloud::machine::{Groups, Limits, Part};
use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::host::{CommandSpec, cmd, run};
use windlass_steps::wait::Wait;

const ROUNDS: usize = 3;
const AT_ONCE: usize = 6;
/// Of a bare boot of the same root.
const MOST_RATIO: f64 = 1.5;
/// Seconds for all of them, with Ignition.
const MOST_AT_ONCE: f64 = 8.0;
const CONFIG: &str = r#"{"ignition": {"version": "3.4.0"}, "storage": {"files": [
  {"path": "/etc/written-by-ignition", "mode": 384, "contents": {"source": "data:,hello%0A"}}]},
  "systemd": {"units": [{"name": "written.service", "enabled": true, "contents":
  "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}]}}"#;

/// What a person would type: an overlay over the image, and systemd-nspawn on it. What it leaves below /run goes with it.
const BARE: &str = r#"set -e; root=$1; lower=$2; group=$3; shift 3
for tree in /sys/fs/cgroup /sys/fs/cgroup/*; do
  [ ! -f $tree/$group/cgroup.procs ] || echo $$ > $tree/$group/cgroup.procs
done
mount -t tmpfs tmpfs /run
mkdir -p $root/upper $root/work $root/root
mount -t overlay overlay -o lowerdir=$lower,upperdir=$root/upper,workdir=$root/work $root/root
exec "$@""#;

fn main() -> ExitCode {
    // `cargo test --benches` starts it as well, without this word.
    if !std::env::args().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads can be started");
    let figures = runtime.block_on(measure());
    writeln!(std::io::stdout(), "{figures}").expect("stdout is open");
    let exceeded = exceeded(&figures);
    for limit in &exceeded {
        writeln!(std::io::stderr(), "OVER  {limit}").expect("stderr is open");
    }
    if exceeded.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The limits that are not kept; a figure that is not there keeps none.
fn exceeded(figures: &serde_json::Value) -> Vec<String> {
    let limits = [("ratio", MOST_RATIO), ("six_with_ignition", MOST_AT_ONCE)];
    let is_kept = |name: &str, most: f64| figures[name].as_f64().is_some_and(|figure| figure <= most);
    let broken = limits.into_iter().filter(|(name, most)| !is_kept(name, *most));
    broken.map(|(name, most)| format!("{name} is {}  (limit: at most {most})", figures[name])).collect()
}

async fn measure() -> serde_json::Value {
    fixture::Artifacts::found();
    let (mut bare, mut plain, mut ignited, mut again) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_boot().await);
        let (first, second) = boot("plain", User::None).await;
        plain.push(first);
        again.push(second);
        ignited.push(boot("ignited", User::Data(CONFIG)).await.0);
    }
    let (six, cpu) = six_at_once().await;
    let (bare, plain) = (median(bare), median(plain));
    json!({
        "bare": bare, "machine": plain, "ratio": plain / bare,
        "machine_started_again": median(again), "machine_with_ignition": median(ignited), "six_with_ignition": six,
        "six_with_ignition_cpu": cpu,
    })
}

/// The first boot and one after a power cut.
async fn boot(name: &str, user: User) -> (f64, f64) {
    let fixture = Fixture::new(name, user, Limits::default()).await;
    let started = Instant::now();
    let on = fixture.start().await;
    fixture.until_running(&on).await;
    let first = started.elapsed().as_secs_f64();
    let off = on.power_cut().await.expect("the power can be cut");
    let started = Instant::now();
    let on = off.start().await.expect("it starts again");
    fixture.until_running(&on).await;
    let second = started.elapsed().as_secs_f64();
    let off = on.power_cut().await.expect("the power can be cut");
    fixture.remove(off).await;
    (first, second)
}

/// The time of the slowest, and the processor time of all.
async fn six_at_once() -> (f64, f64) {
    let names: Vec<String> = (0..AT_ONCE).map(|number| format!("m{number}")).collect();
    let fixtures = join_all(names.iter().map(|name| Fixture::new(name, User::Data(CONFIG), Limits::default()))).await;
    let started = Instant::now();
    let running = join_all(fixtures.iter().map(|fixture| async move {
        let on = fixture.start().await;
        fixture.until_running(&on).await;
        on
    }));
    let running = running.await;
    let took = started.elapsed().as_secs_f64();
    let cpu: f64 = running.iter().filter_map(|on| Some(on.usage().cpu?.as_secs_f64())).sum();
    for (fixture, on) in fixtures.into_iter().zip(running) {
        let off = on.power_cut().await.expect("the power can be cut");
        fixture.remove(off).await;
    }
    (took, cpu)
}

async fn bare_boot() -> f64 {
    let fixture = Fixture::new("bare", User::None, Limits::default()).await;
    let groups = fixture.description.groups().expect("there are control groups");
    groups.make(&Limits::default()).expect("control groups can be made");
    let started = Instant::now();
    let machine = tokio::spawn(run(bare_command(&fixture)));
    let look = || async { Ok(look(&groups).await) };
    let wait = Wait::stalled_for(Duration::from_secs(90)).poll_every(Duration::from_millis(20));
    let criterion = Criterion::new("the machine is running", look);
    let wait = wait.look_limit(Duration::from_secs(60));
    wait.until(&[criterion], |_| Ok::<(), std::convert::Infallible>(())).await.expect("it runs");
    let took = started.elapsed().as_secs_f64();
    groups.kill(Part::Machine).await.expect("it can be killed");
    // Killed, so that it fails.
    let _ = machine.await;
    took
}

fn bare_command(fixture: &Fixture) -> CommandSpec {
    let description = &fixture.description;
    let root = description.directory.clone();
    let group = format!("windlass/{}/{}/machine", description.cluster, description.machine);
    let command =
        cmd("unshare").args(["--mount", "sh", "-c", BARE, "sh"]).arg(&root).arg(&description.image).arg(group);
    let words = nspawn(description).into_iter().map(|word| word.into_string().expect("words are text"));
    command
        .args(words.filter(|word| !word.starts_with("--network-") && !word.starts_with("--bind-ro")))
        .arg(format!("--network-namespace-path={}", description.network.display()))
}

async fn look(groups: &Groups) -> Observation {
    let not_yet = |text: String| Observation::NotYet(Reason::new(text).at(0));
    let Ok(Some(leader)) = groups.leader() else { return not_yet("no leader".to_owned()) };
    let asked = cmd("nsenter").args(["--target", &leader.to_string(), "--all", "--root", "--wd", "--"]);
    let asked = run(asked.args(["systemctl", "is-system-running", "--wait"]).accept(1)).await;
    match asked {
        Ok(output) if output.stdout.trim_ascii() == b"running" => Observation::Holds,
        other => not_yet(format!("{other:?}")),
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
