//! Every machine's tokens are used up once it has what they are for, and whoever asks with one again gets nothing.

use std::time::Duration;

use serde_json::Value;
use windlass_e2e::{Installation, until};

const MACHINES: [&str; 5] = ["master-0", "master-1", "master-2", "worker-0", "worker-1"];
/// Nodes are followed, and a server that cannot tell now says so.
const LONG: Duration = Duration::from_secs(30);
/// Asks for the machine's config once more, as its first boot did. s_client stays until the other side ends.
const AGAIN: &str = r#"
    token=$(cat /etc/windlass/config-token)
    head="GET /config/$role HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer $token\r\nConnection: close\r\n\r\n"
    printf "$head" | timeout 5 openssl s_client -quiet -connect "api.$domain:22623" 2>/dev/null || true
"#;

pub async fn every_token_is(cluster: &Installation) {
    until("every token is on the list", LONG, async || {
        let list = ["get", "configmap", "-n", "kube-system", "windlass-burnt-tokens", "-o", "json"];
        let list = cluster.kubectl(&list).await.ended(0).stdout;
        let list: Value = serde_json::from_str(&list).expect("kubectl writes JSON");
        let tokens = MACHINES.iter().flat_map(|machine| [format!("config.{machine}"), format!("join.{machine}")]);
        let good: Vec<String> = tokens.filter(|token| !list["data"][token].is_string()).collect();
        if good.is_empty() { Ok(()) } else { Err(format!("{good:?} are not: {list}")) }
    })
    .await;
    let metadata: Value = serde_json::from_str(&cluster.read("metadata.json")).expect("metadata is JSON");
    let domain = metadata["domain"].as_str().expect("a cluster has a domain");
    for (machine, role) in [("master-0", "master"), ("worker-0", "worker")] {
        let script = format!("domain={domain}; role={role}{AGAIN}");
        until(&format!("{machine} is refused its config"), LONG, async || {
            let said = cluster.tries(machine, &script).await?;
            assert!(!said.contains(" 200 "), "{machine}: {said}");
            // Every refusal has this code; by its words it is for no other reason.
            let is_refused = said.contains(" 403 ") && said.contains("the token was used up");
            if is_refused { Ok(()) } else { Err(said) }
        })
        .await;
    }
}
