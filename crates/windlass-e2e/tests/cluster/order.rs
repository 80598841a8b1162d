//! The order of the launch document, a to h, as journal and cluster show it.

use windlass_cloud_api::MachineState;
use windlass_e2e::Installation;
use windlass_e2e::journal::STEPS;

/// Within so many seconds everything that stands in the way is told.
const PREFLIGHT: f64 = 3.0;

pub async fn is_that_of_the_launch_document(cluster: &Installation) {
    let journal = cluster.journal();
    assert_eq!(journal.finished(), STEPS);
    assert!(journal.took("preflight").is_some_and(|took| took <= PREFLIGHT), "{:?}", journal.took("preflight"));
    // Each of these was looked at and held, not merely passed over.
    for (step, criterion) in [
        ("deliver-assets", "the bootstrap machine has its assets"),
        ("serve-machine-config", "every master has its config, or a quorum went on without it"),
        ("form-etcd-quorum", "etcd has a quorum"),
        ("start-control-plane", "machine-config server and signer have stopped"),
        ("pivot-control-plane", "the balancer leads to masters alone"),
        ("retire-bootstrap", "nothing is left of the bootstrap machine"),
    ] {
        let observed = journal.observed(step);
        let last = observed.iter().rfind(|(statement, ..)| statement == criterion);
        assert!(last.is_some_and(|(_, reason, _)| reason.is_none()), "{step}: {criterion}: {observed:?}");
    }

    // The bootstrap machine and the objects with its secrets are gone.
    let (cloud, name) = (cluster.cloud(), cluster.infra_id());
    let machines = cloud.machines(&name).await.expect("the cloud answers");
    let mut names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    names.sort();
    assert_eq!(names, ["master-0", "master-1", "master-2", "worker-0", "worker-1"]);
    assert!(machines.iter().all(|machine| matches!(machine.state, MachineState::Running { .. })), "{machines:?}");
    let objects = cloud.objects(&name).await.expect("the cloud answers");
    assert!(objects.iter().all(|object| !object.key.as_str().contains("bootstrap")), "{objects:?}");

    // The control plane is the cluster's own, with the twins, and nothing of the temporary one is left.
    let pods = cluster.kubectl(&["get", "pods", "-n", "kube-system", "-o", "name"]).await.ended(0).stdout;
    assert!(!pods.contains("bootstrap-"), "{pods}");
    for (app, count) in [
        ("kube-apiserver", 3),
        ("kube-controller-manager", 3),
        ("kube-scheduler", 3),
        ("machine-config-server", 3),
        ("csr-approver", 3),
        ("checkpointer", 3),
        ("kube-proxy", 5),
    ] {
        let of = |line: &&str| line.strip_prefix("pod/").is_some_and(|pod| pod.starts_with(&format!("{app}-")));
        assert_eq!(pods.lines().filter(of).count(), count, "{app}: {pods}");
    }
    let addons = cluster.kubectl(&["get", "addons", "-o", "json"]).await.ended(0).stdout;
    let addons: serde_json::Value = serde_json::from_str(&addons).expect("kubectl writes JSON");
    let addons = addons["items"].as_array().expect("a list");
    assert!(addons.len() >= 4, "{addons:?}");
    for addon in addons {
        let conditions = addon["status"]["conditions"].as_array().expect("conditions");
        assert!(conditions.iter().any(|c| c["type"] == "Done" && c["status"] == "True"), "{addon}");
    }
}
