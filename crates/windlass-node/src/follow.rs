//! Following objects of the API: all of them first, then each that changes, and all of them again after any failure. A
//! watch is kept short and its silence is bounded, because a connection to a machine that lost its power never ends by
//! itself.

use std::convert::Infallible;
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{debug, warn};
use windlass_cluster::failure::{ApiFailure, within};

/// All is looked at again no sooner than this after the last time.
const PACE: Duration = Duration::from_millis(500);
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const WATCH_SECONDS: u32 = 15;
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 3);

/// What was seen of the followed objects.
pub(crate) enum Seen<K> {
    /// These are there, and no other.
    All(Vec<K>),
    /// This one is new or has changed.
    One(K),
    /// This one is gone.
    Gone,
}

/// Why what was seen so far is not enough.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Api(#[from] ApiFailure),
    #[error("the API fell silent")]
    Silence,
}

/// Asks the API something that it answers soon or not at all.
pub(crate) async fn ask<T>(asking: impl Future<Output = kube::Result<T>>) -> Result<T, ApiFailure> {
    within(ANSWER_LIMIT, asking).await
}

/// The objects of this name, of which there is one or none.
pub(crate) fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

/// Takes what is seen.
pub(crate) trait Reader<K> {
    /// After `Err` all is told again.
    fn read(&self, seen: Seen<K>) -> impl Future<Output = Result<(), ApiFailure>> + Send;
}

/// Follows the chosen objects for ever.
pub(crate) async fn follow<K>(api: &Api<K>, chosen: &ListParams, reader: &impl Reader<K>) -> Infallible
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = K::plural(&());
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        pace.tick().await;
        let Err(lost) = once(api, chosen, reader).await;
        let reason = lost.to_string();
        // A watch that begins anew is no news, nor is the same trouble again.
        if reason == last {
            debug!(%kind, reason, "following again");
        } else {
            warn!(%kind, reason, "following again");
            last = reason;
        }
    }
}

/// Lists and watches until something is lost.
async fn once<K>(api: &Api<K>, chosen: &ListParams, reader: &impl Reader<K>) -> Result<Infallible, Lost>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut watch = WatchParams::default().timeout(WATCH_SECONDS);
    watch.label_selector.clone_from(&chosen.label_selector);
    watch.field_selector.clone_from(&chosen.field_selector);
    let list = ask(api.list(chosen)).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    reader.read(Seen::All(list.items)).await?;
    loop {
        let mut events = pin!(ask(api.watch(&watch, &version)).await?);
        while let Some(event) = timeout(SILENCE, events.next()).await.map_err(|_| Lost::Silence)? {
            if let Some(newer) = tell(event, reader).await? {
                version = newer;
            }
        }
    }
}

/// Tells one event, and which version it was.
async fn tell<K>(event: kube::Result<WatchEvent<K>>, reader: &impl Reader<K>) -> Result<Option<String>, Lost>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match event.map_err(ApiFailure::from)? {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => {
            let version = object.meta().resource_version.clone();
            reader.read(Seen::One(object)).await?;
            Ok(version)
        }
        WatchEvent::Deleted(object) => {
            reader.read(Seen::Gone).await?;
            Ok(object.meta().resource_version.clone())
        }
        WatchEvent::Bookmark(bookmark) => Ok(Some(bookmark.metadata.resource_version)),
        WatchEvent::Error(status) => Err(ApiFailure::from(kube::Error::Api(status)).into()),
    }
}

#[cfg(test)]
pub(crate) mod fake;
