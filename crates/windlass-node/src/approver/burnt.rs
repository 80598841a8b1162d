//! The tokens that are used up: a ConfigMap in the API, which every approver adds to and follows.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tracing::{info, warn};
use windlass_cluster::failure::ApiFailure;
use windlass_spec::MachineName;
use windlass_steps::clock::{Clock, rfc3339_millis};

use crate::follow::{Reader, Seen, ask, follow, named};
use crate::machine_token::Purpose;

/// Where burnt tokens are listed.
pub(super) const NAMESPACE: &str = "kube-system";
/// The list's name.
pub(super) const NAME: &str = "windlass-burnt-tokens";

/// The burnt tokens as the API showed them last.
pub(super) struct Burnt {
    api: Api<ConfigMap>,
    clock: Arc<dyn Clock>,
    list: Mutex<List>,
}

/// What is known of the list. Its entries outlive it: whoever deletes the list does not make used tokens good again.
#[derive(Default)]
struct List {
    there: bool,
    entries: BTreeMap<String, String>,
}

/// Whether a token is burnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is still good.
    Good,
    /// It is used up.
    Burnt,
    /// The list has not been seen, so that nobody knows.
    Unknown,
}

impl Burnt {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Burnt { api: Api::namespaced(client, NAMESPACE), clock, list: Mutex::default() }
    }

    /// Whether this machine's token for this purpose is burnt.
    pub(super) fn state(&self, purpose: Purpose, machine: &MachineName) -> State {
        let list = self.list();
        match list.entries.contains_key(&purpose.burnt_name(machine)) {
            true => State::Burnt,
            false if list.there => State::Good,
            false => State::Unknown,
        }
    }

    /// Whether the list has been seen.
    pub(super) fn is_seen(&self) -> bool {
        self.list().there
    }

    /// Puts this machine's token on the list. Only this one entry is written, so that approvers do not undo each
    /// other's.
    pub(super) async fn burn(&self, purpose: Purpose, machine: &MachineName) -> Result<(), ApiFailure> {
        let entry = purpose.burnt_name(machine);
        let time = rfc3339_millis(self.clock.now());
        let data = json!({ "data": { entry.as_str(): time } });
        ask(self.api.patch(NAME, &PatchParams::default(), &Patch::Merge(&data))).await?;
        self.list().entries.insert(entry, time);
        info!(%machine, purpose = purpose.as_str(), "token burnt");
        Ok(())
    }

    /// Follows the list, which is made if it is not there: without one nobody can join.
    pub(super) async fn follow(&self) -> Infallible {
        follow(&self.api, &named(NAME), self).await
    }

    fn see(&self, list: ConfigMap) {
        *self.list() = List { there: true, entries: list.data.unwrap_or_default() };
    }

    /// Makes the list; the watch shows it, whoever was faster.
    async fn create(&self) -> Result<(), ApiFailure> {
        let entries = {
            let mut list = self.list();
            list.there = false;
            list.entries.clone()
        };
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let list = ConfigMap { metadata, data: Some(entries), ..ConfigMap::default() };
        match ask(self.api.create(&PostParams::default(), &list)).await {
            Err(failure) if failure.code != Some(409) => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader<ConfigMap> for Burnt {
    async fn read(&self, seen: Seen<ConfigMap>) -> Result<(), ApiFailure> {
        let list = match seen {
            Seen::All(lists) => lists.into_iter().next(),
            Seen::One(list) => Some(list),
            Seen::Gone => {
                warn!("list of burnt tokens deleted");
                None
            }
        };
        match list {
            Some(list) => {
                self.see(list);
                Ok(())
            }
            None => self.create().await,
        }
    }
}
