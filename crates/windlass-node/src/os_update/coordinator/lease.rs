//! Who coordinates, if there are several: whoever holds the Lease. Others judge by their own clocks whether it is still
//! renewed, so that no two clocks need to agree.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{info, warn};
use windlass_cluster::failure::ApiFailure;
use windlass_steps::clock::{Clock, SystemClock};

use crate::follow::ask;

/// The Lease's name.
pub(super) const NAME: &str = "reboot-coordinator";
/// A Lease that was not renewed for this long is free.
const LAST: Duration = Duration::from_secs(15);
/// Its holder stops believing in it sooner than others do.
const BELIEF: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(3);

/// The Lease as one of its candidates sees it.
pub(super) struct Lease {
    api: Api<Object>,
    identity: String,
    /// Which form of another's Lease was seen, and since when.
    seen: Option<(String, Instant)>,
    /// When it was last taken or renewed.
    renewed: Option<Instant>,
    trouble: String,
}

impl Lease {
    pub(super) fn new(client: Client, namespace: &str, identity: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        Lease { api, identity: identity.to_owned(), seen: None, renewed: None, trouble: String::new() }
    }

    /// Whether we are the one.
    pub(super) fn is_held(&self) -> bool {
        self.renewed.is_some_and(|at| at.elapsed() < BELIEF)
    }

    /// How long until it wants to be looked at again.
    pub(super) fn due(&self) -> Duration {
        self.renewed.map_or(RENEW, |at| RENEW.saturating_sub(at.elapsed()))
    }

    /// Takes or renews it if it is time, and says whether it was held all along.
    pub(super) async fn keep(&mut self) -> bool {
        if self.is_held() && !self.due().is_zero() {
            return true;
        }
        let was_held = self.is_held();
        // The time counts from before the question: the answer may be late.
        let asked = Instant::now();
        match self.take().await {
            Ok(true) => {
                if !was_held {
                    info!(identity = self.identity, "lease taken");
                }
                self.renewed = Some(asked);
                self.trouble.clear();
            }
            Ok(false) => self.renewed = None,
            Err(failure) if failure.to_string() == self.trouble => {}
            Err(failure) => {
                warn!(reason = %failure, "lease not renewed");
                self.trouble = failure.to_string();
            }
        }
        was_held
    }

    /// Whether it is ours now.
    async fn take(&mut self) -> Result<bool, ApiFailure> {
        let mut lease = match ask(self.api.get(NAME)).await {
            Ok(lease) => lease,
            Err(failure) if failure.is_absent() => {
                let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
                let lease = Object { metadata, spec: Some(self.spec(None)) };
                return won(ask(self.api.create(&PostParams::default(), &lease)).await);
            }
            Err(failure) => return Err(failure),
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && !self.has_run_out(&lease) {
            return Ok(false);
        }
        lease.spec = Some(self.spec(Some(spec)));
        won(ask(self.api.replace(NAME, &PostParams::default(), &lease)).await)
    }

    /// Whether nobody has renewed it for long enough.
    fn has_run_out(&mut self, lease: &Object) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if *seen == version => since.elapsed() >= LAST,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }

    fn spec(&self, before: Option<LeaseSpec>) -> LeaseSpec {
        let before = before.unwrap_or_default();
        let is_ours = before.holder_identity.as_deref() == Some(&self.identity);
        LeaseSpec {
            acquire_time: if is_ours { before.acquire_time } else { now() },
            renew_time: now(),
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LAST.as_secs()).ok(),
            lease_transitions: Some(before.lease_transitions.unwrap_or(0) + i32::from(!is_ours)),
            ..before
        }
    }

    /// Lets another one take it at once.
    pub(super) async fn release(&mut self) -> Result<(), ApiFailure> {
        if self.renewed.take().is_none() {
            return Ok(());
        }
        let mut lease = ask(self.api.get(NAME)).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        spec.holder_identity = None;
        won(ask(self.api.replace(NAME, &PostParams::default(), &lease)).await).map(drop)
    }
}

/// Whether nobody else was faster.
fn won(answer: Result<Object, ApiFailure>) -> Result<bool, ApiFailure> {
    match answer {
        Ok(_) => Ok(true),
        Err(failure) if failure.code == Some(409) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// For people; nobody decides by it.
fn now() -> Option<MicroTime> {
    let now = SystemClock::new().now();
    let micros = i64::try_from(now.unix_timestamp_nanos() / 1000).ok()?;
    Timestamp::from_microsecond(micros).ok().map(MicroTime)
}
