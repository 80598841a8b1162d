//! What serves machines from inside the cluster.

use super::*;

/// The rules by which the twins and the approver live, so that another right has to be argued for here too.
#[test]
fn the_twins_have_the_rights_they_need_and_no_others() {
    let rights = |kind: &str, name: &str| -> Vec<String> {
        let rules = one(&DEFAULT.objects, kind, name)["rules"].as_array().unwrap().clone();
        let words = |rule: &Value, key: &str| {
            let list = rule[key].as_array().into_iter().flatten();
            list.map(|w| w.as_str().unwrap()).collect::<Vec<_>>().join(",")
        };
        let line = |rule: &Value| {
            format!("{} {} [{}]", words(rule, "verbs"), words(rule, "resources"), words(rule, "resourceNames"))
        };
        rules.iter().map(line).collect()
    };
    let etcd = "windlass.dev/etcd-peer,windlass.dev/etcd-server";
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving";
    assert_eq!(rights("ClusterRole", "windlass:machine-config-server"), ["get nodes []"]);
    assert_eq!(rights("Role", "windlass:machine-config-server"), ["get,patch configmaps [windlass-burnt-tokens]"]);
    let approver = [
        "get,list,watch certificatesigningrequests []".to_owned(),
        "update certificatesigningrequests/approval,certificatesigningrequests/status []".to_owned(),
        format!("approve signers [{kubelet},{etcd}]"),
        format!("sign signers [{etcd}]"),
        "get,list,watch,patch nodes []".to_owned(),
    ];
    assert_eq!(rights("ClusterRole", "windlass:csr-approver"), approver);
    let burnt = ["get,list,watch,patch configmaps [windlass-burnt-tokens]", "create configmaps []"];
    assert_eq!(rights("Role", "windlass:csr-approver"), burnt);
}

#[test]
fn the_twins_run_on_every_master_before_there_is_a_network() {
    for name in ["machine-config-server", "csr-approver"] {
        let body = one(&DEFAULT.objects, "DaemonSet", name);
        let pod = &body["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"node-role.kubernetes.io/control-plane": ""}));
        assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
        assert_eq!((&pod["hostNetwork"], &pod["dnsPolicy"]), (&json!(true), &json!("Default")));
        assert_eq!(pod["priorityClassName"], "system-node-critical");
        let container = &pod["containers"][0];
        assert_eq!(container["command"].as_array().unwrap()[..2], [json!("/windlass-node"), json!(name)]);
        assert_eq!(container["env"][0]["value"], "api.internal.demo.test");
        assert_eq!(container["securityContext"]["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert!(container["volumeMounts"].as_array().unwrap().iter().all(|m| m["readOnly"] == true));
        let secret = pod["volumes"].as_array().unwrap().iter().find_map(|v| v.get("secret")).unwrap();
        assert!(["machine-config", "csr-approver"].contains(&secret["secretName"].as_str().unwrap()));
        assert!(secret["defaultMode"].as_u64().unwrap() & 0o337 == 0, "{name}: nobody else reads or writes it");
    }
}
