//! The container runtime's data. It belongs to the version that wrote it, and another version is not to find it: a note
//! beside it says whose it is, and on every boot, before the runtime starts, the note is compared with the runtime that
//! this boot has: the extension that merges on its operating system. Only if the two differ is the data removed; the images
//! that came with the machine are then imported again, once the new runtime runs and before the kubelet does.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::syncfs;
use thiserror::Error;
use tracing::info;
use windlass_artifacts::addon::AddonVersion;
use windlass_steps::host::{CommandSpec, Commands, Host, HostError, Mode, cmd, make_dir, read_file, write_file};
use windlass_steps::report::chain;

use crate::bootstrap::{self, BootstrapError};
use crate::exit::{Exit, Failure};
use crate::extension::{self, ListError};
use crate::places::Places;
use crate::record::Recorder;

const LIMIT: u64 = 1 << 10;
/// The largest archive holds Kubernetes; a busy disk takes its time.
const IMPORT_LIMIT: Duration = Duration::from_secs(300);
const PINNED: &str = "io.cri-containerd.pinned=pinned";
const CONTAINERD: &str = "/usr/bin/containerd";

/// Why the runtime's data is not fit for it.
#[derive(Debug, Error)]
pub enum DataError {
    /// The runtime does not say which it is.
    #[error("cannot ask the container runtime for its version")]
    AskVersion {
        /// What happened.
        source: HostError,
    },
    /// It says nothing that is a version.
    #[error("cannot find a version in {said:?}")]
    ReadVersion {
        /// What it said.
        said: String,
    },
    /// The extensions cannot be listed.
    #[error("cannot tell which container runtime this boot has")]
    ListExtensions {
        /// Why not.
        source: ListError,
    },
    /// A note cannot be read or written.
    #[error("cannot use a note about the runtime's data")]
    UseNote {
        /// Why not.
        source: HostError,
    },
    /// The data cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// Where it is.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// What was removed may come back after a power cut.
    #[error("cannot bring to the disk that {} is empty", path.display())]
    Sync {
        /// Where it was.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no runtime yet.
    #[error("this boot has no container runtime yet")]
    FindRuntime,
    /// The runtime that this boot has cannot be configured.
    #[error("cannot configure the container runtime that this boot has")]
    Configure {
        /// Why not.
        source: Box<BootstrapError>,
    },
    /// The machine's images cannot be listed.
    #[error("cannot list {}", path.display())]
    ListImages {
        /// Where they are.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The images cannot be kept from being collected.
    #[error("cannot pin the images")]
    Pin {
        /// What happened.
        source: HostError,
    },
    /// An archive of images is not taken.
    #[error("cannot import {}", path.display())]
    Import {
        /// The archive.
        path: PathBuf,
        /// What happened.
        source: HostError,
    },
}

/// What came of comparing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compared {
    /// This boot has no runtime; whatever brings one comes later, and this has to be asked again then.
    NoRuntime,
    /// Nobody had noted whose the data is: it came with the machine, and so did the runtime.
    Noted,
    /// The data is the runtime's own.
    Same,
    /// It is another's, whose containers run: then this is no boot, and nothing is to be taken from them.
    InUse,
    /// It was another's, and is removed.
    Cleaned {
        /// Whose it was.
        from: String,
        /// Whose it will be.
        to: String,
    },
}

/// Removes the data of another version and configures the one that this boot has, before the runtime starts
/// (`containerd.service`).
pub async fn clean(places: &Places) -> Result<(), Failure> {
    let mut record = Recorder::begin(places, "runtime-data", "compare-versions");
    let fit = match compare(places, &Host).await {
        // One that is merged a moment later must not start with data that nobody has compared.
        Ok(Compared::NoRuntime) => Err(DataError::FindRuntime),
        Ok(Compared::Cleaned { from, to }) => {
            record.data("cleaned", format!("data of {from} for {to}"));
            Ok(())
        }
        Ok(Compared::Noted | Compared::Same | Compared::InUse) => Ok(()),
        Err(error) => Err(error),
    };
    ended(&mut record, fit.and_then(|()| configure(places)))
}

/// Imports the machine's images again (`runtime-images.service`).
pub async fn import(places: &Places) -> Result<(), Failure> {
    let mut record = Recorder::begin(places, "runtime-images", "import-images");
    let imported = import_images(places, &Host).await;
    ended(&mut record, imported)
}

fn ended(record: &mut Recorder, outcome: Result<(), DataError>) -> Result<(), Failure> {
    match &outcome {
        Ok(()) => record.done(),
        Err(error) => record.failed(chain(error)),
    }
    outcome.map_err(|error| {
        let next = match error {
            DataError::FindRuntime => "see what os-addons.service says",
            _ => "see that the machine's disk is well",
        };
        Failure::of(Exit::TryAgain, &error, next)
    })
}

/// What the node flow wrote is for the runtime that it had chosen; another operating system may have come with another.
fn configure(places: &Places) -> Result<(), DataError> {
    let Some(version) = merged(places)? else { return Ok(()) };
    let configured = bootstrap::configure_runtime_of(places, &version);
    configured.map_err(|source| DataError::Configure { source: Box::new(source) })
}

async fn compare(places: &Places, commands: &impl Commands) -> Result<Compared, DataError> {
    let Some(version) = version(places, commands).await? else { return Ok(Compared::NoRuntime) };
    let note = places.runtime_data_note();
    let compared = match owner(&note)? {
        Some(owner) if owner == version => return Ok(Compared::Same),
        None => Compared::Noted,
        Some(_) if runs_something(places) => return Ok(Compared::InUse),
        Some(from) => {
            info!(from, to = version, "runtime data removed");
            hand_over(places, &version, sync_file_system)?;
            return Ok(Compared::Cleaned { from, to: version });
        }
    };
    put(&note, &version)?;
    Ok(compared)
}

/// The order of the acts lets each be cut off: the images are noted as missing before they are, and the data gets its new
/// owner only once it is gone, also from the disk, which may be another one than the note's.
fn hand_over(places: &Places, to: &str, sync: impl Fn(&Path) -> io::Result<()>) -> Result<(), DataError> {
    let data = places.containerd_data();
    put(&places.import_note(), "")?;
    empty(&data)?;
    if data.exists() {
        sync(&data).map_err(|source| DataError::Sync { path: data, source })?;
    }
    put(&places.runtime_data_note(), to)
}

fn sync_file_system(path: &Path) -> io::Result<()> {
    Ok(syncfs(File::open(path)?)?)
}

fn runs_something(places: &Places) -> bool {
    fs::read_dir(places.tasks()).is_ok_and(|mut tasks| tasks.next().is_some())
}

/// The version of the runtime that this boot has: the extension's, and only where there is none what the program says,
/// because a program may call its version otherwise.
async fn version(places: &Places, commands: &impl Commands) -> Result<Option<String>, DataError> {
    let merged = merged(places)?;
    if merged.is_some() || !places.program(CONTAINERD).exists() {
        return Ok(merged);
    }
    let output = commands.run(cmd("containerd").arg("--version")).await;
    let output = output.map_err(|source| DataError::AskVersion { source })?;
    let said = output.text().map_err(|source| DataError::AskVersion { source })?;
    let version = said.split_whitespace().nth(2).map(|word| word.trim_start_matches('v').to_owned());
    version.map(Some).ok_or_else(|| DataError::ReadVersion { said: said.chars().take(100).collect() })
}

/// The runtime's extension that merges on the operating system which runs.
fn merged(places: &Places) -> Result<Option<String>, DataError> {
    let Some(os) = extension::running_os(places) else { return Ok(None) };
    let installed = extension::list(places).map_err(|source| DataError::ListExtensions { source })?;
    let runtime = installed.into_iter().find(|own| own.package == extension::RUNTIME && own.os == os);
    Ok(runtime.map(|own| own.version.to_string()))
}

/// Notes whose the data is before the runtime that this boot has is replaced, if nobody has: what came with the machine is
/// that runtime's, even if it never ran.
pub fn note_owner(places: &Places) -> Result<(), DataError> {
    let note = places.runtime_data_note();
    match (owner(&note)?, merged(places)?) {
        (None, Some(version)) => put(&note, &version),
        _ => Ok(()),
    }
}

/// The runtimes that this machine has had: those that are here for whatever operating system, before all the one whose data
/// is here; where none is, that one alone.
pub fn had(places: &Places) -> Result<Vec<AddonVersion>, DataError> {
    let owner = owner(&places.runtime_data_note())?.and_then(|text| AddonVersion::parse(&text).ok());
    let installed = extension::list(places).map_err(|source| DataError::ListExtensions { source })?;
    let runtimes = installed.into_iter().filter(|own| own.package == extension::RUNTIME).map(|own| own.version);
    let mut had: Vec<AddonVersion> = runtimes.collect();
    had.dedup();
    had.sort_by_key(|version| Some(version) != owner.as_ref());
    Ok(if had.is_empty() { owner.into_iter().collect() } else { had })
}

fn owner(note: &Path) -> Result<Option<String>, DataError> {
    match read_file(note, LIMIT) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(HostError::ReadFile { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DataError::UseNote { source }),
    }
}

fn put(path: &Path, text: &str) -> Result<(), DataError> {
    let made = make_dir(path.parent().unwrap_or(path), Mode::PUBLIC_DIR);
    made.and_then(|_| write_file(path, text, Mode::PUBLIC)).map_err(|source| DataError::UseNote { source })
}

/// The directory stays: it may be a mount of its own.
fn empty(folder: &Path) -> Result<(), DataError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|source| DataError::Remove { path: folder.to_owned(), source })?,
    };
    for entry in entries {
        let path = entry.map_err(|source| DataError::Remove { path: folder.to_owned(), source })?.path();
        let is_dir = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|source| DataError::Remove { path, source })?;
    }
    Ok(())
}

async fn import_images(places: &Places, commands: &impl Commands) -> Result<(), DataError> {
    let folder = places.base_images();
    let list = |source| DataError::ListImages { path: folder.clone(), source };
    let mut archives = Vec::new();
    for entry in fs::read_dir(&folder).map_err(list)? {
        archives.push(entry.map_err(list)?.path());
    }
    archives.sort();
    for path in archives {
        let words = ["images", "import", "--snapshotter", "overlayfs"];
        let imported = commands.run(ctr(&words).arg(&path)).await;
        imported.map_err(|source| DataError::Import { path, source })?;
    }
    let pin = |source| DataError::Pin { source };
    let listed = commands.run(ctr(&["images", "list", "--quiet"])).await.map_err(pin)?;
    // A kubelet that is short of room must not remove what no registry could give back.
    for name in listed.text().map_err(pin)?.lines() {
        commands.run(ctr(&["images", "label", name, PINNED])).await.map_err(pin)?;
    }
    fs::remove_file(places.import_note()).map_err(|source| DataError::Remove { path: places.import_note(), source })
}

fn ctr(words: &[&str]) -> CommandSpec {
    cmd("ctr").args(["--namespace", "k8s.io"]).args(words).timeout(IMPORT_LIMIT)
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::ScriptedHost;

    use super::*;

    fn saying(version: &str) -> ScriptedHost {
        ScriptedHost::default().answer("containerd --version", format!("containerd x v{version} r\n"))
    }

    fn machine() -> (tempfile::TempDir, Places) {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        put(&places.program(CONTAINERD), "").unwrap();
        put(&places.containerd_data().join("io.containerd.metadata.v1.bolt/meta.db"), "x").unwrap();
        put(&places.containerd_data().join("file"), "x").unwrap();
        (dir, places)
    }

    fn has_data(places: &Places) -> bool {
        fs::read_dir(places.containerd_data()).unwrap().count() > 0
    }

    #[tokio::test]
    async fn data_goes_if_and_only_if_the_runtime_is_another_one() {
        let (_dir, places) = machine();
        assert_eq!(compare(&places, &saying("2.2.9")).await.unwrap(), Compared::Noted);
        assert_eq!(compare(&places, &saying("2.2.9")).await.unwrap(), Compared::Same);
        assert!(has_data(&places) && !places.import_note().exists());
        let cleaned = Compared::Cleaned { from: "2.2.9".to_owned(), to: "1.7.35".to_owned() };
        assert_eq!(compare(&places, &saying("1.7.35")).await.unwrap(), cleaned);
        assert!(!has_data(&places) && places.containerd_data().is_dir() && places.import_note().exists());
        assert_eq!(compare(&places, &saying("1.7.35")).await.unwrap(), Compared::Same);
        assert!(places.import_note().exists(), "the images are still to come");
    }

    /// The note and the data may be on two disks, which a power cut leaves as they are.
    #[test]
    fn the_data_got_its_new_owner_before_it_was_gone_from_the_disk() {
        let (_dir, places) = machine();
        put(&places.runtime_data_note(), "2.2.9").unwrap();
        let fails = |_: &Path| Err(io::ErrorKind::Other.into());
        assert!(matches!(hand_over(&places, "1.7.35", fails), Err(DataError::Sync { .. })));
        assert_eq!(owner(&places.runtime_data_note()).unwrap().as_deref(), Some("2.2.9"));
        let synced = std::cell::Cell::new(0);
        let sync = |path: &Path| {
            assert_eq!(path, places.containerd_data());
            assert!(!has_data(&places));
            assert_eq!(owner(&places.runtime_data_note()).unwrap().as_deref(), Some("2.2.9"));
            synced.set(synced.get() + 1);
            sync_file_system(path)
        };
        hand_over(&places, "1.7.35", sync).unwrap();
        assert_eq!(synced.get(), 1);
        assert_eq!(owner(&places.runtime_data_note()).unwrap().as_deref(), Some("1.7.35"));
    }

    /// The pre-reboot hook brings a runtime for the next operating system, and not its configuration.
    #[tokio::test]
    async fn a_runtime_that_came_with_another_operating_system_had_the_configuration_of_the_one_before() {
        let (_dir, places) = machine();
        put(&places.own_status(), "CapEff:\t0\n").unwrap();
        put(&places.installer().join("pause-image"), "registry.example/pause:3.10\n").unwrap();
        for name in ["containerd-2.2.9-os1", "containerd-1.7.35-os2"] {
            make_dir(places.extensions().join(name), Mode::PUBLIC_DIR).unwrap();
        }
        for (os, format) in [("1", "version = 3\n"), ("1", "version = 3\n"), ("2", "version = 2\n")] {
            put(&places.os_release(), &format!("VERSION_ID={os}\n")).unwrap();
            clean(&places).await.unwrap();
            let text = String::from_utf8(read_file(places.containerd(), LIMIT).unwrap()).unwrap();
            assert!(text.starts_with(format), "OS version {os}: {text}");
        }
        fs::remove_file(places.installer().join("pause-image")).unwrap();
        assert_eq!(clean(&places).await.unwrap_err().exit, Exit::TryAgain);
    }

    #[tokio::test]
    async fn the_extension_that_merges_says_which_runtime_it_is_even_before_it_ever_ran() {
        let (_dir, places) = machine();
        put(&places.os_release(), "VERSION_ID=1\n").unwrap();
        for name in ["containerd-2.2.9-os1", "containerd-1.7.35-os2"] {
            make_dir(places.extensions().join(name), Mode::PUBLIC_DIR).unwrap();
        }
        note_owner(&places).unwrap();
        assert_eq!(compare(&places, &ScriptedHost::default()).await.unwrap(), Compared::Same);
        put(&places.os_release(), "VERSION_ID=2\n").unwrap();
        note_owner(&places).unwrap();
        let cleaned = Compared::Cleaned { from: "2.2.9".to_owned(), to: "1.7.35".to_owned() };
        assert_eq!(compare(&places, &ScriptedHost::default()).await.unwrap(), cleaned);
    }

    #[tokio::test]
    async fn nothing_is_taken_from_containers_that_run() {
        let (_dir, places) = machine();
        compare(&places, &saying("2.2.9")).await.unwrap();
        put(&places.tasks().join("id/config.json"), "").unwrap();
        assert_eq!(compare(&places, &saying("1.7.35")).await.unwrap(), Compared::InUse);
        assert!(has_data(&places));
        fs::remove_dir_all(places.tasks()).unwrap();
        assert!(matches!(compare(&places, &saying("1.7.35")).await.unwrap(), Compared::Cleaned { .. }));
    }

    #[tokio::test]
    async fn a_machine_without_a_runtime_has_nothing_to_compare() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert_eq!(compare(&places, &ScriptedHost::default()).await.unwrap(), Compared::NoRuntime);
        assert!(!places.runtime_data_note().exists());
    }

    /// It may be merged between the comparison and the start.
    #[tokio::test]
    async fn a_runtime_that_came_late_found_data_that_nobody_had_compared() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        assert_eq!(clean(&places).await.unwrap_err().exit, Exit::TryAgain);
    }

    #[test]
    fn what_a_machine_had_is_what_it_has_for_other_systems_or_whose_data_it_has() {
        let cases: [(Option<&str>, &[&str], &[&str]); 5] = [
            (None, &[], &[]),
            (Some("2.2.9"), &[], &["2.2.9"]),
            (None, &["containerd-2.2.9-os1", "kubelet-1.36.3-os1"], &["2.2.9"]),
            (Some("2.2.9"), &["containerd-1.7.35-os1", "containerd-1.7.35-os2"], &["1.7.35"]),
            (Some("2.2.9"), &["containerd-1.7.35-os2", "containerd-2.2.9-os1"], &["2.2.9", "1.7.35"]),
        ];
        for (note, there, want) in cases {
            let dir = tempfile::tempdir().unwrap();
            let places = Places::below(dir.path());
            note.iter().for_each(|owner| put(&places.runtime_data_note(), owner).unwrap());
            for name in there {
                make_dir(places.extensions().join(name), Mode::PUBLIC_DIR).unwrap();
            }
            let had = had(&places).unwrap();
            assert_eq!(had.iter().map(AddonVersion::as_str).collect::<Vec<_>>(), want, "{note:?} {there:?}");
        }
    }

    #[tokio::test]
    async fn a_runtime_that_says_nothing_keeps_its_data() {
        let (_dir, places) = machine();
        assert!(matches!(compare(&places, &ScriptedHost::default()).await, Err(DataError::AskVersion { .. })));
        let silent = ScriptedHost::default().answer("containerd --version", "containerd");
        assert!(matches!(compare(&places, &silent).await, Err(DataError::ReadVersion { .. })));
        assert!(has_data(&places) && !places.runtime_data_note().exists());
    }

    #[tokio::test]
    async fn images_are_imported_once_all_of_them_are_taken() {
        let (_dir, places) = machine();
        put(&places.import_note(), "").unwrap();
        assert!(matches!(import_images(&places, &ScriptedHost::default()).await, Err(DataError::ListImages { .. })));
        for name in ["b.tar", "a.tar"] {
            put(&places.base_images().join(name), "").unwrap();
        }
        assert!(matches!(import_images(&places, &ScriptedHost::default()).await, Err(DataError::Import { .. })));
        assert!(places.import_note().exists());
        let line = |words: &str| format!("ctr --namespace k8s.io images {words}");
        let import =
            |name: &str| line(&format!("import --snapshotter overlayfs {}", places.base_images().join(name).display()));
        let runtime = ScriptedHost::default()
            .answer(import("a.tar"), "")
            .answer(import("b.tar"), "")
            .answer(line("list --quiet"), "x/pause:3\n")
            .answer(line("label x/pause:3 io.cri-containerd.pinned=pinned"), "");
        import_images(&places, &runtime).await.unwrap();
        assert_eq!(runtime.ran().len(), 4);
        assert!(!places.import_note().exists());
    }
}
