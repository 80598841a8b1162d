//! What a user adds to a group of machines, and what must come of it.

use crate::{Installation, Shape};

/// Both images are on every machine.
const SPEC: &str = r##"apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata:
  name: @NAME@
spec:
  platform:
    local:
      egress: "off"
  instanceGroups:
  - name: master
    role: master
    count: @MASTERS@
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
    count: @WORKERS@
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

/// Prepares a cluster whose spec has a static pod, scripts, an Ignition fragment and hooks of the user's own.
pub async fn prepared(name: &str, shape: Shape) -> Installation {
    let cluster = Installation::new(name, shape).await;
    cluster.windlass(&["prepare"]).await.ended(0);
    let plain = cluster.read("complete.yaml");
    let image = |name: &str| {
        // A version of the same name is no image.
        let mut values = plain.lines().filter_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        let value = values.find(|value| value.contains('/')).unwrap_or_else(|| panic!("{name}: {plain}"));
        value.trim_matches('"').to_owned()
    };
    let spec = SPEC.replace("@NAME@", name).replace("@NODE_IMAGE@", &image("windlassNode"));
    let spec = spec.replace("@MASTERS@", &shape.masters.to_string()).replace("@WORKERS@", &shape.workers.to_string());
    cluster.put("cluster.yaml", &spec.replace("@PAUSE_IMAGE@", &image("pause")));
    cluster.windlass(&["prepare"]).await.ended(0);
    cluster
}

/// All of it is there, and in its order.
pub async fn took_effect(cluster: &Installation) {
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

/// `windlass why` names the hook and the script that failed, with their last words.
pub async fn failures_are_named(cluster: &Installation) {
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
