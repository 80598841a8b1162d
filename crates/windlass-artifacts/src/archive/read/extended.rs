//! Extended headers: PAX records and GNU's long names. They may say where a member lies and remark on it, no more.

use tar::{EntryType, PaxExtensions};

use super::Refusal;

/// What extended headers said about the next member.
#[derive(Debug, Default)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    seen: bool,
}

impl Extended {
    pub(super) fn wants(&self, kind: EntryType) -> bool {
        matches!(kind, EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.seen
    }

    pub(super) fn add(&mut self, kind: EntryType, content: &[u8]) -> Result<(), Refusal> {
        match kind {
            EntryType::GNULongName => self.set_path(without_nul(content)),
            EntryType::GNULongLink => self.set_link(without_nul(content)),
            EntryType::XGlobalHeader => records(content, |key, _| match key {
                // `git archive` puts the commit here; anything else would change members that follow.
                "comment" => Ok(()),
                _ => Err(Refusal::ExtendedKey { key: key.to_owned() }),
            }),
            _ => {
                self.seen = true;
                records(content, |key, value| self.record(key, value))
            }
        }
    }

    fn record(&mut self, key: &str, value: &[u8]) -> Result<(), Refusal> {
        match key {
            "path" => self.set_path(value),
            "linkpath" => self.set_link(value),
            // We give these no meaning, so that they can have none.
            "mtime" | "atime" | "ctime" | "uid" | "gid" | "uname" | "gname" | "comment" => Ok(()),
            _ if key.starts_with("SCHILY.xattr.") || key.starts_with("LIBARCHIVE.") => Ok(()),
            _ => Err(Refusal::ExtendedKey { key: key.to_owned() }),
        }
    }

    fn set_path(&mut self, path: &[u8]) -> Result<(), Refusal> {
        set_once(&mut self.path, path)?;
        self.seen = true;
        Ok(())
    }

    fn set_link(&mut self, link: &[u8]) -> Result<(), Refusal> {
        set_once(&mut self.link, link)?;
        self.seen = true;
        Ok(())
    }
}

fn set_once(slot: &mut Option<Vec<u8>>, value: &[u8]) -> Result<(), Refusal> {
    match slot {
        Some(_) => Err(Refusal::Header { what: "its name is given twice" }),
        None => {
            *slot = Some(value.to_vec());
            Ok(())
        }
    }
}

fn records(content: &[u8], mut take: impl FnMut(&str, &[u8]) -> Result<(), Refusal>) -> Result<(), Refusal> {
    let damaged = Refusal::Header { what: "an extended header is not a list of records" };
    for record in PaxExtensions::new(content) {
        let record = record.map_err(|_| damaged.clone())?;
        let key = record.key().map_err(|_| damaged.clone())?;
        take(key, record.value_bytes())?;
    }
    Ok(())
}

/// GNU tar ends its long names with one NUL.
fn without_nul(content: &[u8]) -> &[u8] {
    content.strip_suffix(b"\0").unwrap_or(content)
}
