//! The rules for static pods and their copies, and for what pods are made of.

use super::*;

/// What `HasAPIObjectReference` of the kubelet looks for, and then refuses the pod.
#[test]
fn pods_that_may_be_static_name_nothing_of_the_api() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        assert!(copied(objects).count() >= 4);
        for (path, object) in copied(objects) {
            let pod = pod_of(object).unwrap();
            for field in ["serviceAccountName", "serviceAccount", "imagePullSecrets", "resourceClaims"] {
                assert!(pod.get(field).is_none(), "{path} names {field}");
            }
            for volume in pod["volumes"].as_array().into_iter().flatten() {
                let sources: Vec<&String> = volume.as_object().unwrap().keys().filter(|k| *k != "name").collect();
                assert_eq!(sources, ["hostPath"], "{path}: {volume}");
            }
            for container in containers(pod) {
                assert!(container.get("envFrom").is_none(), "{path}");
                for variable in container["env"].as_array().into_iter().flatten() {
                    let from = variable.get("valueFrom").map(|f| f.as_object().unwrap().keys().collect::<Vec<_>>());
                    assert!(from.is_none_or(|f| f == ["fieldRef"]), "{path}: {variable}");
                }
            }
            if object.kind != "Pod" {
                assert_eq!(pod["automountServiceAccountToken"], false, "{path}");
            }
        }
    }
}

#[test]
fn control_plane_pods_may_overlap_and_run_anywhere() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        for (path, object) in copied(objects) {
            let pod = pod_of(object).unwrap();
            assert_eq!(pod["hostNetwork"], true, "{path}");
            assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]), "{path}");
            for container in containers(pod) {
                assert!(container.get("ports").is_none(), "{path} declares ports");
                assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{path}");
                assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]), "{path}");
            }
            let strategy = ["/spec/updateStrategy/rollingUpdate", "/spec/strategy/rollingUpdate"];
            let update = strategy.iter().find_map(|pointer| object.body.pointer(pointer));
            if object.kind != "Pod" {
                assert_eq!(update, Some(&json!({"maxSurge": 0, "maxUnavailable": 1})), "{path}");
            }
        }
    }
}

/// Kubelets check the selectors of static pods too, and the label comes later than the pods.
#[test]
fn static_pods_select_no_nodes() {
    for cluster in CLUSTERS.iter() {
        for (path, object) in &cluster.objects {
            if object.kind == "Pod" {
                assert!(
                    object.body["spec"].get("nodeSelector").is_none() && object.body["spec"].get("affinity").is_none(),
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn what_the_flags_name_is_mounted() {
    let extra = "  components:\n    kubeAPIServer:\n      flags:\n        encryption-provider-config: /etc/kubernetes/encryption.yaml\n    etcd:\n      flags:\n        wal-dir: /var/lib/etcd-wal\n";
    let mut looked = 0;
    for cluster in CLUSTERS.iter().chain([&Cluster::of(plain(extra))]) {
        let objects = &cluster.objects;
        for (path, object) in copied(objects) {
            let pod = pod_of(object).unwrap();
            for container in pod["containers"].as_array().unwrap() {
                looked += check_mounts(path, pod, container);
            }
        }
    }
    assert!(looked > 500, "only {looked} paths were looked at");
}

/// Every path in a container's command is a mount or below one, and every mount has its volume at the same path.
fn check_mounts(path: &str, pod: &Value, container: &Value) -> usize {
    let mounts = || container["volumeMounts"].as_array().into_iter().flatten();
    for mount in mounts() {
        let volume = pod["volumes"].as_array().unwrap().iter().find(|v| v["name"] == mount["name"]);
        assert_eq!(volume.unwrap()["hostPath"]["path"], mount["mountPath"], "{path}");
    }
    let words = container["command"].as_array().unwrap().iter().filter_map(Value::as_str);
    let values = words.filter_map(|w| w.split_once('=')).flat_map(|(_, value)| value.split(','));
    let roots = ["/etc/", "/var/"];
    let named: Vec<&str> = values.filter(|v| roots.iter().any(|r| v.starts_with(r))).collect();
    for file in &named {
        let holds = |at: &str| file.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        assert!(mounts().any(|m| holds(m["mountPath"].as_str().unwrap())), "{path}: {file} is not mounted");
    }
    named.len()
}

#[test]
fn the_scheduler_sees_its_kubeconfig_and_no_key() {
    let objects = &DEFAULT.objects;
    let deployment = one(objects, "Deployment", "kube-scheduler");
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let paths: Vec<&Value> = volumes.iter().map(|v| &v["hostPath"]["path"]).collect();
    assert_eq!(paths, ["/etc/kubernetes/scheduler.kubeconfig"]);
}

#[test]
fn replicas_follow_the_masters() {
    for (masters, replicas) in [(1, 1), (3, 3), (5, 3)] {
        let objects = all_objects(&Manifests::make(&plain(&format!("  masters: {masters}\n"))).unwrap());
        for name in ["kube-controller-manager", "kube-scheduler"] {
            assert_eq!(one(&objects, "Deployment", name)["spec"]["replicas"], replicas);
            // A budget that allows nothing would hold up every drain.
            assert_eq!(one(&objects, "PodDisruptionBudget", name)["spec"]["maxUnavailable"], 1);
        }
    }
}

#[test]
fn the_api_servers_names_are_published_in_topology_volumes() {
    let objects = all_objects(&Manifests::make(&plain("  topology: volumes\n")).unwrap());
    let annotations = &one(&objects, "Pod", "kube-apiserver")["metadata"]["annotations"];
    assert_eq!(annotations["dns.alpha.kubernetes.io/external"], "api.demo.test");
    assert_eq!(annotations["dns.alpha.kubernetes.io/internal"], "api.internal.demo.test");
    assert!(one(&objects, "Pod", "kube-scheduler")["metadata"].get("annotations").is_none());
}

#[test]
fn configuration_inside_manifests_can_be_read() {
    let objects = &DEFAULT.objects;
    let read = |text: &Value| {
        windlass_spec::yaml::read(text.as_str().unwrap().as_bytes(), &windlass_spec::yaml::Budget::SPEC)
            .unwrap()
            .to_json()
    };
    let proxy = &one(objects, "ConfigMap", "kube-proxy")["data"];
    assert_eq!(read(&proxy["config.yaml"])["kind"], "KubeProxyConfiguration");
    assert_eq!(read(&proxy["config.yaml"])["mode"], "nftables");
    assert_eq!(read(&proxy["kubeconfig"])["clusters"][0]["cluster"]["server"], "https://api.internal.demo.test:6443");
    let flannel = one(objects, "ConfigMap", "kube-flannel-cfg")["data"]["net-conf.json"].as_str().unwrap();
    let flannel: Value = serde_json::from_str(flannel).unwrap();
    assert_eq!(flannel, json!({"Network": "10.244.0.0/16", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}));
    let mappings = &one(objects, "ConfigMap", "tectonic-torcx-runtime-mappings")["data"]["runtime-mappings.yaml"];
    assert_eq!(read(mappings)["versions"]["k8s"]["1.36"]["containerd"], json!(["2.2.9"]));
    assert_eq!(one(objects, "Service", "kube-dns")["spec"]["clusterIP"], "10.96.0.10");
}

#[test]
fn etcd_is_one_file_for_all_masters() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        let pod = &one(objects, "Pod", "etcd")["spec"];
        assert_eq!(pod["initContainers"][0]["command"], json!(["/windlass-node", "etcd-certs"]));
        for container in containers(pod) {
            let value = |name: &str| container["env"].as_array().unwrap().iter().find(|v| v["name"] == name).unwrap();
            assert_eq!(value("ETCD_INDEX")["value"], "@ETCD_INDEX@");
            assert_eq!(value("MACHINE_ADDRESS")["valueFrom"]["fieldRef"]["fieldPath"], "status.hostIP");
            assert_eq!(value("MACHINE_NAME")["valueFrom"]["fieldRef"]["fieldPath"], "spec.nodeName");
        }
        // The index stands in the variable alone, so that filling it in is one replacement.
        let (_, text) = cluster.manifests.group(Group::Master).find(|(n, _)| *n == "etcd.yaml").unwrap();
        assert_eq!((text.matches("@ETCD_INDEX@").count(), text.matches("value: \"@ETCD_INDEX@\"").count()), (2, 2));
    }
}

#[test]
fn no_manifest_holds_a_key_or_a_secret() {
    for cluster in CLUSTERS.iter() {
        for (path, text) in cluster.manifests.files() {
            assert!(!text.contains("PRIVATE KEY") && !text.contains("kind: Secret"), "{path}");
        }
    }
}
