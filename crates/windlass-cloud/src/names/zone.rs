//! A zone as a value. Changing it is a pure function that may be made conditional on the version of what it replaces,
//! so that two writers who read the same cannot both win; looking up is a pure function too, and the server only
//! puts its answer into a packet.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::Ipv4Addr;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::domain::DomainName;

const LONGEST_CHAIN: usize = 8;
const MOST_RECORDS: usize = 256;
const LONGEST_TEXT: usize = 4096;

/// All names of a cluster below one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    origin: DomainName,
    serial: u32,
    last_version: u64,
    names: BTreeMap<DomainName, BTreeMap<Kind, RecordSet>>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// An address.
    A(Ipv4Addr),
    /// Another name for the same thing; alone at its name.
    Cname(DomainName),
    /// Where a service listens.
    Srv {
        /// Lower is tried first.
        priority: u16,
        /// The share among those of equal priority.
        weight: u16,
        /// The port it listens on.
        port: u16,
        /// The host it runs on.
        target: DomainName,
    },
    /// Any text.
    Txt(String),
}

/// The kinds of records there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// See [`Record::A`].
    A,
    /// See [`Record::Cname`].
    Cname,
    /// See [`Record::Srv`].
    Srv,
    /// See [`Record::Txt`].
    Txt,
}

/// The records of one kind at one name. The version grows with every change and is never used twice in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordSet {
    /// Changes with the records.
    pub version: u64,
    /// Never empty, sorted, each once.
    pub records: Vec<Record>,
}

/// Replaces the records of one kind at one name; without records it removes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The full name.
    pub name: DomainName,
    /// Which of its record sets.
    pub kind: Kind,
    /// What must be there now.
    pub expect: Expect,
    /// What is to be there.
    pub records: Vec<Record>,
}

/// What a change relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: the change is made in any case.
    Any,
    /// There are no such records.
    Absent,
    /// The records are of this version.
    Version(u64),
}

/// Why a change was not made; the zone is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// Someone else was faster.
    #[error("the {kind:?} records of {name} are not as expected: {}", seen(*.found))]
    Conflict {
        /// The name.
        name: DomainName,
        /// Which of its records.
        kind: Kind,
        /// The version that is there, if any.
        found: Option<u64>,
    },
    /// The name belongs to some other zone.
    #[error("{name} is not in the zone {origin}")]
    Outside {
        /// The name.
        name: DomainName,
        /// The zone.
        origin: DomainName,
    },
    /// A record is of another kind than the change.
    #[error("not every record for {name} is of the kind {kind:?}")]
    MixedKinds {
        /// The name.
        name: DomainName,
        /// What the change said.
        kind: Kind,
    },
    /// An alias stands alone: one record, nothing else at its name, and not at the origin.
    #[error("{name} cannot be an alias and something else")]
    Alias {
        /// The name.
        name: DomainName,
    },
    /// More than fits into an answer.
    #[error("too much for {name}: at most {MOST_RECORDS} records, with at most {LONGEST_TEXT} bytes of text each")]
    TooMuch {
        /// The name.
        name: DomainName,
    },
}

/// What is asked for at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// One kind of records.
    Kind(Kind),
    /// Whatever there is.
    Everything,
    /// A kind that this zone never has, such as IPv6 addresses.
    Foreign,
}

/// The answer to a question: how it ended, and the records on the way there, aliases first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How it ended.
    pub end: End,
    /// With the name that each belongs to.
    pub records: Vec<(DomainName, Record)>,
}

/// How looking up a name ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The records are what was asked for.
    Found,
    /// The name exists, but has no records of that kind.
    NoRecords,
    /// There is no such name.
    NoName,
    /// The name, or the one an alias leads to, is not ours to know.
    Outside,
    /// Aliases lead to aliases without end.
    Endless,
}

impl Zone {
    /// A zone without names.
    pub fn new(origin: DomainName) -> Self {
        Self { origin, serial: 1, last_version: 0, names: BTreeMap::new() }
    }

    /// The name that all others end with.
    pub fn origin(&self) -> &DomainName {
        &self.origin
    }

    /// Grows with every change, and begins again from 0 after the largest.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The records of one kind at one name.
    pub fn records(&self, name: &DomainName, kind: Kind) -> Option<&RecordSet> {
        self.names.get(name)?.get(&kind)
    }

    /// Every record set there is.
    pub fn sets(&self) -> impl Iterator<Item = (&DomainName, Kind, &RecordSet)> {
        self.names.iter().flat_map(|(name, sets)| sets.iter().map(move |(kind, set)| (name, *kind, set)))
    }

    /// Makes the change if what it expects is so, and returns the version of the new records, if there are any.
    /// Records that are there already are left as they are.
    pub fn change(&mut self, change: Change) -> Result<Option<u64>, ChangeError> {
        let Change { name, kind, expect, mut records } = change;
        self.check(&name, kind, &records)?;
        let current = self.records(&name, kind);
        let found = current.map(|set| set.version);
        let as_expected = match expect {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::Version(version) => found == Some(version),
        };
        if !as_expected {
            return Err(ChangeError::Conflict { name, kind, found });
        }
        records.sort_unstable();
        records.dedup();
        if current.map_or(&[][..], |set| &set.records) == records {
            return Ok(found);
        }
        Ok(self.put(name, kind, records))
    }

    /// Looks up a name, following aliases for as long as they stay in the zone.
    pub fn look_up(&self, name: &DomainName, asked: Asked) -> Answer {
        let mut records = Vec::new();
        let mut name = name.clone();
        for _ in 0..LONGEST_CHAIN {
            if !name.is_within(&self.origin) {
                return Answer { end: End::Outside, records };
            }
            let Some(sets) = self.names.get(&name) else {
                return Answer { end: if self.exists(&name) { End::NoRecords } else { End::NoName }, records };
            };
            match alias(sets, asked) {
                Some(target) => {
                    records.push((name, Record::Cname(target.clone())));
                    name = target.clone();
                }
                None => return direct(name, sets, asked, records),
            }
        }
        Answer { end: End::Endless, records }
    }

    fn put(&mut self, name: DomainName, kind: Kind, records: Vec<Record>) -> Option<u64> {
        self.serial = self.serial.wrapping_add(1);
        self.last_version += 1;
        let version = self.last_version;
        if !records.is_empty() {
            self.names.entry(name).or_default().insert(kind, RecordSet { version, records });
            return Some(version);
        }
        if let Entry::Occupied(mut sets) = self.names.entry(name) {
            sets.get_mut().remove(&kind);
            if sets.get().is_empty() {
                sets.remove();
            }
        }
        None
    }

    fn check(&self, name: &DomainName, kind: Kind, records: &[Record]) -> Result<(), ChangeError> {
        if !name.is_within(&self.origin) {
            return Err(ChangeError::Outside { name: name.clone(), origin: self.origin.clone() });
        }
        if records.iter().any(|record| record.kind() != kind) {
            return Err(ChangeError::MixedKinds { name: name.clone(), kind });
        }
        let too_long = |record: &Record| matches!(record, Record::Txt(text) if text.len() > LONGEST_TEXT);
        if records.len() > MOST_RECORDS || records.iter().any(too_long) {
            return Err(ChangeError::TooMuch { name: name.clone() });
        }
        let others = self.names.get(name).into_iter().flat_map(BTreeMap::keys).filter(|other| **other != kind);
        let crowded = match kind {
            Kind::Cname => records.len() > 1 || *name == self.origin || others.count() > 0,
            Kind::A | Kind::Srv | Kind::Txt => { others }.any(|other| *other == Kind::Cname),
        };
        match crowded && !records.is_empty() {
            true => Err(ChangeError::Alias { name: name.clone() }),
            false => Ok(()),
        }
    }

    // A name without records exists if it is the origin or there are names below it.
    fn exists(&self, name: &DomainName) -> bool {
        let after = self.names.range((Bound::Excluded(name), Bound::Unbounded)).next();
        *name == self.origin || after.is_some_and(|(next, _)| next.is_within(name))
    }
}

impl Record {
    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::A(_) => Kind::A,
            Self::Cname(_) => Kind::Cname,
            Self::Srv { .. } => Kind::Srv,
            Self::Txt(_) => Kind::Txt,
        }
    }
}

fn seen(found: Option<u64>) -> String {
    match found {
        Some(version) => format!("there is version {version}"),
        None => "there are none".to_owned(),
    }
}

fn alias(sets: &BTreeMap<Kind, RecordSet>, asked: Asked) -> Option<&DomainName> {
    let follow = match asked {
        Asked::Kind(kind) => kind != Kind::Cname,
        Asked::Foreign => true,
        Asked::Everything => false,
    };
    let records = &sets.get(&Kind::Cname).filter(|_| follow)?.records;
    records.iter().find_map(|record| match record {
        Record::Cname(target) => Some(target),
        Record::A(_) | Record::Srv { .. } | Record::Txt(_) => None,
    })
}

fn direct(
    name: DomainName,
    sets: &BTreeMap<Kind, RecordSet>,
    asked: Asked,
    mut records: Vec<(DomainName, Record)>,
) -> Answer {
    let wanted = |kind: Kind| match asked {
        Asked::Kind(one) => one == kind,
        Asked::Everything => true,
        Asked::Foreign => false,
    };
    let found = sets.iter().filter(|(kind, _)| wanted(**kind)).flat_map(|(_, set)| &set.records);
    let found: Vec<_> = found.map(|record| (name.clone(), record.clone())).collect();
    let end = if found.is_empty() { End::NoRecords } else { End::Found };
    records.extend(found);
    Answer { end, records }
}

#[cfg(test)]
mod tests;
