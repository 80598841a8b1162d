use serde_json::json;
use tokio::task::JoinHandle;

use super::super::protocol::{ADDONS_STAGED, AFTER_REBOOT, BEFORE_REBOOT, REBOOT_OK, WAITS_FOR};
use super::super::testing::{in_api, node, object, saying};
use super::*;
use crate::follow::fake::{FakeApi, LEASES, NODES, PODS};

async fn start(api: &FakeApi, identity: &str) -> (Interrupt, JoinHandle<()>) {
    let required = Required { before: vec![ADDONS_STAGED.to_owned()], after: Vec::new() };
    let coordinator = Coordinator::new(api.client().await, required, identity);
    let interrupt = Interrupt::default();
    let until = interrupt.clone();
    (interrupt, tokio::spawn(async move { coordinator.serve(&until).await }))
}

async fn cluster() -> FakeApi {
    let api = FakeApi::start().await;
    for n in 0..3 {
        let name = format!("master-{n}");
        api.put(NODES, object(&node(&name)));
        for app in ["etcd", "kube-apiserver"] {
            let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            let metadata = json!({"name": format!("{app}-{name}"), "labels": {"k8s-app": app}});
            api.put(
                PODS,
                json!({"metadata": metadata, "spec": {"nodeName": name, "containers": []}, "status": status}),
            );
        }
    }
    api.put(NODES, object(&node("worker-0")));
    api
}

fn holder(api: &FakeApi) -> String {
    let lease = api.get(LEASES, "reboot-coordinator").unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_node_is_led_through_its_reboot() {
    let api = cluster().await;
    let (interrupt, serving) = start(&api, "one").await;
    api.until(|api| holder(api) == "one").await;
    api.put(NODES, object(&saying(in_api(&api, "worker-0"), &["reboot-needed=true"])));
    api.until(|api| in_api(api, "worker-0").shows(BEFORE_REBOOT)).await;
    api.until(|api| in_api(api, "worker-0").annotations.contains_key(WAITS_FOR)).await;
    api.put(NODES, object(&saying(in_api(&api, "worker-0"), &["windlass.dev/addons-staged=true"])));
    api.until(|api| in_api(api, "worker-0").says(REBOOT_OK)).await;
    assert_eq!(in_api(&api, "worker-0").annotations.get(ADDONS_STAGED), None);

    // Another one wants to go meanwhile, and a master's etcd is not what it was.
    api.put(NODES, object(&saying(in_api(&api, "master-0"), &["reboot-needed=true"])));
    let mut etcd = api.get(PODS, "etcd-master-1").unwrap();
    etcd["status"]["conditions"][0]["status"] = json!("False");
    api.put(PODS, etcd.clone());
    let back = ["reboot-needed=false", "reboot-in-progress=false"];
    api.put(NODES, object(&saying(in_api(&api, "worker-0"), &back)));
    api.until(|api| !in_api(api, "worker-0").says(REBOOT_OK)).await;
    assert!(!in_api(&api, "worker-0").has(AFTER_REBOOT));
    let held = |api: &FakeApi| in_api(api, "master-0").annotations.get(WAITS_FOR).cloned();
    api.until(|api| held(api).as_deref() == Some("etcd on master-1 is not ready")).await;
    etcd["status"]["conditions"][0]["status"] = json!("True");
    api.put(PODS, etcd);
    api.until(|api| in_api(api, "master-0").shows(BEFORE_REBOOT)).await;
    interrupt.raise();
    serving.await.unwrap();
    assert_eq!(holder(&api), "", "another one may coordinate at once");
}

#[tokio::test]
async fn only_one_of_two_coordinates() {
    let api = cluster().await;
    let (first, one) = start(&api, "one").await;
    api.until(|api| holder(api) == "one").await;
    let (second, two) = start(&api, "two").await;
    let asked = format!("GET {LEASES}/reboot-coordinator");
    let before = api.asked(&asked);
    api.put(NODES, object(&saying(in_api(&api, "worker-0"), &["reboot-needed=true"])));
    api.until(|api| in_api(api, "worker-0").shows(BEFORE_REBOOT) && api.asked(&asked) > before).await;
    assert_eq!(holder(&api), "one");
    first.raise();
    one.await.unwrap();
    api.until(|api| holder(api) == "two").await;
    api.put(NODES, object(&saying(in_api(&api, "worker-0"), &["windlass.dev/addons-staged=true"])));
    api.until(|api| in_api(api, "worker-0").says(REBOOT_OK)).await;
    second.raise();
    two.await.unwrap();
}
