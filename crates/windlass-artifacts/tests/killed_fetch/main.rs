//! The fetch flow itself, killed at random moments: building, making the machine's root and bases, images, the preload
//! and addons, on stand-in pins and a stand-in debootstrap. Root, because bases have owners. The next run completes with
//! exactly what a run that nobody disturbed makes, nothing bad is ever in the cache, and nothing is left over.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]
#![expect(clippy::print_stderr, reason = "the seed and the moments are for whoever runs the tests")]

mod world;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_artifacts::cache::Cache;
use windlass_artifacts::fetch::{Extent, Fetch};
use windlass_artifacts::pins::{Modules, Pins};
use windlass_artifacts::progress::{Happened, Progress};
use windlass_artifacts::release::Mirror;
use windlass_spec::KubeVersion;
use windlass_spec::file::ArtifactSource;
use windlass_steps::host::{Host, HostError, run_blocking};
use world::World;

const KILLS: u32 = 30;
const MOST_RUNS: u32 = 120;
/// Kills before a run may complete: what they left adds up.
const IN_A_ROW: u32 = 5;

/// What the killed process runs, in a directory that was made for it.
#[test]
#[ignore = "the stand-in that the test below starts and kills"]
fn stand_in_fetch() {
    let Some(world) = World::here() else { return };
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/killed_fetch/modules");
    let fetch = Fetch {
        cache: &Cache::open(world.cache()).unwrap(),
        pins: &Pins::parse(include_str!("pins.yaml")).unwrap(),
        modules: &Modules::from_dir(&modules).unwrap(),
        commands: &Host,
        mirror: &Mirror::parse("http://127.0.0.1:1").unwrap(),
        registry: None,
        source: ArtifactSource::Source,
        own_program: &world.own_program(),
        apt: &world.apt(),
    };
    let observer = |Progress { what, happened }| match happened {
        Happened::Started { .. } => eprintln!("{what}"),
        Happened::Line(line) => eprintln!("{what}: {line}"),
        _ => {}
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fetch.run(KubeVersion::DEFAULT, Extent::Local, &observer)).unwrap();
}

/// Every artifact of a cache by name.
fn content(cache: &Cache) -> BTreeMap<String, String> {
    cache.list().unwrap().iter().map(|entry| (entry.key.to_string(), entry.digest.to_string())).collect()
}

/// Moments that can be had again.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        // A word that names no test may name the seed.
        let asked = std::env::args().find_map(|word| word.strip_prefix("seed=")?.parse().ok());
        let seed = asked.unwrap_or_else(|| getrandom::u64().unwrap() % 1_000_000) | 1;
        eprintln!("seed {seed}; repeat it with seed={seed}");
        Self(seed)
    }

    fn below(&mut self, end: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_nanos(self.0 % end.as_nanos().max(1) as u64)
    }
}

#[test]
#[ignore = "needs root and Go"]
fn the_whole_fetch_survives_being_killed_at_thirty_random_moments() {
    // A kill takes nothing from the kernel, so a disk would only cost time.
    let temp = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let calm = World::make(temp.path().join("calm"));
    // The first run fills Go's own cache, so that the second one takes as long as those that are killed.
    run_blocking(calm.fetch()).unwrap();
    fs::remove_dir_all(calm.cache()).unwrap();
    let started = Instant::now();
    run_blocking(calm.fetch()).unwrap();
    let whole = started.elapsed();
    let wanted = content(&Cache::open(calm.cache()).unwrap());
    eprintln!("{} artifacts in {whole:.1?}", wanted.len());

    let (world, mut random) = (World::make(temp.path().join("killed")), Random::seeded());
    let cache = Cache::open(world.cache()).unwrap();
    let (mut killed, mut moments) = (0, Vec::new());
    for _ in 0..MOST_RUNS {
        let moment = random.below(whole);
        // The time-out is the kill: SIGKILL to the fetch alone, because what it runs has process groups of its own.
        match run_blocking(world.fetch().timeout(moment)) {
            Err(HostError::AwaitCommand { stderr, .. }) => {
                killed += 1;
                let at = stderr.lines().last().unwrap_or("before it said anything").to_owned();
                eprintln!("kill {killed} after {moment:.2?}, at {at:?}");
                moments.push(at);
                assert_eq!(cache.verify().unwrap(), [], "after kill {killed}");
            }
            Err(error) => panic!("after kill {killed}: {error}"),
            Ok(_) => complete(&world, &cache, &wanted),
        }
        if killed % IN_A_ROW == 0 && cache.root().exists() {
            complete(&world, &cache, &wanted);
        }
        if killed == KILLS {
            let hit = |part: &str| moments.iter().any(|at| at.starts_with(part));
            assert!(hit("kubernetes ") || hit("containerd "), "no build was killed: {moments:?}");
            assert!(hit("root ") || hit("base-"), "no base was killed: {moments:?}");
            return;
        }
    }
    panic!("only {killed} of {MOST_RUNS} runs were killed before their end");
}

/// Runs a fetch to its end, looks at everything, and clears the cache for the next kills.
fn complete(world: &World, cache: &Cache, wanted: &BTreeMap<String, String>) {
    run_blocking(world.fetch()).unwrap();
    assert_eq!(cache.verify().unwrap(), []);
    assert_eq!(&content(cache), wanted, "it is what an undisturbed run makes");
    cache.prune(|_| true).unwrap();
    assert_eq!(fs::read_dir(cache.root().join("tmp")).unwrap().count(), 0);
    fs::remove_dir_all(cache.root()).unwrap();
}
