//! Our side: the commands of the README, with the journal as the timeline.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::host::{CommandSpec, cmd, read_file, run_blocking};

use super::Timeline;
use super::usage::Watch;
use crate::session::Session;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

const JOURNAL: u64 = 64 << 20;
/// Every node and every pod is ready when this step has finished; what follows is the trial as a user.
const LAST: &str = "settle-addons";

/// Launches and removes a cluster.
pub fn launch(session: &Session, place: &Path, artifacts: &Path) -> Result<Timeline, Trouble> {
    let dir = place.join("windlass");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let windlass = || {
        let program: CommandSpec = cmd(session.built().join("release/windlass"));
        program.arg("--dir").arg(&dir).arg("--cache").arg(artifacts)
    };
    let init = run_blocking(cmd(session.built().join("release/windlass")).args(["spec", "init", "--name", "bench"]))?;
    windlass_steps::host::write_file(dir.join("cluster.yaml"), &init.stdout, windlass_steps::host::Mode::PRIVATE_FILE)?;
    run_blocking(windlass().arg("prepare"))?;
    let metadata: Value = serde_json::from_slice(&read_file(dir.join("metadata.json"), JOURNAL)?)?;
    let infra_id = metadata["infraID"].as_str().ok_or("metadata.json names no infraID")?.to_owned();
    let watch = Watch::start(&infra_id);
    let (started, begun) = (Instant::now(), SystemClock::new().now());
    let launched = run_blocking(windlass().arg("launch").timeout(Duration::from_secs(900)));
    let took = started.elapsed();
    let restarts =
        launched.as_ref().map_err(ToString::to_string).and_then(|_| restarts(&dir).map_err(|e| e.to_string()));
    let marks = marks(&dir, begun);
    // What follows the last mark, the trial as a user, is no part of the comparison.
    let settled = marks.as_ref().ok().and_then(|marks| marks.last()).map_or(took, |(at, _)| *at);
    let usage = watch.stop(settled);
    run_blocking(windlass().args(["down", "--yes"]))?;
    launched?;
    Ok(Timeline { marks: marks?, usage, restarts: restarts? }).inspect(|_| {
        crate::report::say(format_args!("    windlass  launch with its trial as a user: {:.1} s", took.as_secs_f64()));
    })
}

/// The end of every step since the command began.
fn marks(dir: &Path, begun: OffsetDateTime) -> Result<Vec<(Duration, String)>, Trouble> {
    let text = String::from_utf8(read_file(dir.join("journal.jsonl"), JOURNAL)?)?;
    let mut marks = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line)?;
        if event["kind"] == "finished" {
            let at = OffsetDateTime::parse(event["time"].as_str().unwrap_or_default(), &Rfc3339)?;
            let step = event["step"].as_str().unwrap_or_default().to_owned();
            let is_last = step == LAST;
            marks.push((Duration::try_from(at - begun).unwrap_or_default(), step));
            if is_last {
                break;
            }
        }
    }
    Ok(marks)
}

/// How often containers of kube-system were started again.
fn restarts(dir: &Path) -> Result<u64, Trouble> {
    let kubectl = cmd(dir.join("bin/kubectl")).arg("--kubeconfig").arg(dir.join("auth/kubeconfig"));
    let pods = run_blocking(kubectl.args(["get", "pods", "-n", "kube-system", "-o", "json"]))?;
    super::peer::restarts_in(&serde_json::from_slice(&pods.stdout)?)
}
