//! Building pinned releases from their source: small Go modules of ours pin the upstream module, Go's checksums make it
//! trustworthy, and fixed flags make the result the same everywhere.
//!
//! Each release is built by one run at a time, in a temporary directory of the cache. A binary enters the cache after it
//! has run once and said who it is.

mod error;
mod go;
mod said;
mod schedule;

pub use error::SourceError;
pub use schedule::Capacity;

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use windlass_steps::host::{Commands, HostError, Mode, cmd};

use crate::cache::{Cache, CacheError, Details, Entry, Key, Kind, SourceKind, TempDir};
use crate::digest::Digest;
use crate::pins::{Binary, Modules, Release};
use crate::progress::{Happened, Observer, Teller, Way};
use crate::release::Arch;
use said::{Compiling, Getting};
use schedule::Weight;

/// A first run is a matter of milliseconds.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// What building needs.
#[derive(Clone, Copy)]
pub struct Source<'a, C> {
    /// Where the results go.
    pub cache: &'a Cache,
    /// Our Go modules.
    pub modules: &'a Modules,
    /// Who runs `go`.
    pub commands: &'a C,
    /// What for.
    pub arch: Arch,
    /// How much may run at once.
    pub capacity: Capacity,
}

impl<C: Commands> Source<'_, C> {
    /// Builds what is not in the cache yet, as much at once as the machine can bear, and answers with everything in the
    /// order of `releases`. The first failure ends the other builds; what was finished stays.
    pub async fn build_all(&self, releases: &[&Release], observer: Observer<'_>) -> Result<Vec<Entry>, SourceError> {
        let mut waiting: Vec<(usize, &Release)> = releases.iter().copied().enumerate().collect();
        waiting.sort_by_key(|(_, release)| Weight::of(release).rank());
        let mut entries: Vec<Vec<Entry>> = vec![Vec::new(); releases.len()];
        let mut running: Vec<(usize, Weight)> = Vec::new();
        let mut builds = FuturesUnordered::new();
        loop {
            let weights: Vec<Weight> = waiting.iter().map(|(_, release)| Weight::of(release)).collect();
            let taken: Vec<Weight> = running.iter().map(|(_, weight)| *weight).collect();
            if let Some(next) = schedule::next(&weights, &taken, self.capacity) {
                let (place, release) = waiting.remove(next);
                running.push((place, Weight::of(release)));
                builds.push(async move { (place, self.build(release, observer).await) });
                continue;
            }
            let Some((place, built)) = builds.next().await else { break };
            entries[place] = built?;
            running.retain(|(other, _)| *other != place);
        }
        Ok(entries.into_iter().flatten().collect())
    }

    /// Builds one release, unless all of it is in the cache.
    pub async fn build(&self, release: &Release, observer: Observer<'_>) -> Result<Vec<Entry>, SourceError> {
        let title = release.title();
        let teller = Teller { what: &title, observer };
        let cached = |source| SourceError::UseCache { release: title.clone(), source: Box::new(source) };
        if let Some(entries) = self.present(release)? {
            teller.tell(Happened::Present);
            return Ok(entries);
        }
        let announce = |waiting: &crate::cache::Waiting| teller.tell(Happened::Waiting(waiting.clone()));
        let _building = self.cache.lock(&title, announce).await.map_err(cached)?;
        // Whoever held the lock may have built it.
        if let Some(entries) = self.present(release)? {
            teller.tell(Happened::Present);
            return Ok(entries);
        }
        let started = Instant::now();
        teller.tell(Happened::Started { way: Way::Build });
        self.check_packages(release).await?;
        let room = self.cache.temp_dir(&release.component).map_err(cached)?;
        let module = self.modules.write(&release.directory, &room.path().join("modules"));
        let module =
            module.map_err(|source| SourceError::WriteModule { release: title.clone(), source: Box::new(source) })?;
        let mut entries = Vec::new();
        for binary in &release.binaries {
            entries.push(self.build_binary(release, binary, &module, &room, teller).await?);
        }
        teller.tell(Happened::Finished { took: started.elapsed() });
        Ok(entries)
    }

    /// The binaries of a release, if all of them are in the cache and made from what is pinned now.
    pub fn present(&self, release: &Release) -> Result<Option<Vec<Entry>>, SourceError> {
        release.binaries.iter().map(|binary| self.present_binary(release, binary)).collect()
    }

    fn present_binary(&self, release: &Release, binary: &Binary) -> Result<Option<Entry>, SourceError> {
        let cached = |source| SourceError::UseCache { release: release.title(), source: Box::new(source) };
        let found = self.cache.find(&key(release, binary).map_err(cached)?).map_err(cached)?;
        let inputs = self.inputs(release, binary)?;
        // What a mirror or a bundle gave was checked against its own digest.
        Ok(found.filter(|entry| entry.source != SourceKind::Source || entry.inputs.as_ref() == Some(&inputs)))
    }

    fn inputs(&self, release: &Release, binary: &Binary) -> Result<Digest, SourceError> {
        let module = self.modules.digest(&release.directory);
        let module =
            module.map_err(|source| SourceError::WriteModule { release: release.title(), source: Box::new(source) })?;
        Ok(go::inputs(binary, self.arch, &module))
    }

    async fn build_binary(
        &self,
        release: &Release,
        binary: &Binary,
        module: &Path,
        room: &TempDir,
        teller: Teller<'_>,
    ) -> Result<Entry, SourceError> {
        let failed = |source| match source {
            HostError::FindProgram { program } if program == "go" => SourceError::FindGo { release: release.title() },
            source => {
                SourceError::Build { release: release.title(), binary: binary.name.clone(), source: Box::new(source) }
            }
        };
        if let Some(entry) = self.present_binary(release, binary)? {
            return Ok(entry);
        }
        self.commands.run(go::version()).await.map_err(failed)?;
        teller.line(format!("{}: getting modules", binary.name));
        let getting = Getting::new(teller);
        let list = go::list(binary, self.arch, module);
        let listed = self.commands.follow(list, &|stream, line| getting.hear(stream, line)).await.map_err(failed)?;
        if getting.modules() > 0 {
            teller.line(format!("{}: {} modules downloaded", binary.name, getting.modules()));
        }
        let compiling = Compiling::new(teller, &binary.name, listed.text().map_err(failed)?);
        teller.line(format!("{}: {} packages, without those that Go has compiled", binary.name, compiling.count()));
        let out = room.path().join(&binary.name);
        let build = go::build(binary, self.arch, module, room.path(), &out);
        self.commands.follow(build, &|stream, line| compiling.hear(stream, line)).await.map_err(failed)?;
        self.check(release, binary, &out, room).await?;
        self.keep(release, binary, &out).await
    }

    /// Runs the new binary by the name that its pin says.
    async fn check(&self, release: &Release, binary: &Binary, out: &Path, room: &TempDir) -> Result<(), SourceError> {
        let (release, name) = (release.title(), binary.name.clone());
        let Some((program, args)) = binary.check.run.split_first() else { return Ok(()) };
        let dir = room.path().join(format!("check-{name}"));
        let linked = dir.join(program);
        let failed = |source| SourceError::TryBinary {
            release: release.clone(),
            binary: name.clone(),
            source: Box::new(source),
        };
        windlass_steps::host::make_dir(&dir, Mode::PRIVATE_DIR).and_then(|_| link(out, &linked)).map_err(failed)?;
        let first_run = cmd(&linked).args(args).current_dir(&dir).timeout(CHECK_LIMIT);
        let tried = self.commands.run(first_run).await.map_err(failed)?;
        let said = format!("{}{}", String::from_utf8_lossy(&tried.stdout), tried.stderr);
        match said.contains(&binary.check.prints) {
            true => Ok(()),
            false => Err(SourceError::RecogniseBinary {
                release,
                binary: name,
                wanted: binary.check.prints.clone(),
                said: said.trim().chars().take(400).collect(),
            }),
        }
    }

    async fn keep(&self, release: &Release, binary: &Binary, out: &Path) -> Result<Entry, SourceError> {
        let cached = |source| SourceError::UseCache { release: release.title(), source: Box::new(source) };
        let key = key(release, binary).map_err(cached)?;
        let details = Details { links: binary.links.clone(), inputs: Some(self.inputs(release, binary)?) };
        self.cache.add_aside(key, SourceKind::Source, out.to_owned(), Mode::EXECUTABLE, details).await.map_err(cached)
    }

    /// Says at once what only a long build would find out. On a host that is not Debian the build has to.
    async fn check_packages(&self, release: &Release) -> Result<(), SourceError> {
        if release.needs.is_empty() {
            return Ok(());
        }
        let query = cmd("dpkg-query").args(["-W", "-f", "${db:Status-Abbrev} ${Package}\\n"]).args(&release.needs);
        let Ok(known) = self.commands.run(query.accept(1)).await else { return Ok(()) };
        let known = String::from_utf8_lossy(&known.stdout).into_owned();
        let installed: Vec<&str> = known.lines().filter_map(|line| line.strip_prefix("ii")).map(str::trim).collect();
        let missing = release.needs.iter().filter(|name| !installed.contains(&name.as_str()));
        let packages: Vec<String> = missing.cloned().collect();
        match packages.is_empty() {
            true => Ok(()),
            false => Err(SourceError::FindPackages { release: release.title(), packages }),
        }
    }
}

fn key(release: &Release, binary: &Binary) -> Result<Key, CacheError> {
    Key::new(Kind::Binary, &binary.name, &release.version)
}

fn link(target: &Path, name: &Path) -> Result<(), HostError> {
    std::os::unix::fs::symlink(target, name).map_err(|source| HostError::WriteFile { path: name.to_owned(), source })
}

#[cfg(test)]
mod tests;
