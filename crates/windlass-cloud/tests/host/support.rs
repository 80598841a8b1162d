//! What the tests make on the host, each taken away again when it is dropped, also after a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use tokio::task::JoinHandle;
use windlass_cloud::process::Identity;
use windlass_cloud::volume::loops;
use windlass_steps::host::{CommandSpec, HostError, Output, cmd, run, run_blocking};

pub const MIB: u64 = 1 << 20;

/// From here on this thread, and those that it starts, have mounts of their own. A machine that starts meanwhile would
/// otherwise get a copy of ours, and keep the device below it busy.
pub fn mounts_of_our_own() {
    unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace can be had");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).expect("mounts can be made private");
}

/// A mounted file system.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn new(source: &Path, kind: &str, target: &Path) -> Self {
        fs::create_dir_all(target).expect("the mount point can be made");
        mount(Some(source), target, Some(kind), MsFlags::empty(), None::<&str>).expect("it can be mounted");
        Self(target.to_owned())
    }

    /// A namespace of our own, kept by a file.
    pub fn pin(target: &Path) -> Self {
        fs::create_dir_all(target.parent().expect("it is in a directory")).expect("it can be made");
        fs::File::create(target).expect("it can be made");
        let bound = mount(Some("/proc/self/ns/net"), target, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        bound.expect("a namespace can be bound to a file");
        Self(target.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Lets every loop device of a file below the directory go.
pub struct Loops<'a>(pub &'a Path);

impl Loops<'_> {
    /// The files below the directory that are on a loop device.
    pub fn files(&self) -> Vec<String> {
        let all = loops::list().expect("loop devices can be listed");
        let ours = all.into_iter().filter(|one| one.file.starts_with(self.0));
        ours.map(|one| one.file.display().to_string()).collect()
    }
}

impl Drop for Loops<'_> {
    fn drop(&mut self) {
        for one in loops::list().unwrap_or_default().into_iter().filter(|one| one.file.starts_with(self.0)) {
            let _ = run_blocking(cmd("losetup").arg("--detach").arg(&one.device));
        }
    }
}

/// A process that runs beside the test and dies with it.
pub struct Beside {
    pub identity: Identity,
    task: JoinHandle<Result<Output, HostError>>,
}

impl Beside {
    /// The shell script has `$1`, a file into which it writes its number as soon as it is ready.
    pub async fn start(script: &str, dir: &Path) -> Self {
        let ready = tempfile::NamedTempFile::new_in(dir).expect("a file can be made");
        let task = tokio::spawn(run(script_of(script, ready.path()).timeout(Duration::from_secs(60))));
        loop {
            let text = fs::read_to_string(ready.path()).expect("it can be read");
            if let Some(line) = text.strip_suffix('\n') {
                let pid = line.parse().expect("it is a number");
                return Self { identity: Identity::of(pid).expect("it runs"), task };
            }
            assert!(!task.is_finished(), "{:?}", task.await);
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Dropping its future kills the whole process group.
        self.task.abort();
    }
}

fn script_of(script: &str, ready: &Path) -> CommandSpec {
    cmd("sh").args(["-ec", script, "sh"]).arg(ready)
}
