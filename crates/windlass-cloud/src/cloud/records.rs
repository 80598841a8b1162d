//! Requests about names.

use std::net::Ipv4Addr;

use windlass_cloud_api::{Condition, Label, Record, RecordChange, RecordKind, RecordName};

use super::{Cloud, known};
use crate::model::{ClusterModel, ClusterRow, Edit, RecordRow, Row};
use crate::names::domain::DomainName;
use crate::refused::{Class, Refused};

const KINDS: [RecordKind; 3] = [RecordKind::A, RecordKind::CNAME, RecordKind::TXT];

impl Cloud {
    /// Changes what a name stands for, if the condition holds. No values remove it.
    pub fn put_record(&self, cluster: &Label, name: &RecordName, change: &RecordChange) -> Result<Record, Refused> {
        check(change)?;
        self.edit(|model| {
            let model = known(model, cluster)?;
            fits(model, name, change)?;
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
    RecordName::parse(text.strip_suffix('.').unwrap_or(text)).is_ok() && DomainName::parse(text).is_ok()
}

/// What no zone could hold is refused here: it would keep everything else of the zone from being served.
fn fits(cluster: &ClusterModel, name: &RecordName, change: &RecordChange) -> Result<(), Refused> {
    if change.values.is_empty() {
        return Ok(());
    }
    let whole = format!("{name}.{}", cluster.row.spec.domain);
    if let Err(error) = DomainName::parse(&whole) {
        return Err(Refused::new(Class::Impossible, format!("{name} is no name of this zone")).because(error));
    }
    let others = KINDS.into_iter().filter(|kind| *kind != change.kind);
    let mut others = others.filter(|kind| cluster.records.contains_key(&(name.clone(), *kind)));
    let clash = match change.kind {
        RecordKind::CNAME => others.next(),
        RecordKind::A | RecordKind::TXT => others.find(|kind| *kind == RecordKind::CNAME),
    };
    match clash {
        None => Ok(()),
        Some(kind) => {
            let why = format!("{name} has a {kind:?} record and cannot have a {:?} record beside it", change.kind);
            Err(Refused::new(Class::Impossible, why).next("a CNAME stands alone: remove the other one first"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{cluster, label};
    use crate::places::Places;
    use crate::world::World;

    #[test]
    fn a_record_that_no_zone_can_hold_was_accepted_and_stopped_the_whole_zone() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { state: dir.path().to_owned(), run: dir.path().to_owned() };
        let cloud = Cloud::open(places, World::simulated()).unwrap();
        let mut wide = cluster("a");
        wide.spec.domain = ["d".repeat(60), "e".repeat(60), "example".to_owned()].join(".");
        cloud.edit(|_| Ok((vec![Edit::Put(Row::Cluster(wide))], ()))).unwrap();
        let long = ["l".repeat(60), "m".repeat(60), "n".repeat(20)].join(".");
        let cases = [
            ("x", RecordKind::A, "10.0.0.1", true),
            ("x", RecordKind::TXT, "text", true),
            ("x", RecordKind::CNAME, "y.example", false),
            ("y", RecordKind::CNAME, "x.example.", true),
            ("y", RecordKind::A, "10.0.0.1", false),
            ("y", RecordKind::CNAME, "z.example..", false),
            (&long, RecordKind::A, "10.0.0.1", false),
        ];
        for (name, kind, value, good) in cases {
            let change = RecordChange { kind, values: vec![value.to_owned()], only_if: Condition::Always };
            let put = cloud.put_record(&label("a"), &RecordName::parse(name).unwrap(), &change);
            assert_eq!(
                put.map(drop).map_err(|refused| refused.class),
                good.then_some(()).ok_or(Class::Impossible),
                "{name}"
            );
        }
    }
}
