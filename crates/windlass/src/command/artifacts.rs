//! `windlass artifacts …`.

mod progress;

use std::io::Write;
use std::path::Path;

use serde_json::json;
use time::{Duration, OffsetDateTime};
use windlass_artifacts::addon::{
    AddonError, AddonVersion, Board, OsVersion, PackageName, Publication, PublishedPackage, publish,
};
use windlass_artifacts::bundle::open_bundle;
use windlass_artifacts::cache::{Cache, CacheError, Entry, Kind};
use windlass_artifacts::fetch::{Extent, Fetch as FetchFlow, FetchError, Fetched, is_pinned};
use windlass_artifacts::pins::{Modules, Pins};
use windlass_artifacts::release::{Mirror, Registry};
use windlass_artifacts::signature::{Checked, Trusted, Verification};
use windlass_artifacts::{keys, store};
use windlass_spec::file::ArtifactSource;
use windlass_spec::{CompleteSpec, KubeVersion};
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::host::Host;
use windlass_steps::interrupt::Interrupt;

use super::{answer, beside_this_program, notice, say};
use crate::args::{Artifacts, Common, Fetch, KubernetesVersion, Output, parse_version};
use crate::exit::{Exit, Failure};
use progress::Display;

/// How long machines follow a published manifest.
const MANIFEST_DAYS: i64 = 365;

pub(super) fn run(
    common: &Common,
    command: &Artifacts,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let cache = Cache::open(&common.cache).map_err(|error| cache_failure(&error))?;
    match command {
        Artifacts::Fetch(fetch) => match &fetch.bundle {
            Some(file) => from_bundle(common, fetch, file, &cache, out, err),
            None => fetched(common, fetch, &cache, out),
        },
        Artifacts::List { verify } => list(common, &cache, *verify, out, err),
        Artifacts::Bundle(version) => bundle(common, version, &cache, out),
        Artifacts::Publish { bucket } => publish_all(common, bucket, &cache, out),
        Artifacts::Prune => prune(common, &cache, out),
    }
}

fn kubernetes(version: &KubernetesVersion) -> Result<KubeVersion, Failure> {
    match version.kubernetes_version.as_deref().map(parse_version) {
        None => Ok(KubeVersion::DEFAULT),
        Some(Ok(version)) => Ok(version),
        Some(Err(reason)) => {
            let error = "--kubernetes-version was rejected";
            Err(Failure::new(Exit::SpecRejected, error, vec![reason], "choose one of the list"))
        }
    }
}

fn fetched(common: &Common, fetch: &Fetch, cache: &Cache, out: &mut impl Write) -> Result<Exit, Failure> {
    let versions = if fetch.all { KubeVersion::ALL.to_vec() } else { vec![kubernetes(&fetch.version)?] };
    let extent = if fetch.all { Extent::All } else { Extent::Local };
    let origin = Origin {
        source: ArtifactSource::parse(&fetch.source).expect("the parser takes no other source"),
        mirror: &fetch.mirror,
        registry: fetch.registry.as_deref(),
    };
    let mut entries: Vec<Entry> = Vec::new();
    for version in versions {
        let more = run_flow(common, cache, version, extent, origin)?;
        entries.extend(more.entries);
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries.dedup_by(|a, b| a.key == b.key);
    answer(&common.output, out, &entries, || table(&entries))?;
    Ok(Exit::Done)
}

/// Where software comes from, as the command line says it.
#[derive(Clone, Copy)]
struct Origin<'a> {
    source: ArtifactSource,
    mirror: &'a str,
    registry: Option<&'a str>,
}

/// Runs the fetch flow until it ends or a signal comes; then every build that it started is ended too.
fn run_flow(
    common: &Common,
    cache: &Cache,
    version: KubeVersion,
    extent: Extent,
    origin: Origin<'_>,
) -> Result<Fetched, Failure> {
    let unexpected = |error: &dyn std::error::Error| Failure::of(Exit::Unexpected, error, "look at the cause");
    let pins = Pins::embedded().map_err(|error| unexpected(&error))?;
    let mirror =
        Mirror::parse(origin.mirror).map_err(|error| Failure::of(Exit::Usage, &error, "give --mirror a URL"))?;
    let registry = origin.registry.map(Registry::parse).transpose();
    let registry = registry.map_err(|error| Failure::of(Exit::Usage, &error, "give --registry a host"))?;
    let own = beside_this_program("windlass-node").map_err(|error| unexpected(&error))?;
    let flow = FetchFlow {
        cache,
        pins: &pins,
        modules: &Modules::embedded(),
        commands: &Host,
        mirror: &mirror,
        registry: registry.as_ref(),
        source: origin.source,
        own_program: &own,
        apt: Path::new("/etc/apt"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unexpected(&error))?;
    let display = Display::new(&common.output);
    let observer = |news| display.tell(&news);
    runtime.block_on(async {
        let interrupt = Interrupt::on_signals().map_err(|error| unexpected(&error))?;
        tokio::select! {
            fetched = flow.run(version, extent, &observer) => fetched.map_err(|e| fetch_failure(&e)),
            () = interrupt.raised() => {
                let because = vec!["a signal came; what was finished stays in the cache".to_owned()];
                Err(Failure::new(Exit::Interrupted, "artifacts fetch was interrupted", because, "run it again to go on"))
            }
        }
    })
}

fn from_bundle(
    common: &Common,
    fetch: &Fetch,
    file: &Path,
    cache: &Cache,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let now = SystemClock::new().now();
    let keys_failure = |error: &keys::KeysError| {
        Failure::of(Exit::NotTrusted, error, "name the signer's public key with --trusted-key")
    };
    let trusted = if fetch.trusted_key.is_empty() {
        own_trust(common, now).map_err(|error| keys_failure(&error))?
    } else {
        keys::trusted(&fetch.trusted_key).map_err(|error| keys_failure(&error))?
    };
    let verification = if fetch.no_verify_signatures { Verification::Skipped } else { Verification::Required };
    let failure = |error: &windlass_artifacts::bundle::BundleError| {
        let exit = if error.is_trust() { Exit::NotTrusted } else { Exit::Unexpected };
        let again = "get the bundle again, or name its signer's key with --trusted-key";
        Failure::of(exit, error, error.hint().unwrap_or(again))
    };
    let bundle = open_bundle(file, &trusted, verification, now).map_err(|error| failure(&error))?;
    if let Checked::Unverified(warning) = bundle.checked() {
        notice(&common.output, err, &format!("warning: {warning}"))?;
    }
    let imported = store::import(&bundle, cache).map_err(|error| failure(&error))?;
    let version = bundle.index().kubernetes_version();
    let data = json!({ "kubernetesVersion": version, "entries": imported.entries, "bytes": imported.bytes });
    answer(&common.output, out, &data, || {
        format!("{} artifacts for Kubernetes {version} taken from {}\n", imported.entries, file.display())
    })?;
    Ok(Exit::Done)
}

/// This host's own public keys; without any, nothing is trusted and nothing is made.
fn own_trust(common: &Common, now: OffsetDateTime) -> Result<Trusted, keys::KeysError> {
    if common.cache.join("keys/signing.asc").exists() {
        return keys::own(&common.cache, now).map(|own| own.trusted());
    }
    Ok(Trusted { openpgp: None, minisign: None })
}

fn list(
    common: &Common,
    cache: &Cache,
    verify: bool,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let entries = cache.list().map_err(|error| cache_failure(&error))?;
    answer(&common.output, out, &entries, || table(&entries))?;
    if !verify {
        return Ok(Exit::Done);
    }
    let findings = cache.verify().map_err(|error| cache_failure(&error))?;
    if findings.is_empty() {
        notice(&common.output, err, &format!("{} artifacts are what they should be", entries.len()))?;
        return Ok(Exit::Done);
    }
    let because = findings.iter().map(ToString::to_string).collect();
    let next = "windlass artifacts prune, then windlass artifacts fetch";
    Err(Failure::new(
        Exit::NotTrusted,
        format!("{} files of the cache are not what they should be", findings.len()),
        because,
        next,
    ))
}

fn bundle(common: &Common, version: &KubernetesVersion, cache: &Cache, out: &mut impl Write) -> Result<Exit, Failure> {
    let Output::File(path) = &common.output else {
        return Err(Failure::new(
            Exit::Usage,
            "no file for the bundle",
            Vec::new(),
            "windlass artifacts bundle -o FILE",
        ));
    };
    let version = kubernetes(version)?;
    let origin = Origin { source: ArtifactSource::Auto, mirror: Mirror::OFFICIAL, registry: None };
    let fetched = run_flow(common, cache, version, Extent::Local, origin)?;
    let now = SystemClock::new().now();
    let keys = own_keys(common, now)?;
    let bytes = store::bundle(path, version, &fetched.entries, &keys, now).map_err(|error| {
        let exit = if error.is_trust() { Exit::NotTrusted } else { Exit::Unexpected };
        Failure::of(
            exit,
            &error,
            "see that there is room for the file, and that the cache is good: artifacts list --verify",
        )
    })?;
    let text = format!(
        "{} artifacts for Kubernetes {version}, {} MiB, in {}\nwho is to trust it needs {}\n",
        fetched.entries.len(),
        bytes >> 20,
        path.display(),
        cache.root().join("keys/public.asc").display(),
    );
    say(out, &text)?;
    Ok(Exit::Done)
}

fn own_keys(common: &Common, now: OffsetDateTime) -> Result<windlass_artifacts::signature::SigningKeys, Failure> {
    let next = "see that the cache can be written";
    keys::own(&common.cache, now).map_err(|error| Failure::of(Exit::Unexpected, &error, next))
}

fn publish_all(common: &Common, bucket: &Path, cache: &Cache, out: &mut impl Write) -> Result<Exit, Failure> {
    let now = SystemClock::new().now();
    let entries = cache.list().map_err(|error| cache_failure(&error))?;
    let addons: Vec<&Entry> = entries.iter().filter(|e| e.key.kind() == Kind::Addon).collect();
    if addons.is_empty() {
        let because = vec!["there is no runtime addon in the cache".to_owned()];
        return Err(Failure::new(Exit::Usage, "nothing to publish", because, "windlass artifacts fetch"));
    }
    let keys = own_keys(common, now)?;
    let mut published = Vec::new();
    for os in windlass_artifacts::base::OsVersion::ALL {
        let ending = format!("-os{os}");
        let packages: Vec<PublishedPackage> = addons.iter().filter_map(|e| package(e, &ending)).collect();
        let publication = Publication {
            board: Board::amd64(),
            os_version: OsVersion::parse(os.as_str()).expect("a digit is an OS version"),
            packages,
            expires: now + Duration::days(MANIFEST_DAYS),
            at_least: 1,
            keys: &keys,
            now,
        };
        let done = publish(bucket, &publication).map_err(|error| publish_failure(&error))?;
        published.push(json!({ "manifest": done.manifest, "version": done.version }));
    }
    answer(&common.output, out, &published, || {
        published
            .iter()
            .map(|p| format!("{} version {}\n", p["manifest"].as_str().unwrap_or_default(), p["version"]))
            .collect()
    })?;
    Ok(Exit::Done)
}

/// An addon of one OS version as a package on offer.
fn package(entry: &Entry, ending: &str) -> Option<PublishedPackage> {
    let name = entry.key.name().strip_suffix(ending)?;
    Some(PublishedPackage {
        name: PackageName::parse(name).ok()?,
        version: AddonVersion::parse(entry.key.version()).ok()?,
        archive: entry.path.clone(),
        digest: entry.digest.clone(),
    })
}

fn publish_failure(error: &AddonError) -> Failure {
    let (exit, next) = match error {
        AddonError::DistrustPackage { .. } => (
            Exit::NotTrusted,
            "look who changed it, then run `windlass artifacts prune` and `windlass artifacts fetch`",
        ),
        error if error.is_trust() => (Exit::NotTrusted, "look at the manifest that is in the bucket"),
        _ => (Exit::Unexpected, "see that the bucket's directory can be written"),
    };
    Failure::of(exit, error, next)
}

fn prune(common: &Common, cache: &Cache, out: &mut impl Write) -> Result<Exit, Failure> {
    let pins =
        Pins::embedded().map_err(|error| Failure::of(Exit::Unexpected, &error, "this is a fault of windlass"))?;
    let removed = cache.prune(|key| is_pinned(&pins, key)).map_err(|error| cache_failure(&error))?;
    answer(&common.output, out, &removed, || {
        let bytes: u64 = removed.iter().map(|r| r.size).sum();
        format!("{} files removed, {} MiB\n", removed.len(), bytes >> 20)
    })?;
    Ok(Exit::Done)
}

fn table(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        text.push_str(&format!(
            "{:<7} {:<28} {:<10} {:>6} MiB  {:<8} {}\n",
            entry.key.kind().as_str(),
            entry.key.name(),
            entry.key.version(),
            entry.size >> 20,
            entry.source.as_str(),
            &entry.digest.to_string()[..19],
        ));
    }
    text
}

/// Fetches what a cluster of this spec needs, from where the spec says.
pub(super) fn fetch_for(common: &Common, cache: &Cache, spec: &CompleteSpec) -> Result<(), Failure> {
    let artifacts = &spec.spec.artifacts;
    let origin = Origin { source: artifacts.source, mirror: &artifacts.mirror, registry: None };
    run_flow(common, cache, spec.spec.kubernetes_version, Extent::Local, origin).map(drop)
}

pub(super) fn cache_failure(error: &CacheError) -> Failure {
    let exit = if error.is_trust() { Exit::NotTrusted } else { Exit::Unexpected };
    Failure::of(
        exit,
        error,
        error.hint().unwrap_or("see that the cache directory can be read and written, or use another --cache"),
    )
}

fn fetch_failure(error: &FetchError) -> Failure {
    let exit = if error.is_trust() { Exit::NotTrusted } else { Exit::Unexpected };
    Failure::of(
        exit,
        error,
        error.hint().unwrap_or_else(|| "mend the cause and run it again; what was finished is kept".to_owned()),
    )
}
