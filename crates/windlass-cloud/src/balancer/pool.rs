//! The targets of one balancer and what is known of each: who gets the next connection, who drains, who is waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use time::OffsetDateTime;
use tokio::sync::{Notify, watch};
use tracing::info;
use windlass_steps::clock::Clock;

use super::{Health, Outcome, Target, TargetState, TargetStatus, Transition};

/// All targets, those that drain included.
pub(super) struct Pool {
    slots: Mutex<Vec<Arc<Slot>>>,
    choice: watch::Sender<Choice>,
    changes: watch::Sender<()>,
    turn: AtomicUsize,
    clock: Arc<dyn Clock>,
}

/// Who may have the next connection; the doubted ones only if there is no other.
#[derive(Default)]
pub(super) struct Choice {
    up: Vec<Arc<Slot>>,
    doubted: Vec<Arc<Slot>>,
}

impl Choice {
    pub(super) fn is_empty(&self) -> bool {
        self.up.is_empty() && self.doubted.is_empty()
    }
}

/// One target with its connections.
pub(super) struct Slot {
    pub(super) target: Target,
    seen: Mutex<Seen>,
    open: AtomicUsize,
    idle: Notify,
    suspected: Notify,
    life: watch::Sender<Stage>,
}

struct Seen {
    health: Health,
    since: OffsetDateTime,
    last_error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    Draining,
    Ended,
}

/// Watches what becomes of a target.
pub(super) struct Life(watch::Receiver<Stage>);

impl Life {
    pub(super) async fn until_draining(&mut self) {
        self.until(Stage::Draining).await;
    }

    pub(super) async fn until_ended(&mut self) {
        self.until(Stage::Ended).await;
    }

    async fn until(&mut self, stage: Stage) {
        // The sender lives in the slot, which whoever waits holds too; were it gone, the target would be as well.
        let _reached = self.0.wait_for(|now| *now >= stage).await;
    }
}

/// A connection's share in its target: counted as long as this lives.
pub(super) struct Open(Arc<Slot>);

impl Open {
    pub(super) fn slot(&self) -> &Arc<Slot> {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Pool {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            slots: Mutex::default(),
            choice: watch::Sender::default(),
            changes: watch::Sender::default(),
            turn: AtomicUsize::new(0),
            clock,
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn choice(&self) -> watch::Receiver<Choice> {
        self.choice.subscribe()
    }

    pub(super) fn statuses(&self) -> Vec<TargetStatus> {
        lock(&self.slots).iter().map(|slot| slot.status()).collect()
    }

    /// Makes these the targets. The answer is those that are new.
    pub(super) fn replace(&self, targets: &[Target]) -> Vec<Arc<Slot>> {
        let mut slots = lock(&self.slots);
        let serving = |slot: &Arc<Slot>| *slot.life.borrow() == Stage::Serving;
        let leaves = |slot: &&Arc<Slot>| serving(slot) && !targets.contains(&slot.target);
        let leaving: Vec<_> = slots.iter().filter(leaves).cloned().collect();
        // First nobody can pick it, then it drains: else a connection picked in between would find it ended.
        self.publish(slots.iter().filter(|slot| !leaves(slot)));
        for slot in leaving {
            lock(&slot.seen).since = self.clock.now();
            slot.life.send_replace(Stage::Draining);
        }
        let mut new: Vec<Arc<Slot>> = Vec::new();
        for target in targets {
            let is_there = |slot: &Arc<Slot>| slot.target == *target && serving(slot);
            if !slots.iter().chain(&new).any(is_there) {
                new.push(Arc::new(Slot::new(target.clone(), self.clock.now())));
            }
        }
        slots.extend(new.iter().cloned());
        self.publish(slots.iter());
        new
    }

    /// Takes the outcome of a check into account.
    pub(super) fn observe(&self, slot: &Arc<Slot>, outcome: Outcome, error: Option<String>) {
        let transition = {
            let mut seen = lock(&slot.seen);
            let transition = seen.health.observe(outcome);
            if transition != Transition::Same {
                seen.since = self.clock.now();
            }
            // What failed before says more than that there is no answer yet.
            if outcome != Outcome::Overdue || seen.last_error.is_none() {
                seen.last_error = error;
            }
            transition
        };
        match transition {
            Transition::Same => return,
            Transition::CameUp => info!(target = %slot.target, "target is up"),
            Transition::BecameDoubted => info!(target = %slot.target, reason = slot.reason(), "target is doubted"),
            Transition::WentDown => info!(target = %slot.target, reason = slot.reason(), "target is down"),
        }
        self.publish(lock(&self.slots).iter());
    }

    /// Drops a target that has drained.
    pub(super) fn forget(&self, slot: &Arc<Slot>) {
        let mut slots = lock(&self.slots);
        slots.retain(|one| !Arc::ptr_eq(one, slot));
        self.publish(slots.iter());
    }

    /// The healthy target with the fewest connections, except those that were tried; of equals each has its turn.
    pub(super) fn pick(&self, tried: &[Arc<Slot>]) -> Option<Open> {
        let choice = self.choice.borrow();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let slot = least(&choice.up, tried, turn).or_else(|| least(&choice.doubted, tried, turn))?;
        slot.open.fetch_add(1, Ordering::AcqRel);
        Some(Open(Arc::clone(slot)))
    }

    fn publish<'a>(&self, slots: impl Iterator<Item = &'a Arc<Slot>>) {
        let mut choice = Choice::default();
        for slot in slots {
            match slot.state() {
                TargetState::Up => choice.up.push(Arc::clone(slot)),
                TargetState::Doubted => choice.doubted.push(Arc::clone(slot)),
                TargetState::Down | TargetState::Draining => {}
            }
        }
        self.choice.send_replace(choice);
        self.changes.send_replace(());
    }
}

fn least<'a>(slots: &'a [Arc<Slot>], tried: &[Arc<Slot>], turn: usize) -> Option<&'a Arc<Slot>> {
    let (behind, ahead) = slots.split_at(turn.checked_rem(slots.len())?);
    let free = |slot: &&Arc<Slot>| !tried.iter().any(|one| Arc::ptr_eq(one, slot));
    ahead.iter().chain(behind).filter(free).min_by_key(|slot| slot.open())
}

impl Slot {
    fn new(target: Target, now: OffsetDateTime) -> Self {
        let seen = Seen { health: Health::Unchecked, since: now, last_error: Some("not checked yet".into()) };
        Self {
            target,
            seen: Mutex::new(seen),
            open: AtomicUsize::new(0),
            idle: Notify::new(),
            suspected: Notify::new(),
            life: watch::Sender::new(Stage::Serving),
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn life(&self) -> Life {
        Life(self.life.subscribe())
    }

    /// Ends the connections that are left.
    pub(super) fn end(&self) {
        self.life.send_replace(Stage::Ended);
    }

    /// Asks for a check at once.
    pub(super) fn suspect(&self) {
        self.suspected.notify_one();
    }

    pub(super) async fn until_suspected(&self) {
        self.suspected.notified().await;
    }

    pub(super) async fn until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            // Listening before looking, so that an end between the two is not missed.
            idle.as_mut().enable();
            if self.open() == 0 {
                return;
            }
            idle.await;
        }
    }

    fn reason(&self) -> String {
        lock(&self.seen).last_error.clone().unwrap_or_default()
    }

    fn state(&self) -> TargetState {
        if *self.life.borrow() != Stage::Serving {
            return TargetState::Draining;
        }
        match lock(&self.seen).health {
            Health::Up => TargetState::Up,
            Health::Doubted { .. } => TargetState::Doubted,
            Health::Unchecked | Health::Down => TargetState::Down,
        }
    }

    fn status(&self) -> TargetStatus {
        let state = self.state();
        let seen = lock(&self.seen);
        let (since, last_error) = (seen.since, seen.last_error.clone());
        TargetStatus { target: self.target.clone(), state, since, last_error, open: self.open() }
    }
}

// Nothing panics while it holds one of these locks; should it, the numbers are still numbers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use windlass_steps::clock::SystemClock;

    use super::*;

    fn target(name: &str) -> Target {
        Target { name: name.into(), address: "127.0.0.1:1".parse().unwrap() }
    }

    fn pool(up: &[&str]) -> (Pool, Vec<Arc<Slot>>) {
        let pool = Pool::new(Arc::new(SystemClock::new()));
        let targets: Vec<_> = up.iter().map(|name| target(name)).collect();
        let slots = pool.replace(&targets);
        slots.iter().for_each(|slot| pool.observe(slot, Outcome::Passed, None));
        (pool, slots)
    }

    #[test]
    fn the_target_with_the_fewest_connections_is_next_and_equals_take_turns() {
        let (pool, slots) = pool(&["a", "b", "c"]);
        let all: Vec<Open> = (0..9).map(|_| pool.pick(&[]).unwrap()).collect();
        assert!(slots.iter().all(|slot| slot.open() == 3));
        let (of_b, rest): (Vec<Open>, Vec<Open>) = all.into_iter().partition(|open| open.0.target.name == "b");
        drop(of_b);
        let more: Vec<Open> = (0..3).map(|_| pool.pick(&[]).unwrap()).collect();
        assert!(more.iter().all(|open| open.0.target.name == "b"));
        assert_eq!(rest.len(), 6);
        let firsts: std::collections::BTreeSet<String> =
            (0..3).map(|_| pool.pick(&[]).unwrap().0.target.name.clone()).collect();
        assert_eq!(firsts.len(), 3);
    }

    #[test]
    fn a_doubted_target_is_only_the_last_resort_and_a_tried_one_is_none() {
        let (pool, slots) = pool(&["a", "b"]);
        pool.observe(&slots[0], Outcome::Failed, Some("no".into()));
        for _ in 0..4 {
            assert!(Arc::ptr_eq(pool.pick(&[]).unwrap().slot(), &slots[1]));
        }
        assert!(Arc::ptr_eq(pool.pick(&slots[1..]).unwrap().slot(), &slots[0]));
        assert!(pool.pick(&slots).is_none());
        pool.observe(&slots[0], Outcome::Failed, Some("no".into()));
        assert!(pool.pick(&slots[1..]).is_none());
    }

    #[test]
    fn a_target_that_is_taken_away_and_brought_back_is_a_new_one() {
        let (pool, slots) = pool(&["a", "b"]);
        let kept = pool.pick(&slots[1..]).unwrap();
        assert!(pool.replace(&[target("b")]).is_empty());
        let states = |pool: &Pool| -> Vec<_> {
            pool.statuses().into_iter().map(|one| (one.target.name, one.state, one.open)).collect()
        };
        let draining = ("a".to_owned(), TargetState::Draining, 1);
        assert_eq!(states(&pool), [draining.clone(), ("b".to_owned(), TargetState::Up, 0)]);
        assert_eq!(pool.replace(&[target("b"), target("a"), target("a")]).len(), 1);
        let want = [draining, ("b".to_owned(), TargetState::Up, 0), ("a".to_owned(), TargetState::Down, 0)];
        assert_eq!(states(&pool), want);
        drop(kept);
        pool.forget(&slots[0]);
        assert_eq!(states(&pool), want[1..]);
    }
}
