//! Releases as their makers publish them: programs from a mirror in the official layout, each with its checksum beside
//! it, and images from a registry.

mod choose;
mod error;
mod image;
mod mirror;

pub use choose::{Choice, PATIENCE, choose};
pub use error::ReleaseError;
pub use image::{Registry, pull_image};
pub use mirror::{Arch, Mirror};

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use windlass_steps::host::Mode;

use crate::archive::{ArchiveError, Limits, extract as extract_archive};
use crate::cache::{Cache, CacheError, Details, Entry, Key, Kind, SourceKind, Waiting};
use crate::download::Downloader;
use crate::pins::{Release, ReleaseFile};
use crate::progress::{Happened, Observer, Teller, Way};

/// What taking releases from a mirror needs.
#[derive(Clone, Copy)]
pub struct Published<'a> {
    /// Where the results go.
    pub cache: &'a Cache,
    /// Where they come from.
    pub mirror: &'a Mirror,
    /// How they come.
    pub downloader: &'a Downloader,
    /// What for.
    pub arch: Arch,
}

impl Published<'_> {
    /// Downloads one release, unless all of its programs are in the cache, from wherever.
    pub async fn fetch(&self, release: &Release, observer: Observer<'_>) -> Result<Vec<Entry>, ReleaseError> {
        let title = release.title();
        let teller = Teller { what: &title, observer };
        let cached = |source| ReleaseError::UseCache { release: title.clone(), source: Box::new(source) };
        if release.release.is_empty() {
            return Err(ReleaseError::NotPublished { release: title });
        }
        if let Some(entries) = present(self.cache, release).map_err(cached)? {
            teller.tell(Happened::Present);
            return Ok(entries);
        }
        let announce = |waiting: &Waiting| teller.tell(Happened::Waiting(waiting.clone()));
        let _fetching = self.cache.lock(&title, announce).await.map_err(cached)?;
        if let Some(entries) = present(self.cache, release).map_err(cached)? {
            teller.tell(Happened::Present);
            return Ok(entries);
        }
        let started = Instant::now();
        teller.tell(Happened::Started { way: Way::Download });
        let room = self.cache.temp_dir(&release.component).map_err(cached)?;
        let mut entries = Vec::new();
        for (number, (path, programs)) in by_path(release).into_iter().enumerate() {
            let place = room.path().join(format!("file-{number}"));
            entries.extend(self.fetch_file(release, path, &programs, &place, teller).await?);
        }
        teller.tell(Happened::Finished { took: started.elapsed() });
        Ok(entries)
    }

    async fn fetch_file(
        &self,
        release: &Release,
        path: &str,
        programs: &[&ReleaseFile],
        place: &Path,
        teller: Teller<'_>,
    ) -> Result<Vec<Entry>, ReleaseError> {
        let failed = |source| ReleaseError::Download { release: release.title(), source: Box::new(source) };
        let cached = |source| ReleaseError::UseCache { release: release.title(), source: Box::new(source) };
        let url = self.mirror.url(path, self.arch);
        teller.line(format!("downloading {url}"));
        let want = mirror::checksum(self.downloader, &url).await.map_err(failed)?;
        let received = |got, total| teller.tell(Happened::Received { got, total });
        self.downloader.file(self.cache, &url, &want, place, received).await.map_err(failed)?;
        let mut entries = Vec::new();
        for (program, file) in self.unpack(release, path, programs, place).await? {
            let key = Key::new(Kind::Binary, &program.name, &release.version).map_err(cached)?;
            let details = Details { links: program.links.clone(), inputs: Some(want.clone()) };
            let added = self.cache.add_aside(key, SourceKind::Release, file, Mode::EXECUTABLE, details).await;
            entries.push(added.map_err(cached)?);
        }
        Ok(entries)
    }

    /// The programs in a downloaded file: the file itself, or members of the archive that it is.
    async fn unpack<'p>(
        &self,
        release: &Release,
        path: &str,
        programs: &[&'p ReleaseFile],
        place: &Path,
    ) -> Result<Vec<(&'p ReleaseFile, PathBuf)>, ReleaseError> {
        if let [program] = programs
            && program.member.is_none()
        {
            return Ok(vec![(program, place.to_owned())]);
        }
        let unpacked = place.with_extension("d");
        extract(place.to_owned(), unpacked.clone()).await.map_err(|source| ReleaseError::Unpack {
            release: release.title(),
            file: path.to_owned(),
            source: Box::new(source),
        })?;
        let mut found = Vec::new();
        for program in programs {
            let member = program.member.as_deref().unwrap_or(&program.name).replace("$arch", self.arch.as_str());
            let file = unpacked.join(&member);
            if !fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file()) {
                return Err(ReleaseError::FindMember { release: release.title(), file: path.to_owned(), member });
            }
            found.push((*program, file));
        }
        Ok(found)
    }
}

/// The programs of a release as a mirror publishes them, if there are any and all of them are in the cache.
pub fn present(cache: &Cache, release: &Release) -> Result<Option<Vec<Entry>>, CacheError> {
    let program = |file: &ReleaseFile| cache.program(&file.name, &release.version);
    let programs: Option<Vec<Entry>> = release.release.iter().map(program).collect::<Result<_, _>>()?;
    Ok(programs.filter(|programs| !programs.is_empty()))
}

/// The files of a release, each with the programs that are in it.
fn by_path(release: &Release) -> BTreeMap<&str, Vec<&ReleaseFile>> {
    let mut files: BTreeMap<&str, Vec<&ReleaseFile>> = BTreeMap::new();
    for file in &release.release {
        files.entry(&file.path).or_default().push(file);
    }
    files
}

/// Unpacks in a thread of its own, into a directory that it makes.
async fn extract(archive: PathBuf, into: PathBuf) -> Result<(), ArchiveError> {
    let work = move || {
        fs::create_dir(&into).map_err(|source| ArchiveError::UseDestination { path: into.clone(), source })?;
        let file = File::open(&archive).map_err(|source| ArchiveError::ReadArchive { source })?;
        extract_archive(file, &Limits::default(), &into).map(drop)
    };
    let ended = |error| Err(ArchiveError::ReadArchive { source: io::Error::other(error) });
    tokio::task::spawn_blocking(work).await.unwrap_or_else(ended)
}

#[cfg(test)]
mod tests;
