//! The end of the temporary control plane: its leases are given back for it, and its API server goes once the
//! `kubernetes` service can do without it.

use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};
use serde::{Deserialize, Serialize};
use windlass_cluster::failure::ApiFailure;
use windlass_cluster::ready::one;
use windlass_steps::criterion::{Criterion, LookError, Observation};
use windlass_steps::reason;
use windlass_steps::step::{Attempt as _, Step, StepError, StepName};

use super::control_plane::SelfHosted;
use super::reach;
use super::site::{Master, Site};
use super::static_pods::{API, HandedOver, TemporaryApi};

const LEASES: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];
const NAMESPACE: &str = "kube-system";

/// Deletes the leases that the ended programs of this machine still hold: nobody else may lead before they are over.
pub(super) struct ReleaseLeases<'a> {
    pub site: &'a Site,
    pub _handed_over: HandedOver,
}

/// The programs of the masters may lead.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Released(());

impl Step for ReleaseLeases<'_> {
    const NAME: StepName = StepName::new("release-leases");
    const SUMMARY: &'static str = "give back the leases of the temporary controller manager and scheduler";
    const DEADLINE: Duration = Duration::from_secs(60);
    type Done = Released;

    async fn run(&self) -> Result<Released, StepError> {
        for name in LEASES {
            release(&self.leases(), name, &self.site.name).await.attempt(format_args!("give back the lease {name}"))?;
        }
        Ok(Released(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a Released) -> Vec<Criterion<'a>> {
        let of_lease = |name: &'static str| {
            Criterion::new(format!("this machine does not hold the lease {name}"), move || async move {
                Ok(is_released(one(self.leases().get_opt(name).await)?.as_ref(), &self.site.name))
            })
        };
        LEASES.map(of_lease).into()
    }
}

impl ReleaseLeases<'_> {
    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.site.api.clone(), NAMESPACE)
    }
}

/// Deletes a lease if it is this machine's, and only as it was seen: a master may take it at any moment.
async fn release(leases: &Api<Lease>, name: &str, machine: &str) -> Result<(), ApiFailure> {
    let Some(lease) = leases.get_opt(name).await?.filter(|lease| is_held_by(lease, machine)) else { return Ok(()) };
    let as_seen = Preconditions { resource_version: lease.metadata.resource_version, uid: lease.metadata.uid };
    match leases.delete(name, &DeleteParams::default().preconditions(as_seen)).await.map_err(ApiFailure::from) {
        Err(failure) if !matches!(failure.code, Some(404 | 409)) => Err(failure),
        _ => Ok(()),
    }
}

fn is_released(lease: Option<&Lease>, machine: &str) -> Observation {
    match lease {
        Some(lease) if is_held_by(lease, machine) => Observation::NotYet(reason!("it holds it")),
        // Without one, whoever asks first leads.
        Some(_) | None => Observation::Holds,
    }
}

/// A holder is a host's name, `_`, and a number that nobody else has. No host's name has a `_`.
fn is_held_by(lease: &Lease, machine: &str) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    holder.and_then(|holder| holder.split_once('_')).is_some_and(|(host, _)| host == machine)
}

/// Stops the temporary API server, gently: it says that it goes before it does.
pub(super) struct StopApi<'a> {
    pub site: &'a Site,
    pub _api: TemporaryApi,
    pub _self_hosted: SelfHosted,
    pub _released: Released,
}

/// Nothing of the cluster needs this machine any more.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Retired(());

impl Step for StopApi<'_> {
    const NAME: StepName = StepName::new("stop-api-server");
    const SUMMARY: &'static str = "stop the temporary API server";
    const DEADLINE: Duration = Duration::from_secs(180);
    type Done = Retired;

    async fn run(&self) -> Result<Retired, StepError> {
        API.stop(&self.site.places).map(|()| Retired(()))
    }

    fn exit_criteria<'a>(&'a self, _: &'a Retired) -> Vec<Criterion<'a>> {
        vec![
            Criterion::new("the temporary API has ended", || reach::refuses(self.site.ports.api)),
            Criterion::new("the kubernetes service does not name this machine", || {
                is_forgotten(&self.site.masters, self.site.address)
            }),
        ]
    }
}

/// Asks the masters in turn: one of them may be a straggler.
async fn is_forgotten(masters: &[Master], address: Ipv4Addr) -> Result<Observation, LookError> {
    let mut trouble = LookError::from("no master is expected");
    for master in masters {
        match service(&master.api).await {
            Ok(slices) => return Ok(names_others_alone(&slices, address)),
            Err(failure) => trouble = format!("{}: {failure}", master.name).into(),
        }
    }
    Err(trouble)
}

async fn service(api: &Client) -> Result<Vec<EndpointSlice>, ApiFailure> {
    let slices = Api::<EndpointSlice>::namespaced(api.clone(), "default");
    let of_service = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    Ok(slices.list(&of_service).await?.items)
}

fn names_others_alone(slices: &[EndpointSlice], address: Ipv4Addr) -> Observation {
    let named: Vec<&String> =
        slices.iter().flat_map(|s| s.endpoints.iter().flatten()).flat_map(|e| &e.addresses).collect();
    let address = address.to_string();
    match named.iter().any(|named| **named == address) {
        true => Observation::NotYet(reason!("it names {address}")),
        false if named.is_empty() => Observation::NotYet(reason!("it names nobody")),
        false => Observation::Holds,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_lease_is_this_machines_only_by_its_whole_name() {
        let cases = [
            (json!("bootstrap_6f1c"), true),
            (json!("bootstrap_6f1c_x"), true),
            (json!("bootstrap-0_6f1c"), false),
            (json!("masters-0_6f1c"), false),
            (json!("bootstrap"), false),
            (json!(""), false),
            (Value::Null, false),
        ];
        for (holder, held) in cases {
            let lease: Lease =
                serde_json::from_value(json!({"metadata": {}, "spec": {"holderIdentity": holder}})).unwrap();
            assert_eq!(is_held_by(&lease, "bootstrap"), held, "{holder}");
            assert_eq!(is_released(Some(&lease), "bootstrap") == Observation::Holds, !held, "{holder}");
        }
        assert_eq!(is_released(None, "bootstrap"), Observation::Holds);
    }

    #[test]
    fn the_service_names_masters_alone() {
        let slices = |addresses: &[&str]| -> Vec<EndpointSlice> {
            let endpoints: Vec<_> = addresses.iter().map(|a| json!({"addresses": [a]})).collect();
            vec![
                serde_json::from_value(json!({"metadata": {}, "addressType": "IPv4", "endpoints": endpoints})).unwrap(),
            ]
        };
        let cases: [(&[&str], bool); 3] =
            [(&["10.0.0.3", "10.0.0.4"], true), (&["10.0.0.2", "10.0.0.3"], false), (&[], false)];
        for (addresses, holds) in cases {
            let seen = names_others_alone(&slices(addresses), Ipv4Addr::new(10, 0, 0, 2));
            assert_eq!(seen == Observation::Holds, holds, "{addresses:?}");
        }
        assert_ne!(names_others_alone(&[], Ipv4Addr::LOCALHOST), Observation::Holds);
    }
}
