use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use windlass_steps::host::ScriptedHost;

use super::*;
use crate::record::{State, collect};

struct World {
    dir: tempfile::TempDir,
    metadata: SocketAddr,
}

impl World {
    /// A machine as Ignition left it, and its metadata service.
    async fn of(role: &str, index: Option<u32>) -> World {
        let tags = index.map(|i| format!(r#""windlass.dev/etcd-index":"{i}""#)).unwrap_or_default();
        let said = format!(
            r#"{{"name":"machine-0","cluster":"demo-abcde","domain":"demo.test","role":"{role}","address":"10.0.0.2","tags":{{{tags}}},"index":0}}"#
        );
        let router = Router::new().route("/v1/identity", get(move || async move { said }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metadata = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let world = World { dir: tempfile::tempdir().unwrap(), metadata };
        let places = world.places();
        for (name, text) in [
            ("kubelet.env", "KUBELET_ARGS='--v=2'\n"),
            ("pause-image", "registry.example/pause:3.10\n"),
            ("manifests/etcd.yaml", "index: @ETCD_INDEX@\n"),
        ] {
            files::write(places.installer().join(name), text, Mode::PUBLIC).unwrap();
        }
        files::write(places.own_status(), "CapEff:\t0\nCapBnd:\t0\n", Mode::PUBLIC).unwrap();
        world
    }

    fn places(&self) -> Places {
        Places::below(self.dir.path())
    }

    async fn run(&self, commands: &ScriptedHost) -> Result<(), BootstrapError> {
        let mut record = Recorder::begin(&self.places(), "bootstrap", "learn-facts");
        prepare(&self.places(), self.metadata, commands, &mut record).await
    }
}

fn containerd() -> ScriptedHost {
    ScriptedHost::default().answer("containerd --version", "containerd x v2.2.9 r")
}

fn text(path: std::path::PathBuf) -> String {
    String::from_utf8(read_file(path, 1 << 20).unwrap()).unwrap()
}

#[tokio::test]
async fn a_master_is_prepared_as_often_as_it_is_asked_for() {
    let world = World::of("master", Some(2)).await;
    let places = world.places();
    for _ in 0..2 {
        world.run(&containerd()).await.unwrap();
        assert_eq!(Facts::read(&places).unwrap().etcd_index, Some(2));
        assert_eq!(text(places.manifests().join("etcd.yaml")), "index: 2\n");
        assert!(text(places.containerd()).contains("sandbox = \"registry.example/pause:3.10\"\n"));
        assert!(text(places.kubelet_env()).contains("--node-ip=10.0.0.2 --hostname-override=machine-0"));
    }
}

#[tokio::test]
async fn the_bootstrap_machine_gets_no_static_pods() {
    let world = World::of("bootstrap", None).await;
    world.run(&containerd()).await.unwrap();
    assert!(!world.places().manifests().exists());
    assert!(world.places().kubelet_env().exists());
}

#[tokio::test]
async fn the_gate_stays_closed_when_something_fails() {
    let world = World::of("master", Some(0)).await;
    let error = world.run(&ScriptedHost::default()).await.unwrap_err();
    assert!(matches!(error, BootstrapError::ConfigureRuntime { .. }));
    assert_eq!(failure(&error).exit, Exit::TryAgain);
    assert!(!world.places().kubelet_env().exists());
    let world = World::of("master", None).await;
    let error = world.run(&containerd()).await.unwrap_err();
    assert_eq!(failure(&error).exit, Exit::Permanent);
    assert!(!world.places().kubelet_env().exists());
}

#[tokio::test]
async fn the_record_tells_the_stage() {
    let world = World::of("bootstrap", None).await;
    let places = world.places();
    let mut record = Recorder::begin(&places, "bootstrap", "learn-facts");
    prepare(&places, world.metadata, &containerd(), &mut record).await.unwrap();
    let record = &collect(&places)["bootstrap"];
    assert_eq!((record.state, record.stage.as_str()), (State::Running, "open-gate"));
    assert_eq!(record.data["machine"], "machine-0");
}
