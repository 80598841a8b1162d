//! The one way through an archive: every member meets every rule before it is placed anywhere.

use std::collections::BTreeMap;
use std::io::Read;

use super::name::link_target;
use super::place::Place;
use super::read::Member;
use super::source::Source;
use super::{ArchiveError, Extracted, ExtractedKind, Kind, Limits, Refusal, TarReader, member_path};

/// What already lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    ImpliedDirectory,
    Directory,
    File,
    Link,
}

/// Reads all members and hands them to `place`, in order.
pub(super) fn walk(reader: impl Read, limits: &Limits, place: &mut impl Place) -> Result<Vec<Extracted>, ArchiveError> {
    let source = Source::open(reader, limits.ratio).map_err(|source| ArchiveError::ReadArchive { source })?;
    let mut tar = TarReader::new(source, *limits);
    let mut taken = BTreeMap::new();
    let mut extracted = Vec::new();
    while let Some(member) = tar.next()? {
        if member.path.is_empty() && member.kind == Kind::Directory {
            continue;
        }
        claim(&mut taken, &member, limits).map_err(|refusal| tar.refuse(refusal))?;
        let kind = judge(&taken, &member, limits).map_err(|refusal| tar.refuse(refusal))?;
        place_member(&mut tar, place, &member.path, &kind)?;
        extracted.push(Extracted { path: member.path, kind });
    }
    let mut source = tar.finish()?;
    if source.has_more().map_err(|source| ArchiveError::ReadArchive { source })? {
        return Err(ArchiveError::RefuseArchive { source: Refusal::TrailingData });
    }
    Ok(extracted)
}

fn claim(taken: &mut BTreeMap<String, Taken>, member: &Member, limits: &Limits) -> Result<(), Refusal> {
    for (at, _) in member.path.match_indices('/') {
        let above = &member.path[..at];
        match taken.get(above) {
            Some(Taken::ImpliedDirectory | Taken::Directory) => {}
            Some(Taken::File | Taken::Link) => return Err(Refusal::ThroughMember { through: above.to_owned() }),
            None => {
                taken.insert(above.to_owned(), Taken::ImpliedDirectory);
            }
        }
    }
    let now = match member.kind {
        Kind::Directory => Taken::Directory,
        Kind::File => Taken::File,
        Kind::Symlink | Kind::HardLink => Taken::Link,
    };
    match (taken.insert(member.path.clone(), now), now) {
        (None, _) | (Some(Taken::ImpliedDirectory), Taken::Directory) => {}
        _ => return Err(Refusal::Duplicate),
    }
    // A path of a thousand components implies a thousand directories: they count as well.
    if taken.len() as u64 > limits.members.saturating_mul(2) {
        return Err(Refusal::TooMany { limit: limits.members });
    }
    Ok(())
}

fn judge(taken: &BTreeMap<String, Taken>, member: &Member, limits: &Limits) -> Result<ExtractedKind, Refusal> {
    match member.kind {
        Kind::File => Ok(ExtractedKind::File { size: member.size, mode: safe_mode(member.mode) }),
        Kind::Directory => Ok(ExtractedKind::Directory),
        Kind::Symlink => {
            let target = link_target(&member.path, &member.link, limits.path_length)?;
            Ok(ExtractedKind::Symlink { target })
        }
        Kind::HardLink => {
            let shown = String::from_utf8_lossy(&member.link).into_owned();
            let target = member_path(&member.link, limits.path_length)
                .map_err(|_| Refusal::LinkOutside { target: shown.clone() })?;
            match taken.get(&target) {
                Some(Taken::File) => Ok(ExtractedKind::HardLink { target }),
                _ => Err(Refusal::LinkUnknown { target: shown }),
            }
        }
    }
}

fn place_member<R: Read>(
    tar: &mut TarReader<R>,
    place: &mut impl Place,
    path: &str,
    kind: &ExtractedKind,
) -> Result<(), ArchiveError> {
    let failed = |source| ArchiveError::PlaceMember { member: path.to_owned(), source };
    match kind {
        ExtractedKind::Directory => place.directory(path).map_err(failed),
        ExtractedKind::Symlink { target } => place.symlink(path, target).map_err(failed),
        ExtractedKind::HardLink { target } => place.hard_link(path, target).map_err(failed),
        ExtractedKind::File { mode, .. } => {
            place.begin_file(path).map_err(failed)?;
            let mut buffer = vec![0; 1 << 16];
            loop {
                match tar.read(&mut buffer).map_err(|error| tar.trouble(error))? {
                    0 => break,
                    count => place.write(&buffer[..count]).map_err(failed)?,
                }
            }
            place.end_file(*mode).map_err(failed)
        }
    }
}

/// The archive's permissions without set-id and sticky bits and without write access for others; its owner, who is
/// us, may always read and replace it.
fn safe_mode(mode: u32) -> u32 {
    (mode & 0o755) | 0o600
}
