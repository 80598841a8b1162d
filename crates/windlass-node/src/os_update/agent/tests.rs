use serde_json::json;
use windlass_steps::clock::SystemClock;

use super::super::protocol::{MADE_UNSCHEDULABLE, REBOOT_IN_PROGRESS, REBOOT_NEEDED, STATUS, WAITS_FOR};
use super::super::testing::{in_api, node, object, saying};
use super::*;
use crate::follow::fake::{FakeApi, NODES, PODS};
use crate::update_engine::Operation;

fn status(operation: Operation) -> Status {
    Status { last_checked: 7, progress: 0.0, operation, new_version: "2".to_owned(), new_size: 0 }
}

fn pod(name: &str, node: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "kube-system", "uid": name},
           "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"}})
}

async fn agent<'a>(api: &FakeApi, machine: &'a CountingMachine) -> Agent<&'a CountingMachine> {
    let started = Agent::start(api.client().await, "worker-0", machine, Arc::new(SystemClock::new())).await;
    Agent { again: Duration::from_millis(100), ..started.unwrap() }
}

impl Machine for &CountingMachine {
    async fn boot(&self) -> Result<String, MachineError> {
        (*self).boot().await
    }

    async fn reboot(&self) -> Result<(), MachineError> {
        (*self).reboot().await
    }
}

#[tokio::test]
async fn a_machine_is_drained_rebooted_and_opened_again() {
    let api = FakeApi::start().await;
    api.put(NODES, object(&node("worker-0")));
    for (name, node) in [("web", "worker-0"), ("precious", "worker-0"), ("other", "worker-1")] {
        api.put(PODS, pod(name, node));
    }
    api.keep(&["precious"]);
    let machine = CountingMachine::default();
    let engine = watch::Sender::new(None);
    let seen = |api: &FakeApi| in_api(api, "worker-0");
    let first = async {
        api.until(|api| seen(api).denies(REBOOT_NEEDED)).await;
        engine.send_replace(Some(status(Operation::UpdatedNeedReboot)));
        api.until(|api| seen(api).says(REBOOT_NEEDED) && seen(api).shows(REBOOT_NEEDED)).await;
        assert_eq!(seen(&api).annotations[STATUS], "UPDATE_STATUS_UPDATED_NEED_REBOOT");
        api.put(NODES, object(&saying(seen(&api), &["reboot-ok=true"])));
        api.until(|api| api.get(PODS, "web").is_none()).await;
        let held = "the pod kube-system/precious: the API answered 429: told so";
        api.until(|api| seen(api).annotations.get(WAITS_FOR).is_some_and(|why| why == held)).await;
        assert!(seen(&api).unschedulable && seen(&api).says(MADE_UNSCHEDULABLE) && seen(&api).says(REBOOT_IN_PROGRESS));
        assert_eq!(machine.reboots(), 0, "a disruption budget is waited for");
        api.keep(&[]);
        api.until(|_| machine.reboots() == 1).await;
        assert!(api.get(PODS, "precious").is_none() && api.get(PODS, "other").is_some());
    };
    let serving = agent(&api, &machine).await;
    tokio::select! {
        _never = serving.serve(engine.subscribe()) => {}
        () = first => {}
    }

    engine.send_replace(Some(status(Operation::Idle)));
    let second = async {
        api.until(|api| seen(api).denies(REBOOT_IN_PROGRESS) && seen(api).denies(REBOOT_NEEDED)).await;
        assert!(seen(&api).unschedulable, "the coordinator has not released it");
        api.put(NODES, object(&saying(seen(&api), &["reboot-ok=false"])));
        api.until(|api| !seen(api).unschedulable && seen(api).denies(MADE_UNSCHEDULABLE)).await;
        assert_eq!(machine.reboots(), 1);
    };
    let serving = agent(&api, &machine).await;
    tokio::select! {
        _never = serving.serve(engine.subscribe()) => {}
        () = second => {}
    }
}

/// The agent's pod may be restarted while it drains; that is no reboot.
#[tokio::test]
async fn an_agent_that_starts_again_in_the_middle_goes_on() {
    let api = FakeApi::start().await;
    let words =
        ["reboot-needed=true", "reboot-ok=true", "reboot-in-progress=true", "windlass.dev/reboot-ends-boot=boot-0"];
    let mut going = saying(node("worker-0"), &words);
    going.unschedulable = true;
    api.put(NODES, object(&going));
    let machine = CountingMachine::default();
    let serving = agent(&api, &machine).await;
    let engine = watch::Sender::new(None);
    tokio::select! {
        _never = serving.serve(engine.subscribe()) => {}
        () = api.until(|_| machine.reboots() == 1) => {}
    }
    assert!(in_api(&api, "worker-0").says(REBOOT_IN_PROGRESS));
}
