//! What a program or library asks the dynamic loader for.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::read::{ReadCache, ReadRef};

/// What must be there before the program can start; empty for a static one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The loader itself.
    pub(super) interpreter: Option<String>,
    /// Libraries by name.
    pub(super) libraries: Vec<String>,
    /// Where to look first; `$ORIGIN` is not replaced.
    pub(super) search: Vec<String>,
}

/// Reads only the headers, however large the program is. What is not ELF (a script) needs nothing.
pub(super) fn needs(path: &Path) -> io::Result<Needs> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let short = file.read_exact(&mut magic).is_err();
    if short || magic != object::elf::ELFMAG {
        return Ok(Needs::default());
    }
    file.rewind()?;
    let cache = ReadCache::new(file);
    parse(&cache).map_err(io::Error::other)
}

fn parse<'data>(data: impl ReadRef<'data>) -> object::Result<Needs> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            needs.interpreter = Some(text(path));
        }
    }
    let sections = header.sections(endian, data)?;
    let Some((entries, link)) = sections.dynamic(endian, data)? else { return Ok(needs) };
    let strings = sections.strings(endian, data, link)?;
    for entry in entries {
        let tag = entry.tag(endian);
        if tag == DT_NEEDED {
            needs.libraries.push(text(entry.string(endian, strings)?));
        } else if tag == DT_RUNPATH || tag == DT_RPATH {
            needs.search.extend(text(entry.string(endian, strings)?).split(':').map(str::to_owned));
        }
    }
    Ok(needs)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
