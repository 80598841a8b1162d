//! Groups of equal machines: how many there are to be, and of which template. [`plan`] compares a group with its members
//! and says what to create and what to remove: the dead are replaced, a changed template is rolled out a few at a time,
//! and a group whose new machines die young is given time before the next attempt. It is pure; whoever carries out a
//! change also [`note`](Group::note)s it, so that the group's own record (serials, back-off) stays true.

use std::cmp::Reverse;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

/// A machine that dies before this age died young, and a group that has none such for this long is well again.
pub const YOUNG: Duration = Duration::from_secs(60);

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// What is wanted of a group, and what must be remembered of it between two plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// A DNS label; the members' names begin with it.
    pub name: String,
    /// How many members there are to be.
    pub desired: u32,
    /// Of which template; any other value in a member means that it is to be replaced.
    pub generation: u64,
    /// How many members more than desired there may be while rolling; see [`Group::surge`] for its bounds.
    pub max_surge: u32,
    /// The highest serial ever given to a member; none is used twice.
    pub last_serial: u64,
    /// Why no member is created just now, if so.
    pub back_off: Option<BackOff>,
}

/// New machines died young; the next attempt has to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackOff {
    /// How many attempts in a row ended so.
    pub failures: u32,
    /// When the last of them was seen to.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// With which template; another one gets a new chance at once.
    pub generation: u64,
}

/// A machine of the group, as observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// `<group>-<serial>`.
    pub name: String,
    /// The template it was made from.
    pub generation: u64,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// How it is.
    pub state: MemberState,
    /// Since when it is so.
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
}

/// How a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// Made, but not known to be well yet.
    Starting,
    /// Well.
    Healthy,
    /// It ended by itself; nothing of it runs any more.
    Dead,
    /// On its way out because of an earlier plan; it may still run.
    Removing,
}

/// One thing to do about a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum GroupChange {
    /// Wait before the next creation. It comes before the removal of the dead that are the reason for it.
    BackOff(BackOff),
    /// Remove this member.
    Remove {
        /// Which one.
        name: String,
        /// What for.
        why: Why,
    },
    /// Make a member from the group's present template.
    Create {
        /// Its name.
        name: String,
        /// The last part of the name.
        serial: u64,
        /// The template's generation.
        generation: u64,
    },
}

/// Why a member is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It is dead.
    Dead,
    /// There are more than desired.
    TooMany,
    /// Its template is no longer the group's.
    OldTemplate,
}

impl Group {
    /// How many members may run beyond the desired count: what was asked for, at least one and at most a tenth.
    pub fn surge(&self) -> u32 {
        self.max_surge.clamp(1, (self.desired / 10).max(1))
    }

    /// Until when nothing is created; a plan is due then. None if nothing stands in the way.
    pub fn waits_until(&self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        let back_off = self.back_off.as_ref().filter(|back_off| back_off.generation == self.generation)?;
        let until = back_off.since + back_off.delay();
        // A clock that was set back must not turn a second into a day.
        (now < until && now >= back_off.since).then_some(until)
    }

    /// Takes a change into the group's own record. To be made durable no later than the change itself.
    pub fn note(&mut self, change: &GroupChange) {
        match change {
            GroupChange::BackOff(back_off) => self.back_off = Some(back_off.clone()),
            GroupChange::Create { serial, .. } => self.last_serial = self.last_serial.max(*serial),
            GroupChange::Remove { .. } => {}
        }
    }

    /// The serial in a member's name; none if it is not a name this group gives.
    pub fn serial_of(&self, name: &str) -> Option<u64> {
        name.strip_prefix(&self.name)?.strip_prefix('-')?.parse().ok()
    }

    fn next_serial(&self, members: &[Member]) -> u64 {
        let seen = members.iter().filter_map(|member| self.serial_of(&member.name));
        seen.chain([self.last_serial]).max().unwrap_or(0) + 1
    }
}

impl BackOff {
    /// From a second, doubling, to a minute.
    pub fn delay(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(16);
        (FIRST_DELAY * 2_u32.pow(doublings)).min(LONGEST_DELAY)
    }
}

/// What to do now. Carrying it all out, and noting it, makes the next plan at the same time and of the same world empty.
///
/// Members that may run never number more than desired plus [`Group::surge`]; of the healthy ones with the present
/// template none is removed while there are no more than desired.
pub fn plan(group: &Group, members: &[Member], now: OffsetDateTime) -> Vec<GroupChange> {
    let mut changes = Vec::new();
    let mut group = group.clone();
    if let Some(back_off) = next_back_off(&group, members, now) {
        let change = GroupChange::BackOff(back_off);
        group.note(&change);
        changes.push(change);
    }
    changes.extend(members.iter().filter(|member| member.state == MemberState::Dead).map(remove(Why::Dead)));
    let view = View::of(&group, members);
    let created = if group.waits_until(now).is_none() { view.missing() } else { 0 };
    changes.extend(view.surplus(created));
    let first = group.next_serial(members);
    changes.extend((first..).take(created).map(|serial| GroupChange::Create {
        name: format!("{}-{serial}", group.name),
        serial,
        generation: group.generation,
    }));
    changes
}

/// One wave of deaths is one failure: only a machine that was made after the last failure tells anything new.
fn next_back_off(group: &Group, members: &[Member], now: OffsetDateTime) -> Option<BackOff> {
    let last = group.back_off.as_ref().filter(|last| last.generation == group.generation);
    let young = members.iter().filter(|member| {
        member.state == MemberState::Dead
            && member.generation == group.generation
            && member.since - member.created < YOUNG
            && last.is_none_or(|last| member.created > last.since)
    });
    young.max_by_key(|member| member.since)?;
    let in_a_row = last.filter(|last| now - last.since < last.delay() + YOUNG).map_or(0, |last| last.failures);
    Some(BackOff { failures: in_a_row.saturating_add(1), since: now, generation: group.generation })
}

fn remove(why: Why) -> impl Fn(&Member) -> GroupChange {
    move |member| GroupChange::Remove { name: member.name.clone(), why }
}

/// The members that are not dead, by what matters for a decision.
struct View<'a> {
    group: &'a Group,
    /// Starting or healthy, in the order in which they would be given up.
    live: Vec<&'a Member>,
    removing: usize,
}

impl<'a> View<'a> {
    fn of(group: &'a Group, members: &'a [Member]) -> Self {
        let is_live = |member: &&Member| matches!(member.state, MemberState::Starting | MemberState::Healthy);
        let mut live: Vec<&Member> = members.iter().filter(is_live).collect();
        live.sort_by_key(|member| {
            let is_current = member.generation == group.generation;
            let is_healthy = member.state == MemberState::Healthy;
            (is_current, is_healthy, Reverse(group.serial_of(&member.name)))
        });
        let removing = members.iter().filter(|member| member.state == MemberState::Removing).count();
        Self { group, live, removing }
    }

    fn desired(&self) -> usize {
        self.group.desired as usize
    }

    fn is_current(&self, member: &Member) -> bool {
        member.generation == self.group.generation
    }

    fn current(&self) -> usize {
        self.live.iter().filter(|member| self.is_current(member)).count()
    }

    /// How many to create: the lacking ones, and while rolling as many more as fit.
    fn missing(&self) -> usize {
        let most = self.desired() + self.group.surge() as usize;
        let room = most.saturating_sub(self.live.len() + self.removing);
        self.desired().saturating_sub(self.current()).min(room)
    }

    /// Whom to remove of the living. A healthy one with an old template goes only when enough healthy ones remain; if
    /// that leaves more than may run, because the group was scaled down in the middle of a roll, the unhealthy go too.
    fn surplus(&self, created: usize) -> Vec<GroupChange> {
        let mut tally = Tally {
            desired: self.desired(),
            live: self.live.len() + created,
            healthy: self.live.iter().filter(|member| member.state == MemberState::Healthy).count(),
            current: self.current() + created,
        };
        let most = self.desired() + self.group.surge() as usize;
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        for member in &self.live {
            match tally.live > self.desired() && tally.spares(self.kind(member)) {
                true => gone.push(tally.without(member, self.kind(member))),
                false => kept.push(member),
            }
        }
        for member in kept.into_iter().filter(|member| member.state == MemberState::Starting) {
            if tally.live > most {
                gone.push(tally.without(member, self.kind(member)));
            }
        }
        gone
    }

    fn kind(&self, member: &Member) -> Kind {
        Kind { is_current: self.is_current(member), is_healthy: member.state == MemberState::Healthy }
    }
}

#[derive(Clone, Copy)]
struct Kind {
    is_current: bool,
    is_healthy: bool,
}

/// The counts while members are being given up one by one.
struct Tally {
    desired: usize,
    live: usize,
    healthy: usize,
    current: usize,
}

impl Tally {
    fn spares(&self, kind: Kind) -> bool {
        match kind.is_current {
            true => self.current > self.desired,
            false => !kind.is_healthy || self.healthy > self.desired,
        }
    }

    fn without(&mut self, member: &Member, kind: Kind) -> GroupChange {
        self.live -= 1;
        self.healthy -= usize::from(kind.is_healthy);
        self.current -= usize::from(kind.is_current);
        remove(if kind.is_current { Why::TooMany } else { Why::OldTemplate })(member)
    }
}

#[cfg(test)]
mod tests;
