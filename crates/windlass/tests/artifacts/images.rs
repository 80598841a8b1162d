//! Every image starts: the cache's own containerd, shim and runc take the archives and run what is in them.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use windlass_artifacts::image::{ImageSet, TABLE};
use windlass_steps::host::{CommandSpec, Mode, cmd, run_blocking, write_file};

use crate::cached::{Programs, VERSION, full, list};
use crate::daemon::{Daemon, wait_for};
use crate::versions::question;

/// containerd in a directory of its own. It is the first process of a process namespace, so that shims and containers
/// end with it, and has its mounts to itself.
struct Containerd {
    daemon: Option<Daemon>,
    programs: Programs,
    dir: TempDir,
    namespace: String,
}

impl Containerd {
    fn start() -> Self {
        let (programs, dir) = (Programs::linked(), tempfile::tempdir_in("/var/tmp").unwrap());
        let place = |name: &str| dir.path().join(name);
        // The kubelet's interface is not needed, and reaches out of the directory.
        let config = format!(
            "version = 3\ndisabled_plugins = ['io.containerd.grpc.v1.cri', 'io.containerd.cri.v1.images', \
             'io.containerd.cri.v1.runtime', 'io.containerd.nri.v1.nri', 'io.containerd.internal.v1.opt']\n\
             root = '{}'\nstate = '{}'\n[grpc]\naddress = '{}'\n",
            place("root").display(),
            place("state").display(),
            place("c.sock").display()
        );
        write_file(place("config.toml"), config, Mode::PRIVATE_FILE).unwrap();
        let command = cmd("unshare").args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
        let command = command.arg("--mount-proc").arg(programs.path("containerd"));
        let command = command.arg("--config").arg(place("config.toml")).env("PATH", search_path(&programs));
        let daemon = Some(Daemon::start(command));
        let namespace = format!("windlass-test{}", dir.path().file_name().unwrap().display());
        let containerd = Containerd { daemon, programs, dir, namespace };
        wait_for("containerd answers", || {
            run_blocking(containerd.ctr(&["version"])).map(drop).map_err(|error| error.to_string())
        });
        containerd
    }

    fn ctr(&self, arguments: &[&str]) -> CommandSpec {
        let socket = self.dir.path().join("c.sock");
        let command = cmd(self.programs.path("ctr")).arg("--address").arg(socket).arg("--namespace");
        command.arg(&self.namespace).args(arguments)
    }

    /// Runs a program of an image to its good end, and gives back what it said. The shim writes that down, because a
    /// `ctr` that waits may leave before it has read everything.
    fn run(&self, image: &str, id: &str, words: &[&str]) -> String {
        let log = self.dir.path().join(id);
        let uri = format!("file://{}", log.display());
        let arguments = [&["run", "--detach", "--log-uri", &uri, image, id], words].concat();
        let done = |command| run_blocking(command).unwrap_or_else(|error| panic!("{image} {words:?}: {error:?}"));
        done(self.ctr(&arguments));
        wait_for("the program has ended", || self.is_in_state(id, "STOPPED"));
        // This fails if the program has failed, and waits for the rest of what it said.
        done(self.ctr(&["tasks", "delete", id]));
        done(self.ctr(&["containers", "delete", id]));
        fs::read_to_string(log).unwrap()
    }

    /// Runs a program that has to say something. The shim writes both streams of it to one file and closes that when
    /// the first of them ends, so that the last words on the other may be lost: silence is asked again, a few times.
    fn ask(&self, image: &str, id: &str, words: &[&str]) -> String {
        let mut answers = (0..5).map(|attempt| self.run(image, &format!("{id}-{attempt}"), words));
        answers.find(|said| !said.trim().is_empty()).unwrap_or_default()
    }

    fn is_in_state(&self, id: &str, state: &str) -> Result<(), String> {
        let tasks = run_blocking(self.ctr(&["tasks", "list"])).map_err(|error| error.to_string())?;
        let tasks = tasks.text().map_err(|error| error.to_string())?;
        let is = |line: &str| line.split_whitespace().next() == Some(id) && line.ends_with(state);
        if tasks.lines().any(is) { Ok(()) } else { Err(tasks.to_owned()) }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        drop(self.daemon.take());
        // runc removes a container's group and leaves the one above it.
        let hierarchies = fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path());
        for hierarchy in hierarchies.chain([PathBuf::from("/sys/fs/cgroup")]) {
            let group = hierarchy.join(&self.namespace);
            let removed = if group.is_dir() { fs::remove_dir(&group) } else { Ok(()) };
            assert!(removed.is_ok() || std::thread::panicking(), "{}: {removed:?}", group.display());
        }
    }
}

fn search_path(programs: &Programs) -> String {
    format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", programs.dir().display())
}

fn archives() -> Vec<(ImageSet, PathBuf)> {
    let listed = list(&full());
    let archive = |set: ImageSet| {
        let wanted = |a: &&crate::cached::Artifact| {
            a.kind == "image" && a.name == set.as_str() && a.version == set.version(VERSION)
        };
        (set, listed.iter().find(wanted).unwrap_or_else(|| panic!("{set} is not in the cache")).path.clone())
    };
    ImageSet::ALL.into_iter().map(archive).collect()
}

#[test]
#[ignore = "needs skopeo and every artifact"]
fn skopeo_finds_every_image_in_its_archive() {
    for (set, archive) in archives() {
        for row in set.rows() {
            let name = row.name(VERSION);
            let reference = format!("oci-archive:{}:{name}", archive.display());
            let seen = run_blocking(cmd("skopeo").args(["inspect", "--config", &reference])).unwrap();
            let config: serde_json::Value = serde_json::from_slice(&seen.stdout).unwrap();
            assert_eq!(config["config"]["Entrypoint"][0], row.entrypoint, "{name}");
            assert_eq!(config["os"], "linux", "{name}");
        }
    }
}

#[test]
#[ignore = "needs root and every artifact"]
fn every_image_starts_under_containerd_and_runc() {
    let containerd = Containerd::start();
    for (_, archive) in archives() {
        run_blocking(containerd.ctr(&["images", "import", archive.to_str().unwrap()])).unwrap();
    }
    let imported = run_blocking(containerd.ctr(&["images", "list", "--quiet"])).unwrap();
    let mut wanted: Vec<String> = TABLE.iter().map(|row| row.name(VERSION)).collect();
    wanted.sort();
    assert_eq!(imported.text().unwrap().lines().collect::<Vec<_>>(), wanted);
    for (number, row) in TABLE.iter().enumerate().filter(|(_, row)| row.set != ImageSet::Pause) {
        let name = row.name(VERSION);
        for (index, (program, dir)) in row.programs.iter().enumerate() {
            let path = format!("/{dir}/{program}").replace("//", "/");
            let first = if index == 0 { row.entrypoint } else { &path };
            let (arguments, answer) = question(program);
            let words: Vec<&str> = std::iter::once(first).chain(arguments.iter().copied()).collect();
            let said = containerd.ask(&name, &format!("i{number}-{index}"), &words);
            let answer = answer.replace('$', row.set.version(VERSION));
            assert!(said.lines().any(|line| line.trim() == answer), "{name}: {words:?} does not say {answer}: {said}");
        }
    }
    for image in TABLE.iter().filter(|row| row.repository.ends_with("proxy") || row.set == ImageSet::Flannel) {
        for tool in ["nft", "iptables", "ip"] {
            let flag = if tool == "ip" { "-V" } else { "--version" };
            containerd.run(
                &image.name(VERSION),
                &format!("{}-{tool}", image.entrypoint.replace('/', "")),
                &[tool, flag],
            );
        }
    }
}

#[test]
#[ignore = "needs root and every artifact"]
fn pause_holds_its_place_until_it_is_told_to_go() {
    let containerd = Containerd::start();
    let (_, archive) = archives().into_iter().find(|(set, _)| *set == ImageSet::Pause).unwrap();
    run_blocking(containerd.ctr(&["images", "import", archive.to_str().unwrap()])).unwrap();
    let name = ImageSet::Pause.rows().next().unwrap().name(VERSION);
    run_blocking(containerd.ctr(&["run", "--detach", &name, "sandbox"])).unwrap();
    wait_for("pause runs", || containerd.is_in_state("sandbox", "RUNNING"));
    run_blocking(containerd.ctr(&["tasks", "kill", "--signal", "SIGTERM", "sandbox"])).unwrap();
    wait_for("pause has gone", || containerd.is_in_state("sandbox", "STOPPED"));
    run_blocking(containerd.ctr(&["tasks", "delete", "sandbox"])).unwrap();
    run_blocking(containerd.ctr(&["containers", "delete", "sandbox"])).unwrap();
}
