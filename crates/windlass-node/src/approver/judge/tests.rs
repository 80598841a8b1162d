use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyUsagePurpose, SanType};
use serde_json::{Value, json};
use time::macros::datetime;
use windlass_pki::{KeySource as _, SeededKeys};
use windlass_spec::file::read_and_complete;

use super::*;

const NOON: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

fn expected() -> Expected {
    let text = "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  domain: demo.test\n";
    Expected::of(read_and_complete(text.as_bytes()).unwrap().1)
}

/// The address of the first master.
fn address() -> std::net::IpAddr {
    expected().machine("master-0").unwrap().address.into()
}

/// A request as the API shows it. Each row of the tables changes one thing.
struct Case {
    signer: &'static str,
    user: &'static str,
    groups: Vec<&'static str>,
    role: Option<&'static str>,
    usages: Vec<&'static str>,
    made: &'static str,
    conditions: Value,
    node: Standing,
    params: CertificateParams,
    bytes: Option<Vec<u8>>,
}

impl Case {
    /// A master that joins.
    fn joining() -> Self {
        Case {
            signer: CLIENT,
            user: "windlass:machine:master-0",
            groups: vec!["system:bootstrappers", "windlass:machines", "system:authenticated"],
            role: Some("master"),
            usages: vec!["digital signature", "client auth"],
            made: "2026-11-16T11:59:58Z",
            conditions: json!([]),
            node: Standing::Absent,
            params: named("system:node:master-0", Some("system:nodes")),
            bytes: None,
        }
    }

    /// A node that renews its client certificate.
    fn renewing() -> Self {
        Case {
            user: "system:node:master-0",
            groups: vec!["system:nodes", "system:authenticated"],
            role: None,
            ..Case::joining()
        }
    }

    /// A node that wants to serve.
    fn serving() -> Self {
        let mut case = Case { signer: SERVING, usages: vec!["digital signature", "server auth"], ..Case::renewing() };
        case.params.subject_alt_names = vec![dns("master-0"), SanType::IpAddress(address())];
        case
    }

    fn with(mut self, change: impl FnOnce(&mut Case)) -> Self {
        change(&mut self);
        self
    }

    fn request(&self) -> CertificateSigningRequest {
        let key = SeededKeys::new("judge").key("kubelet");
        let bytes = self.bytes.clone().unwrap_or_else(|| self.params.serialize_request(&key).unwrap().der().to_vec());
        let extra = self.role.map(|role| json!({ "windlass.dev/role": [role] }));
        let created = (!self.made.is_empty()).then_some(self.made);
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "any", "creationTimestamp": created},
            "spec": {"request": "", "signerName": self.signer, "username": self.user, "groups": self.groups,
                     "extra": extra, "usages": self.usages},
            "status": {"conditions": self.conditions},
        }))
        .unwrap();
        request.spec.request.0 = bytes;
        request
    }

    fn judged(&self) -> String {
        match judge(&self.request(), &expected(), self.node, NOON) {
            Verdict::Approve => "approve".to_owned(),
            Verdict::Ignore => "ignore".to_owned(),
            Verdict::Deny(denial) => windlass_steps::report::chain(&denial).join(": "),
        }
    }
}

fn named(common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, common_name);
    params
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// Looks at a table of cases with the verdict of each.
fn check_all(cases: Vec<(&str, Case, &str)>) {
    for (name, case, want) in cases {
        let judged = case.judged();
        assert!(judged.contains(want), "{name}: {judged}, not {want}");
        assert_eq!(judged == "approve", want == "approve", "{name}");
    }
}

#[test]
fn expected_machines_are_approved() {
    let (join, renew, serve) = (Case::joining, Case::renewing, Case::serving);
    check_all(vec![
        ("a master joins", join(), "approve"),
        ("two hours ago", join().with(|c| c.made = "2026-11-16T10:00:00Z"), "approve"),
        ("by a clock that is ahead", join().with(|c| c.made = "2026-11-16T12:00:30Z"), "approve"),
        ("usages in another order", join().with(|c| c.usages.reverse()), "approve"),
        ("an RSA kubelet's usages", join().with(|c| c.usages.push("key encipherment")), "approve"),
        (
            "a worker joins",
            join().with(|c| {
                (c.user, c.role) = ("windlass:machine:worker-1", Some("worker"));
                c.params = named("system:node:worker-1", Some("system:nodes"));
            }),
            "approve",
        ),
        ("a node renews", renew(), "approve"),
        ("a node that is there renews", renew().with(|c| c.node = Standing::Registered), "approve"),
        ("a node serves", serve(), "approve"),
        ("by its name alone", serve().with(|c| drop(c.params.subject_alt_names.pop())), "approve"),
        ("by its address alone", serve().with(|c| drop(c.params.subject_alt_names.remove(0))), "approve"),
        ("an RSA kubelet serves", serve().with(|c| c.usages.push("key encipherment")), "approve"),
    ]);
}

#[test]
fn what_is_not_ours_or_is_judged_already_is_left_alone() {
    let join = Case::joining;
    let condition = |kind: &str| json!([{"type": kind, "status": "True"}]);
    check_all(vec![
        ("another signer", join().with(|c| c.signer = "kubernetes.io/kube-apiserver-client"), "ignore"),
        ("an etcd signer", join().with(|c| c.signer = "windlass.dev/etcd-peer"), "ignore"),
        ("an unknown signer", join().with(|c| c.signer = "kubernetes.io/kubelet-serving2"), "ignore"),
        ("approved", join().with(|c| c.conditions = condition("Approved")), "ignore"),
        ("denied", join().with(|c| c.conditions = condition("Denied")), "ignore"),
        ("failed", join().with(|c| c.conditions = condition("Failed")), "ignore"),
        (
            "a person asks",
            join().with(|c| (c.user, c.groups, c.role) = ("kubernetes-admin", vec!["system:masters"], None)),
            "ignore",
        ),
        (
            "a pod asks",
            join().with(|c| {
                (c.user, c.groups) = ("system:serviceaccount:default:default", vec!["system:serviceaccounts"]);
                c.role = None;
            }),
            "ignore",
        ),
    ]);
}

#[test]
fn who_asks_for_another_or_at_the_wrong_time_is_denied() {
    let (join, renew, serve) = (Case::joining, Case::renewing, Case::serving);
    let user = "neither a machine that joins nor a node";
    check_all(vec![
        (
            "for another machine",
            join().with(|c| c.params = named("system:node:master-1", Some("system:nodes"))),
            "subject",
        ),
        (
            "a node for another",
            renew().with(|c| c.params = named("system:node:master-1", Some("system:nodes"))),
            "subject",
        ),
        (
            "a node serves as another",
            serve().with(|c| {
                c.params.distinguished_name = named("system:node:worker-0", Some("system:nodes")).distinguished_name
            }),
            "subject",
        ),
        ("nobody expects it", join().with(|c| c.user = "windlass:machine:master-9"), "expected"),
        ("an unexpected node renews", renew().with(|c| c.user = "system:node:old-0"), "expected"),
        ("the bootstrap machine", join().with(|c| c.user = "windlass:machine:bootstrap"), "expected"),
        ("no name", join().with(|c| c.user = "windlass:machine:"), "expected"),
        ("a path for a name", join().with(|c| c.user = "windlass:machine:../master-0"), "expected"),
        ("an upper-case name", join().with(|c| c.user = "windlass:machine:Master-0"), "expected"),
        ("in another role", join().with(|c| c.role = Some("worker")), "another role"),
        ("as the bootstrap machine", join().with(|c| c.role = Some("bootstrap")), user),
        ("in no role", join().with(|c| c.role = None), user),
        ("without the machines' group", join().with(|c| c.groups = vec!["system:bootstrappers"]), user),
        ("without the nodes' group", renew().with(|c| c.groups = vec!["system:authenticated"]), user),
        ("a stranger in the nodes' group", renew().with(|c| c.user = "mallory"), user),
        ("a stranger in the machines' group", join().with(|c| c.user = "mallory"), user),
        ("the group's name for a user", renew().with(|c| c.user = "system:nodes"), user),
        ("a machine that has joined", join().with(|c| c.node = Standing::Registered), "needs no token"),
        (
            "a machine that joins and serves",
            serve().with(|c| {
                let join = Case::joining();
                (c.user, c.groups, c.role) = (join.user, join.groups, join.role);
            }),
            "no serving certificate",
        ),
        ("an old request", join().with(|c| c.made = "2026-11-16T09:59:59Z"), "two hours"),
        ("an old renewal", renew().with(|c| c.made = "2026-11-15T12:00:00Z"), "two hours"),
        ("a request of no age", join().with(|c| c.made = ""), "no known age"),
    ]);
}

#[test]
fn requests_for_more_than_a_kubelet_has_are_denied() {
    let (join, serve) = (Case::joining, Case::serving);
    let subject = |common_name: &'static str, organization: Option<&'static str>| {
        join().with(|c| c.params = named(common_name, organization))
    };
    let sans = |sans: Vec<SanType>| serve().with(|c| c.params.subject_alt_names = sans);
    let more = |change: fn(&mut CertificateParams)| join().with(|c| change(&mut c.params));
    check_all(vec![
        ("the administrators' group", subject("system:node:master-0", Some("system:masters")), "subject"),
        ("no group", subject("system:node:master-0", None), "subject"),
        ("another user", subject("kubernetes-admin", Some("system:nodes")), "subject"),
        ("the bare name", subject("master-0", Some("system:nodes")), "subject"),
        ("the name in capitals", subject("system:node:MASTER-0", Some("system:nodes")), "subject"),
        ("the name and a space", subject("system:node:master-0 ", Some("system:nodes")), "subject"),
        ("the name and a zero byte", subject("system:node:master-0\0", Some("system:nodes")), "subject"),
        ("a unit too", more(|p| p.distinguished_name.push(DnType::OrganizationalUnitName, "x")), "cannot be taken"),
        ("a client with a name", more(|p| p.subject_alt_names = vec![dns("master-0")]), "names are not none"),
        ("an authority", more(|p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)), "more than DNS names"),
        ("a key for signing", more(|p| p.key_usages = vec![KeyUsagePurpose::KeyCertSign]), "more than DNS names"),
        ("no names to serve", sans(vec![]), "names are not"),
        ("another's name", sans(vec![dns("master-1")]), "names are not"),
        ("its name and the API's", sans(vec![dns("master-0"), dns("api.demo.test")]), "names are not"),
        ("localhost", sans(vec![dns("master-0"), dns("localhost")]), "names are not"),
        ("a wildcard", sans(vec![dns("*.demo.test")]), "names are not"),
        ("another's address", sans(vec![SanType::IpAddress([10, 96, 0, 1].into())]), "names are not"),
        ("loopback", sans(vec![SanType::IpAddress([127, 0, 0, 1].into())]), "names are not"),
        ("a mail address", sans(vec![SanType::Rfc822Name("a@b".try_into().unwrap())]), "more than DNS names"),
        ("a URI", sans(vec![dns("master-0"), SanType::URI("spiffe://x".try_into().unwrap())]), "more than DNS names"),
        ("both usages", join().with(|c| c.usages.push("server auth")), "usages"),
        ("a server's usages", join().with(|c| c.usages = vec!["digital signature", "server auth"]), "usages"),
        ("a client's usages", serve().with(|c| c.usages = vec!["digital signature", "client auth"]), "usages"),
        ("the same usage twice", join().with(|c| c.usages = vec!["client auth", "client auth"]), "usages"),
        ("one usage", join().with(|c| c.usages = vec!["client auth"]), "usages"),
        ("no usage", join().with(|c| c.usages = vec![]), "usages"),
        ("any usage", join().with(|c| c.usages = vec!["any", "client auth"]), "usages"),
        ("enciphering alone", join().with(|c| c.usages = vec!["key encipherment", "client auth"]), "usages"),
        ("signing certificates", join().with(|c| c.usages.push("cert sign")), "usages"),
        ("no request", join().with(|c| c.bytes = Some(vec![])), "cannot be taken"),
        ("a huge request", join().with(|c| c.bytes = Some(vec![b'A'; 100_000])), "cannot be taken"),
        ("rubbish", join().with(|c| c.bytes = Some(b"0\x82\xff\xff".to_vec())), "cannot be taken"),
        (
            "a request with a changed byte",
            {
                let mut bytes = join().request().spec.request.0;
                let at = bytes.windows(8).position(|w| w == b"master-0").unwrap() + 7;
                bytes[at] = b'1';
                join().with(|c| c.bytes = Some(bytes))
            },
            "not signed by its own key",
        ),
    ]);
}

#[test]
fn only_a_machine_that_joins_needs_its_node_looked_at() {
    assert_eq!(node_to_look_at(&Case::joining().request()), Some("master-0"));
    assert_eq!(node_to_look_at(&Case::renewing().request()), None);
    assert_eq!(node_to_look_at(&Case::joining().with(|c| c.signer = "windlass.dev/etcd-peer").request()), None);
}
