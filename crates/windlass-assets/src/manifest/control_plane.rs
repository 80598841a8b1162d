//! The control plane in its three forms: static pods of the bootstrap machine, static pods of masters, and pods of
//! the cluster itself. The pods are the same; only what is around them differs.

use minijinja::value::Serde;
use minijinja::{Value, context};
use windlass_spec::CompleteSpec;
use windlass_spec::complete::components::arguments;
use windlass_spec::complete::table::{ALL_CONTROLLERS, LOCAL_ETCD};
use windlass_spec::complete::{Components, Flags, Images};
use windlass_spec::file::{Role, Topology};

use super::probe::{Endpoint, api_server_grace};
use super::template::{render as render_template, yaml};
use super::{Group, ManifestError, mount};

/// A rendered manifest: its group, its name without the ending, and its text.
pub(super) type Rendered = (Group, String, String);

/// A program of the control plane.
struct Program {
    name: &'static str,
    image: fn(&Images) -> &str,
    flags: fn(&Components) -> &Flags,
    copies: Copies,
    /// Where it serves unless `--secure-port` says otherwise.
    port: u16,
    live_path: &'static str,
    ready_path: &'static str,
    /// How many seconds it has to end.
    grace: fn(&Flags) -> u64,
    cpu: &'static str,
    memory: &'static str,
    priority: Priority,
}

/// What the copies of a program do at the same time.
#[derive(PartialEq, Eq)]
enum Copies {
    AllWork,
    OneLeads,
}

/// A class of the system, with the number that the API would fill in and a kubelet alone cannot know.
struct Priority(&'static str, u32);

const NODE_CRITICAL: Priority = Priority("system-node-critical", 2_000_001_000);
const CLUSTER_CRITICAL: Priority = Priority("system-cluster-critical", 2_000_000_000);

static API_SERVER: Program = Program {
    name: "kube-apiserver",
    image: |images| &images.kube_api_server,
    flags: |components| &components.kube_api_server.flags,
    copies: Copies::AllWork,
    port: 6443,
    live_path: "/livez",
    ready_path: "/readyz",
    grace: api_server_grace,
    cpu: "200m",
    memory: "256Mi",
    priority: NODE_CRITICAL,
};
static CONTROLLER_MANAGER: Program = Program {
    name: "kube-controller-manager",
    image: |images| &images.kube_controller_manager,
    flags: |components| &components.kube_controller_manager.flags,
    copies: Copies::OneLeads,
    port: 10257,
    // It has no other health path.
    live_path: "/healthz",
    ready_path: "/healthz",
    grace: |_| 30,
    cpu: "100m",
    memory: "64Mi",
    priority: CLUSTER_CRITICAL,
};
static SCHEDULER: Program = Program {
    name: "kube-scheduler",
    image: |images| &images.kube_scheduler,
    flags: |components| &components.kube_scheduler.flags,
    copies: Copies::OneLeads,
    port: 10259,
    live_path: "/livez",
    ready_path: "/readyz",
    grace: |_| 30,
    cpu: "50m",
    memory: "32Mi",
    priority: CLUSTER_CRITICAL,
};
static PROGRAMS: [&Program; 3] = [&API_SERVER, &CONTROLLER_MANAGER, &SCHEDULER];

/// What the bootstrap machine does for other machines, done by the cluster itself.
const TWINS: [(&str, &str); 2] = [
    ("csr-approver", "control-plane/csr-approver.yaml"),
    ("machine-config-server", "control-plane/machine-config-server.yaml"),
];

/// The most replicas of a program of which one leads: more only wait.
const MOST_REPLICAS: u32 = 3;

/// A lease that is over soon after its holder: the bootstrap machine's programs do not give theirs back, and those
/// of the masters should not wait for it.
const SHORT_LEASE: [(&str, &str); 3] =
    [("leader-elect-lease-duration", "6s"), ("leader-elect-renew-deadline", "4s"), ("leader-elect-retry-period", "1s")];

/// What the temporary controller manager has to do: machines join, and the control plane's pods come to be. It makes an
/// account for each controller, one after the other, before the first one begins, and masters wait for its signature.
const CONTROLLERS: [&str; 8] = [
    "certificatesigningrequest-signing-controller",
    "daemonset-controller",
    "deployment-controller",
    "node-ipam-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
];

/// Renders etcd and the control plane of the spec's topology.
pub(super) fn render(spec: &CompleteSpec) -> Result<Vec<Rendered>, ManifestError> {
    let mut list = vec![(Group::Master, "etcd".to_owned(), etcd(spec)?)];
    match spec.spec.topology {
        Topology::SelfHosted => list.extend(self_hosted(spec)?),
        Topology::Volumes => list.extend(on_volumes(spec)?),
    }
    Ok(list)
}

fn self_hosted(spec: &CompleteSpec) -> Result<Vec<Rendered>, ManifestError> {
    let mut list = Vec::new();
    for program in PROGRAMS {
        let name = format!("bootstrap-{}", program.name);
        let text = static_pod(spec, &name, program, &bootstrap_flags(spec, program))?;
        list.push((Group::Bootstrap, name, text));
        list.push((Group::ControlPlane, program.name.to_owned(), hosted_pods(spec, program)?));
    }
    let image = spec.spec.images.windlass_node.as_str();
    let checkpointer = render_template("control-plane/checkpointer.yaml", context!(image))?;
    list.push((Group::ControlPlane, "checkpointer".to_owned(), checkpointer));
    for (name, template) in TWINS {
        let text = render_template(template, context!(image, api_internal_name => spec.api_internal_name()))?;
        list.push((Group::ControlPlane, name.to_owned(), text));
    }
    list.extend(for_everyone(Group::ControlPlane)?);
    Ok(list)
}

fn on_volumes(spec: &CompleteSpec) -> Result<Vec<Rendered>, ManifestError> {
    let mut list = Vec::new();
    for program in PROGRAMS {
        let text = static_pod(spec, program.name, program, program.flags(spec))?;
        list.push((Group::Master, program.name.to_owned(), text));
    }
    let image = spec.spec.images.windlass_node.as_str();
    let dns_controller = render_template("addons/dns-controller.yaml", context!(image))?;
    list.push((Group::Addons, "dns-controller".to_owned(), dns_controller));
    list.extend(for_everyone(Group::Addons)?);
    Ok(list)
}

/// What every cluster has beside its programs, in the group that is applied first.
fn for_everyone(group: Group) -> Result<Vec<Rendered>, ManifestError> {
    let row = |name: &str, template| Ok((group, name.to_owned(), render_template(template, context!())?));
    [("addon-definition", "addon-definition.yaml"), ("rbac", "rbac.yaml")].map(|(n, t)| row(n, t)).into_iter().collect()
}

fn static_pod(spec: &CompleteSpec, name: &str, program: &Program, flags: &Flags) -> Result<String, ManifestError> {
    let is_published = spec.spec.topology == Topology::Volumes && program.copies == Copies::AllWork;
    let names = is_published.then(|| context!(external => spec.api_name(), internal => spec.api_internal_name()));
    let pod = pod(spec, program, flags)?;
    render_template("static-pod.yaml", context!(name, names, pod))
}

/// The pods of the cluster itself: as many as there are masters, or as a leader needs to be replaced.
fn hosted_pods(spec: &CompleteSpec, program: &Program) -> Result<String, ManifestError> {
    let name = program.name;
    let pod = pod(spec, program, program.flags(spec))?;
    match program.copies {
        Copies::AllWork => render_template("control-plane/daemon-set.yaml", context!(name, pod)),
        Copies::OneLeads => {
            let replicas = spec.count(Role::Master).min(MOST_REPLICAS);
            render_template("control-plane/deployment.yaml", context!(name, replicas, pod))
        }
    }
}

/// The pod itself, as what stands below `spec:`.
fn pod(spec: &CompleteSpec, program: &Program, flags: &Flags) -> Result<Value, ManifestError> {
    let probe = Endpoint::secure(flags, program.port);
    let context = context! {
        program => program.name,
        image => (program.image)(&spec.spec.images),
        arguments => arguments(flags),
        mounts => Serde(mount::named_by(flags, &[])),
        priority_class => program.priority.0,
        priority => program.priority.1,
        grace_seconds => (program.grace)(flags),
        probe_host => probe.host,
        probe_port => probe.port,
        live_path => program.live_path,
        ready_path => program.ready_path,
        cpu => program.cpu,
        memory => program.memory,
    };
    render_template("pod.yaml", context).map(yaml)
}

fn etcd(spec: &CompleteSpec) -> Result<String, ManifestError> {
    let flags = &spec.spec.components.etcd.flags;
    let probe = Endpoint::etcd(flags);
    let context = context! {
        image => spec.spec.images.etcd.as_str(),
        node_image => spec.spec.images.windlass_node.as_str(),
        arguments => arguments(flags),
        // The pre-start agent writes there whatever the flags say.
        mounts => Serde(mount::named_by(flags, &["/etc/kubernetes/pki"])),
        probe_host => probe.as_ref().and_then(|p| p.host.as_deref()),
        probe_port => probe.as_ref().map(|p| p.port),
    };
    render_template("master/etcd.yaml", context)
}

impl Program {
    fn flags<'a>(&self, spec: &'a CompleteSpec) -> &'a Flags {
        (self.flags)(&spec.spec.components)
    }
}

/// The spec's flags, with a short lease for programs that have one, the masters' etcd, because the bootstrap machine has
/// none, and the controllers that masters need to join; unless the spec speaks of it.
fn bootstrap_flags(spec: &CompleteSpec, program: &Program) -> Flags {
    let mut flags = program.flags(spec).clone();
    if program.copies == Copies::OneLeads {
        for (flag, value) in SHORT_LEASE {
            flags.entry(flag.to_owned()).or_insert_with(|| value.into());
        }
    }
    let members = (0..spec.count(Role::Master)).map(|index| format!("https://{}:2379", spec.etcd_name(index)));
    let members: Vec<String> = members.collect();
    for (flag, decided, here) in
        [("etcd-servers", LOCAL_ETCD, members.join(",")), ("controllers", ALL_CONTROLLERS, CONTROLLERS.join(","))]
    {
        if let Some(value) = flags.get_mut(flag).filter(|value| **value == decided) {
            *value = here.into();
        }
    }
    flags
}
