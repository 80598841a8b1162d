//! Faults of all kinds, each in a launch of its own: the run stops, or `why` names step, machine and reason, and what the
//! machines said is kept. A clock that is wrong is not among them: it is injected into preflight by a unit test.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tokio::process::Child;
use windlass_cloud_api::{ExecRequest, Label, RecordChange, RecordKind, RecordName};
use windlass_e2e::told::{LIMIT, Told, Want, told};
use windlass_e2e::{Installation, until};

use crate::prepared;

/// How long the last of a cluster may take to go.
pub const TRACES: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(240);
const INTERRUPTED: i32 = 130;
const REFUSED: i32 = 4;
const QUORUM: &str = "form-etcd-quorum";
const KUBELET: &str = "assets/config/kubelet-standalone.yaml";
const DRIVER: &str = "cgroupDriver: cgroupfs";
const MASTERS: [&str; 3] = ["master-0", "master-1", "master-2"];
/// Whether the API server of a machine says to the machine itself that it is ready. s_client stays until the other side ends.
const READY: &str = r"
    printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        timeout 5 openssl s_client -quiet -connect 127.0.0.1:6443 2>/dev/null | head --lines 1 | grep ' 200 '
";

/// Says when and how a fault was told, and that evidence of it is kept.
async fn is_told(cluster: &Installation, mut launch: Child, want: Want<'_>) -> Told {
    let said = told(cluster, &mut launch, &want).await;
    eprintln!("told {:.1} s after the stall, exit code {:?}: {}", said.after.as_secs_f64(), said.ended, said.line);
    assert!(said.after <= LIMIT, "{said:?}");
    if said.ended.is_none() {
        assert_eq!(cluster.interrupt(&mut launch).await, INTERRUPTED, "{}", cluster.said());
        let kept = std::fs::read_dir(cluster.directory().join("gather")).expect("evidence is kept");
        let kept: Vec<_> = kept.flatten().map(|entry| entry.path()).collect();
        // A group with a name of its own gives it to its machines.
        let has_master = |path: &Path| ["master-0", "masters-0"].iter().any(|name| path.join(name).is_dir());
        assert!(kept.iter().any(|path| path.join("why.txt").exists() && has_master(path)), "{kept:?}");
    }
    assert!(cluster.directory().join("journal.jsonl").exists(), "what happened is kept");
    cluster.windlass(&["down", "--yes"]).await.ended(0);
    said
}

/// A step has finished.
async fn after(cluster: &Installation, step: &str) {
    until(&format!("{step} finishes"), LONG, async || match cluster.journal().has_finished(step) {
        true => Ok(()),
        false => Err(cluster.said()),
    })
    .await;
}

/// Runs a script on a machine as soon as the machine can run it.
async fn as_soon_as_up(cluster: &Installation, machine: &str, script: &str) {
    let name = Label::parse(machine).expect("a name");
    let (cloud, infra_id) = (cluster.cloud(), cluster.infra_id());
    let command = ["bash", "-ec", script].map(str::to_owned).into();
    let request = ExecRequest { command, stdin: String::new(), timeout: None };
    until(&format!("{machine} runs"), LONG, async || match cloud.exec(&infra_id, &name, &request).await {
        Ok(ran) if ran.code == 0 => Ok(()),
        Ok(ran) => Err(ran.stderr),
        Err(error) => Err(error.to_string()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_missing_image() {
    let cluster = prepared("image").await;
    cluster.edit("assets/manifests/addons/coredns.yaml", "coredns/coredns:", "coredns/no-such-image:");
    let launch = cluster.start(&["launch"]);
    let words = ["ImagePull", "ErrImage", "no-such-image"];
    // A master or a worker: the scheduler takes whichever is ready first.
    is_told(&cluster, launch, Want { step: "apply-addons", machines: &["master-", "worker-"], words: &words }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_wrong_place_for_control_groups() {
    let cluster = prepared("groups").await;
    // Beside the driver, which preflight compares with the runtime's, a kubelet can be wrong about where its groups are; that
    // only its machine can know.
    cluster.edit(KUBELET, DRIVER, &format!("{DRIVER}\ncgroupRoot: /no-such-group"));
    let launch = cluster.start(&["launch"]);
    is_told(&cluster, launch, Want { step: QUORUM, machines: &["master-"], words: &["cgroup", "no-such-group"] }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_wrong_cgroup_driver() {
    let cluster = prepared("driver").await;
    // A kubelet asks the runtime for the driver and follows it, whatever its file says: no machine would ever tell.
    cluster.edit(KUBELET, DRIVER, "cgroupDriver: systemd");
    let launch = cluster.start(&["launch"]);
    let said = is_told(&cluster, launch, Want { step: "", machines: &[], words: &["cgroupDriver"] }).await;
    assert_eq!(said.ended, Some(REFUSED), "{said:?}");
    let words = ["kubelet-standalone.yaml", "cgroupDriver", "systemd", "cgroupfs"];
    let all = cluster.said();
    assert!(all.lines().any(|line| words.iter().all(|word| line.contains(word))), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_port_that_is_taken() {
    let cluster = prepared("port").await;
    let launch = cluster.start(&["launch"]);
    after(&cluster, "start-machines").await;
    for machine in ["master-0", "master-1"] {
        let take = "systemd-run --quiet /opt/windlass/bin/windlass-node probe serve --listen 0.0.0.0:2380";
        as_soon_as_up(&cluster, machine, take).await;
    }
    let words = ["address already in use"];
    is_told(&cluster, launch, Want { step: QUORUM, machines: &["master-"], words: &words }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_target_that_refuses_the_balancer() {
    let cluster = prepared("target").await;
    let launch = cluster.start(&["launch"]);
    after(&cluster, QUORUM).await;
    for machine in MASTERS {
        // Before other rules that accept, and not for the machine itself.
        let rules = "nft add table inet fault; nft add chain inet fault input '{ type filter hook input priority -300; }'; \
                     nft add rule inet fault input iifname != lo tcp dport 6443 reject with tcp reset";
        cluster.on(machine, rules).await;
    }
    // Before a master serves, the balancer is refused on every launch: only now is it by this fault.
    for machine in MASTERS {
        until(&format!("{machine} serves itself"), LONG, async || cluster.tries(machine, READY).await).await;
    }
    let words = ["port 6443 behind the balancer"];
    is_told(&cluster, launch, Want { step: "pivot-control-plane", machines: &["master-"], words: &words }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_full_disk_of_etcd() {
    let cluster = prepared("disk").await;
    let launch = cluster.start(&["launch"]);
    after(&cluster, "start-machines").await;
    for machine in ["master-0", "master-1"] {
        let fill = "mkdir -p /var/lib/etcd; mount -t tmpfs -o size=1m,mode=700 none /var/lib/etcd";
        as_soon_as_up(&cluster, machine, fill).await;
    }
    let words = ["no space left", "room on /var/lib/etcd"];
    is_told(&cluster, launch, Want { step: QUORUM, machines: &["master-"], words: &words }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn names_that_nobody_knows() {
    let cluster = prepared("names").await;
    let launch = cluster.start(&["launch"]);
    after(&cluster, "create-network").await;
    let (cloud, infra_id) = (cluster.cloud(), cluster.infra_id());
    for record in cloud.records(&infra_id).await.expect("the cloud answers") {
        let nothing = RecordChange { kind: RecordKind::A, values: Vec::new(), only_if: Default::default() };
        let name: RecordName = record.name;
        cloud.put_record(&infra_id, &name, &nothing).await.expect("a record can be removed");
    }
    let words = ["no such host", "lookup"];
    is_told(&cluster, launch, Want { step: "start-machines", machines: &["bootstrap"], words: &words }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn names_that_nobody_answers_for() {
    let cluster = prepared("silence").await;
    let launch = cluster.start(&["launch"]);
    after(&cluster, "start-machines").await;
    // The answers are lost: a question that cannot even be sent would be told to whoever asks at once.
    let silence = "nft add table inet fault; nft add chain inet fault input '{ type filter hook input priority -300; }'; \
                   nft add rule inet fault input udp sport 53 drop; nft add rule inet fault input tcp sport 53 drop";
    // All at once: one that is waited for must not give another the time to have its certificates.
    join_all(MASTERS.map(|machine| as_soon_as_up(&cluster, machine, silence))).await;
    let words = ["look up", "lookup", "name resolution"];
    is_told(&cluster, launch, Want { step: QUORUM, machines: &["master-"], words: &words }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_corrupt_manifest() {
    let cluster = prepared("manifest").await;
    cluster.edit("assets/manifests/control-plane/kube-scheduler.yaml", "kind: Deployment", "kind: [Deployment");
    let launch = cluster.start(&["launch"]);
    is_told(&cluster, launch, Want { step: "", machines: &[], words: &["kube-scheduler.yaml cannot be read"] }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_dead_peer() {
    let cluster = prepared("peer").await;
    let launch = cluster.start(&["launch"]);
    after(&cluster, "serve-machine-config").await;
    let master = Label::parse("master-1").expect("a name");
    cluster.cloud().power_cut(&cluster.infra_id(), &master).await.expect("power can be cut");
    is_told(&cluster, launch, Want { step: QUORUM, machines: &["master-1"], words: &["is off", "is dead"] }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_wrong_authority() {
    let cluster = prepared("authority").await;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let other = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
    cluster.put("assets/pki/etcd-ca.crt", &other.pem());
    let launch = cluster.start(&["launch"]);
    is_told(&cluster, launch, Want { step: "", machines: &[], words: &["does not belong to pki/etcd-ca.key"] }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn an_expired_credential() {
    let cluster = prepared("expired").await;
    let key = KeyPair::from_pem(&cluster.read("assets/pki/ca.key")).expect("the authority's key");
    let issuer = Issuer::from_ca_cert_pem(&cluster.read("assets/pki/ca.crt"), key).expect("the authority");
    let own = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "kubernetes-admin");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = time::OffsetDateTime::now_utc() - time::Duration::days(2);
    params.not_after = time::OffsetDateTime::now_utc() - time::Duration::days(1);
    let expired = params.signed_by(&own, &issuer).expect("a certificate");
    replace_credential(&cluster, &expired.pem(), &own.serialize_pem());
    let launch = cluster.start(&["launch"]);
    is_told(&cluster, launch, Want { step: "start-control-plane", machines: &[], words: &["expired", "Unauthorized"] })
        .await;
}

/// Puts another credential into the user's kubeconfig.
fn replace_credential(cluster: &Installation, certificate: &str, key: &str) {
    let kubeconfig = cluster.read("auth/kubeconfig");
    let replaced = kubeconfig.lines().map(|line| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let data = |text: &str| STANDARD.encode(text);
        match line.trim_start().split(':').next() {
            Some(name @ "client-certificate-data") => format!("{indent}{name}: {}\n", data(certificate)),
            Some(name @ "client-key-data") => format!("{indent}{name}: {}\n", data(key)),
            _ => format!("{line}\n"),
        }
    });
    let replaced: String = replaced.collect();
    assert_ne!(replaced, kubeconfig);
    cluster.put("auth/kubeconfig", &replaced);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn too_little_memory() {
    let cluster = Installation::new("small", crate::SHAPE).await;
    let groups = "  instanceGroups:\n  - name: masters\n    role: master\n    count: 3\n    memoryMiB: 512\n  - name: workers\n    \
                  role: worker\n    count: 2\n";
    cluster.edit("cluster.yaml", "  masters: 3\n  workers: 2\n", groups);
    cluster.windlass(&["prepare"]).await.ended(0);
    let launch = cluster.start(&["launch"]);
    is_told(&cluster, launch, Want { step: "", machines: &["master"], words: &["OOMKilled", "want of it"] }).await;
}
