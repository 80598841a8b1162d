//! Booting a base under systemd-nspawn, as far as it needs no cloud: its own cgroups and network, and a clean end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::host::{CommandSpec, cmd, run};
use windlass_steps::wait::Wait;

/// Unlike any other machine's.
const NAME: &str = "windlass-base-test";

/// Moves itself into cgroups of the machine's own (v2, or every v1 hierarchy) before it becomes nspawn: the cgroup
/// namespace then makes them the machine's roots.
const START: &str = r#"set -e; name=$1; shift
if [ -f /sys/fs/cgroup/cgroup.procs ]; then trees=/sys/fs/cgroup; else trees=$(echo /sys/fs/cgroup/*); fi
for tree in $trees; do
  [ -f $tree/cgroup.procs ] || continue
  mkdir -p $tree/$name
  [ -f $tree/cpuset.cpus ] && [ -f $tree/$name/cpuset.cpus ] && [ ! -f $tree/cgroup.controllers ] \
    && cat $tree/cpuset.cpus > $tree/$name/cpuset.cpus && cat $tree/cpuset.mems > $tree/$name/cpuset.mems
  echo $$ > $tree/$name/cgroup.procs
done
exec systemd-nspawn "$@""#;

/// Boots it as OS version 1 with the extensions of both versions, waits until systemd says that the system is running,
/// and powers it off.
pub async fn runs_and_stops(dir: &Path, tree: &Path) {
    let machine = tokio::spawn(run(nspawn(tree)));
    let criterion = Criterion::new("the machine is running", || async { Ok(look().await) });
    let wait = Wait::stalled_for(Duration::from_secs(60));
    let running = wait.until(&[criterion], |_| Ok::<(), std::convert::Infallible>(())).await;
    let failed = inside(&["systemctl", "list-units", "--failed", "--plain", "--no-legend"]).await;
    let enabled = inside(&["systemctl", "is-enabled", "systemd-sysext.service"]).await;
    let os = inside(&["sh", "-c", ". /etc/os-release; echo $ID $VERSION_ID $BUILD_ID"]).await;
    let known = inside(&["systemd-sysext", "list", "--no-legend"]).await;
    let merged = inside(&["systemd-sysext", "status", "--no-legend"]).await;
    let runtime = inside(&["containerd"]).await;
    inside(&["systemctl", "poweroff"]).await.unwrap();
    machine.await.unwrap().unwrap();
    assert!(running.is_ok(), "{running:?}; failed units: {failed:?}");
    assert_eq!(os.as_deref(), Ok("debian 1 base-1"));
    assert!(enabled.is_ok_and(|word| ["enabled", "static", "indirect"].contains(&word.as_str())));
    let names = |text: &Result<String, String>| {
        let has = |name: &str| text.as_ref().is_ok_and(|text| text.contains(name));
        (has("containerd-2.2.9-os1"), has("containerd-2.2.9-os2"))
    };
    assert_eq!(names(&known), (true, true), "{known:?}");
    assert_eq!(names(&merged), (true, false), "{merged:?}");
    assert_eq!(runtime.as_deref(), Ok("for OS 1"), "{merged:?}");
    assert!(dir.exists());
}

/// Removes the machine's empty cgroups, and looks for processes, mounts and directories that should be gone.
pub fn nothing_is_left(dir: &Path) {
    for mut group in groups() {
        group.reverse();
        for directory in group {
            fs::remove_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
    }
    // nspawn leaves this one where /run is a disk.
    let _ = fs::remove_dir(Path::new("/run/systemd/nspawn/propagate").join(NAME));
    assert!(!Path::new("/run/systemd/nspawn/propagate").join(NAME).exists());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*dir.to_string_lossy()), "{mounts}");
    let of_ours = |pid: &PathBuf| {
        let line = fs::read(pid.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*dir.to_string_lossy())
    };
    let left: Vec<PathBuf> = processes().into_iter().filter(of_ours).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn nspawn(tree: &Path) -> CommandSpec {
    let words = ["--quiet", "--boot", "--register=no", "--keep-unit", "--capability=all", "--private-network"];
    let command = cmd("sh").args(["-c", START, "sh", NAME]).args(words);
    let words = ["--private-users=no", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"];
    let command = command.args(words).args(["--system-call-filter=@keyring bpf perf_event_open", "--bind=/dev/kmsg"]);
    command.arg(format!("--directory={}", tree.display())).arg(format!("--machine={NAME}"))
}

async fn look() -> Observation {
    match inside(&["systemctl", "is-system-running"]).await.as_deref() {
        Ok("running") => Observation::Holds,
        Ok(word @ ("degraded" | "maintenance")) => Observation::Never(Reason::new(word)),
        Ok(word) => Observation::NotYet(Reason::new(word)),
        Err(reason) => Observation::NotYet(Reason::new(reason)),
    }
}

/// Runs a command in the machine; a code of 1 is an answer of systemctl's.
async fn inside(words: &[&str]) -> Result<String, String> {
    let leader = leader().ok_or("there is no machine")?;
    let command = cmd("nsenter").args(["--target", &leader, "--all"]).args(words).accept(1);
    let output = run(command.timeout(Duration::from_secs(30))).await.map_err(|error| error.to_string())?;
    match output.text() {
        Ok("") if output.code != 0 => Err(output.stderr.clone()),
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The process that is number 1 inside.
fn leader() -> Option<String> {
    processes().into_iter().find_map(|process| {
        let groups = fs::read_to_string(process.join("cgroup")).ok()?;
        let status = fs::read_to_string(process.join("status")).ok()?;
        let numbers: Vec<&str> =
            status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().collect();
        let first = numbers.len() == 2 && numbers[1] == "1" && groups.contains(NAME);
        first.then(|| numbers[0].to_owned())
    })
}

fn processes() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().bytes().all(|b| b.is_ascii_digit())).collect()
}

/// The machine's cgroups in each hierarchy, parents first.
fn groups() -> Vec<Vec<PathBuf>> {
    let top = Path::new("/sys/fs/cgroup");
    let trees: Vec<PathBuf> = match top.join("cgroup.procs").exists() {
        true => vec![top.to_owned()],
        false => fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path()).collect(),
    };
    trees.into_iter().map(|tree| tree.join(NAME)).filter(|path| path.exists()).map(|path| below(&path)).collect()
}

fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        found.extend(below(&entry));
    }
    found
}
