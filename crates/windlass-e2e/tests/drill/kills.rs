//! `windlass launch` killed at every step, as nothing can prevent: `resume` finishes what it began, and `down` removes it.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Instant;

use windlass_e2e::host::Traces;
use windlass_e2e::journal::STEPS;
use windlass_e2e::{etcd, until};

use crate::{prepared, seed};

/// From here on etcd has members.
const QUORUM: usize = 5;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_launch_killed_at_each_of_its_steps_is_finished_by_resume() {
    let before = Traces::take();
    for (number, step) in STEPS.iter().enumerate() {
        // Every second bit of the seed's products is as good as a coin.
        let is_finished = (seed().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (number * 4)) & 1 == 1;
        let moment = format!("{step}/{}", if is_finished { "finished" } else { "started" });
        let cluster = prepared("kills").await;
        let ca = cluster.read("assets/pki/ca.crt");
        let mut launch = cluster.start(&["launch", "--killed-at", &moment]);
        let status = launch.wait().await.expect("a child ends");
        assert_eq!(status.signal(), Some(9), "{moment}: {}", cluster.said());
        let members = if number > QUORUM { Some(etcd::members(&cluster).await) } else { None };
        let resumed = Instant::now();
        // What was killed in its last step may have left nothing to do but that step's checks.
        cluster.windlass(&["resume"]).await.ended(0);
        let took = resumed.elapsed().as_secs_f64();
        // The last step looks again if it had finished before.
        let mut finished = cluster.journal().finished();
        finished.dedup();
        assert_eq!(finished, STEPS, "{moment}");
        assert_eq!(cluster.read("assets/pki/ca.crt"), ca, "{moment}");
        if let Some(members) = members {
            assert_eq!(etcd::members(&cluster).await, members, "{moment}");
        }
        cluster.windlass(&["verify"]).await.ended(0);
        cluster.windlass(&["down", "--yes"]).await.ended(0);
        left_nothing(&before).await;
        eprintln!("killed at {moment}: resumed in {took:.1} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_launch_killed_after_the_pivot_is_removed_as_it_is() {
    let before = Traces::take();
    let cluster = prepared("removed").await;
    let mut launch = cluster.start(&["launch", "--killed-at", "pivot-control-plane/finished"]);
    let status = launch.wait().await.expect("a child ends");
    assert_eq!(status.signal(), Some(9), "{}", cluster.said());
    let begun = Instant::now();
    cluster.windlass(&["down", "--yes"]).await.ended(0);
    left_nothing(&before).await;
    eprintln!("killed after the pivot: removed in {:.1} s", begun.elapsed().as_secs_f64());
}

async fn left_nothing(before: &Traces) {
    until("the host is as it was", crate::faults::TRACES, async || match Traces::take().changes(before) {
        changes if changes.is_empty() => Ok(()),
        changes => Err(changes.join("\n")),
    })
    .await;
}
