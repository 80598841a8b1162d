//! Requests about names.

use std::net::Ipv4Addr;

use windlass_cloud_api::{Condition, Label, Record, RecordChange, RecordKind, RecordName};

use super::{Cloud, known};
use crate::model::{ClusterRow, Edit, RecordRow, Row};
use crate::refused::{Class, Refused};

impl Cloud {
    /// Changes what a name stands for, if the condition holds. No values remove it.
    pub fn put_record(&self, cluster: &Label, name: &RecordName, change: &RecordChange) -> Result<Record, Refused> {
        check(change)?;
        self.edit(|model| {
            let model = known(model, cluster)?;
            let old = model.records.get(&(name.clone(), change.kind)).map(|row| &row.record);
            met(change.only_if, old, name)?;
            let version = model.row.next_version;
            let record = Record { name: name.clone(), kind: change.kind, values: change.values.clone(), version };
            let row = Row::Record(RecordRow { cluster: cluster.clone(), record: record.clone() });
            let counted = Row::Cluster(ClusterRow { next_version: version + 1, ..model.row.clone() });
            let edits = match (change.values.is_empty(), old) {
                (true, None) => Vec::new(),
                (true, Some(_)) => vec![Edit::Drop(row), Edit::Put(counted)],
                (false, _) => vec![Edit::Put(row), Edit::Put(counted)],
            };
            Ok((edits, record))
        })
    }

    /// Every record of a zone.
    pub fn records(&self, cluster: &Label) -> Result<Vec<Record>, Refused> {
        self.read_cluster(cluster, |model| Ok(model.records.values().map(|row| row.record.clone()).collect()))
    }
}

fn met(condition: Condition, old: Option<&Record>, name: &RecordName) -> Result<(), Refused> {
    let holds = match condition {
        Condition::Always => true,
        Condition::Absent => old.is_none(),
        Condition::Version(version) => old.is_some_and(|record| record.version == version),
    };
    match (holds, old) {
        (true, _) => Ok(()),
        (false, Some(record)) => {
            let refused = Refused::new(Class::Conflict, format!("{name} was changed by somebody else"));
            Err(refused.because(format!("it is at version {} and stands for {:?}", record.version, record.values)))
        }
        (false, None) => Err(Refused::new(Class::Conflict, format!("{name} is not there any more"))),
    }
}

fn check(change: &RecordChange) -> Result<(), Refused> {
    let impossible = |value: &str, rule: &str| {
        Err(Refused::new(
            Class::Impossible,
            format!("{value:?} cannot be a value of a {:?} record: {rule}", change.kind),
        ))
    };
    if change.values.len() > 64 {
        return Err(Refused::new(Class::Impossible, "a record has at most 64 values"));
    }
    for value in &change.values {
        match change.kind {
            RecordKind::A if value.parse::<Ipv4Addr>().is_err() => return impossible(value, "it takes IPv4 addresses"),
            RecordKind::CNAME if !is_name(value) => return impossible(value, "it takes a name"),
            RecordKind::TXT if value.len() > 255 => return impossible(value, "it takes 255 bytes at most"),
            RecordKind::A | RecordKind::CNAME | RecordKind::TXT => {}
        }
    }
    match change.kind == RecordKind::CNAME && change.values.len() > 1 {
        true => Err(Refused::new(Class::Impossible, "a CNAME record has one value")),
        false => Ok(()),
    }
}

fn is_name(text: &str) -> bool {
    RecordName::parse(text.trim_end_matches('.')).is_ok()
}
