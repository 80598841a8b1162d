//! Nobody who runs on a worker may change another machine's Node.

use super::*;

const MASTERS_ONLY: &str = "node-role.kubernetes.io/control-plane";

/// The parts of Nodes that a role may change.
fn changes(role: &Value) -> Vec<&str> {
    let words = |rule: &'_ Value, key: &str| {
        rule[key].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let reads = ["get", "list", "watch"];
    let rules = role["rules"].as_array().into_iter().flatten();
    let changing = rules.filter(|rule| words(rule, "verbs").iter().any(|verb| !reads.contains(&verb.as_str())));
    let parts = changing.flat_map(|rule| words(rule, "resources"));
    let known = ["nodes", "nodes/status"];
    parts.filter_map(|part| known.into_iter().find(|one| *one == part)).collect()
}

/// The accounts of the cluster's own pods that may change Nodes and run where there are workers, and what they may change.
fn unbound(objects: &[(String, Object)]) -> Vec<(String, &str)> {
    let all = |kind: &'static str| objects.iter().map(|(_, o)| o).filter(move |o| o.kind == kind);
    let mut found = Vec::new();
    for pod in objects.iter().filter_map(|(_, o)| Some((o, pod_of(o)?))).filter(|(o, _)| o.kind != "Pod") {
        let (owner, pod) = pod;
        let Some(account) = pod["serviceAccountName"].as_str() else { continue };
        if pod["nodeSelector"].get(MASTERS_ONLY).is_some() {
            continue;
        }
        let namespace = owner.namespace.as_deref().unwrap();
        let is_it = |subject: &Value| subject["name"] == account && subject["namespace"] == namespace;
        let bindings = all("ClusterRoleBinding").filter(|o| o.body["subjects"].as_array().unwrap().iter().any(is_it));
        for binding in bindings {
            let role = all("ClusterRole").find(|role| binding.body["roleRef"]["name"] == role.name.as_str());
            let parts = role.map(|role| changes(&role.body)).unwrap_or_default();
            found.extend(parts.into_iter().map(|part| (format!("system:serviceaccount:{namespace}:{account}"), part)));
        }
    }
    found
}

/// The policies that look at an account's changes to Nodes or a part of them.
fn policies<'a>(objects: &'a [(String, Object)], account: &str, part: &str) -> Vec<&'a Object> {
    let of_account = format!("request.userInfo.username == \"{account}\"");
    let looks = |o: &Object| {
        let spec = &o.body["spec"];
        spec["matchConditions"].as_array().is_some_and(|all| all.iter().any(|one| one["expression"] == of_account))
            && spec["matchConstraints"]["resourceRules"][0]["resources"] == json!([part])
    };
    let all = objects.iter().map(|(_, o)| o);
    all.filter(|o| o.kind == "ValidatingAdmissionPolicy" && looks(o)).collect()
}

#[test]
fn who_may_change_nodes_from_a_worker_is_held_to_its_own() {
    for cluster in CLUSTERS.iter() {
        let objects = &cluster.objects;
        let accounts = unbound(objects);
        assert!(accounts.len() >= 2, "{}: {accounts:?}", describe(cluster));
        for (account, part) in accounts {
            let found = policies(objects, &account, part);
            let [policy] = found.as_slice() else { panic!("{}: {account}, {part}: {found:?}", describe(cluster)) };
            let spec = &policy.body["spec"];
            assert_eq!(spec["failurePolicy"], "Fail", "{account}");
            assert_eq!(
                spec["matchConditions"].as_array().unwrap().len(),
                1,
                "{account}: another one would let through"
            );
            let rule = &spec["matchConstraints"]["resourceRules"][0];
            assert_eq!((&rule["operations"], &rule["apiGroups"]), (&json!(["UPDATE"]), &json!([""])), "{account}");
            let own = "request.userInfo.?extra[?\"authentication.kubernetes.io/node-name\"][?0].orValue(\"\")";
            assert_eq!(spec["variables"][0], json!({"name": "ownNode", "expression": own}), "{account}");
            assert_eq!(spec["validations"][0]["expression"], "variables.ownNode == object.metadata.name", "{account}");
            let binding = &one(objects, "ValidatingAdmissionPolicyBinding", &policy.name)["spec"];
            assert_eq!(*binding, json!({"policyName": policy.name, "validationActions": ["Deny"]}), "{account}");
        }
    }
}

#[test]
fn who_may_change_every_node_runs_on_masters() {
    let pod = &one(&DEFAULT.objects, "Deployment", "reboot-coordinator")["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"][MASTERS_ONLY], "");
    let tolerates = |toleration: &Value| toleration["key"] == MASTERS_ONLY && toleration["effect"] == "NoSchedule";
    assert!(pod["tolerations"].as_array().unwrap().iter().any(tolerates), "masters are closed to others");
}
