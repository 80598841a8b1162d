//! The join tokens that are used up: a ConfigMap in the API, which every approver adds to and follows.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tracing::{info, warn};
use windlass_cluster::failure::ApiFailure;
use windlass_spec::MachineName;
use windlass_steps::clock::{Clock, rfc3339_millis};

use super::follow::{Seen, ask, follow};
use crate::machine_token::Purpose;

/// Where burnt tokens are listed.
pub(super) const NAMESPACE: &str = "kube-system";
/// The list's name.
pub(super) const NAME: &str = "windlass-burnt-tokens";

/// The burnt tokens as the API showed them last.
pub(super) struct Burnt {
    api: Api<ConfigMap>,
    clock: Arc<dyn Clock>,
    seen: Mutex<Option<BTreeSet<String>>>,
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
        Burnt { api: Api::namespaced(client, NAMESPACE), clock, seen: Mutex::new(None) }
    }

    /// Whether this machine's join token is burnt.
    pub(super) fn state(&self, machine: &MachineName) -> State {
        match &*self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            None => State::Unknown,
            Some(list) if list.contains(&Purpose::Join.burnt_name(machine)) => State::Burnt,
            Some(_) => State::Good,
        }
    }

    /// Whether the list has been seen.
    pub(super) fn is_seen(&self) -> bool {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Puts this machine's join token on the list. Only this one entry is written, so that approvers do not undo each
    /// other's.
    pub(super) async fn burn(&self, machine: &MachineName) -> Result<(), ApiFailure> {
        let entry = Purpose::Join.burnt_name(machine);
        let data = json!({ "data": { entry.as_str(): rfc3339_millis(self.clock.now()) } });
        ask(self.api.patch(NAME, &PatchParams::default(), &Patch::Merge(&data))).await?;
        if let Some(list) = &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            list.insert(entry);
        }
        info!(%machine, "join token burnt");
        Ok(())
    }

    /// Follows the list, which is made if it is not there: without one nobody can join.
    pub(super) async fn follow(&self) -> Infallible {
        follow(&self.api, Some(NAME), async |seen| match seen {
            Seen::All(lists) => match lists.into_iter().next() {
                Some(list) => Ok(self.see(Some(list))),
                None => self.create().await,
            },
            Seen::One(list) => Ok(self.see(Some(list))),
            Seen::Gone => {
                warn!("list of burnt tokens deleted");
                self.see(None);
                self.create().await
            }
        })
        .await
    }

    fn see(&self, list: Option<ConfigMap>) {
        let names = list.map(|list| list.data.unwrap_or_default().into_keys().collect());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// The watch shows it, whoever made it.
    async fn create(&self) -> Result<(), ApiFailure> {
        let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let list = ConfigMap { metadata, ..ConfigMap::default() };
        match ask(self.api.create(&PostParams::default(), &list)).await {
            Err(failure) if failure.code != Some(409) => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}
