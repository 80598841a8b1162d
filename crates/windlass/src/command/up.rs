//! `windlass up`: from nothing to a cluster.

use std::io::Write;
use std::path::Path;

use nix::unistd::Uid;
use windlass_artifacts::cache::{Cache, Key, Kind};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_install::{logbook, preflight, software};
use windlass_spec::file::{Role, Topology, read_and_complete};
use windlass_spec::init::Start;
use windlass_spec::{ClusterName, CompleteSpec, KubeVersion};

use super::{artifacts, beside_this_program, launch, prepare, say, spec};
use crate::args::{Common, Output, Shape, Up, parse_version};
use crate::exit::{Exit, Failure};

pub(super) fn run(common: &Common, command: &Up, out: &mut impl Write, err: &mut impl Write) -> Result<Exit, Failure> {
    refuse_started(common)?;
    let (place, bytes) = spec_text(common, command, err)?;
    let (_, complete) = read_and_complete(&bytes).map_err(|problems| Failure::spec(&place, &problems))?;
    agrees(&command.shape, &complete)?;
    // Half an hour of building for a launch that preflight will refuse helps nobody.
    let is_hopeless = !preflight::unsupported(&complete).is_empty() || !Uid::effective().is_root();
    if !command.flags.place.cloud_simulated && !is_hopeless {
        ensure_artifacts(common, &complete, err)?;
    }
    let prepared = prepare::with_random_keys(common, &place, &bytes)?;
    tell(common, err, &format!("{} is prepared in {}\n", prepared.infra_id, common.dir.display()))?;
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
        tell(common, err, &format!("there is no spec in {}: starting from a new one\n", common.dir.display()))?;
        return Ok(("the new spec".to_owned(), start(&command.shape)?.to_yaml().into_bytes()));
    }
    spec::read(common, &command.source)
}

/// Words for people, who are not there when progress is data.
fn tell(common: &Common, err: &mut impl Write, words: &str) -> Result<(), Failure> {
    match common.output {
        Output::Json => Ok(()),
        Output::Text | Output::File(_) => say(err, words),
    }
}

/// Flags are for a new spec. Where there is one they may only repeat it, so that the same command works again after `down`.
fn agrees(shape: &Shape, complete: &CompleteSpec) -> Result<(), Failure> {
    let spec = &complete.spec;
    let given = |number: &Option<u32>| number.map(|number| number.to_string());
    let flags = [
        ("--provider", shape.provider.clone(), spec.platform.as_str().to_owned()),
        ("--topology", shape.topology.clone(), spec.topology.to_string()),
        (
            "--kubernetes-version",
            version(shape)?.map(|version| version.to_string()),
            spec.kubernetes_version.to_string(),
        ),
        ("--num-masters", given(&shape.num_masters), complete.count(Role::Master).to_string()),
        ("--num-nodes", given(&shape.num_nodes), complete.count(Role::Worker).to_string()),
    ];
    let differs = |(flag, given, there): (&str, Option<String>, String)| {
        let given = given.filter(|given| *given != there)?;
        Some(format!("{flag} says {given}, the spec says {there}"))
    };
    let because: Vec<String> = flags.into_iter().filter_map(differs).collect();
    match because.is_empty() {
        true => Ok(()),
        false => {
            let next = "edit the spec, or use another --dir: the flags are for a new spec";
            Err(Failure::new(Exit::Usage, "the flags contradict the spec", because, next))
        }
    }
}

fn version(shape: &Shape) -> Result<Option<KubeVersion>, Failure> {
    shape.kubernetes_version.as_deref().map(parse_version).transpose().map_err(|reason| {
        Failure::new(Exit::SpecRejected, "--kubernetes-version was rejected", vec![reason], "choose one of the list")
    })
}

fn start(shape: &Shape) -> Result<Start, Failure> {
    let version = version(shape)?;
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
    tell(common, err, &format!("fetching artifacts: {why}\n"))?;
    artifacts::fetch_for(common, &cache, spec)
}

fn is_packed(cache: &Cache, own: &Path) -> bool {
    let packed = Key::new(Kind::Binary, "windlass-node", env!("CARGO_PKG_VERSION")).and_then(|key| cache.find(&key));
    let here = std::fs::File::open(own).and_then(|file| Digest::of_reader(Algorithm::Sha256, file));
    matches!((packed, here), (Ok(Some(packed)), Ok(here)) if packed.digest == here)
}
