//! Images imported once, into a containerd root that machines hard-link: no machine imports anything on its way up.
//!
//! containerd runs from a directory of its own, with nothing of its usual places on the host, in a private mount
//! namespace, and dies when we do; so a killed run leaves neither mounts nor processes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tracing::debug;
use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::host::{CommandSpec, Commands, Mode, Output, cmd, make_dir, write_file};
use windlass_steps::wait::{Unmet, Wait, WaitError};

use super::bootstrap::remove;
use super::error::change;
use super::{BaseError, Observer, Stage, need_root};

/// Where kubelets look for images.
const NAMESPACE: &str = "k8s.io";
/// Keeps an image when the kubelet collects garbage.
const PINNED: &str = "io.cri-containerd.pinned=pinned";
/// For the whole of it: importing is copying and unpacking, seconds per archive.
const LIMIT: Duration = Duration::from_secs(20 * 60);
const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(30);
/// What a machine's containerd finds; the rest of its directory it makes itself.
const KEPT: &[&str] =
    &["io.containerd.content.v1.content", "io.containerd.metadata.v1.bolt", "io.containerd.snapshotter.v1.overlayfs"];

/// Whether the layers of unpacked images stay in containerd's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// The preload holds them twice, packed and unpacked.
    Keep,
    /// Only unpacked, which is all that containers need; containerd 1.7 and later can do it.
    Discard,
}

/// What a preload is made from. Its database is containerd's own, so the same line of containerd must use it later.
#[derive(Debug, Clone)]
pub struct PreloadInputs<'a> {
    /// The daemon.
    pub containerd: &'a Path,
    /// Its client, of the same version.
    pub ctr: &'a Path,
    /// The archives to import.
    pub images: &'a [PathBuf],
    /// What happens to packed layers.
    pub layers: Layers,
}

/// Makes the containerd root at `out`, which must not exist, using `work` for everything else, and says which images are
/// in it. Both are in a directory of the caller's, on a file system that overlays can be made on.
pub async fn make_preload(
    inputs: &PreloadInputs<'_>,
    work: &Path,
    out: &Path,
    commands: &impl Commands,
    observe: Observer<'_>,
) -> Result<Vec<String>, BaseError> {
    need_root()?;
    make_dir(work, Mode::PRIVATE_DIR).map_err(|error| change("make", work)(io::Error::other(error)))?;
    let runtime = Runtime { inputs, socket: work.join("c.sock"), commands };
    let mut daemon = pin!(commands.run(runtime.daemon(work, out)?));
    let importing = async {
        runtime.answers().await?;
        runtime.import(observe).await
    };
    let names = tokio::select! {
        biased;
        imported = importing => imported?,
        ended = &mut daemon => return Err(BaseError::KeepRuntime { source: ended.err() }),
    };
    runtime.ask_to_stop().await?;
    let ended = tokio::time::timeout(STOP, daemon).await;
    stopped(ended)?;
    for entry in fs::read_dir(out).map_err(change("list", out))? {
        let entry = entry.map_err(change("list", out))?;
        if KEPT.iter().all(|kept| entry.file_name() != *kept) {
            remove(&entry.path())?;
        }
    }
    Ok(names)
}

fn stopped<E>(ended: Result<Result<Output, windlass_steps::host::HostError>, E>) -> Result<(), BaseError> {
    let attempt = "stop containerd";
    match ended {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(BaseError::RunTool { attempt, source }),
        Err(_) => Err(BaseError::RunTool {
            attempt,
            source: windlass_steps::host::HostError::AwaitCommand {
                command: "containerd".to_owned(),
                limit: STOP,
                stderr: String::new(),
            },
        }),
    }
}

struct Runtime<'a, C> {
    inputs: &'a PreloadInputs<'a>,
    socket: PathBuf,
    commands: &'a C,
}

impl<C: Commands> Runtime<'_, C> {
    /// Plugins that would reach out of its directory are off: the kubelet's interface, NRI, `/opt`.
    fn daemon(&self, work: &Path, out: &Path) -> Result<CommandSpec, BaseError> {
        let config = work.join("config.toml");
        let text = "version = 2\n\
            disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \
            \"io.containerd.cri.v1.runtime\", \"io.containerd.nri.v1.nri\", \"io.containerd.internal.v1.opt\", \
            \"io.containerd.internal.v1.tracing\", \"io.containerd.tracing.processor.v1.otlp\"]\n";
        write_file(&config, text, Mode::PRIVATE_FILE)
            .map_err(|error| change("write", &config)(io::Error::other(error)))?;
        let command = cmd("setpriv").args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
        let command = command.arg(self.inputs.containerd).arg("--config").arg(config).arg("--root").arg(out);
        Ok(command.arg("--state").arg(work.join("state")).arg("--address").arg(&self.socket).timeout(LIMIT))
    }

    async fn answers(&self) -> Result<(), BaseError> {
        let look = || async {
            Ok(match self.ctr(["version"]).await {
                Ok(_) => Observation::Holds,
                Err(error) => Observation::NotYet(Reason::new(error.to_string())),
            })
        };
        let criterion = Criterion::new("containerd answers", look);
        let wait = Wait::stalled_for(START).poll_every(Duration::from_millis(100));
        let waited = wait.until(&[criterion], |_| Ok::<(), std::convert::Infallible>(())).await;
        waited.map_err(|error| {
            let unmet = match error {
                WaitError::Unmet(unmet) => unmet.into_iter().next(),
                WaitError::Observe(never) => match never {},
            };
            let nothing = Unmet { statement: String::new(), reason: String::new(), lasted: Duration::ZERO };
            BaseError::StartRuntime { unmet: unmet.unwrap_or(nothing) }
        })
    }

    async fn import(&self, observe: Observer<'_>) -> Result<Vec<String>, BaseError> {
        let fail = |source| BaseError::RunTool { attempt: "import an image archive", source };
        for (index, image) in self.inputs.images.iter().enumerate() {
            observe(Stage::Import { number: index + 1, of: self.inputs.images.len() });
            let mut words = vec!["images", "import", "--snapshotter", "overlayfs"];
            if self.inputs.layers == Layers::Discard {
                words.extend(["--local", "--discard-unpacked-layers"]);
            }
            let path = image.to_string_lossy();
            words.push(&path);
            self.ctr(words).await.map_err(fail)?;
        }
        let listed = self.ctr(["images", "list", "--quiet"]).await.map_err(fail)?;
        let names: Vec<String> = listed.text().map_err(fail)?.lines().map(str::to_owned).collect();
        for name in &names {
            self.ctr(["images", "label", name, PINNED]).await.map_err(fail)?;
        }
        // Deleting a lease this way collects garbage before it answers, so that discarded layers are really gone.
        self.ctr(["leases", "create", "--id", "windlass-preload"]).await.map_err(fail)?;
        self.ctr(["leases", "delete", "--sync", "windlass-preload"]).await.map_err(fail)?;
        Ok(names)
    }

    async fn ctr<'w>(
        &self,
        words: impl IntoIterator<Item = &'w str>,
    ) -> Result<Output, windlass_steps::host::HostError> {
        let command = cmd(self.inputs.ctr).arg("--address").arg(&self.socket).arg("--namespace").arg(NAMESPACE);
        self.commands.run(command.args(words).timeout(LIMIT)).await
    }

    /// The kernel knows who listens on the socket, so no process id has to be passed around.
    async fn ask_to_stop(&self) -> Result<(), BaseError> {
        let asked = async {
            let pid = UnixStream::connect(&self.socket).await?.peer_cred()?.pid();
            let pid = pid.ok_or_else(|| io::Error::other("the kernel does not say who listens"))?;
            debug!(pid, "stopping containerd");
            kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(io::Error::from)
        };
        asked.await.map_err(change("reach containerd at", &self.socket))
    }
}
