//! The flow from its first step to its last, with an API that keeps what it is given and a kubelet that opens ports.

pub(crate) mod fake;

use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use time::macros::datetime;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use windlass_assets::Manifests;
use windlass_assets::manifest::Group;
use windlass_spec::file::read_and_complete;
use windlass_steps::host::{Mode, ScriptedHost, make_dir, write_file};

use super::site::{Master, Ports};
use super::*;
use crate::https::HttpsError;
use crate::machine_token::{Marks, TokenFiles};
use crate::record::{State, collect};
use fake::FakeApi;

const SPEC: &str =
    "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  domain: demo.test\n";
const STOP: &str = "systemctl stop machine-config-server.service etcd-signer.service";
const MASTERS: [&str; 3] = ["masters-0", "masters-1", "masters-2"];
const BOOTSTRAP: &str = "10.90.0.9";

/// A bootstrap machine on which everything that Ignition writes is there, and whose masters are served.
struct Machine {
    _dir: tempfile::TempDir,
    site: Site,
    api: FakeApi,
}

impl Machine {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let (_, spec) = read_and_complete(SPEC.as_bytes()).unwrap();
        install(&places, &Manifests::make(&spec).unwrap());
        let api = FakeApi::start().await;
        let master = |name: &str| Master { name: name.to_owned(), etcd: api.client(), api: api.client() };
        let site = Site {
            spec,
            name: "bootstrap".into(),
            address: BOOTSTRAP.parse().unwrap(),
            api: api.client(),
            watch: api.client(),
            masters: MASTERS.map(master).into(),
            ports: Ports { api: free(), controller_manager: free(), scheduler: free() },
            clock: Arc::new(SystemClock::new()),
            places,
        };
        Machine { _dir: dir, site, api }
    }

    async fn pivot(&self, approve: impl Future<Output = Result<(), ApproverError>>) -> Result<Retired, Stop> {
        let told = Told::into(Recorder::begin(&self.site.places, UNIT, "begin"));
        let run = Run::new("demo", Arc::clone(&self.site.clock), Stream::new().reader(told.clone()));
        let host = ScriptedHost::default().answer(STOP, "");
        let ended = tokio::select! {
            ended = flow(&run, &self.site, &host, &told, approve) => ended,
            () = kubelet(&self.site, &self.api) => panic!("a kubelet does not end"),
            _ = tokio::time::timeout(Duration::from_secs(60), pending::<()>()) => panic!("the flow hangs"),
        };
        assert_eq!(host.ran(), [STOP]);
        told.ended(ended.as_ref().map(drop).map_err(|stop| stopped(stop, UNIT))).ok();
        ended
    }

    fn static_pods(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.site.places.manifests()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn install(places: &Places, manifests: &Manifests) {
    let put = |path: &Path, text: &str| {
        make_dir(path.parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
        write_file(path, text, Mode::PRIVATE_FILE).unwrap();
    };
    for (group, dir) in
        [(Group::Bootstrap, places.bootstrap_manifests()), (Group::ControlPlane, places.control_plane_manifests())]
    {
        manifests.group(group).for_each(|(name, text)| put(&dir.join(name), text));
    }
    make_dir(places.manifests(), Mode::PRIVATE_DIR).unwrap();
    for name in ["machine-config-server.crt", "machine-config-server.key", "etcd-ca.crt", "etcd-ca.key"] {
        put(&places.pki(name), name);
    }
    for name in ["master.ign", "worker.ign"] {
        put(&places.machine_config().join(name), "{}");
    }
    put(&places.cluster(), "{}");
    put(&places.token_key(), "00");
    let files = TokenFiles::of(places);
    for name in MASTERS {
        let now = datetime!(2026-11-16 03:00:00 UTC);
        files.mark(Marks::Burnt, &format!("config.{name}"), now).unwrap();
        files.mark(Marks::Issued, name, now).unwrap();
    }
}

/// A port on which nobody listens.
fn free() -> SocketAddr {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Listens where a static pod would while its file is there, and lets the masters follow.
async fn kubelet(site: &Site, api: &FakeApi) {
    let mut ticks = interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let rows = [
        ("bootstrap-kube-apiserver.yaml", site.ports.api),
        ("bootstrap-kube-controller-manager.yaml", site.ports.controller_manager),
        ("bootstrap-kube-scheduler.yaml", site.ports.scheduler),
    ];
    let mut running: [Option<TcpListener>; 3] = [const { None }; 3];
    loop {
        ticks.tick().await;
        for (slot, (file, address)) in running.iter_mut().zip(rows) {
            match (site.places.manifests().join(file).exists(), &slot) {
                (true, None) => *slot = Some(TcpListener::bind(address).await.unwrap()),
                (false, Some(_)) => *slot = None,
                (true, Some(_)) | (false, None) => {}
            }
        }
        follow(api, running[0].is_some(), running[1].is_some());
    }
}

/// What controllers and masters make of what they see.
fn follow(api: &FakeApi, has_api: bool, has_controllers: bool) {
    let mut addresses = vec!["10.90.0.10", "10.90.0.11"];
    addresses.extend(has_api.then_some(BOOTSTRAP));
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    let slice = json!({"metadata": {"name": "kubernetes"}, "addressType": "IPv4", "endpoints": endpoints});
    api.put("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", slice);
    let is_applied = api.object("/apis/apps/v1/namespaces/kube-system/daemonsets/kube-apiserver").is_some();
    if has_controllers && is_applied {
        MASTERS.iter().for_each(|master| join(api, master));
        for (name, holder) in [("kube-controller-manager", "bootstrap_1"), ("kube-scheduler", "masters-1_2")] {
            let lease = json!({"metadata": {"name": name, "uid": "u", "resourceVersion": "1"}, "spec": {"holderIdentity": holder}});
            api.put(&lease_path(name), lease);
        }
    }
}

fn lease_path(name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}")
}

fn join(api: &FakeApi, master: &str) {
    let node = json!({"metadata": {"name": master, "labels": {"node-role.kubernetes.io/control-plane": ""}}});
    api.put(&format!("/api/v1/nodes/{master}"), node);
    for app in masters::ON_EVERY_MASTER.into_iter().chain(masters::REPLICATED) {
        let pod = json!({
            "metadata": {"name": format!("{app}-{master}"), "namespace": "kube-system", "labels": {"k8s-app": app}},
            "spec": {"nodeName": master, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        api.put(&format!("/api/v1/namespaces/kube-system/pods/{app}-{master}"), pod);
    }
}

#[tokio::test]
async fn the_control_plane_moves_to_the_masters_and_may_do_so_again() {
    let machine = Machine::new().await;
    for _ in 0..2 {
        machine.pivot(pending()).await.unwrap();
        assert_eq!(machine.static_pods(), BTreeSet::new());
        assert!(machine.site.places.servers_done().exists());
    }
    let written = machine.api.written();
    for path in [
        "/api/v1/namespaces/kube-system/secrets/machine-config",
        "/api/v1/namespaces/kube-system/secrets/csr-approver",
        "/api/v1/namespaces/kube-system/configmaps/windlass-burnt-tokens",
        "/apis/apps/v1/namespaces/kube-system/daemonsets/checkpointer",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/addons.windlass.dev",
    ] {
        assert!(written.contains(&format!("PATCH {path}")), "{path}");
    }
    // The scheduler's lease is a master's already.
    let released = format!("DELETE {}", lease_path("kube-controller-manager"));
    assert_eq!(written.iter().filter(|line| line.starts_with("DELETE")).collect::<Vec<_>>(), [&released, &released]);
    let record = &collect(&machine.site.places)[UNIT];
    assert_eq!((record.state, record.stage.as_str()), (State::Done, "stop-api-server"));
    let mut finished: Vec<_> =
        record.data.iter().map(|(step, data)| (data["finished"].as_str().unwrap(), step.as_str())).collect();
    finished.sort();
    let steps: BTreeSet<&str> = finished.iter().map(|(_, step)| *step).collect();
    assert_eq!(steps.len(), 9, "{finished:?}");
    assert_eq!(finished[0].1, "await-quorum");
}

#[tokio::test]
async fn a_flow_without_an_approver_stops_before_anything_is_started() {
    let machine = Machine::new().await;
    let address = machine.site.ports.api;
    let taken = HttpsError::Listen { address, source: std::io::ErrorKind::AddrInUse.into() };
    let ended = machine.pivot(ready(Err(ApproverError::Serve { source: taken }))).await;
    let Err(Stop::Failed { step, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(step.as_str(), "approve-machines");
    assert_eq!(machine.static_pods(), BTreeSet::new());
    assert_eq!(collect(&machine.site.places)[UNIT].state, State::Failed);
}

#[tokio::test]
async fn the_signer_took_the_port_of_the_api_after_a_reboot_in_the_middle_of_the_pivot() {
    let machine = Machine::new().await;
    let done = machine.site.places.servers_done();
    let run = Run::new("demo", Arc::clone(&machine.site.clock), Stream::new());
    let stop = async |host: &ScriptedHost| {
        let quorum = run.step(AwaitQuorum::new(&machine.site)).await.unwrap();
        run.step(StopServers { site: &machine.site, commands: host, _quorum: quorum }).await
    };
    assert!(stop(&ScriptedHost::default().fail(STOP, 1, "no such bus")).await.is_err());
    assert!(!done.exists(), "servers that run are not written down as stopped");
    for _ in 0..2 {
        stop(&ScriptedHost::default().answer(STOP, "")).await.unwrap();
        assert!(done.exists());
    }
}

#[tokio::test]
async fn the_port_must_be_free_unless_the_api_has_it_already() {
    let machine = Machine::new().await;
    let listener = TcpListener::bind(machine.site.ports.api).await.unwrap();
    let run = Run::new("demo", Arc::clone(&machine.site.clock), Stream::new());
    let host = ScriptedHost::default().answer(STOP, "");
    let stop = async || {
        let quorum = run.step(AwaitQuorum::new(&machine.site)).await.unwrap();
        let stopping = run.step(StopServers { site: &machine.site, commands: &host, _quorum: quorum });
        tokio::time::timeout(Duration::from_millis(500), stopping).await
    };
    assert!(stop().await.is_err(), "somebody else has the port");
    let manifest = machine.site.places.manifests().join("bootstrap-kube-apiserver.yaml");
    write_file(manifest, "", Mode::PRIVATE_FILE).unwrap();
    assert!(stop().await.unwrap().is_ok(), "a crash left the API running");
    drop(listener);
}
