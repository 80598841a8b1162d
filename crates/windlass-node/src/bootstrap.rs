//! The node flow (`k8s-node-bootstrap.service`), on every machine, after seed documents 001 and 004.
//!
//! 1. `learn-facts`: who am I
//! 2. `acknowledge-config`: the machine-config server hears that the config has arrived
//! 3. `set-kernel`
//! 4. `choose-versions`: what to run, see [`crate::choice`]; the operating system is updated on the way
//! 5. `stage-addons`, `install-addons`: runtime and kubelet for the present and the next operating system
//! 6. `configure-runtime`
//! 7. what the role needs: `place-manifests` for masters, `await-api` and `obtain-certificate` for workers
//! 8. `open-gate`: `kubelet.env`, with the version that the kubelet follows
//! 9. `reboot`, if operating system or runtime are others now; it does not return
//!
//! Every act can be repeated: systemd starts the unit again until all of them succeed, and never once the gate is open.

pub(crate) mod acknowledge;
mod error;
mod files;
pub(crate) mod http;
mod identity;
mod knobs;
mod merge;
mod next;
pub(crate) mod os_addons;
mod reboot;
mod runtime;
mod sysctl;

use std::io::{self, Write as _};
use std::net::SocketAddr;

use tracing::info;
use windlass_artifacts::signature::{Trusted, minisign, openpgp};
use windlass_cloud_api::Role;
use windlass_steps::clock::SystemClock;
use windlass_steps::host::{Commands, Host, Mode, read_file};
use windlass_steps::report::chain;

use crate::args;
use crate::choice::{Choice, Explanation, Given, Knobs, Machine, Seen, Sources, UpgradeOs, WantedPackage, choose};
use crate::exit::{Exit, Failure};
use crate::extension::{self, Plan, Then};
use crate::facts::Facts;
use crate::join;
use crate::places::Places;
use crate::record::Recorder;
use crate::runtime_data;

pub use acknowledge::Acknowledged;
pub use error::BootstrapError;
pub use next::NextOs;

use knobs::knobs;

/// Where a machine asks about itself.
const METADATA: ([u8; 4], u16) = ([169, 254, 169, 254], 80);
const STATUS_LIMIT: u64 = 64 << 10;
const KEY_LIMIT: u64 = 1 << 20;

/// Runs the flow once, or says what it would do, or why it did what it did.
pub async fn run(places: &Places, command: &args::Bootstrap) -> Result<(), Failure> {
    if command.explain
        && !command.dry_run
        && let Some(explanation) = Explanation::read(places)
    {
        return say(&explanation);
    }
    if command.dry_run || command.explain {
        return dry_run(places, command).await;
    }
    let mut record = Recorder::begin(places, "bootstrap", "learn-facts");
    record.hold_at(places, command.held_at.as_deref());
    let done = prepare(places, command, METADATA.into(), &Host, &mut record).await;
    match &done {
        Ok(()) => record.done(),
        Err(error) => record.failed(chain(error)),
    }
    done.map_err(|error| error.failure())
}

/// The flow itself.
async fn prepare(
    places: &Places,
    command: &args::Bootstrap,
    metadata: SocketAddr,
    commands: &impl Commands,
    record: &mut Recorder,
) -> Result<(), BootstrapError> {
    files::sweep(places);
    let facts = learn_facts(places, metadata, record).await?;
    let knobs = knobs(command, &facts)?;
    record.stage("acknowledge-config");
    acknowledge::acknowledge(places, &facts, &mut join::observer(record)).await;
    record.stage("set-kernel");
    sysctl::apply(places);
    let mut explanation = Explanation::default();
    let (choice, then) = set_up(places, &facts, &knobs, commands, record, &mut explanation).await?;
    record.stage("configure-runtime");
    configure_runtime(places, &choice, commands).await?;
    match facts.role {
        Role::Bootstrap => {}
        Role::Master => place_manifests(places, &facts, record)?,
        Role::Worker => {
            join::credentials(places, &facts, record).await.map_err(|source| BootstrapError::Join { source })?
        }
    }
    record.stage("open-gate");
    let why = reboot::due(places, &then)?;
    explanation.did(format!("opened the gate for kubelet {}", choice.kubernetes));
    if let Some(why) = &why {
        explanation.did(format!("booted {why}"));
    }
    explanation.write(places).map_err(|source| BootstrapError::KeepExplanation { source })?;
    files::open_gate(places, &facts, &choice.kubernetes).map_err(|source| BootstrapError::PlaceFiles { source })?;
    info!(machine = %facts.name, kubernetes = %choice.kubernetes, "machine prepared");
    match why {
        None => Ok(()),
        Some(why) => {
            record.stage("reboot");
            record.data("reboot", why);
            // All but the boot itself: after it nobody is left to say so.
            record.done();
            reboot::now(commands).await.map_err(|source| BootstrapError::Reboot { source })
        }
    }
}

async fn learn_facts(places: &Places, metadata: SocketAddr, record: &mut Recorder) -> Result<Facts, BootstrapError> {
    let learnt = identity::learn(metadata, &mut join::observer(record)).await;
    let facts = learnt.map_err(|source| BootstrapError::LearnFacts { source })?;
    facts.write(places).map_err(|source| BootstrapError::KeepFacts { source })?;
    record.data("machine", facts.name.clone());
    Ok(facts)
}

/// Chooses what to run and installs it.
async fn set_up(
    places: &Places,
    facts: &Facts,
    knobs: &Knobs,
    commands: &impl Commands,
    record: &mut Recorder,
    explanation: &mut Explanation,
) -> Result<(Choice, Then), BootstrapError> {
    record.stage("choose-versions");
    // Before anybody is asked: an update that is staged makes the next boot, whoever causes it, one into another system,
    // on which nobody could tell any more which runtime this one had.
    runtime_data::note_owner(places).map_err(|source| BootstrapError::NoteData { source })?;
    let (choice, downloader) = {
        let mut observe = join::observer(record);
        let sources = Machine::new(places, facts, &mut observe);
        let sources = sources.await.map_err(|source| BootstrapError::BeginToAsk { source })?;
        let choice = decide(places, knobs, &sources, explanation).await?;
        (choice, sources.downloader().clone())
    };
    record.data("kubernetes", choice.kubernetes.to_string());
    let plan = plan(places, &choice)?;
    if let Some(setup) = &choice.setup {
        record.data("runtime", setup.runtime.as_str());
        // Seen is seen, also if nothing comes of it.
        setup.seen.write(places).map_err(|source| BootstrapError::KeepSeen { source })?;
        record.stage("stage-addons");
        let staged = extension::stage(places, &downloader, &plan.fetch).await;
        let staged = staged.map_err(|source| BootstrapError::StageAddons { source })?;
        record.stage("install-addons");
        // Before anything changes: a run that is repeated finds the new extensions in place and has to boot all the same.
        let merge_addons = |source| BootstrapError::MergeAddons { source };
        match &plan.then {
            Then::Nothing => {}
            Then::Merge => merge::note(places).map_err(merge_addons)?,
            Then::Reboot(_) => reboot::note(places, &plan.then)?,
        }
        extension::install(places, &staged, &plan.remove).map_err(|source| BootstrapError::InstallAddons { source })?;
        // A boot merges by itself.
        if !places.reboot_due().exists() {
            merge::catch_up(places, commands).await.map_err(merge_addons)?;
        }
    }
    tell(&plan.fetch, &plan.remove, explanation);
    Ok((choice, plan.then))
}

async fn decide(
    places: &Places,
    knobs: &Knobs,
    sources: &impl Sources,
    explanation: &mut Explanation,
) -> Result<Choice, BootstrapError> {
    let seen = Seen::read(places).map_err(|source| BootstrapError::ReadSeen { source })?;
    let (trusted, clock) = (trusted(places)?, SystemClock::new());
    let given = Given { knobs, trusted: &trusted, seen: &seen, clock: &clock };
    choose(sources, &given, explanation).await.map_err(|source| BootstrapError::Choose { source })
}

/// Whose signatures count: what the installer left. Without any nothing verifies.
fn trusted(places: &Places) -> Result<Trusted, BootstrapError> {
    let text = |path: std::path::PathBuf| {
        let bytes = path.exists().then(|| read_file(&path, KEY_LIMIT)).transpose();
        let bytes = bytes.map_err(|source| BootstrapError::ReadKeys { source })?;
        Ok::<_, BootstrapError>(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let use_keys = |source| BootstrapError::UseKeys { source };
    let openpgp = text(places.addon_keys())?.map(|keys| openpgp::Keyring::parse(&keys)).transpose();
    let minisign = text(places.addon_key())?.map(|key| minisign::PublicKey::parse(&key)).transpose();
    Ok(Trusted { openpgp: openpgp.map_err(use_keys)?, minisign: minisign.map_err(use_keys)? })
}

fn plan(places: &Places, choice: &Choice) -> Result<Plan, BootstrapError> {
    let installed = extension::list(places).map_err(|source| BootstrapError::ListAddons { source })?;
    Ok(extension::plan(&installed, choice))
}

fn tell(fetched: &[WantedPackage], removed: &[String], explanation: &mut Explanation) {
    fetched.iter().for_each(|package| explanation.did(format!("fetched {}", package.directory())));
    removed.iter().for_each(|directory| explanation.did(format!("removed {directory}")));
    if fetched.is_empty() && removed.is_empty() {
        explanation.did("changed no addon: what is wanted is there");
    }
}

/// Asks and decides as the flow does, but asks for no update of the operating system: that would be doing.
async fn dry_run(places: &Places, command: &args::Bootstrap) -> Result<(), Failure> {
    let explanation = would(places, command, METADATA.into()).await.map_err(|error| error.failure())?;
    say(&explanation)
}

async fn would(
    places: &Places,
    command: &args::Bootstrap,
    metadata: SocketAddr,
) -> Result<Explanation, BootstrapError> {
    let facts = identity::learn(metadata, &mut |_| Ok(())).await;
    let facts = facts.map_err(|source| BootstrapError::LearnFacts { source })?;
    let mut knobs = knobs(command, &facts)?;
    if knobs.upgrade_os == UpgradeOs::Yes {
        knobs.upgrade_os = UpgradeOs::Staged;
    }
    let mut observe = |_: windlass_steps::wait::Change<'_>| Ok(());
    let sources = Machine::new(places, &facts, &mut observe).await;
    let sources = sources.map_err(|source| BootstrapError::BeginToAsk { source })?;
    let mut explanation = Explanation::default();
    let choice = decide(places, &knobs, &sources, &mut explanation).await?;
    let plan = plan(places, &choice)?;
    plan.fetch.iter().for_each(|package| explanation.did(format!("would fetch {}", package.directory())));
    plan.remove.iter().for_each(|directory| explanation.did(format!("would remove {directory}")));
    match &plan.then {
        Then::Nothing | Then::Merge => explanation.did("would not boot again"),
        Then::Reboot(why) => explanation.did(format!("would boot {why}")),
    }
    Ok(explanation)
}

fn say(explanation: &Explanation) -> Result<(), Failure> {
    let said = write!(io::stdout(), "{explanation}");
    said.map_err(|error| Failure::of(Exit::TryAgain, &error, "see that the output can be written"))
}

/// For the runtime that was chosen, which the next boot may bring; else for the one that is there.
async fn configure_runtime(places: &Places, choice: &Choice, commands: &impl Commands) -> Result<(), BootstrapError> {
    let runtime = |source| BootstrapError::ConfigureRuntime { source };
    let format = match &choice.setup {
        Some(setup) => runtime::format_of(setup.runtime.as_str()).map_err(runtime)?,
        None => runtime::format(commands).await.map_err(runtime)?,
    };
    write_runtime_config(places, format)
}

/// For the version that a later boot has: the pre-reboot hook may have brought another one.
pub(crate) fn configure_runtime_of(places: &Places, version: &str) -> Result<(), BootstrapError> {
    let format = runtime::format_of(version).map_err(|source| BootstrapError::ConfigureRuntime { source })?;
    write_runtime_config(places, format)
}

fn write_runtime_config(places: &Places, format: runtime::Format) -> Result<(), BootstrapError> {
    let status =
        read_file(places.own_status(), STATUS_LIMIT).map_err(|source| BootstrapError::ReadStatus { source })?;
    let scores = runtime::oom_scores(&String::from_utf8_lossy(&status));
    let files = |source| BootstrapError::PlaceFiles { source };
    let pause = files::installer(places, "pause-image").map_err(files)?;
    let text = runtime::render(format, pause.trim(), scores);
    match files::text(&places.containerd()) {
        Ok(is) if is == text => Ok(()),
        _ => files::write(places.containerd(), &text, Mode::PUBLIC).map_err(files),
    }
}

fn place_manifests(places: &Places, facts: &Facts, record: &mut Recorder) -> Result<(), BootstrapError> {
    record.stage("place-manifests");
    // Facts of a master always have the number.
    let Some(index) = facts.etcd_index else { return Ok(()) };
    files::place_manifests(places, index).map_err(|source| BootstrapError::PlaceFiles { source })
}

#[cfg(test)]
mod tests;
