//! The members of the tar file: the layout, the index, and blobs that are what their names say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Seek, SeekFrom};

use tar::{Archive, Entry, EntryType};

use super::{Finding, distrust};
use crate::digest::{Algorithm, Digest};

/// No honest archive comes near these.
const MEMBERS: usize = 4096;
const DOCUMENT: u64 = 4 << 20;

/// Where a member's bytes lie in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    offset: u64,
    pub(super) size: u64,
}

/// Everything that the archive holds.
pub(super) struct Members {
    pub(super) layout: Place,
    pub(super) index: Place,
    pub(super) blobs: BTreeMap<Digest, Place>,
}

/// What a member's name says it is.
enum Member {
    Layout,
    Index,
    Blob(Digest),
    Directory,
}

impl Members {
    pub(super) fn read(reader: &mut (impl Read + Seek)) -> Result<Self, Finding> {
        reader.seek(SeekFrom::Start(0)).map_err(Finding::Read)?;
        let mut archive = Archive::new(reader);
        // Raw: extended headers would be held in memory whatever their size, and could give a second name to a member.
        let entries = archive.entries().map_err(Finding::from_tar)?.raw(true);
        let (mut layout, mut index, mut blobs) = (None, None, BTreeMap::new());
        let mut seen = BTreeSet::new();
        for entry in entries {
            let mut entry = entry.map_err(Finding::from_tar)?;
            let name = name(&entry)?;
            if seen.len() == MEMBERS {
                return distrust(format!("it has more than {MEMBERS} members"));
            }
            let member = classify(&name, entry.header().entry_type())?;
            if !seen.insert(name.clone()) {
                return distrust(format!("{name:?} is there twice"));
            }
            let place = Place { offset: entry.raw_file_position(), size: entry.size() };
            match member {
                Member::Directory => {}
                Member::Layout => layout = Some(place),
                Member::Index => index = Some(place),
                Member::Blob(digest) => {
                    check(&mut entry, &digest, place.size)?;
                    blobs.insert(digest, place);
                }
            }
        }
        let Some(layout) = layout else { return distrust("there is no oci-layout") };
        let Some(index) = index else { return distrust("there is no index.json") };
        Ok(Self { layout, index, blobs })
    }
}

impl Place {
    /// The bytes of a document.
    pub(super) fn document(self, what: &str, reader: &mut (impl Read + Seek)) -> Result<Vec<u8>, Finding> {
        if self.size > DOCUMENT {
            return distrust(format!("{what} has {} bytes, more than {DOCUMENT}", self.size));
        }
        let mut bytes = Vec::new();
        let read =
            reader.seek(SeekFrom::Start(self.offset)).and_then(|_| reader.take(self.size).read_to_end(&mut bytes));
        match read.map_err(Finding::Read)? as u64 == self.size {
            true => Ok(bytes),
            false => distrust(format!("{what} is cut short")),
        }
    }
}

fn name(entry: &Entry<'_, impl Read>) -> Result<String, Finding> {
    let bytes = entry.path_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let name: String = text.chars().take(200).collect();
    match name == text && !text.contains('\u{fffd}') {
        true => Ok(name),
        false => distrust(format!("the member name {name:?} is too long or not text")),
    }
}

/// There are only these names in a layout, so that all others (`../x`, `/etc/x`) are refused without a rule of their own.
fn classify(name: &str, kind: EntryType) -> Result<Member, Finding> {
    let path = name.strip_prefix("./").unwrap_or(name);
    let member = match path {
        "oci-layout" => Member::Layout,
        "index.json" => Member::Index,
        "" | "blobs" | "blobs/" | "blobs/sha256" | "blobs/sha256/" => Member::Directory,
        _ => match path.strip_prefix("blobs/sha256/").map(|hex| Digest::from_hex(Algorithm::Sha256, hex)) {
            Some(Ok(digest)) => Member::Blob(digest),
            _ => return distrust(format!("the member {name:?} does not belong into an image layout")),
        },
    };
    let fits = match member {
        Member::Directory => kind == EntryType::Directory,
        Member::Layout | Member::Index | Member::Blob(_) => kind == EntryType::Regular,
    };
    match fits {
        true => Ok(member),
        false => distrust(format!("the member {name:?} is neither a plain file nor a directory of the layout")),
    }
}

fn check(entry: &mut Entry<'_, impl Read>, digest: &Digest, size: u64) -> Result<(), Finding> {
    let mut counted = Counted { reader: entry, count: 0 };
    let found = Digest::of_reader(Algorithm::Sha256, &mut counted).map_err(Finding::from_tar)?;
    if counted.count != size {
        return distrust(format!("the blob {digest} is cut short"));
    }
    match found == *digest {
        true => Ok(()),
        false => distrust(format!("the blob {digest} has the digest {found}")),
    }
}

struct Counted<R> {
    reader: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}
