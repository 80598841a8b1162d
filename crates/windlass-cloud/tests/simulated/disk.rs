//! A host whose disk is full.

use std::path::{Path, PathBuf};

use windlass_cloud_api::{Label, RecordChange, RecordKind, RecordName};
use windlass_steps::host::{cmd, run_blocking};

use crate::support::Daemon;

/// Room for the state file as it is when it is new, and a little more.
const ROOM: &str = "size=8m,mode=700";

/// A small disk that is there until the test ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        run_blocking(cmd("mount").args(["-t", "tmpfs", "-o", ROOM, "none"]).arg(at)).unwrap();
        SmallDisk(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run_blocking(cmd("umount").arg("--lazy").arg(&self.0));
    }
}

#[ignore = "needs root: mounts a small disk"]
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_nothing_that_was_acknowledged_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(&place.path().join("state"));
    let mut daemon = Daemon::start_in(place).await;
    let cluster = daemon.cluster("full").await;
    let put = async |daemon: &Daemon, number: usize| {
        let name = RecordName::parse(&format!("n{number}")).unwrap();
        let change = RecordChange { kind: RecordKind::TXT, values: vec!["x".repeat(200)], only_if: Default::default() };
        daemon.client.put_record(&cluster, &name, &change).await
    };
    for number in 0..5 {
        put(&daemon, number).await.unwrap();
    }
    // Somebody else's file takes all the room that is left.
    let filler = daemon.state().join("filler");
    let filled = run_blocking(cmd("dd").args(["if=/dev/zero", "bs=64k"]).arg(format!("of={}", filler.display())));
    assert!(filled.is_err(), "dd ends when the disk is full");
    let mut acknowledged = 5;
    let refusal = loop {
        match put(&daemon, acknowledged).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error.to_string(),
        }
        assert!(acknowledged < 50_000, "the disk is never full");
    };
    println!("{acknowledged} records acknowledged, then: {refusal}");
    assert!(refusal.contains("full") || refusal.contains("No space left"), "{refusal}");
    assert_eq!(records(&daemon, &cluster).await, acknowledged, "what is there can be asked for");

    std::fs::remove_file(&filler).unwrap();
    put(&daemon, acknowledged).await.unwrap();
    assert_eq!(records(&daemon, &cluster).await, acknowledged + 1, "it goes on when there is room again");
    daemon.kill();
    daemon.again().await;
    assert_eq!(records(&daemon, &cluster).await, acknowledged + 1, "and what it acknowledged was on the disk");
    daemon.client.destroy(&cluster).await.unwrap();
    // Before the directory that it is in.
    drop(disk);
}

async fn records(daemon: &Daemon, cluster: &Label) -> usize {
    let records = daemon.client.records(cluster).await.unwrap();
    records.iter().filter(|record| record.kind == RecordKind::TXT).count()
}
