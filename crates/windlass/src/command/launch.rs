//! `windlass launch` and `windlass resume`.

mod failure;
mod killed;
mod summary;

pub(super) use failure::{logbook_failure, platform_failure};

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_artifacts::cache::Cache;
use windlass_assets::AssetDir;
use windlass_assets::asset::AssetError;
use windlass_install::launch::{Given, Ready, authorities, finished_before, launch as launch_flow};
use windlass_install::preflight::{self, FakeHost, LookAtHost, ThisHost, edited};
use windlass_install::prepare::{Assets, PrepareError, damage, load};
use windlass_install::sight::{FakeSight, Sight, Watcher};
use windlass_install::software::{self, Addon, Software};
use windlass_install::{evidence, logbook};
use windlass_platform::local::Local;
use windlass_spec::file::Platform as PlatformSpec;
use windlass_steps::clock::{Clock, SystemClock};
use windlass_steps::event::{JsonLines, Stream, progress};
use windlass_steps::host::{Mode, make_dir};
use windlass_steps::interrupt::Interrupt;
use windlass_steps::journal::{History, Journal};
use windlass_steps::report::chain;
use windlass_steps::run::Run;
use windlass_steps::step::{StepName, Stop};

use super::place::{block_on, local};
use super::{plan, prepare, say, spec};
use crate::args::{Common, LaunchFlags, Output, SpecSource};
use crate::exit::{Exit, Failure, damage_failure, launch_asset_failure, launch_prepare_failure};
use killed::KilledAt;

/// How long evidence may be gathered.
const EVIDENCE: Duration = Duration::from_secs(60);

pub(super) fn launch(
    common: &Common,
    flags: &LaunchFlags,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let dir = plan::open_prepared(common)?;
    let journal = logbook::begin(&common.dir).map_err(|error| logbook_failure(common, &error))?;
    let history = history(common)?;
    let dir = with_edits(common, dir, &history, err)?;
    run(common, flags, &dir, journal, out)
}

pub(super) fn resume(
    common: &Common,
    flags: &LaunchFlags,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let dir = plan::open_prepared(common)?;
    let journal = logbook::go_on(&common.dir).map_err(|error| logbook_failure(common, &error))?;
    // While nothing was made, what was edited reaches the machines as it does with `launch`.
    let history = history(common)?;
    let dir = match logbook::is_launched(&history) {
        false => with_edits(common, dir, &history, err)?,
        true => dir,
    };
    run(common, flags, &dir, journal, out)
}

/// What the journal says, of which this run has the lock.
fn history(common: &Common) -> Result<History, Failure> {
    let history = logbook::read(&common.dir).map_err(|error| logbook_failure(common, &error))?;
    Ok(history.unwrap_or_default())
}

/// What was edited since `prepare` is used, and named. What is made from it is made again: a manifest, for one, gets to its
/// machines within an Ignition config. So it is after an attempt that was refused, whose edits may have been undone since.
fn with_edits(common: &Common, dir: AssetDir, history: &History, err: &mut impl Write) -> Result<AssetDir, Failure> {
    let edited = edited(&dir).map_err(|error| launch_asset_failure(&error))?;
    if edited.is_empty() && history.entries.is_empty() {
        return Ok(dir);
    }
    if !edited.is_empty() && common.output == Output::Text {
        say(err, &format!("edited since prepare, and used as they are: {}\n", edited.join(", ")))?;
    }
    let (place, bytes) = spec::read(common, &SpecSource::default())?;
    match prepare::again(common, &bytes)? {
        Ok(_) => plan::open_prepared(common),
        // Both a file and what is made from it were edited: the user's word about the latter stands, and nothing was changed.
        Err(PrepareError::PrepareAssets { source: error @ AssetError::Overwrite { .. } }) => {
            tracing::warn!(%error, "edits do not reach files that were edited themselves");
            Ok(dir)
        }
        Err(error) => {
            let failure = launch_prepare_failure(&place, &error);
            Err(whole_damage(&dir, failure))
        }
    }
}

/// A file that is missing or damaged is told with all others that are.
fn whole_damage(dir: &AssetDir, failure: Failure) -> Failure {
    match failure.exit {
        Exit::PreflightRefused => damage_failure(&damage(dir)).unwrap_or(failure),
        _ => failure,
    }
}

fn run(
    common: &Common,
    flags: &LaunchFlags,
    dir: &AssetDir,
    journal: Journal,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let assets = load(dir).map_err(|error| whole_damage(dir, launch_asset_failure(&error)))?;
    let (software, missing) = match found(common, flags, &assets)? {
        Ok(software) => (Some(software), Vec::new()),
        Err(problems) => (None, problems),
    };
    let history = history(common)?;
    // A preflight that is answered from the journal does not look again, and machines that were made need them no more.
    let is_finished = |step: &str| logbook::has_finished(&history, step);
    if !missing.is_empty() && is_finished(preflight::NAME.as_str()) && !is_finished("start-machines") {
        return Err(failure::missing(common, &missing));
    }
    if let Some(software) = &software {
        link_kubectl(&common.dir, software)?;
    }
    // Another platform is refused by preflight, with everything else that stands in the way.
    let platform = local(&flags.place, "local", &assets.metadata.infra_id)?;
    let platform = match &software {
        Some(software) => platform.with_images(software.images.clone()),
        None => platform,
    };
    let edited = edited(dir).map_err(|error| launch_asset_failure(&error))?;
    let addons = software.map(|software| software.addons).unwrap_or_default();
    let launched = Launching {
        common,
        flags,
        assets: &assets,
        platform: &platform,
        missing: &missing,
        addons: &addons,
        edited: &edited,
        last: finished_before(&history),
        cleared: is_finished(preflight::NAME.as_str()),
    };
    let ended = block_on(async { launched.flow(journal).await })?;
    match ended {
        Ok(ready) => summary::tell(common, &assets, &ready, out),
        Err(stop) => Err(launched.failed(&stop)),
    }
}

/// Whether every machine was heard.
enum Gathered {
    Whole,
    Part,
}

/// What both forms of a launch are driven with.
struct Launching<'a> {
    common: &'a Common,
    flags: &'a LaunchFlags,
    assets: &'a Assets,
    platform: &'a Local,
    missing: &'a [String],
    addons: &'a [Addon],
    edited: &'a [String],
    /// The last step, if it has finished before: what it saw then may be otherwise now.
    last: Option<StepName>,
    /// Whether preflight has finished before. It wakes the platform itself, and tells what comes of it with all else.
    cleared: bool,
}

impl Launching<'_> {
    async fn flow(&self, journal: Journal) -> Result<Result<Ready, Stop>, Failure> {
        let interrupt = Interrupt::on_signals().map_err(|error| unexpected(&error))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let stream = self.stream(journal)?;
        if self.cleared {
            self.platform.wake().await.map_err(|error| platform_failure(&error))?;
        }
        let run = Run::new(&self.assets.metadata.infra_id, Arc::clone(&clock), stream).interrupted_by(interrupt);
        let run = match &self.last {
            Some(last) => run.only(last.clone()),
            None => run,
        };
        if self.flags.place.cloud_simulated {
            let sight = FakeSight::whole(&self.assets.spec);
            return Ok(self.drive(&run, &sight, &FakeHost::good(), clock.as_ref()).await);
        }
        let sight = Watcher::new(self.platform, self.common.dir.join("auth/kubeconfig"));
        let port = match &self.assets.spec.spec.platform {
            PlatformSpec::Local(local) => Some(local.api_port),
            _ => None,
        };
        let host = ThisHost { state: self.flags.place.cloud_state.clone(), port };
        Ok(self.drive(&run, &sight, &host, clock.as_ref()).await)
    }

    async fn drive(
        &self,
        run: &Run,
        sight: &impl Sight,
        host: &impl LookAtHost,
        clock: &dyn Clock,
    ) -> Result<Ready, Stop> {
        let given = Given {
            assets: self.assets,
            authorities: &authorities(self.assets),
            directory: &self.common.dir,
            platform: self.platform,
            sight,
            host,
            missing: self.missing,
            addons: self.addons,
            edited: self.edited,
            clock,
        };
        launch_flow(run, &given).await
    }

    fn stream(&self, journal: Journal) -> Result<Stream, Failure> {
        let stream = Stream::new().journal(journal);
        let stream = match self.common.output {
            Output::Json => stream.reader(JsonLines::to(std::io::stderr())),
            Output::Text | Output::File(_) => stream.reader(progress()),
        };
        Ok(match &self.flags.killed_at {
            Some(text) => stream.reader(KilledAt::parse(text)?),
            None => stream,
        })
    }

    /// The failure, after evidence of it was kept.
    fn failed(&self, stop: &Stop) -> Failure {
        let mut failure = failure::of_stop(self.common, stop);
        // Nothing was made that could have said something.
        if failure.exit == Exit::PreflightRefused {
            return failure;
        }
        let place = evidence::begin(&self.common.dir, &failure.report.to_string(), SystemClock::new().now());
        match place {
            Ok(place) => {
                let said = match self.gather(&place) {
                    Gathered::Whole => "what the machines said is in",
                    Gathered::Part => "what the machines said so far is in",
                };
                failure.report.next.push_str(&format!("\n{said} {}", place.display()));
            }
            Err(error) => tracing::warn!(%error, "evidence not kept"),
        }
        failure
    }

    fn gather(&self, place: &Path) -> Gathered {
        let gathered = block_on(async {
            // Whoever interrupts a second time does not want to wait for it.
            let again = Interrupt::on_signals().map_err(|error| unexpected(&error))?;
            Ok(tokio::select! {
                gathered = tokio::time::timeout(EVIDENCE, evidence::gather(place, self.platform)) => gathered.ok(),
                () = again.raised() => None,
            })
        });
        match gathered {
            Ok(Some(Ok(()))) => return Gathered::Whole,
            Ok(Some(Err(error))) => tracing::warn!(%error, "evidence not kept whole"),
            Ok(None) | Err(_) => tracing::warn!("evidence not gathered in time"),
        }
        Gathered::Part
    }
}

fn unexpected(error: &std::io::Error) -> Failure {
    Failure::of(Exit::Unexpected, error, "look at the cause")
}

/// Everything that machines are made from, or what is missing of it.
fn found(common: &Common, flags: &LaunchFlags, assets: &Assets) -> Result<Result<Software, Vec<String>>, Failure> {
    if flags.place.cloud_simulated {
        let this = std::env::current_exe();
        let this = this.map_err(|error| unexpected(&error))?;
        return Ok(Ok(Software::simulated(&this)));
    }
    Ok(match Cache::open(&common.cache) {
        Ok(cache) => software::find(&cache, assets.spec.spec.kubernetes_version),
        Err(error) => Err(vec![chain(&error).join(": ")]),
    })
}

/// `bin/kubectl`, the version that belongs to the cluster.
fn link_kubectl(directory: &Path, software: &Software) -> Result<(), Failure> {
    let next = "see that the cluster directory can be written";
    let bin = directory.join("bin");
    make_dir(&bin, Mode::PRIVATE_DIR).map_err(|error| Failure::of(Exit::Unexpected, &error, next))?;
    let (link, fresh) = (bin.join("kubectl"), bin.join(".kubectl"));
    let linked = std::fs::remove_file(&fresh).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    let linked = linked.and_then(|()| std::os::unix::fs::symlink(&software.kubectl, &fresh));
    let linked = linked.and_then(|()| std::fs::rename(&fresh, &link));
    linked.map_err(|error| Failure::of(Exit::Unexpected, &error, next))
}
