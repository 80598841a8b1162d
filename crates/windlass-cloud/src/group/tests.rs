use proptest::prelude::*;
use time::macros::datetime;

use super::*;

const START: OffsetDateTime = datetime!(2026-11-16 03:00:00 UTC);

fn group(desired: u32) -> Group {
    Group { name: "w".to_owned(), desired, generation: 1, max_surge: u32::MAX, last_serial: 0, back_off: None }
}

fn member(serial: u64, generation: u64, state: MemberState) -> Member {
    Member { name: format!("w-{serial}"), generation, created: START, state, since: START + 2 * YOUNG }
}

fn at(seconds: u64) -> OffsetDateTime {
    START + Duration::from_secs(seconds)
}

fn names(changes: &[GroupChange]) -> Vec<String> {
    let words = changes.iter().map(|change| match change {
        GroupChange::BackOff(back_off) => format!("wait {:?}", back_off.delay()),
        GroupChange::Remove { name, why } => format!("remove {name} {why:?}"),
        GroupChange::Create { name, .. } => format!("create {name}"),
    });
    words.collect()
}

#[test]
fn each_situation_has_its_plan() {
    use MemberState::{Dead, Healthy, Removing, Starting};
    type Case<'a> = (&'a str, u32, Vec<Member>, &'a [&'a str]);
    let cases: [Case<'_>; 14] = [
        ("empty", 2, vec![], &["create w-1", "create w-2"]),
        ("nothing wanted", 0, vec![], &[]),
        ("as wanted", 1, vec![member(4, 1, Healthy)], &[]),
        ("starting counts", 1, vec![member(4, 1, Starting)], &[]),
        ("old death", 1, vec![member(4, 1, Dead)], &["remove w-4 Dead", "create w-5"]),
        ("newest goes first", 1, vec![member(9, 1, Healthy), member(10, 1, Healthy)], &["remove w-10 TooMany"]),
        ("unhealthy goes first", 1, vec![member(1, 1, Starting), member(2, 1, Healthy)], &["remove w-1 TooMany"]),
        ("the dead go first", 1, vec![member(1, 1, Healthy), member(2, 1, Dead)], &["remove w-2 Dead"]),
        ("roll adds one", 2, vec![member(1, 0, Healthy), member(2, 0, Healthy)], &["create w-3"]),
        ("roll waits", 1, vec![member(1, 0, Healthy), member(2, 1, Starting)], &[]),
        ("roll goes on", 1, vec![member(1, 0, Healthy), member(2, 1, Healthy)], &["remove w-1 OldTemplate"]),
        ("roll of the sick", 1, vec![member(1, 0, Starting), member(2, 1, Starting)], &["remove w-1 OldTemplate"]),
        ("leaving ones take room", 1, vec![member(1, 1, Removing), member(2, 1, Removing)], &[]),
        ("down to nothing", 0, vec![member(1, 0, Healthy), member(2, 1, Removing)], &["remove w-1 OldTemplate"]),
    ];
    for (what, desired, members, want) in cases {
        assert_eq!(names(&plan(&group(desired), &members, at(1000))), want, "{what}");
    }
}

#[test]
fn a_roll_goes_by_the_tenth_and_never_below_the_desired_count() {
    let members: Vec<Member> = (1..=30).map(|n| member(n, 0, MemberState::Healthy)).collect();
    assert_eq!(plan(&group(30), &members, at(1000)).len(), 3);
    let one = Group { max_surge: 0, ..group(30) };
    assert_eq!(plan(&one, &members, at(1000)).len(), 1);
}

#[test]
fn a_serial_is_not_used_again_even_when_the_record_is_behind() {
    let mut behind = group(1);
    let seen = [member(7, 1, MemberState::Dead), member(90, 1, MemberState::Removing)];
    assert_eq!(names(&plan(&behind, &seen, at(1000))), ["remove w-7 Dead", "create w-91"]);
    behind.last_serial = 200;
    assert_eq!(names(&plan(&behind, &[], at(1000))), ["create w-201"]);
    for foreign in ["w", "w-", "w-x", "v-9", "w-9-9", "w--9"] {
        assert_eq!(behind.serial_of(foreign), None, "{foreign}");
    }
}

fn dead(serial: u64, created: u64, died: u64) -> Member {
    let (created, since) = (at(created), at(died));
    Member { created, since, ..member(serial, 1, MemberState::Dead) }
}

#[test]
fn machines_that_die_young_are_replaced_ever_more_slowly() {
    let mut group = group(1);
    let mut now = 0;
    let mut waits = Vec::new();
    for serial in 1..=9 {
        let changes = plan(&group, &[dead(serial, now, now + 1)], at(now + 1));
        changes.iter().for_each(|change| group.note(change));
        assert_eq!(changes.len(), 2, "{changes:?}");
        let until = group.waits_until(at(now + 1)).unwrap();
        assert!(plan(&group, &[], until - Duration::from_millis(1)).is_empty());
        assert_eq!(plan(&group, &[], until).len(), 1);
        let wait = (until - at(now + 1)).whole_seconds();
        waits.push(wait);
        now += 1 + wait as u64 + 1;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    let later = plan(&group, &[dead(50, now + 200, now + 201)], at(now + 201));
    assert_eq!(names(&later), ["wait 1s", "remove w-50 Dead"]);
    group.generation = 2;
    assert_eq!(group.waits_until(at(now)), None);
}

#[test]
fn a_hundred_deaths_at_once_are_one_failure() {
    let mut group = group(1000);
    let wave: Vec<Member> = (1..=1000).map(|n| dead(n, 0, 5)).collect();
    for share in wave.chunks(250) {
        let changes = plan(&group, share, at(6));
        changes.iter().for_each(|change| group.note(change));
    }
    assert_eq!(group.back_off.as_ref().unwrap().failures, 1);
    assert_eq!(group.waits_until(at(6)), Some(at(7)));
}

#[test]
fn a_clock_that_was_set_back_does_not_stop_the_group() {
    let mut group = group(1);
    group.back_off = Some(BackOff { failures: 1, since: at(100_000), generation: 1 });
    assert_eq!(names(&plan(&group, &[], at(0))), ["create w-1"]);
}

/// A world in which machines start, become healthy, leave and are killed.
#[derive(Clone, Debug)]
struct World {
    group: Group,
    members: Vec<Member>,
    now: OffsetDateTime,
}

impl World {
    fn step(&mut self) -> Vec<GroupChange> {
        let changes = plan(&self.group, &self.members, self.now);
        self.check(&changes);
        for change in &changes {
            self.group.note(change);
            self.carry_out(change);
        }
        let again = plan(&self.group, &self.members, self.now);
        assert!(again.is_empty(), "{changes:?} then {again:?}");
        self.check_count(&changes);
        changes
    }

    fn check(&self, changes: &[GroupChange]) {
        let live = |member: &&Member| matches!(member.state, MemberState::Starting | MemberState::Healthy);
        let exceeded = self.members.iter().filter(live).count() > self.group.desired as usize;
        for change in changes {
            if let GroupChange::Remove { name, .. } = change {
                let member = self.members.iter().find(|member| member.name == *name).unwrap();
                let good = member.state == MemberState::Healthy && member.generation == self.group.generation;
                assert!(exceeded || !good, "{change:?} of {self:?}");
            }
        }
    }

    fn check_count(&self, changes: &[GroupChange]) {
        let count = |state| self.members.iter().filter(|member| member.state == state).count();
        let live = count(MemberState::Starting) + count(MemberState::Healthy);
        let most = self.group.desired as usize + (self.group.desired as usize / 10).max(1);
        assert!(live <= most, "{live} of {self:?}");
        let created = changes.iter().any(|change| matches!(change, GroupChange::Create { .. }));
        assert!(!created || live + count(MemberState::Removing) <= most, "{changes:?} made {self:?}");
    }

    fn carry_out(&mut self, change: &GroupChange) {
        match change {
            GroupChange::BackOff(_) => {}
            GroupChange::Create { name, generation, .. } => {
                assert!(self.members.iter().all(|member| member.name != *name));
                let (created, since) = (self.now, self.now);
                let state = MemberState::Starting;
                self.members.push(Member { name: name.clone(), generation: *generation, created, state, since });
            }
            GroupChange::Remove { name, .. } => {
                let at = self.members.iter().position(|member| member.name == *name).unwrap();
                match self.members[at].state {
                    MemberState::Dead => drop(self.members.remove(at)),
                    _ => self.members[at].state = MemberState::Removing,
                }
            }
        }
    }

    fn pass(&mut self, luck: u64) {
        self.now += Duration::from_millis(500);
        self.members.retain(|member| member.state != MemberState::Removing || luck.is_multiple_of(3));
        for (n, member) in self.members.iter_mut().enumerate() {
            if member.state == MemberState::Starting && luck.wrapping_add(n as u64).is_multiple_of(2) {
                (member.state, member.since) = (MemberState::Healthy, self.now);
            }
        }
    }

    fn disturb(&mut self, event: &Event) {
        match event {
            Event::Nothing => {}
            Event::Scale(desired) => self.group.desired = *desired,
            Event::NewTemplate => self.group.generation += 1,
            Event::Kill(which) => {
                let count = self.members.len().max(1);
                for n in which {
                    if let Some(member) = self.members.get_mut(n % count) {
                        (member.state, member.since) = (MemberState::Dead, self.now);
                    }
                }
            }
        }
    }

    fn is_settled(&self) -> bool {
        let good = |member: &Member| member.state == MemberState::Healthy && member.generation == self.group.generation;
        self.members.len() == self.group.desired as usize && self.members.iter().all(good)
    }
}

#[derive(Clone, Debug)]
enum Event {
    Nothing,
    Scale(u32),
    NewTemplate,
    Kill(Vec<usize>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Nothing),
        1 => (0_u32..40).prop_map(Event::Scale),
        1 => Just(Event::NewTemplate),
        2 => prop::collection::vec(0_usize..60, 1..8).prop_map(Event::Kill),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_group_settles_and_never_exceeds_its_bounds(
        desired in 0_u32..40,
        max_surge in 0_u32..5,
        history in prop::collection::vec((event(), any::<u64>()), 0..40),
    ) {
        let group = Group { max_surge, ..group(desired) };
        let mut world = World { group, members: Vec::new(), now: START };
        for (event, luck) in &history {
            world.disturb(event);
            world.step();
            world.pass(*luck);
        }
        let mut steps = 0_u64;
        while !world.is_settled() || !world.step().is_empty() {
            world.step();
            world.pass(steps);
            steps += 1;
            prop_assert!(steps < 2000, "{world:?}");
        }
    }
}
