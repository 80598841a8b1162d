//! From rows to templates: the table's rules, resolved against a complete spec and, for what
//! machines are given, against a machine's identity.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use windlass_spec::MachineName;
use windlass_spec::complete::{CompleteSpec, Machine, machines};
use windlass_spec::file::{Role, Topology};

use super::{AuthorityRow, LeafRow, MachineCommonName, MachineLeaf, MachineSanRule, SanRule};
use crate::error::PkiError;
use crate::template::{San, Subject, Template};

const AUTHORITY_DAYS: Days = Days { most: 3650, spread: 365 };
const LEAF_DAYS: Days = Days { most: 365, spread: 90 };

struct Days {
    most: u64,
    spread: u64,
}

impl Days {
    /// A number of days that follows from a name. The prefix is chosen so that no two rows of the
    /// table share a day (there is a test); another one would do as well.
    fn of(&self, name: &str) -> u64 {
        let digest = Sha256::new().chain_update("expiry 15 ").chain_update(name).finalize();
        let number = digest[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.most - number % self.spread
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How many days a leaf of this name is valid: at most a year, and not the same as its neighbours.
///
/// A leaf of a machine goes by `<name>/<common name>`.
pub fn lifetime_days(name: &str) -> u64 {
    LEAF_DAYS.of(name)
}

/// A machine as the rules see it, once something has proven who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Its name.
    pub name: MachineName,
    /// Its address.
    pub address: Ipv4Addr,
    /// The etcd member that it carries now, if any.
    pub etcd_index: Option<u32>,
}

impl From<&Machine> for MachineIdentity {
    fn from(machine: &Machine) -> Self {
        MachineIdentity { name: machine.name.clone(), address: machine.address, etcd_index: machine.etcd_index }
    }
}

impl AuthorityRow {
    /// Whom the authority's certificate names.
    pub fn subject(&self, spec: &CompleteSpec) -> Subject {
        Subject { common_name: self.common_name.to_owned(), organization: Some(spec.metadata.name.as_str().to_owned()) }
    }

    /// How many days it is valid.
    pub fn lifetime_days(&self) -> u64 {
        AUTHORITY_DAYS.of(self.name)
    }

    /// How long it is valid.
    pub fn lifetime(&self) -> Duration {
        days(self.lifetime_days())
    }
}

impl LeafRow {
    /// What the leaf of a cluster says.
    pub fn template(&self, spec: &CompleteSpec) -> Template {
        let subject =
            Subject { common_name: self.common_name.to_owned(), organization: self.organization.map(str::to_owned) };
        let sans = unique(self.sans.iter().flat_map(|rule| rule.resolve(spec)));
        Template { subject, sans, usages: self.usages, lifetime: days(self.lifetime_days()) }
    }

    /// How many days it is valid.
    pub fn lifetime_days(&self) -> u64 {
        lifetime_days(self.name)
    }
}

impl SanRule {
    fn resolve(self, spec: &CompleteSpec) -> Vec<San> {
        let network = &spec.spec.network;
        match self {
            SanRule::KubernetesService => vec![
                dns("kubernetes"),
                dns("kubernetes.default"),
                dns("kubernetes.default.svc"),
                dns(format!("kubernetes.default.svc.{}", network.cluster_domain)),
                ip(network.api_service_ip),
            ],
            SanRule::ApiName => vec![dns(spec.api_name())],
            SanRule::ApiInternalName => vec![dns(spec.api_internal_name())],
            SanRule::Localhost => localhost(),
            SanRule::Balancer => vec![ip(network.balancer)],
            SanRule::Bootstrap => match spec.spec.topology {
                Topology::SelfHosted => vec![ip(network.bootstrap)],
                Topology::Volumes => Vec::new(),
            },
            SanRule::Masters => masters(spec),
        }
    }
}

impl MachineLeaf {
    /// What a machine's leaf says; a machine without an etcd member has no etcd leaf.
    pub fn template(self, spec: &CompleteSpec, machine: &MachineIdentity) -> Result<Template, PkiError> {
        let row = self.row();
        let etcd_index = || {
            let refuse = || PkiError::NameMember { machine: machine.name.clone(), name: row.name };
            machine.etcd_index.ok_or_else(refuse)
        };
        let common_name = match row.common_name {
            MachineCommonName::EtcdMember => format!("etcd-{}", etcd_index()?),
            MachineCommonName::Node => format!("system:node:{}", machine.name),
        };
        let mut sans = Vec::new();
        for rule in row.sans {
            match rule {
                MachineSanRule::EtcdName => sans.push(dns(spec.etcd_name(etcd_index()?))),
                MachineSanRule::MachineName => sans.push(dns(machine.name.as_str())),
                MachineSanRule::MachineAddress => sans.push(ip(machine.address)),
                MachineSanRule::Localhost => sans.extend(localhost()),
            }
        }
        // By member for etcd, because a quorum must not expire at once whatever its machines are called.
        let lifetime = days(lifetime_days(&format!("{}/{common_name}", row.name)));
        let subject = Subject { common_name, organization: row.organization.map(str::to_owned) };
        Ok(Template { subject, sans: unique(sans), usages: row.usages, lifetime })
    }
}

fn masters(spec: &CompleteSpec) -> Vec<San> {
    let masters = machines(spec).into_iter().filter(|machine| machine.role == Role::Master);
    masters.flat_map(|machine| [dns(machine.name.as_str()), ip(machine.address)]).collect()
}

fn localhost() -> Vec<San> {
    vec![dns("localhost"), ip(Ipv4Addr::LOCALHOST)]
}

fn dns(name: impl Into<String>) -> San {
    San::Dns(name.into())
}

fn ip(address: Ipv4Addr) -> San {
    San::Ip(IpAddr::V4(address))
}

fn days(days: u64) -> Duration {
    Duration::from_secs(days * DAY.as_secs())
}

/// The names without repetition, each where it came first.
fn unique(sans: impl IntoIterator<Item = San>) -> Vec<San> {
    let mut seen = std::collections::HashSet::new();
    sans.into_iter().filter(|san| seen.insert(san.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::{AUTHORITIES, Authority, LEAVES, Leaf, MACHINE_LEAVES, PAIRS};
    use super::*;
    use crate::template::Usages;
    use crate::testing::{spec, spec_with};

    fn shown(sans: &[San]) -> Vec<String> {
        sans.iter().map(San::to_string).collect()
    }

    fn identity(etcd_index: Option<u32>) -> MachineIdentity {
        let name = MachineName::parse("master-1").unwrap();
        MachineIdentity { name, address: Ipv4Addr::new(10, 0, 0, 11), etcd_index }
    }

    #[test]
    fn rows_stand_in_the_order_of_their_enums() {
        assert!(AUTHORITIES.iter().enumerate().all(|(n, row)| row.authority as usize == n));
        assert!(PAIRS.iter().enumerate().all(|(n, row)| row.pair as usize == n));
        assert!(LEAVES.iter().enumerate().all(|(n, row)| row.leaf as usize == n));
        assert!(MACHINE_LEAVES.iter().enumerate().all(|(n, row)| row.leaf as usize == n));
    }

    #[test]
    fn names_are_unique_and_are_file_names() {
        let names = AUTHORITIES.iter().map(|row| row.name).chain(PAIRS.iter().map(|row| row.name));
        let names = names.chain(LEAVES.iter().map(|row| row.name)).chain(MACHINE_LEAVES.iter().map(|row| row.name));
        let mut seen = HashSet::new();
        for name in names {
            assert!(seen.insert(name), "{name} is there twice");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
        }
    }

    #[test]
    fn no_two_rows_expire_on_the_same_day() {
        let mut days: Vec<u64> = AUTHORITIES.iter().map(AuthorityRow::lifetime_days).collect();
        days.extend(LEAVES.iter().map(LeafRow::lifetime_days));
        for (leaf, index) in
            [MachineLeaf::EtcdServer, MachineLeaf::EtcdPeer].into_iter().flat_map(|l| (0..7).map(move |n| (l, n)))
        {
            let lifetime = leaf.template(&spec(), &identity(Some(index))).unwrap().lifetime;
            days.push(lifetime.as_secs() / DAY.as_secs());
        }
        let distinct: HashSet<_> = days.iter().collect();
        assert_eq!(distinct.len(), days.len(), "choose another prefix in Days::of: {days:?}");
    }

    #[test]
    fn lifetimes_stay_below_their_bases() {
        assert!(AUTHORITIES.iter().all(|row| (3286..=3650).contains(&row.lifetime_days())));
        assert!(
            (0..500).all(|n| (276..=365).contains(&lifetime_days(&format!("kubelet-client/system:node:worker-{n}"))))
        );
    }

    #[test]
    fn servers_have_names_and_clients_have_none() {
        for row in &LEAVES {
            let sans = row.template(&spec()).sans;
            match row.usages {
                Usages::Server | Usages::Both => assert!(!sans.is_empty(), "{}", row.name),
                Usages::Client => assert!(sans.is_empty(), "{}", row.name),
            }
        }
    }

    #[test]
    fn the_api_server_answers_to_every_name_it_is_called_by() {
        let spec = spec_with("  masters: 3\n");
        let network = &spec.spec.network;
        let mut want: Vec<String> = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            &network.api_service_ip.to_string(),
            "api.demo.test",
            "api.internal.demo.test",
            "localhost",
            "127.0.0.1",
            &network.balancer.to_string(),
            &network.bootstrap.to_string(),
        ]
        .map(str::to_owned)
        .to_vec();
        for master in machines(&spec).iter().filter(|machine| machine.role == Role::Master) {
            want.extend([master.name.to_string(), master.address.to_string()]);
        }
        assert_eq!(shown(&Leaf::ApiServer.row().template(&spec).sans), want);
        assert_eq!(want.len(), 11 + 6);
    }

    #[test]
    fn without_a_bootstrap_machine_no_certificate_has_its_address() {
        let spec = spec_with("  topology: volumes\n");
        let bootstrap = spec.spec.network.bootstrap.to_string();
        assert!(LEAVES.iter().all(|row| !shown(&row.template(&spec).sans).contains(&bootstrap)));
    }

    #[test]
    fn repeated_names_are_kept_once_where_they_came_first() {
        let mut spec = spec();
        spec.spec.network.balancer = spec.spec.network.api_service_ip;
        let sans = Leaf::ApiServer.row().template(&spec).sans;
        assert_eq!(sans.iter().collect::<HashSet<_>>().len(), sans.len());
        assert_eq!(sans[4], ip(spec.spec.network.api_service_ip));
    }

    #[test]
    fn a_machines_leaves_follow_from_its_identity() {
        let cases = [
            (
                MachineLeaf::EtcdServer,
                "CN=etcd-2",
                "etcd-2.internal.demo.test master-1 10.0.0.11 localhost 127.0.0.1",
                Usages::Both,
            ),
            (MachineLeaf::EtcdPeer, "CN=etcd-2", "etcd-2.internal.demo.test master-1 10.0.0.11", Usages::Both),
            (MachineLeaf::KubeletClient, "O=system:nodes, CN=system:node:master-1", "", Usages::Client),
            (
                MachineLeaf::KubeletServing,
                "O=system:nodes, CN=system:node:master-1",
                "master-1 10.0.0.11",
                Usages::Server,
            ),
        ];
        for (leaf, subject, sans, usages) in cases {
            let template = leaf.template(&spec(), &identity(Some(2))).unwrap();
            assert_eq!(template.subject.to_string(), subject);
            assert_eq!(shown(&template.sans).join(" "), sans);
            assert_eq!(template.usages, usages);
        }
    }

    #[test]
    fn a_machine_without_a_member_gets_no_etcd_leaf() {
        for leaf in [MachineLeaf::EtcdServer, MachineLeaf::EtcdPeer] {
            let error = leaf.template(&spec(), &identity(None)).unwrap_err();
            assert!(matches!(error, PkiError::NameMember { .. }), "{error}");
        }
        assert!(MachineLeaf::KubeletClient.template(&spec(), &identity(None)).is_ok());
    }

    #[test]
    fn only_the_administrator_is_in_a_group_that_may_do_everything() {
        for row in &LEAVES {
            assert_eq!(row.organization == Some("system:masters"), row.leaf == Leaf::Admin, "{}", row.name);
        }
        assert_eq!(Leaf::MachineConfigServer.row().signer, Authority::MachineConfig);
    }
}
