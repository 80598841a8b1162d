use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use windlass_steps::host::{Mode, make_dir, write_file};

use super::api::Here;
use super::*;

/// A master's disk, with etcd among the static pods.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let world = World { dir: tempfile::tempdir().unwrap() };
        make_dir(world.places().manifests(), Mode::PRIVATE_DIR).unwrap();
        write_file(world.places().manifests().join("etcd.yaml"), "etcd", Mode::PRIVATE_FILE).unwrap();
        world
    }

    fn places(&self) -> Places {
        Places::below(self.dir.path())
    }

    fn start(&self, pod: &str) {
        let annotations = json!({ "annotations": {
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.sandbox-namespace": "kube-system",
            "io.kubernetes.cri.sandbox-name": pod,
            "io.kubernetes.cri.sandbox-uid": format!("uid-{pod}"),
            "io.kubernetes.cri.container-name": "c",
        } });
        let folder = self.places().tasks().join(pod);
        make_dir(&folder, Mode::PRIVATE_DIR).unwrap();
        write_file(folder.join("config.json"), annotations.to_string(), Mode::PUBLIC).unwrap();
    }

    fn cut_power(&self) {
        std::fs::remove_dir_all(self.places().tasks()).unwrap();
    }

    fn manifests(&self) -> Vec<String> {
        names(&self.places().manifests())
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const PROGRAMS: [&str; 4] = ["checkpointer", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

fn shows() -> Answer {
    let pod = |name: &str| Here {
        uid: format!("uid-{name}-x"),
        started: true,
        ready: true,
        copy: Ok(format!("copy of {name}")),
    };
    let here = PROGRAMS.iter().map(|name| (Program::parse(name).unwrap(), pod(name))).collect::<BTreeMap<_, _>>();
    Answer::Pods { here, elsewhere: BTreeSet::new() }
}

fn looks(checkpointer: &mut Checkpointer<'_>, answer: &Answer, count: usize) {
    for _ in 0..count {
        checkpointer.look(answer).unwrap();
    }
}

#[test]
fn copies_are_there_after_the_first_look_and_bring_the_control_plane_back() {
    let world = World::new();
    let places = world.places();
    let mut checkpointer = Checkpointer::new(&places).unwrap();
    for name in PROGRAMS {
        world.start(&format!("{name}-x"));
    }
    looks(&mut checkpointer, &shows(), 1);
    assert_eq!(names(&places.checkpoints()).len(), 5, "four copies and the lock");
    assert_eq!(world.manifests(), ["checkpoint-checkpointer.yaml", "etcd.yaml"]);
    looks(&mut checkpointer, &shows(), 100);
    assert_eq!(world.manifests(), ["checkpoint-checkpointer.yaml", "etcd.yaml"]);

    world.cut_power();
    drop(checkpointer);
    let mut checkpointer = Checkpointer::new(&places).unwrap();
    world.start("checkpoint-checkpointer-masters-0");
    looks(&mut checkpointer, &Answer::Silence, 50);
    assert_eq!(world.manifests(), ["checkpoint-checkpointer.yaml", "checkpoint-kube-apiserver.yaml", "etcd.yaml"]);
    looks(&mut checkpointer, &Answer::Unclear("403".into()), 1);
    assert_eq!(world.manifests().len(), 5);
    // The word of the API is from before the cut until the kubelet has started the pods again.
    looks(&mut checkpointer, &shows(), 50);
    assert_eq!(world.manifests().len(), 5);
    for name in PROGRAMS {
        world.start(&format!("{name}-x"));
    }
    looks(&mut checkpointer, &shows(), 19);
    assert_eq!(world.manifests().len(), 5);
    looks(&mut checkpointer, &shows(), 1);
    assert_eq!(world.manifests(), ["checkpoint-checkpointer.yaml", "etcd.yaml"]);
    assert_eq!(names(&places.checkpoints()).len(), 5);
}

#[test]
fn the_second_checkpointer_changes_nothing() {
    let world = World::new();
    let places = world.places();
    let mut first = Checkpointer::new(&places).unwrap();
    looks(&mut first, &Answer::Silence, 1);
    let mut second = Checkpointer::new(&places).unwrap();
    for name in PROGRAMS {
        world.start(&format!("{name}-x"));
    }
    looks(&mut second, &shows(), 3);
    assert_eq!(world.manifests(), ["etcd.yaml"]);
    drop(first);
    looks(&mut second, &shows(), 1);
    assert_eq!(world.manifests().len(), 2);
}

#[test]
fn a_machine_that_was_never_complete_starts_nothing() {
    let world = World::new();
    let places = world.places();
    let mut checkpointer = Checkpointer::new(&places).unwrap();
    for answer in [Answer::Silence, Answer::Unclear("403".into())] {
        looks(&mut checkpointer, &answer, 100);
    }
    assert_eq!(world.manifests(), ["etcd.yaml"]);
}
