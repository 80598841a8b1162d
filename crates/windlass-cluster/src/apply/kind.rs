//! Which kinds there are: their plurals, whether they lie in namespaces, and when their turn is. The kinds that windlass
//! applies are in a table, so that applying needs no discovery; the others are asked for, or known from a definition
//! that is applied with them.

use kube::api::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// Objects of one wave are applied together, and the waves one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wave {
    Namespaces,
    Definitions,
    Settings,
    Services,
    Workloads,
    /// Custom resources, and whatever makes the API ask a workload.
    Rest,
}

/// Whether objects of a kind lie in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespace,
}

/// What it takes to name an object's place in the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub resource: ApiResource,
    pub scope: Scope,
}

use Scope::{Cluster, Namespace};
use Wave::{Definitions, Namespaces, Rest, Services, Settings, Workloads};

type Row = (&'static str, &'static str, &'static str, Scope, Wave);

const EXTENSIONS: &str = "apiextensions.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

#[rustfmt::skip] // A row a line: this is the table.
const TABLE: [Row; 34] = [
    ("v1", "Namespace", "namespaces", Cluster, Namespaces),
    (EXTENSIONS, "CustomResourceDefinition", "customresourcedefinitions", Cluster, Definitions),
    ("v1", "ServiceAccount", "serviceaccounts", Namespace, Settings),
    ("v1", "ConfigMap", "configmaps", Namespace, Settings),
    ("v1", "Secret", "secrets", Namespace, Settings),
    ("v1", "LimitRange", "limitranges", Namespace, Settings),
    ("v1", "ResourceQuota", "resourcequotas", Namespace, Settings),
    ("v1", "PersistentVolume", "persistentvolumes", Cluster, Settings),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", Namespace, Settings),
    (RBAC, "ClusterRole", "clusterroles", Cluster, Settings),
    (RBAC, "ClusterRoleBinding", "clusterrolebindings", Cluster, Settings),
    (RBAC, "Role", "roles", Namespace, Settings),
    (RBAC, "RoleBinding", "rolebindings", Namespace, Settings),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", Cluster, Settings),
    ("storage.k8s.io/v1", "StorageClass", "storageclasses", Cluster, Settings),
    ("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", Cluster, Settings),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Namespace, Settings),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", Namespace, Settings),
    ("coordination.k8s.io/v1", "Lease", "leases", Namespace, Settings),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", Cluster, Settings),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", Cluster, Settings),
    ("v1", "Service", "services", Namespace, Services),
    ("v1", "Endpoints", "endpoints", Namespace, Services),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", Namespace, Services),
    ("v1", "Pod", "pods", Namespace, Workloads),
    ("v1", "ReplicationController", "replicationcontrollers", Namespace, Workloads),
    ("apps/v1", "DaemonSet", "daemonsets", Namespace, Workloads),
    ("apps/v1", "Deployment", "deployments", Namespace, Workloads),
    ("apps/v1", "ReplicaSet", "replicasets", Namespace, Workloads),
    ("apps/v1", "StatefulSet", "statefulsets", Namespace, Workloads),
    ("batch/v1", "Job", "jobs", Namespace, Workloads),
    ("batch/v1", "CronJob", "cronjobs", Namespace, Workloads),
    ("apiregistration.k8s.io/v1", "APIService", "apiservices", Cluster, Rest),
    ("windlass.dev/v1alpha1", "Addon", "addons", Cluster, Rest),
];

fn row(api_version: &str, kind: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.0 == api_version && row.1 == kind)
}

/// When the turn of a kind is.
pub(super) fn wave(api_version: &str, kind: &str) -> Wave {
    row(api_version, kind).map_or(Rest, |row| row.4)
}

/// A kind that needs no asking: from the table, or from a definition among these objects.
pub(super) fn known(api_version: &str, kind: &str, objects: &[Value]) -> Option<Kind> {
    let (plural, scope) = match row(api_version, kind) {
        Some(row) => (row.2.to_owned(), row.3),
        None => objects.iter().find_map(|object| defined(object, api_version, kind))?,
    };
    Some(Kind { resource: ApiResource::from_gvk_with_plural(&group_version_kind(api_version, kind), &plural), scope })
}

/// The parts of `apps/v1` and a kind; the core group has no name.
pub(super) fn group_version_kind(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

/// Whether this object is the definition of a kind, and what it says.
fn defined(object: &Value, api_version: &str, kind: &str) -> Option<(String, Scope)> {
    if object["kind"] != "CustomResourceDefinition" || object["spec"]["names"]["kind"] != kind {
        return None;
    }
    let (group, version) = api_version.split_once('/')?;
    let mut versions = object["spec"]["versions"].as_array().into_iter().flatten();
    if object["spec"]["group"] != group || !versions.any(|v| v["name"] == version) {
        return None;
    }
    let scope = if object["spec"]["scope"] == "Namespaced" { Namespace } else { Cluster };
    Some((object["spec"]["names"]["plural"].as_str()?.to_owned(), scope))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_table_agrees_with_itself() {
        for (n, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..n].iter().all(|other| (other.0, other.1) != (row.0, row.1)), "{} is there twice", row.1);
            let singular = row.1.to_lowercase();
            assert!(row.2.starts_with(&singular[..singular.len() - 1]), "{}", row.2);
        }
        assert!(TABLE.is_sorted_by_key(|row| row.4), "waves stand in order");
    }

    /// A workload that may do more than it should is bounded before it runs.
    #[test]
    fn policies_are_there_before_those_whom_they_bound() {
        for kind in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"] {
            assert!(wave("admissionregistration.k8s.io/v1", kind) < wave("apps/v1", "DaemonSet"), "{kind}");
        }
    }

    #[test]
    fn a_definition_that_is_applied_too_makes_its_kind_known() {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "x.test", "scope": "Namespaced", "versions": [{"name": "v1"}],
                     "names": {"kind": "Fish", "plural": "fish"}},
        });
        let found = known("x.test/v1", "Fish", std::slice::from_ref(&definition)).unwrap();
        assert_eq!((found.resource.plural.as_str(), found.scope), ("fish", Namespace));
        assert_eq!(found.resource.api_version, "x.test/v1");
        for (api_version, kind) in [("x.test/v2", "Fish"), ("y.test/v1", "Fish"), ("x.test/v1", "Fowl"), ("v1", "Fish")]
        {
            assert_eq!(known(api_version, kind, std::slice::from_ref(&definition)), None, "{api_version} {kind}");
        }
        assert_eq!(wave("x.test/v1", "Fish"), Rest);
        assert_eq!(known("apps/v1", "Deployment", &[]).unwrap().resource.group, "apps");
        assert_eq!(known("v1", "Node", &[]), None);
    }
}
