use std::path::Path;

use serde_json::{Value, json};
use windlass_assets::Manifests;
use windlass_assets::manifest::Group;
use windlass_spec::file::read_and_complete;
use windlass_steps::host::{Mode, write_file};
use windlass_steps::wait::Wait;

use super::*;
use crate::pivot::tests::fake::FakeApi;

const SPEC: &str =
    "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  domain: demo.test\n";
const ADDONS: [&str; 5] = ["coredns", "dashboard", "flannel", "kube-proxy", "os-update"];

fn install(dir: &Path) {
    let (_, spec) = read_and_complete(SPEC.as_bytes()).unwrap();
    for (name, text) in Manifests::make(&spec).unwrap().group(Group::Addons) {
        write_file(dir.join(name), text, Mode::PRIVATE_FILE).unwrap();
    }
}

fn done(api: &FakeApi, addon: &str) -> Value {
    let object = api.object(&format!("/apis/windlass.dev/v1alpha1/addons/{addon}"));
    object.map(|object| object["status"]["conditions"][0].clone()).unwrap_or_default()
}

/// Lets every workload roll out once every add-on has said that it has not.
async fn roll_out(api: &FakeApi) {
    let all_said = Criterion::new("every add-on says that it is not done", || async {
        let said = ADDONS.iter().filter(|addon| done(api, addon)["status"] == "False").count();
        Ok(if said == ADDONS.len() {
            Observation::Holds
        } else {
            Observation::NotYet(windlass_steps::reason!("{said}"))
        })
    });
    let ignore = |_: windlass_steps::wait::Change<'_>| -> Result<(), ()> { Ok(()) };
    Wait::stalled_for(Duration::from_secs(30)).until(&[all_said], ignore).await.unwrap();
    assert_eq!(
        done(api, "flannel")["message"],
        "DaemonSet kube-flannel/kube-flannel: its controller has not seen it yet"
    );
    api.change("/daemonsets/", |set| {
        set["status"] = json!({"observedGeneration": 1, "desiredNumberScheduled": 5, "currentNumberScheduled": 5,
            "numberMisscheduled": 0, "updatedNumberScheduled": 5, "numberReady": 5, "numberAvailable": 5});
    });
    api.change("/deployments/", |one| {
        let n = one["spec"]["replicas"].clone();
        one["status"] = json!({"observedGeneration": 1, "replicas": n, "updatedReplicas": n, "readyReplicas": n,
            "availableReplicas": n});
    });
}

#[tokio::test]
async fn every_add_on_says_why_it_is_not_done_and_then_that_it_is() {
    let dir = tempfile::tempdir().unwrap();
    install(dir.path());
    let api = FakeApi::start().await;
    let client = api.client();
    let places = Places::below(dir.path().join("machine"));
    for round in ["first", "again"] {
        let told = Told::into(Recorder::begin(&places, UNIT, "begin"));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let run = Run::new("demo", Arc::clone(&clock), Stream::new().reader(told.clone()));
        let installing = flow(&run, &client, dir.path().to_owned(), clock, &told);
        let (installed, ()) = match round {
            "first" => tokio::join!(installing, roll_out(&api)),
            _ => (installing.await, ()),
        };
        installed.unwrap();
        for addon in ADDONS {
            let condition = done(&api, addon);
            assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("RolledOut")), "{addon}");
        }
    }
    let patches = |line: &&String| line.ends_with("/addons/coredns/status");
    assert_eq!(api.written().iter().filter(patches).count(), 2, "what is said already is not said again");
}
