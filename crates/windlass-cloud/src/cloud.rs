//! The cloud: what is wanted behind one lock, what is there behind another, and the requests that change the former.
//! Nobody waits for the world while holding either. [`reconcile`](crate::reconcile) makes the world follow.

mod balancers;
mod clusters;
mod destroy;
mod groups;
mod live;
mod log;
mod machines;
mod objects;
mod records;
mod volumes;

pub use live::{Busy, ClusterLive, Live, MachineLive, Setback, VolumeLive};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use windlass_cloud_api::{Label, Status};
use windlass_steps::clock::SystemClock;

use crate::model::{ClusterModel, Edit, Model};
use crate::places::Places;
use crate::refused::{Class, Refused};
use crate::store::{Opened, Store, StoreError};
use crate::world::World;
use log::Log;

/// The cloud; clones are the same one.
#[derive(Clone)]
pub struct Cloud {
    shared: Arc<Shared>,
}

struct Shared {
    places: Places,
    world: World,
    clock: SystemClock,
    core: Mutex<Core>,
    live: Mutex<Live>,
    /// Someone changed what is wanted or saw something new.
    wake: Notify,
    /// Counts what was seen, for those who wait for something to come true.
    seen: watch::Sender<u64>,
    /// Set when the daemon is to leave.
    leave: watch::Sender<bool>,
    log: Log,
}

struct Core {
    model: Model,
    store: Store,
    /// Counts the edits.
    revision: u64,
}

impl Cloud {
    /// Opens the state file and takes up what is wanted; the world is looked at by the first reconciliation.
    pub fn open(places: Places, world: World) -> Result<Cloud, StoreError> {
        let opened = Store::open(&places.store())?;
        Ok(Cloud::take_up(places, world, opened))
    }

    /// The same with a state file that is open.
    pub fn take_up(places: Places, world: World, (store, opened): (Store, Opened)) -> Cloud {
        let log = Log::default();
        let model = match opened {
            Opened::Whole(rows) => Model::of(rows),
            Opened::Damaged { aside, reason } => {
                tracing::error!(file = %aside.display(), reason, "state file damaged, starting with nothing");
                log.trouble(format!("the state file was damaged ({reason}); it is kept as {}", aside.display()));
                Model::default()
            }
        };
        let shared = Shared {
            places,
            world,
            clock: SystemClock::new(),
            core: Mutex::new(Core { model, store, revision: 1 }),
            live: Mutex::default(),
            wake: Notify::new(),
            seen: watch::Sender::new(0),
            leave: watch::Sender::new(false),
            log,
        };
        Cloud { shared: Arc::new(shared) }
    }

    /// The daemon's directories.
    pub fn places(&self) -> &Places {
        &self.shared.places
    }

    /// What carries changes out.
    pub fn world(&self) -> &World {
        &self.shared.world
    }

    /// The time.
    pub fn clock(&self) -> &SystemClock {
        &self.shared.clock
    }

    /// What happened, for people.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Decides on edits with the model before it, writes them, and makes them the model. Nothing is acknowledged that
    /// is not on the disk, and nothing is carried out that is not acknowledged.
    pub fn edit<T>(&self, decide: impl FnOnce(&Model) -> Result<(Vec<Edit>, T), Refused>) -> Result<T, Refused> {
        let mut core = locked(&self.shared.core);
        let (edits, answer) = decide(&core.model)?;
        if !edits.is_empty() {
            core.store.commit(&edits).map_err(|error| store_refusal(&error))?;
            edits.iter().for_each(|edit| core.model.apply(edit));
            core.revision += 1;
            drop(core);
            self.woken();
        }
        Ok(answer)
    }

    /// An edit that also looks at what is there, at the same moment.
    pub(crate) fn edit_seeing<T>(
        &self,
        decide: impl FnOnce(&Model, &Live) -> Result<(Vec<Edit>, T), Refused>,
    ) -> Result<T, Refused> {
        self.edit(|model| decide(model, &locked(&self.shared.live)))
    }

    /// Looks at what is wanted.
    pub fn read<T>(&self, look: impl FnOnce(&Model) -> T) -> T {
        look(&locked(&self.shared.core).model)
    }

    /// Looks at one cluster.
    pub fn read_cluster<T>(
        &self,
        cluster: &Label,
        look: impl FnOnce(&ClusterModel) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        self.read(|model| look(known(model, cluster)?))
    }

    /// Looks at what is wanted and what is there, at once; the number counts the edits so far.
    pub(crate) fn with_both<T>(&self, work: impl FnOnce(&Model, &mut Live, u64) -> T) -> T {
        let core = locked(&self.shared.core);
        let mut live = locked(&self.shared.live);
        work(&core.model, &mut live, core.revision)
    }

    /// Changes what is known to be there, and tells those who wait.
    pub(crate) fn learn<T>(&self, change: impl FnOnce(&mut Live) -> T) -> T {
        let answer = change(&mut locked(&self.shared.live));
        self.woken();
        answer
    }

    /// Waits until a look finds what it looks for, or the limit is over.
    pub async fn until<T>(&self, limit: Duration, look: impl Fn(&Model, &Live) -> Option<T>) -> Option<T> {
        let mut seen = self.shared.seen.subscribe();
        let waiting = async {
            loop {
                seen.borrow_and_update();
                if let Some(found) = self.with_both(|model, live, _| look(model, live)) {
                    return Some(found);
                }
                seen.changed().await.ok()?;
            }
        };
        tokio::time::timeout(limit, waiting).await.ok().flatten()
    }

    /// Someone changed something.
    pub(crate) fn woken(&self) {
        self.shared.seen.send_modify(|count| *count += 1);
        self.shared.wake.notify_one();
    }

    /// Waits for that, or for the moment when something is to be tried again.
    pub(crate) async fn next_wake(&self, at: Option<tokio::time::Instant>) {
        let wake = self.shared.wake.notified();
        match at {
            // Being late or early by a wake-up is all the same: the plan is made anew.
            Some(at) => drop(tokio::time::timeout_at(at, wake).await),
            None => wake.await,
        }
    }

    /// Ends the daemon, unless it has a cluster.
    pub fn leave(&self) -> Result<(), Refused> {
        let clusters = self.read(|model| model.clusters.len());
        if clusters > 0 {
            let refused = Refused::new(Class::Conflict, format!("the cloud has {clusters} clusters and stays"));
            return Err(refused.next("destroy them first"));
        }
        self.shared.leave.send_replace(true);
        Ok(())
    }

    /// Waits until the daemon is to leave.
    pub async fn leaving(&self) {
        let mut leave = self.shared.leave.subscribe();
        // The sender lives as long as we do.
        let _ = leave.wait_for(|leave| *leave).await;
    }

    /// The cloud about itself.
    pub fn status(&self) -> Status {
        let (clusters, running) = self.with_both(|model, live, _| {
            let running = live.clusters.values().flat_map(|c| c.machines.values()).filter(|m| m.is_running()).count();
            (model.clusters.keys().cloned().collect::<Vec<_>>(), running)
        });
        let on_host = self.shared.world.clusters_on_host(&self.shared.places);
        let strays = on_host.into_iter().filter(|name| !clusters.contains(name)).collect();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: self.shared.places.state.clone(),
            world: self.shared.world.word().to_owned(),
            clusters,
            strays,
            running,
            troubles: self.shared.log.troubles(),
        }
    }
}

/// The cluster, if it is known and stays.
pub(crate) fn known<'a>(model: &'a Model, cluster: &Label) -> Result<&'a ClusterModel, Refused> {
    let found = model.clusters.get(cluster).ok_or_else(|| Refused::unknown("cluster", cluster))?;
    match found.row.leaving {
        false => Ok(found),
        true => Err(Refused::new(Class::Conflict, format!("cluster {cluster} is being destroyed"))),
    }
}

fn store_refusal(error: &StoreError) -> Refused {
    let refused = Refused::failed("nothing was changed", error);
    match error.is_full() {
        true => Refused { class: Class::Full, ..refused }.next("make room on the disk of the state directory"),
        false => refused,
    }
}

// A panic while a lock is held leaves what it guards as it was after the last whole change: edits are applied after
// they are written, facts are single assignments.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
