use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::get;
use kube::Config;
use tokio::net::TcpListener;
use windlass_cloud_api::Role;
use windlass_pki::{Authority, KeySource as _, MachineIdentity, Pki, SeededKeys, Signer};
use windlass_spec::complete::{CompleteSpec, machines};
use windlass_spec::file::read_and_complete;
use windlass_steps::host::{ScriptedHost, make_dir};

use super::*;
use crate::record::collect;

async fn client(router: Router) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn the_signer_is_not_yet_the_api() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let version = move || async move {
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => (StatusCode::NOT_FOUND, "no").into_response(),
            1 => (StatusCode::UNAUTHORIZED, "no").into_response(),
            2 => "not even JSON".into_response(),
            _ => {
                let fields = ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"];
                let rest: String = fields.iter().map(|field| format!(r#","{field}":"x""#)).collect();
                format!(r#"{{"major":"1","minor":"36","gitVersion":"v1.36.3"{rest}}}"#).into_response()
            }
        }
    };
    let client = client(Router::new().route("/version", get(version))).await;
    let mut reasons = Vec::new();
    let mut observe = |change: Change<'_>| {
        reasons.push(change.reason.map(str::to_owned));
        Ok(())
    };
    await_api(&client, &mut observe).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert_eq!(reasons[0].as_deref(), Some("only the signer of the bootstrap machine answers"));
    assert!(reasons[1].as_deref().unwrap().contains("401"), "{reasons:?}");
    assert_eq!(reasons[3], None);
}

#[test]
fn a_version_that_is_none_does_not_count() {
    assert_eq!(serves(Ok("v1.36.3".into())), Observation::Holds);
    for text in ["", "404", "nginx"] {
        assert!(matches!(serves(Ok(text.into())), Observation::NotYet(_)), "{text}");
    }
}

fn put(path: std::path::PathBuf, text: impl AsRef<[u8]>) {
    make_dir(path.parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
    write_file(path, text, Mode::PRIVATE_FILE).unwrap();
}

/// A master, as the node flow leaves it, and the authority of its etcd member.
struct Master {
    dir: tempfile::TempDir,
    spec: CompleteSpec,
    pki: Pki,
}

impl Master {
    fn prepared() -> Self {
        let text =
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  domain: demo.test\n";
        let spec = read_and_complete(text.as_bytes()).unwrap().1;
        let pki = Pki::make(&spec, None, &mut SeededKeys::new("join"), SystemClock::new().now()).unwrap();
        let master = Master { dir: tempfile::tempdir().unwrap(), spec, pki };
        let machine = machines(&master.spec).into_iter().find(|machine| machine.name.as_str() == "master-0").unwrap();
        let facts = Facts {
            name: machine.name.to_string(),
            cluster: "demo-abcde".into(),
            domain: "demo.test".into(),
            role: Role::Master,
            address: machine.address.into(),
            etcd_index: Some(0),
        };
        facts.write(&master.places()).unwrap();
        let authority = &master.pki.authority(Authority::Etcd).certificate;
        put(master.places().pki("etcd-ca.crt"), authority.to_pem());
        master
    }

    fn places(&self) -> Places {
        Places::below(self.dir.path())
    }

    /// Does what the etcd pod's first container does.
    fn certify(&self, leaf: MachineLeaf, file: &str) {
        let machine = machines(&self.spec).into_iter().find(|machine| machine.name.as_str() == "master-0").unwrap();
        let template = leaf.template(&self.spec, &MachineIdentity::from(&machine)).unwrap();
        let etcd = self.pki.authority(Authority::Etcd);
        let signer = Signer::new(etcd.certificate.clone(), etcd.key.clone()).unwrap();
        let mut keys = SeededKeys::new(file);
        let key = keys.key(file);
        let signed = signer.sign(&template, key.public(), keys.serial(file), SystemClock::new().now()).unwrap();
        put(self.places().pki(&format!("etcd/{file}.key")), key.to_pem().expose());
        put(self.places().pki(&format!("etcd/{file}.crt")), signed.to_pem());
    }
}

/// The Node would come first, its token be burnt, and the member be refused for ever.
#[tokio::test(start_paused = true)]
async fn a_master_that_comes_late_does_not_join_before_its_etcd_member_is_certified() {
    let master = Master::prepared();
    let (places, host) = (master.places(), ScriptedHost::default());
    let mut record = Recorder::begin(&places, "join", "read-facts");
    let an_hour = Duration::from_secs(3600);
    for (has, lacks) in [
        (None, "etcd-server and etcd-peer still to come from etcd-certs"),
        (Some((MachineLeaf::EtcdServer, "server")), "etcd-peer still to come from etcd-certs"),
    ] {
        if let Some((leaf, file)) = has {
            master.certify(leaf, file);
        }
        let waiting = tokio::time::timeout(an_hour, join(&places, &host, &mut record)).await;
        assert!(waiting.is_err(), "it waits as long as it takes: {waiting:?}");
        let told = &collect(&places)["join"];
        assert_eq!((told.stage.as_str(), told.unmet[0].reason.as_str()), ("await-etcd-certificates", lacks));
    }
    master.certify(MachineLeaf::EtcdPeer, "peer");
    let ended = join(&places, &host, &mut record).await;
    assert!(matches!(ended, Err(JoinError::ReachApi { .. })), "now it looks for the API: {ended:?}");
}

#[tokio::test]
async fn the_kubelet_is_restarted_with_its_second_file_and_a_failure_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let works = || ScriptedHost::default().answer("systemctl restart kubelet.service", "");
    assert!(matches!(restart(&places, &works()).await, Err(JoinError::PlaceEnv { .. })));
    make_dir(places.installer(), Mode::PRIVATE_DIR).unwrap();
    write_file(places.installer().join("kubelet-join.env"), "KUBELET_ARGS='--v=2'\n", Mode::PUBLIC).unwrap();
    let error = restart(&places, &ScriptedHost::default()).await.unwrap_err();
    assert!(matches!(error, JoinError::RestartKubelet { .. }));
    for _ in 0..2 {
        let host = works();
        restart(&places, &host).await.unwrap();
        assert_eq!(host.ran(), ["systemctl restart kubelet.service"]);
        assert_eq!(read_file(places.kubelet_join_env(), 100).unwrap(), b"KUBELET_ARGS='--v=2'\n");
    }
}

#[tokio::test]
async fn a_server_that_never_hears_does_not_keep_a_machine_from_joining() {
    let heard = AtomicU32::new(0);
    let hears = async {
        heard.fetch_add(1, Ordering::SeqCst);
    };
    assert_eq!(beside(std::future::pending(), async { 1 }).await, 1);
    beside(hears, tokio::task::yield_now()).await;
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}
