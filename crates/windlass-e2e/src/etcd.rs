//! What etcd says about itself.

use crate::Installation;

/// etcd's members by their ids, asked of the first master.
pub async fn members(cluster: &Installation) -> Vec<String> {
    let pki = "/etc/kubernetes/pki";
    let etcd = r#"ctr -n k8s.io containers list -q 'labels."io.kubernetes.container.name"==etcd' | head -1"#;
    let tls = format!("--cacert {pki}/etcd-ca.crt --cert {pki}/etcd/server.crt --key {pki}/etcd/server.key");
    let ask = format!("etcdctl --endpoints https://127.0.0.1:2379 {tls} member list");
    let script = format!("ctr -n k8s.io task exec --exec-id members-$$ $({etcd}) {ask}");
    let said = cluster.on("master-0", &script).await;
    let mut ids: Vec<String> = said.lines().filter_map(|line| line.split(',').next()).map(str::to_owned).collect();
    ids.sort();
    assert_eq!(ids.len(), 3, "{said}");
    ids
}
