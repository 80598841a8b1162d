//! `windlass up`: from nothing to a cluster.

use std::io::Write;
use std::path::Path;

use windlass_artifacts::cache::{Cache, Key, Kind};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_install::{logbook, software};
use windlass_spec::file::{Topology, read_and_complete};
use windlass_spec::init::Start;
use windlass_spec::{ClusterName, CompleteSpec};

use super::{artifacts, beside_this_program, launch, prepare, say, spec};
use crate::args::{Common, Shape, Up, parse_version};
use crate::exit::{Exit, Failure};

pub(super) fn run(common: &Common, command: &Up, out: &mut impl Write, err: &mut impl Write) -> Result<Exit, Failure> {
    refuse_started(common)?;
    let (place, bytes) = spec_text(common, command, err)?;
    let (_, complete) = read_and_complete(&bytes).map_err(|problems| Failure::spec(&place, &problems))?;
    if !command.flags.place.cloud_simulated {
        ensure_artifacts(common, &complete, err)?;
    }
    let prepared = prepare::with_random_keys(common, &place, &bytes)?;
    say(err, &format!("{} is prepared in {}\n", prepared.infra_id, common.dir.display()))?;
    launch::launch(common, &command.flags, out, err)
}

/// Before anything is asked, fetched or written.
fn refuse_started(common: &Common) -> Result<(), Failure> {
    let history = logbook::read(&common.dir).map_err(|error| launch::logbook_failure(common, &error))?;
    match history.is_some_and(|history| logbook::is_launched(&history)) {
        false => Ok(()),
        true => {
            let error = logbook::LogbookError::Launched { directory: common.dir.clone() };
            Err(launch::logbook_failure(common, &error))
        }
    }
}

/// The spec that is named, the one that is there, or a new one.
fn spec_text(common: &Common, command: &Up, err: &mut impl Write) -> Result<(String, Vec<u8>), Failure> {
    let there = command.source.spec.is_some() || common.dir.join("cluster.yaml").exists();
    if !there {
        say(err, &format!("there is no spec in {}: starting from a new one\n", common.dir.display()))?;
        return Ok(("the new spec".to_owned(), start(&command.shape)?.to_yaml().into_bytes()));
    }
    if command.shape.is_given() {
        let because = vec!["there is a spec, and these flags are for a new one".to_owned()];
        let next = "edit the spec, or use another --dir";
        return Err(Failure::new(Exit::Usage, "the flags say what the spec says", because, next));
    }
    spec::read(common, &command.source)
}

impl Shape {
    fn is_given(&self) -> bool {
        let Shape { provider, num_nodes, num_masters, topology, kubernetes_version } = self;
        let words = [provider, topology, kubernetes_version].iter().any(|word| word.is_some());
        words || num_nodes.is_some() || num_masters.is_some()
    }
}

fn start(shape: &Shape) -> Result<Start, Failure> {
    let version = shape.kubernetes_version.as_deref().map(parse_version).transpose().map_err(|reason| {
        Failure::new(Exit::SpecRejected, "--kubernetes-version was rejected", vec![reason], "choose one of the list")
    })?;
    let provider = shape.provider.as_deref().unwrap_or("local");
    Ok(Start {
        name: ClusterName::parse("windlass").expect("the default name is a name"),
        provider: Start::provider(provider).expect("the parser takes no other provider"),
        kubernetes_version: version,
        topology: shape.topology.as_deref().and_then(Topology::parse),
        masters: shape.num_masters,
        workers: shape.num_nodes,
    })
}

/// Fetches if something is missing, or if our own program for machines is another than the one that is packed.
fn ensure_artifacts(common: &Common, spec: &CompleteSpec, err: &mut impl Write) -> Result<(), Failure> {
    let cache = Cache::open(&common.cache).map_err(|error| artifacts::cache_failure(&error))?;
    let own = beside_this_program("windlass-node")
        .map_err(|error| Failure::of(Exit::Unexpected, &error, "look at the cause"))?;
    let why = match software::find(&cache, spec.spec.kubernetes_version) {
        Err(problems) => problems.first().cloned().unwrap_or_default(),
        Ok(_) if is_packed(&cache, &own) => return Ok(()),
        Ok(_) => format!("{} is another than the one in the cache", own.display()),
    };
    say(err, &format!("fetching artifacts: {why}\n"))?;
    artifacts::fetch_for(common, &cache, spec)
}

fn is_packed(cache: &Cache, own: &Path) -> bool {
    let packed = Key::new(Kind::Binary, "windlass-node", env!("CARGO_PKG_VERSION")).and_then(|key| cache.find(&key));
    let here = std::fs::File::open(own).and_then(|file| Digest::of_reader(Algorithm::Sha256, file));
    matches!((packed, here), (Ok(Some(packed)), Ok(here)) if packed.digest == here)
}
