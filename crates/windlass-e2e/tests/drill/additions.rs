//! What a user adds to a group takes effect on real machines, what fails is named, and what hangs is started again.

use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cloud_api::{ExecRequest, Label};
use windlass_e2e::{Installation, Shape, until};

/// A minute of grace, half a minute of silence, and a busy host.
const LONG: Duration = Duration::from_secs(240);

/// `@NODE_IMAGE@` and `@PAUSE_IMAGE@` are on every machine.
const SPEC: &str = r##"apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata:
  name: additions
spec:
  platform:
    local:
      egress: "off"
  instanceGroups:
  - name: master
    role: master
    count: 1
    fileAssets: &pod
    - path: /etc/kubernetes/manifests/of-user.yaml
      content: |
        apiVersion: v1
        kind: Pod
        metadata: {name: of-user, namespace: kube-system}
        spec:
          hostNetwork: true
          containers: [{name: sits, image: "@PAUSE_IMAGE@", imagePullPolicy: Never}]
  - name: worker
    role: worker
    count: 1
    fileAssets: *pod
    additionalUserData:
    - name: once
      type: shell
      content: |
        #!/bin/sh
        echo ran >> /var/lib/once
    - name: twice
      type: shell
      content: |
        #!/bin/sh
        echo ran >> /var/lib/twice
        echo not this time >&2
        test $(wc -l < /var/lib/twice) = 2
    - name: motd
      type: ignition
      content: '{"ignition":{"version":"3.3.0"},"storage":{"files":[{"path":"/etc/of-user","contents":{"source":"data:,merged"}}]}}'
    hooks:
    - name: first
      before: [kubelet.service]
      exec: [/bin/sh, -c, "sleep 3; systemctl show -P ActiveState kubelet.service > /var/lib/first"]
    - name: fails
      after: [network-online.target]
      exec: [/bin/sh, -c, "echo no such device >&2; exit 7"]
    - name: contained
      before: [kubelet.service]
      image: "@NODE_IMAGE@"
      exec: [/windlass-node, --root, /rootfs, report]
"##;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn what_a_user_adds_takes_effect_and_what_hangs_is_started_again() {
    let cluster = Installation::new("additions", Shape { masters: 1, workers: 1 }).await;
    cluster.windlass(&["prepare"]).await.ended(0);
    let plain = cluster.read("complete.yaml");
    let image = |name: &str| {
        // A version of the same name is no image.
        let mut values = plain.lines().filter_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        let value = values.find(|value| value.contains('/')).unwrap_or_else(|| panic!("{name}: {plain}"));
        value.trim_matches('"').to_owned()
    };
    let spec = SPEC.replace("@NODE_IMAGE@", &image("windlassNode")).replace("@PAUSE_IMAGE@", &image("pause"));
    cluster.put("cluster.yaml", &spec);
    cluster.windlass(&["prepare"]).await.ended(0);
    cluster.windlass(&["launch"]).await.ended(0);

    took_effect(&cluster).await;
    failures_are_named(&cluster).await;
    a_failed_script_runs_again_on_the_next_boot(&cluster).await;
    what_hangs_is_started_again(&cluster).await;
    cluster.windlass(&["down", "--yes"]).await.ended(0);
}

async fn took_effect(cluster: &Installation) {
    for machine in ["master-0", "worker-0"] {
        let pod = format!("of-user-{machine}");
        let phase = cluster.kubectl(&["get", "pod", "-n", "kube-system", &pod, "-o", "jsonpath={.status.phase}"]).await;
        assert_eq!(phase.ended(0).stdout, "Running", "{pod}");
    }
    assert_eq!(cluster.on("worker-0", "cat /etc/of-user").await, "merged");
    assert_eq!(cluster.on("worker-0", "cat /var/lib/once").await, "ran\n");
    let kubelet = cluster.on("worker-0", "cat /var/lib/first").await;
    assert_eq!(kubelet, "inactive\n", "the kubelet waits until the hook has ended");
    let said = cluster.on("worker-0", "journalctl -o cat -u windlass-hook-contained").await;
    assert!(said.contains("\"hook-contained\""), "the container sees the machine's own records: {said}");
}

async fn failures_are_named(cluster: &Installation) {
    let told = cluster.windlass(&["why"]).await.ended(0).stdout;
    for words in [
        "worker-0: hook-fails: failed at run: the hook fails did not end well",
        "no such device",
        "windlass-hook-fails.service: the unit has failed",
        "worker-0: user-data-twice: failed at run",
        "not this time",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let code = cluster.on("worker-0", "systemctl show -P ExecMainStatus windlass-hook-fails.service").await;
    assert_eq!(code.trim(), "7");
}

async fn a_failed_script_runs_again_on_the_next_boot(cluster: &Installation) {
    let (cloud, id) = (cluster.cloud(), cluster.infra_id());
    let name = Label::parse("worker-0").expect("a name");
    cloud.reboot(&id, &name).await.expect("a machine can be started again");
    until("the script has run again", LONG, async || {
        let command = ["cat", "/opt/windlass/user-data/twice.done"].map(str::to_owned).into();
        let request = ExecRequest { command, stdin: String::new(), timeout: None };
        match cloud.exec(&id, &name, &request).await {
            Ok(answer) if answer.code == 0 => Ok(()),
            Ok(answer) => Err(answer.stderr),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    assert_eq!(cluster.on("worker-0", "cat /var/lib/once").await, "ran\n", "what succeeded does not run again");
    assert_eq!(cluster.on("worker-0", "cat /var/lib/twice").await, "ran\nran\n");
    let records = report(cluster).await;
    assert_eq!(records["bootstrap"]["state"], "done", "the first boot is still explained");
    assert_eq!(records["user-data-twice"]["attempt"], 2);
    assert_eq!(records["user-data-twice"]["earlier"][0]["ending"], "failed");
}

/// A process that is stopped is the purest of hangs.
async fn what_hangs_is_started_again(cluster: &Installation) {
    // The machine has just booted: containers come with their kubelet.
    until("containers run again", LONG, async || {
        match cluster.on("worker-0", "ls /run/containerd/io.containerd.runtime.v2.task/k8s.io 2>&1 || true").await {
            tasks if tasks.lines().count() >= 4 => Ok(()),
            tasks => Err(tasks),
        }
    })
    .await;
    for unit in ["containerd.service", "kubelet.service"] {
        let pid = |unit: &'static str| format!("systemctl show -P MainPID {unit}");
        let tasks = cluster.on("worker-0", "ls /run/containerd/io.containerd.runtime.v2.task/k8s.io").await;
        let kubelet = cluster.on("worker-0", &pid("kubelet.service")).await;
        let (begun, hung) =
            (Instant::now(), cluster.on("worker-0", &format!("systemctl show -P MainPID {unit}")).await);
        cluster.on("worker-0", &format!("kill -STOP {}", hung.trim())).await;
        until(&format!("{unit} is started again"), LONG, async || {
            let restarts = &report(cluster).await["kubelet-checker"]["data"]["restarts"];
            let last = restarts.as_array().and_then(|restarts| restarts.last().cloned()).unwrap_or_default();
            if last["what"] == unit { Ok(()) } else { Err(restarts.to_string()) }
        })
        .await;
        eprintln!("{unit} started again after {:.0} s", begun.elapsed().as_secs_f64());
        until(&format!("{unit} is another process"), LONG, async || {
            let now = cluster.on("worker-0", &format!("systemctl show -P MainPID {unit}")).await;
            if now != hung && now.trim() != "0" { Ok(()) } else { Err(now) }
        })
        .await;
        if unit == "containerd.service" {
            let now = cluster.on("worker-0", "ls /run/containerd/io.containerd.runtime.v2.task/k8s.io").await;
            // Others may have come since.
            let gone: Vec<_> = tasks.lines().filter(|task| !now.contains(*task)).collect();
            assert!(gone.is_empty(), "containers live on: {gone:?}");
            assert_eq!(cluster.on("worker-0", &pid("kubelet.service")).await, kubelet, "the kubelet is left alone");
        }
        let told = cluster.windlass(&["why"]).await.ended(0).stdout;
        assert!(told.contains(&format!("{unit} needs no help")), "{told}");
    }
}

async fn report(cluster: &Installation) -> Value {
    let text = cluster.on("worker-0", "/opt/windlass/bin/windlass-node report").await;
    serde_json::from_str(&text).expect("a report is JSON")
}
