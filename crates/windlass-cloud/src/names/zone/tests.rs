use proptest::prelude::{Strategy, proptest};

use super::*;

fn name(text: &str) -> DomainName {
    DomainName::parse(text).unwrap()
}

fn address(last: u8) -> Record {
    Record::A(Ipv4Addr::new(10, 0, 0, last))
}

fn set(at: &str, records: Vec<Record>) -> Change {
    let kind = records.first().map_or(Kind::A, Record::kind);
    Change { name: name(at), kind, expect: Expect::Any, records }
}

fn zone(changes: impl IntoIterator<Item = Change>) -> Zone {
    let mut zone = Zone::new(name("demo.example"));
    for change in changes {
        zone.change(change).unwrap();
    }
    zone
}

fn end(zone: &Zone, at: &str, asked: Asked) -> End {
    zone.look_up(&name(at), asked).end
}

#[test]
fn a_name_that_exists_is_told_from_one_that_does_not() {
    let zone = zone([set("a.b.demo.example", vec![address(1)]), set("zz.demo.example", vec![address(2)])]);
    let cases = [
        ("a.b.demo.example", Asked::Kind(Kind::A), End::Found),
        ("a.b.demo.example", Asked::Kind(Kind::Txt), End::NoRecords),
        ("a.b.demo.example", Asked::Foreign, End::NoRecords),
        ("a.b.demo.example", Asked::Everything, End::Found),
        ("b.demo.example", Asked::Kind(Kind::A), End::NoRecords),
        ("demo.example", Asked::Kind(Kind::A), End::NoRecords),
        ("c.demo.example", Asked::Kind(Kind::A), End::NoName),
        ("x.a.b.demo.example", Asked::Kind(Kind::A), End::NoName),
        ("demo.example.org", Asked::Kind(Kind::A), End::Outside),
        ("xdemo.example", Asked::Kind(Kind::A), End::Outside),
    ];
    for (at, asked, wanted) in cases {
        assert_eq!(end(&zone, at, asked), wanted, "{at} {asked:?}");
    }
}

#[test]
fn aliases_are_followed_to_their_end() {
    let to = |target: &str| vec![Record::Cname(name(target))];
    let zone = zone([
        set("real.demo.example", vec![address(1), address(2)]),
        set("one.demo.example", to("two.demo.example")),
        set("two.demo.example", to("real.demo.example")),
        set("gone.demo.example", to("none.demo.example")),
        set("away.demo.example", to("elsewhere.org")),
        set("loop.demo.example", to("pool.demo.example")),
        set("pool.demo.example", to("loop.demo.example")),
    ]);
    let a = Asked::Kind(Kind::A);
    let cases = [
        ("one", End::Found, 4),
        ("gone", End::NoName, 1),
        ("away", End::Outside, 1),
        ("loop", End::Endless, LONGEST_CHAIN),
    ];
    for (at, wanted, records) in cases {
        let answer = zone.look_up(&name(&format!("{at}.demo.example")), a);
        assert_eq!((answer.end, answer.records.len()), (wanted, records), "{at}");
    }
    assert_eq!(end(&zone, "one.demo.example", Asked::Foreign), End::NoRecords);
    let itself = zone.look_up(&name("one.demo.example"), Asked::Kind(Kind::Cname));
    assert_eq!((itself.end, itself.records.len()), (End::Found, 1));
}

#[test]
fn a_conditional_change_is_made_only_on_what_was_read() {
    let mut zone = zone([]);
    let at = |expect, last| Change { expect, ..set("api.demo.example", vec![address(last)]) };
    let first = zone.change(at(Expect::Absent, 1)).unwrap().unwrap();
    let conflict = zone.change(at(Expect::Absent, 2)).unwrap_err();
    assert_eq!(conflict, ChangeError::Conflict { name: name("api.demo.example"), kind: Kind::A, found: Some(first) });
    let second = zone.change(at(Expect::Version(first), 2)).unwrap().unwrap();
    assert!(second > first);
    assert!(matches!(zone.change(at(Expect::Version(first), 3)), Err(ChangeError::Conflict { .. })));
    assert_eq!(zone.records(&name("api.demo.example"), Kind::A).unwrap().records, [address(2)]);
}

#[test]
fn a_version_is_not_used_again_after_a_removal() {
    let mut zone = zone([]);
    let first = zone.change(set("api.demo.example", vec![address(1)])).unwrap().unwrap();
    assert_eq!(zone.change(set("api.demo.example", vec![])).unwrap(), None);
    assert_eq!(end(&zone, "api.demo.example", Asked::Kind(Kind::A)), End::NoName);
    let again = zone.change(set("api.demo.example", vec![address(1)])).unwrap().unwrap();
    assert!(again > first);
}

#[test]
fn saying_the_same_again_changes_nothing() {
    let mut zone = zone([set("api.demo.example", vec![address(2), address(1)])]);
    let before = zone.clone();
    zone.change(set("api.demo.example", vec![address(1), address(2), address(1)])).unwrap();
    zone.change(set("none.demo.example", vec![])).unwrap();
    assert_eq!(zone, before);
}

#[test]
fn what_does_not_belong_is_refused() {
    let mut zone = zone([
        set("host.demo.example", vec![address(1)]),
        set("alias.demo.example", vec![Record::Cname(name("host.demo.example"))]),
    ]);
    let before = zone.clone();
    let cname = |target: &str| Record::Cname(name(target));
    let mixed = Change { kind: Kind::Txt, ..set("host.demo.example", vec![address(1)]) };
    let many: Vec<Record> = (0..300).map(|n| Record::Txt(n.to_string())).collect();
    let refused = [
        set("host.example", vec![address(1)]),
        mixed,
        set("host.demo.example", vec![cname("alias.demo.example")]),
        set("alias.demo.example", vec![address(1)]),
        set("other.demo.example", vec![cname("a.org"), cname("b.org")]),
        set("demo.example", vec![cname("a.org")]),
        set("host.demo.example", vec![Record::Txt("x".repeat(5000))]),
        set("host.demo.example", many),
    ];
    for change in refused {
        assert!(zone.change(change.clone()).is_err(), "{change:?}");
    }
    assert_eq!(zone, before);
}

#[test]
fn a_zone_reads_back_as_it_was_written() {
    let srv = Record::Srv { priority: 1, weight: 2, port: 443, target: name("host.demo.example") };
    let zone = zone([
        set("host.demo.example", vec![address(1)]),
        set("host.demo.example", vec![Record::Txt("a b".to_owned())]),
        set("alias.demo.example", vec![Record::Cname(name("host.demo.example"))]),
        set("_https._tcp.demo.example", vec![srv]),
    ]);
    let text = serde_json::to_string(&zone).unwrap();
    assert_eq!(serde_json::from_str::<Zone>(&text).unwrap(), zone);
}

fn changes() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    proptest::collection::vec((0..4_u8, 0..3_u8, 0..3_u8), 0..40)
}

proptest! {
    #[test]
    fn versions_and_the_serial_grow_exactly_when_records_change(list in changes()) {
        let mut zone = zone([]);
        for (host, count, first) in list {
            let records: Vec<Record> = (first..first + count).map(address).collect();
            let before = zone.clone();
            let version = zone.change(set(&format!("h{host}.demo.example"), records)).unwrap();
            let at = name(&format!("h{host}.demo.example"));
            let (old, new) = (before.records(&at, Kind::A), zone.records(&at, Kind::A));
            assert_eq!(new.map(|set| set.version), version);
            let changed = old.map(|set| &set.records) != new.map(|set| &set.records);
            assert_eq!(zone.serial() != before.serial(), changed);
            assert_eq!(version.is_some() && version > before.sets().map(|(.., set)| set.version).max(), changed && version.is_some());
        }
    }
}
