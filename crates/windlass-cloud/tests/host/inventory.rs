//! Taking stock and taking away, of things that are whole, half made, stopped, deleted and busy.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use windlass_cloud::inventory::snapshot::{HostSnapshot, difference};
use windlass_cloud::inventory::{Count, Inventory, Where, remove};
use windlass_cloud::mounts;
use windlass_cloud::process::Signal;
use windlass_cloud::simulated::Stub;
use windlass_cloud::volume::{self, Space, loops};
use windlass_steps::host::{Mode, make_dir, write_file};

use crate::support::{Beside, Loops, MIB, Mounted};
use crate::volumes::a_volume;

const PROGRAM: &str = env!("CARGO_BIN_EXE_windlass-cloud");

/// Directories and control groups of a test's own.
struct Scene {
    temp: tempfile::TempDir,
    place: Where,
}

impl Scene {
    fn new(name: &str) -> Self {
        let temp = tempfile::tempdir().expect("a directory can be made");
        let cgroup_parent = format!("windlass-test-{name}-{}", std::process::id());
        let place = Where { state: temp.path().join("state"), run: temp.path().join("run"), cgroup_parent };
        Self { temp, place }
    }

    fn put(&self, path: PathBuf, text: &str) {
        make_dir(path.parent().expect("it is in a directory"), Mode::PRIVATE_DIR).expect("it can be made");
        write_file(path, text, Mode::PRIVATE_FILE).expect("it can be written");
    }

    fn take(&self) -> Inventory {
        Inventory::take(&self.place).expect("the host can be looked at")
    }

    /// Makes a group in every hierarchy, and answers with how many those are.
    fn groups(&self, below: &str) -> usize {
        let all = hierarchies();
        for hierarchy in &all {
            let made = fs::create_dir_all(hierarchy.join(&self.place.cgroup_parent).join(below));
            made.expect("a control group can be made");
        }
        all.len()
    }

    fn join(&self, below: &str, pid: i32) {
        for hierarchy in hierarchies().iter().filter(|path| !path.ends_with("cpuset")) {
            let file = hierarchy.join(&self.place.cgroup_parent).join(below).join("cgroup.procs");
            control(&file, &pid.to_string());
        }
    }

    /// What of the scene a snapshot's difference speaks of; the rest of the host is not ours to judge here.
    fn ours(&self, lines: Vec<String>) -> Vec<String> {
        let dir = self.temp.path().display().to_string();
        lines.into_iter().filter(|line| line.contains(&dir) || line.contains(&self.place.cgroup_parent)).collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for hierarchy in hierarchies() {
            remove_groups(&hierarchy.join(&self.place.cgroup_parent));
        }
    }
}

fn remove_groups(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
        remove_groups(&entry.path());
    }
    let _ = fs::remove_dir(dir);
}

fn hierarchies() -> Vec<PathBuf> {
    let table = mounts::own().unwrap_or_default();
    table.into_iter().filter(|mount| mount.kind.starts_with("cgroup")).map(|mount| mount.target).collect()
}

fn control(path: &Path, value: &str) {
    let written = fs::OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

const SLEEP: &str = "echo $$ > $1; exec sleep 50";

#[tokio::test]
#[ignore = "needs root: control groups, mounts, loop devices"]
async fn everything_of_a_cluster_is_found_and_goes_and_the_neighbour_stays() {
    let scene = Scene::new("all");
    let before = HostSnapshot::take(&[]);
    let _attached = Loops(scene.temp.path());
    let mut kept = Vec::new();
    let mut beside = Vec::new();
    let mut hierarchies = 0;
    for cluster in ["a", "b"] {
        let (state, run) =
            (scene.place.state.join("clusters").join(cluster), scene.place.run.join("clusters").join(cluster));
        scene.put(state.join("machines/m-0/machine.json"), "{}");
        scene.put(run.join("machines/m-0/console"), "");
        kept.push(Mounted::pin(&run.join("net")));
        kept.push(Mounted::pin(&run.join("machines/m-0/net")));
        kept.push(Mounted::new(Path::new("none"), "tmpfs", &state.join("machines/m-0/with space")));
        let volumes = state.join("volumes");
        make_dir(&volumes, Mode::PRIVATE_DIR).unwrap();
        for name in ["whole", "deleted"] {
            volume::create(&volumes, &a_volume(name, MIB, Space::Sparse)).unwrap();
            loops::attach(&volume::image(&volumes, name)).await.unwrap();
        }
        fs::remove_file(volume::image(&volumes, "deleted")).unwrap();
        hierarchies = scene.groups(&format!("{cluster}/m-0/machine"));
        let stopped = Beside::start(SLEEP, scene.temp.path()).await;
        scene.join(&format!("{cluster}/m-0/machine"), stopped.identity.pid);
        stopped.identity.open().unwrap().unwrap().signal(Signal::STOP).unwrap();
        beside.push(stopped);
        Stub::start(Path::new(PROGRAM), &run.join("machines/m-0")).await.unwrap();
    }
    let all = scene.take();
    assert_eq!(all.clusters(), ["a", "b"]);
    let want = Count { processes: 2, mounts: 1, pins: 2, loops: 2, cgroups: 3 * hierarchies, directories: 5 };
    assert_eq!((all.of("a").count(), all.of("b").count()), (want, want), "{all:#?}");
    let receipt = remove(&all.of("a")).await;
    assert!(receipt.is_clean(), "{:#?}", receipt.left);
    assert_eq!(receipt.removed.len(), all.of("a").items().len());
    let after = scene.take();
    assert_eq!((after.of("a").count(), after.of("b").count()), (Count::default(), want));
    let receipt = remove(&after).await;
    assert!(receipt.is_clean() && scene.take().is_empty(), "{:#?}", receipt.left);
    let left = scene.ours(difference(&before, &HostSnapshot::take(&[scene.temp.path()])));
    assert_eq!(left, [""; 0]);
}

#[tokio::test]
#[ignore = "needs root: mounts"]
async fn a_busy_mount_is_reported_and_does_not_stop_the_rest() {
    let scene = Scene::new("busy");
    let machine = scene.place.state.join("clusters/a/machines/m-0");
    let mounted = Mounted::new(Path::new("none"), "tmpfs", &machine.join("busy"));
    let open = fs::File::create(mounted.path().join("file")).unwrap();
    scene.put(scene.place.run.join("clusters/a/machines/m-0/runner.json"), "{damaged");
    scene.groups("a/m-0");
    let receipt = remove(&scene.take().of("a")).await;
    let left: Vec<String> = receipt.left.iter().map(ToString::to_string).collect();
    let path = |path: &Path| path.display().to_string();
    assert_eq!(left.len(), 3, "{left:#?}");
    assert!(left[0].starts_with(&format!("tmpfs mounted on {}: cannot unmount it", path(mounted.path()))), "{left:#?}");
    assert!(left[1].contains("something is still mounted on"), "{left:#?}");
    assert!(mounted.path().join("file").exists(), "nothing below a mount was deleted");
    assert!(!scene.place.run.join("clusters/a").exists());
    drop(open);
    let receipt = remove(&scene.take().of("a")).await;
    assert!(receipt.is_clean(), "{:#?}", receipt.left);
}

#[tokio::test]
#[ignore = "needs root: control groups and mounts"]
async fn what_is_half_made_goes_too() {
    let scene = Scene::new("half");
    let (state, run) = (scene.place.state.join("clusters/a"), scene.place.run.join("clusters/a"));
    scene.put(run.join("net"), "");
    scene.put(run.join("machines/m-0"), "a file where a directory should be");
    scene.put(run.join("machines/m-1/.runner.json.tmp-1-0"), "");
    scene.put(state.join("volumes/.v.img.new"), "half");
    scene.put(state.join("volumes/w.img"), "no description");
    scene.groups("a");
    let frozen = Beside::start(SLEEP, scene.temp.path()).await;
    scene.join("a", frozen.identity.pid);
    for hierarchy in hierarchies() {
        let state = hierarchy.join(&scene.place.cgroup_parent).join("a").join("freezer.state");
        if state.exists() {
            control(&state, "FROZEN");
        }
    }
    let inventory = scene.take();
    let receipt = remove(&inventory).await;
    assert!(receipt.is_clean(), "{:#?}", receipt.left);
    assert!(!frozen.identity.is_alive().unwrap());
    assert!(scene.take().is_empty());
}
