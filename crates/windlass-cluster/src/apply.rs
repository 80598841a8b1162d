//! Putting objects into the API by server-side apply. Namespaces and definitions come first, workloads after what they
//! name, custom resources last, when their definitions are served. Applying again changes nothing, so whatever failed
//! may simply be applied again.

mod kind;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::discovery::{Scope as Discovered, pinned_kind};
use kube::{Client, Error};
use serde_json::Value;
use thiserror::Error as ThisError;
use tracing::debug;
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::reason;
use windlass_steps::wait::{Change, Wait, WaitError};

use crate::failure::{ApiFailure, Outlook};
use crate::ready::{crd_established, one};
use kind::{Kind, Scope, Wave};

const AT_ONCE: usize = 16;
const MANAGER: &str = "windlass";
const DEADLINE: Duration = Duration::from_secs(30);

/// Applies objects through one client.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    deadline: Duration,
}

/// What was applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// The objects, in the order in which their turn came.
    pub objects: Vec<ObjectName>,
}

/// Which object: `Deployment kube-system/coredns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// Its group and version, such as `apps/v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Why not everything was applied.
#[derive(Debug, ThisError)]
pub enum ApplyError {
    /// Something among the objects is none; it is counted from 0.
    #[error("object {index} has no {missing}")]
    ReadObject {
        /// Which one.
        index: usize,
        /// What it lacks.
        missing: &'static str,
    },
    /// The API does not take an object.
    #[error("cannot apply {object}")]
    Apply {
        /// Which one.
        object: Box<ObjectName>,
        /// What the API said last.
        source: ApiFailure,
    },
    /// The API gave no answer in time, or never served a definition.
    #[error("cannot apply {object}: {reason}")]
    Await {
        /// Which one.
        object: Box<ObjectName>,
        /// What was missing at the end.
        reason: String,
    },
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

impl ObjectName {
    fn read(index: usize, object: &Value) -> Result<Self, ApplyError> {
        let text = |at: &str, missing| {
            let found = object.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty());
            found.map(str::to_owned).ok_or(ApplyError::ReadObject { index, missing })
        };
        Ok(ObjectName {
            api_version: text("/apiVersion", "apiVersion")?,
            kind: text("/kind", "kind")?,
            namespace: text("/metadata/namespace", "").ok(),
            name: text("/metadata/name", "metadata.name")?,
        })
    }
}

/// Is told which object waits for what, and that it no longer does.
type Tell<'a> = RefCell<&'a mut dyn FnMut(&str, Option<&str>)>;

impl Applier {
    /// Applies through this client; an object that the API does not take for 30 s fails.
    pub fn new(client: Client) -> Self {
        Applier { client, deadline: DEADLINE }
    }

    /// Gives up an object that the API does not take for this long. What will not pass fails at once.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Applies all objects in the order that their kinds need.
    pub async fn apply(&self, objects: &[Value]) -> Result<Applied, ApplyError> {
        self.apply_and_tell(objects, &mut |_, _| {}).await
    }

    /// Does the same and tells which object ("Secret kube-system/etcd-ca is applied") waits for what.
    pub async fn apply_and_tell(
        &self,
        objects: &[Value],
        tell: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Applied, ApplyError> {
        let mut named = Vec::new();
        for (index, object) in objects.iter().enumerate() {
            named.push((ObjectName::read(index, object)?, object));
        }
        let wave_of = |name: &ObjectName| kind::wave(&name.api_version, &name.kind);
        // Stable: within a wave the given order stays.
        named.sort_by_key(|(name, _)| wave_of(name));
        let tell = RefCell::new(tell);
        for wave in named.chunk_by(|(a, _), (b, _)| wave_of(a) == wave_of(b)) {
            let applying = wave.iter().map(|(name, object)| self.settle(name, object, objects, &tell));
            let mut applying = stream::iter(applying).buffered(AT_ONCE);
            while let Some(applied) = applying.next().await {
                applied?;
            }
        }
        Ok(Applied { objects: named.into_iter().map(|(name, _)| name).collect() })
    }

    /// Applies one object, and waits until a definition is served.
    async fn settle(
        &self,
        name: &ObjectName,
        object: &Value,
        all: &[Value],
        tell: &Tell<'_>,
    ) -> Result<(), ApplyError> {
        self.apply_one(name, object, all, tell).await?;
        debug!(object = %name, "applied");
        if kind::wave(&name.api_version, &name.kind) != Wave::Definitions {
            return Ok(());
        }
        let definitions = Api::<CustomResourceDefinition>::all(self.client.clone());
        let definitions = &definitions;
        let established = Criterion::new(format!("{name} is established"), move || async move {
            Ok(crd_established(one(definitions.get_opt(&name.name).await)?.as_ref()))
        });
        self.wait(&established, tell)
            .await
            .map_err(|reason| ApplyError::Await { object: Box::new(name.clone()), reason })
    }

    async fn apply_one(
        &self,
        name: &ObjectName,
        object: &Value,
        all: &[Value],
        tell: &Tell<'_>,
    ) -> Result<(), ApplyError> {
        let last = Cell::new(None);
        let applied = {
            let last = &last;
            Criterion::new(format!("{name} is applied"), move || async move {
                let Err(failure) = self.patch(name, object, all).await.map_err(ApiFailure::from) else {
                    return Ok(Observation::Holds);
                };
                // What is absent is a namespace or a definition that is not served yet.
                let passing = failure.outlook == Outlook::Passing || failure.is_absent();
                // The same mark each time: other words for the same refusal are no progress.
                let reason = reason!("{failure}").at(0);
                last.set(Some(failure));
                Ok(if passing { Observation::NotYet(reason) } else { Observation::Never(reason) })
            })
        };
        self.wait(&applied, tell).await.map_err(|reason| match last.take() {
            Some(source) => ApplyError::Apply { object: Box::new(name.clone()), source },
            None => ApplyError::Await { object: Box::new(name.clone()), reason },
        })
    }

    async fn wait(&self, criterion: &Criterion<'_>, tell: &Tell<'_>) -> Result<(), String> {
        let observe = |change: Change<'_>| -> Result<(), Infallible> {
            (tell.borrow_mut())(change.statement, change.reason);
            Ok(())
        };
        match Wait::stalled_for(self.deadline).until(std::slice::from_ref(criterion), observe).await {
            Ok(()) => Ok(()),
            Err(WaitError::Observe(never)) => match never {},
            Err(WaitError::Unmet(unmet)) => Err(unmet.first().map(|one| one.reason.clone()).unwrap_or_default()),
        }
    }

    async fn patch(&self, name: &ObjectName, object: &Value, all: &[Value]) -> Result<(), Error> {
        let Kind { resource, scope } = self.kind(name, all).await?;
        let client = self.client.clone();
        let api: Api<DynamicObject> = match scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespace => Api::namespaced_with(client, name.namespace.as_deref().unwrap_or("default"), &resource),
        };
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name.name, &params, &Patch::Apply(object)).await.map(drop)
    }

    async fn kind(&self, name: &ObjectName, all: &[Value]) -> Result<Kind, Error> {
        if let Some(kind) = kind::known(&name.api_version, &name.kind, all) {
            return Ok(kind);
        }
        let wanted = kind::group_version_kind(&name.api_version, &name.kind);
        let (resource, capabilities) = pinned_kind(&self.client, &wanted).await?;
        let scope = match capabilities.scope {
            Discovered::Cluster => Scope::Cluster,
            Discovered::Namespaced => Scope::Namespace,
        };
        Ok(Kind { resource, scope })
    }
}

#[cfg(test)]
mod tests;
