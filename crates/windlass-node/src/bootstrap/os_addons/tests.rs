use std::fs;

use windlass_steps::host::{Mode, ScriptedHost, make_dir};

use super::super::files;
use super::super::tests::World;
use super::*;
use crate::choice::Explanation;
use crate::exit::Exit;
use crate::record::collect;

const REFRESH: &str = "systemd-sysext refresh";
const OS_1: [&str; 2] = ["containerd-2.2.9-os1", "kubelet-1.36.3-os1"];
const BOTH: [&str; 4] = ["containerd-2.2.9-os1", "containerd-2.2.9-os2", "kubelet-1.36.3-os1", "kubelet-1.36.3-os2"];

/// A master that works, and then starts into an operating system for which nobody has prepared it.
async fn surprised() -> World {
    let world = World::of("master", Some(0)).await;
    world.seed(&OS_1);
    world.run(&ScriptedHost::default(), &[]).await.unwrap();
    runtime_data::note_owner(&world.places()).unwrap();
    files::write(world.places().os_release(), "ID=debian\nVERSION_ID=\"2\"\n", Mode::PUBLIC).unwrap();
    world
}

async fn mended(world: &World, host: &ScriptedHost, words: &[&str]) -> Result<(), BootstrapError> {
    mend(&world.places(), &world.command(words), host).await
}

fn refreshing() -> ScriptedHost {
    ScriptedHost::default().answer(REFRESH, "")
}

#[tokio::test]
async fn a_machine_that_lost_its_power_with_an_update_staged_had_no_runtime_ever_after() {
    let world = surprised().await;
    let ahead = world.places().extensions().join("kubelet-1.36.3-os3");
    make_dir(&ahead, Mode::PUBLIC_DIR).unwrap();
    let host = refreshing();
    mended(&world, &host, &[]).await.unwrap();
    assert_eq!(host.ran(), [REFRESH]);
    assert!(ahead.exists(), "nobody asked which one comes next");
    fs::remove_dir_all(ahead).unwrap();
    assert_eq!(world.merged(), BOTH);
    let told = Explanation::read(&world.places()).unwrap().to_string();
    let (_, told) = told.split_once("staged for OS version 2:\n").unwrap();
    assert!(told.contains("chose   runtimes: 2.2.9, this machine had 2.2.9, "), "{told}");
    let record = &collect(&world.places())[UNIT];
    assert_eq!((record.state, &record.data["os"]), (State::Done, &"2".into()));
}

#[tokio::test]
async fn a_boot_to_which_nothing_is_lacking_asks_nobody_and_tells_nothing() {
    let world = World::of("master", Some(0)).await;
    world.seed(&OS_1);
    mended(&world, &ScriptedHost::default(), &[]).await.unwrap();
    assert!(collect(&world.places()).is_empty());
    let world = surprised().await;
    mended(&world, &ScriptedHost::default(), &["--torcx-skip-setup"]).await.unwrap();
    assert_eq!(world.merged(), OS_1);
}

#[tokio::test]
async fn what_was_there_and_not_merged_is_merged_by_the_next_attempt_without_a_bucket() {
    let world = surprised().await;
    let error = mended(&world, &ScriptedHost::default(), &[]).await.unwrap_err();
    assert!(matches!(error, BootstrapError::MergeAddons { .. }), "{error}");
    assert_eq!(world.merged(), BOTH);
    fs::remove_dir_all(world.dir.path().join("bucket")).unwrap();
    for ran in [&[REFRESH][..], &[]] {
        let host = refreshing();
        mended(&world, &host, &[]).await.unwrap();
        assert_eq!(host.ran(), ran);
    }
    let record = &collect(&world.places())[UNIT];
    assert_eq!((record.state, record.attempt), (State::Done, 2));
}

#[tokio::test]
async fn nothing_is_taken_that_the_node_flow_would_not_take() {
    type Break = fn(&World);
    let cases: [(&str, Break, Exit); 3] = [
        (
            "is missing",
            |w| fs::remove_file(w.dir.path().join("bucket/amd64-usr/2/torcx_manifest.json.asc")).unwrap(),
            Exit::Permanent,
        ),
        (
            "this is a rollback",
            |w| files::write(w.places().addons_seen(), r#"{"amd64-usr/2":9}"#, Mode::PUBLIC).unwrap(),
            Exit::Permanent,
        ),
        ("it is not there", |w| fs::remove_dir_all(w.dir.path().join("bucket/amd64-usr/2")).unwrap(), Exit::TryAgain),
    ];
    for (word, spoil, exit) in cases {
        let world = surprised().await;
        spoil(&world);
        let host = refreshing();
        let error = mended(&world, &host, &[]).await.unwrap_err();
        let told = chain(&error).join(": ");
        assert!(told.contains(word), "{word}: {told}");
        assert_eq!((error.failure().exit, host.ran().len()), (exit, 0), "{told}");
        assert_eq!(world.merged(), OS_1, "{word}");
        assert_eq!(collect(&world.places())[UNIT].state, State::Failed);
    }
}
