//! Whether what the API shows is ready: pure predicates over objects, each with the reason why not. Absent is not ready,
//! and an empty list satisfies nothing.
//!
//! Reasons name the state and never the time, so that a wait can tell slow from stuck.

mod node;
mod object;
mod pod;
mod workload;
mod workloads;

use windlass_steps::criterion::LookError;

use crate::failure::ApiFailure;

pub use node::{nodes_ready, nodes_registered};
pub use object::{CsrState, addon_done, crd_established, csr_issued, csr_state};
pub use pod::{every_pod_ready, pod_is_ready, pod_trouble, pods_ready};
pub use workload::{Expected, daemon_set_rolled_out, deployment_available, replication_controller_ready};
pub use workloads::{Workloads, every_workload_has_its_pods, workload_troubles};

const MOST_TOLD: usize = 3;

/// The answer to a look for one object, as a criterion wants it.
pub fn one<T>(answer: kube::Result<Option<T>>) -> Result<Option<T>, LookError> {
    answer.map_err(|error| ApiFailure::from(error).into())
}

/// The answer to a look for many objects, as a criterion wants it.
pub fn many<T: Clone>(answer: kube::Result<kube::core::ObjectList<T>>) -> Result<Vec<T>, LookError> {
    answer.map(|list| list.items).map_err(|error| ApiFailure::from(error).into())
}

/// The first few of a list, and how many more there are.
fn told(mut words: Vec<String>) -> String {
    words.sort();
    let more = words.len().saturating_sub(MOST_TOLD);
    words.truncate(MOST_TOLD);
    let shown = words.join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

/// A reason and a message, of which either may be missing.
fn said(reason: Option<&str>, message: Option<&str>) -> Option<String> {
    let present = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    match (present(reason), present(message)) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (reason, message) => reason.or(message),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use windlass_steps::criterion::Observation;

    pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// `holds`, or the reason with a word in front.
    pub(crate) fn shown(observation: &Observation) -> String {
        match observation {
            Observation::Holds => "holds".to_owned(),
            Observation::NotYet(reason) => format!("not yet: {reason}"),
            Observation::Never(reason) => format!("never: {reason}"),
        }
    }
}
