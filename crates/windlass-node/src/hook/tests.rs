use std::ffi::OsString;

use tokio::net::UnixListener;
use windlass_steps::host::{Mode, ScriptedHost, make_dir, write_file};

use super::*;
use crate::containerd;
use crate::record::{State, collect};

fn hook(image: Option<&str>, words: &[&str]) -> RunHook {
    RunHook {
        name: GroupName::parse("driver").unwrap(),
        image: image.map(str::to_owned),
        command: words.iter().map(OsString::from).collect(),
    }
}

#[tokio::test]
async fn a_hook_is_recorded_and_its_code_passed_on() {
    let cases: [(&str, Option<u8>, &[&str]); 5] = [
        ("echo fine; echo grumble >&2", None, &[]),
        ("echo lost; echo no such device >&2; exit 3", Some(3), &["no such device"]),
        ("kill -KILL $$", Some(137), &[]),
        ("exit 78", Some(78), &[]),
        ("sleep 20 & echo left >&2; exit 4", Some(4), &["left"]),
    ];
    for (script, code, said) in cases {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let ended = run(&places, &hook(None, &["/bin/sh", "-c", script])).await;
        assert_eq!(ended.as_ref().err().map(|failure| failure.exit), code.map(Exit::Passed), "{script}");
        let record = &collect(&places)["hook-driver"];
        assert_eq!(record.state, if code.is_some() { State::Failed } else { State::Done }, "{script}");
        assert_eq!(record.stage, "run", "{script}");
        assert_eq!(record.said, said, "{script}");
        assert!(record.ended.is_some());
        if code.is_some() {
            assert_eq!(record.because[0], "the hook driver did not end well");
        }
    }
}

#[tokio::test]
async fn a_hook_that_is_not_there_is_told_without_a_code_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let failure = run(&places, &hook(None, &["/no/such/hook"])).await.unwrap_err();
    assert_eq!(failure.exit, Exit::TryAgain);
    assert_eq!(collect(&places)["hook-driver"].because[1], "cannot find the program /no/such/hook");
}

fn open_gate(places: &Places) {
    make_dir(places.kubelet_env().parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
    write_file(places.kubelet_env(), "", Mode::PUBLIC).unwrap();
}

/// The order of the units ends with the first attempt of the node flow, whatever becomes of it.
#[tokio::test(start_paused = true)]
async fn user_data_ran_beside_a_node_flow_that_had_failed_once_and_was_cut_by_its_reboot() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let name = GroupName::parse("tune").unwrap();
    let waits = async || {
        let waited = tokio::time::timeout(std::time::Duration::from_secs(3600), run_user_data(&places, &name)).await;
        assert!(waited.is_err(), "{waited:?}");
        let record = &collect(&places)["user-data-tune"];
        assert_eq!(record.stage, "await-node-flow");
        record.unmet[0].reason.clone()
    };
    assert_eq!(waits().await, "the node flow has not opened the gate yet");
    make_dir(places.reboot_due().parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
    write_file(places.reboot_due(), "into OS version 2", Mode::PUBLIC).unwrap();
    open_gate(&places);
    assert_eq!(waits().await, "this boot is about to end");
    std::fs::remove_file(places.reboot_due()).unwrap();
    await_node_flow(&places, &mut |_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn user_data_is_run_as_often_as_it_is_asked_for_and_tells_earlier_failures() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let name = GroupName::parse("tune").unwrap();
    let script = places.user_data("tune");
    make_dir(script.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
    open_gate(&places);
    let write = |text: &str| write_file(&script, text, Mode::EXECUTABLE).unwrap();
    write("#!/bin/sh\necho cannot tune >&2\nexit 9\n");
    assert_eq!(run_user_data(&places, &name).await.unwrap_err().exit, Exit::Passed(9));
    assert_eq!(collect(&places)["user-data-tune"].said, ["cannot tune"]);
    write("#!/bin/sh\n");
    run_user_data(&places, &name).await.unwrap();
    let record = &collect(&places)["user-data-tune"];
    assert_eq!((record.state, record.attempt, record.earlier[0].stage.as_str()), (State::Done, 2, "run"));
}

const IMAGE: &str = "registry.example/warm:2";
const CONTAINERS: &str = "ctr --namespace k8s.io containers list --quiet id==windlass-hook-driver";
const IMAGES: &str = "ctr --namespace k8s.io images list --quiet name==registry.example/warm:2";
const PULL: &str = "ctr --namespace k8s.io images pull registry.example/warm:2";
const KILL: &str = "ctr --namespace k8s.io tasks delete --force windlass-hook-driver";
const REMOVE: &str = "ctr --namespace k8s.io containers delete windlass-hook-driver";
const RUN: &str = "ctr --namespace k8s.io run --rm --privileged --net-host \
    --mount type=bind,src=/,dst=/rootfs,options=rbind:rw registry.example/warm:2 windlass-hook-driver warm '50% of $HOME'";

/// Its name, the runtime, what is asked of it, how the hook ends and at which stage.
type Case<'a> = (&'a str, ScriptedHost, &'a [&'a str], Result<(), Exit>, &'a str);

#[tokio::test]
async fn a_container_is_made_of_what_is_there_and_leftovers_go_first() {
    let known = || ScriptedHost::default().answer(CONTAINERS, "").answer(IMAGES, format!("{IMAGE}\n"));
    let missing = || ScriptedHost::default().answer(CONTAINERS, "\n").answer(IMAGES, "");
    let left = || ScriptedHost::default().answer(CONTAINERS, "windlass-hook-driver\n").answer(IMAGES, IMAGE);
    let cases: [Case<'_>; 8] = [
        ("all is there", known().answer(RUN, ""), &[CONTAINERS, IMAGES, RUN], Ok(()), "run"),
        ("it fails", known().fail(RUN, 5, "no"), &[CONTAINERS, IMAGES, RUN], Err(Exit::Passed(5)), "run"),
        ("pulled", missing().answer(PULL, "").answer(RUN, ""), &[CONTAINERS, IMAGES, PULL, RUN], Ok(()), "run"),
        ("not to be had", missing().fail(PULL, 1, "x"), &[CONTAINERS, IMAGES, PULL], Err(Exit::TryAgain), "pull-image"),
        (
            "left and running",
            left().answer(KILL, "").answer(REMOVE, "").answer(RUN, ""),
            &[CONTAINERS, KILL, REMOVE, IMAGES, RUN],
            Ok(()),
            "run",
        ),
        (
            "left and ended",
            left().fail(KILL, 1, "no task").answer(REMOVE, "").answer(RUN, ""),
            &[CONTAINERS, KILL, REMOVE, IMAGES, RUN],
            Ok(()),
            "run",
        ),
        (
            "left and stuck",
            left().fail(KILL, 1, "x").fail(REMOVE, 1, "busy"),
            &[CONTAINERS, KILL, REMOVE],
            Err(Exit::TryAgain),
            "remove-leftovers",
        ),
        ("no runtime", ScriptedHost::default(), &[CONTAINERS], Err(Exit::TryAgain), "remove-leftovers"),
    ];
    for (name, host, ran, ended, stage) in cases {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let mut record = Recorder::begin(&places, "hook-driver", "begin");
        let hook = hook(Some(IMAGE), &["warm", "50% of $HOME"]);
        make_dir(places.containerd_socket().parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        let runtime = containerd::tests::serve(UnixListener::bind(places.containerd_socket()).unwrap());
        let done = tokio::select! {
            done = run_hook(&places, &hook, &host, &mut record) => done,
            () = runtime => panic!("a runtime serves for ever"),
        };
        assert_eq!(host.ran(), ran, "{name}");
        let told = told("hook-driver", done, &mut record);
        assert_eq!(told.map_err(|failure| failure.exit), ended, "{name}");
        assert_eq!(collect(&places)["hook-driver"].stage, stage, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_in_an_image_says_that_it_waits_for_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let host = ScriptedHost::default();
    let mut record = Recorder::begin(&places, "hook-driver", "begin");
    let hook = hook(Some(IMAGE), &["warm"]);
    let waited = run_hook(&places, &hook, &host, &mut record);
    assert!(tokio::time::timeout(std::time::Duration::from_secs(3600), waited).await.is_err());
    let record = &collect(&places)["hook-driver"];
    assert_eq!((record.stage.as_str(), record.unmet[0].statement.as_str()), ("await-runtime", "containerd answers"));
    assert_eq!(host.ran(), [""; 0]);
}
