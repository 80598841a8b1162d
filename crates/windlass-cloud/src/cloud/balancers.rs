//! Requests about balancers, doors and faults.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use windlass_cloud_api::{Balancer, BalancerSpec, Check, Fault, Forward, ForwardSpec, Label, Target, TargetState};

use super::{Cloud, known};
use crate::balancer::HttpsCheck;
use crate::model::{BalancerRow, ClusterModel, ClusterRow, Edit, ForwardRow, Row};
use crate::refused::{Class, Refused};

impl Cloud {
    /// Makes a balancer, or changes its targets and its check.
    pub fn put_balancer(&self, cluster: &Label, name: &Label, spec: BalancerSpec) -> Result<Balancer, Refused> {
        check(&spec)?;
        let row = self.edit(|model| {
            let found = known(model, cluster)?;
            let address = balancer_address(found, name, &spec)?;
            let row = BalancerRow { name: name.clone(), cluster: cluster.clone(), spec, address };
            let same = found.balancers.get(name) == Some(&row);
            Ok((if same { Vec::new() } else { vec![Edit::Put(Row::Balancer(row.clone()))] }, row))
        })?;
        Ok(self.balancer_view(&row))
    }

    /// One balancer, with what it thinks of its targets.
    pub fn balancer(&self, cluster: &Label, name: &Label) -> Result<Balancer, Refused> {
        let row = self.read_cluster(cluster, |found| {
            found.balancers.get(name).cloned().ok_or_else(|| Refused::unknown("balancer", name))
        })?;
        Ok(self.balancer_view(&row))
    }

    /// Removes a balancer.
    pub fn delete_balancer(&self, cluster: &Label, name: &Label) -> Result<(), Refused> {
        self.edit(|model| match known(model, cluster)?.balancers.get(name) {
            Some(row) => Ok((vec![Edit::Drop(Row::Balancer(row.clone()))], ())),
            None => Err(Refused::unknown("balancer", name)),
        })
    }

    fn balancer_view(&self, row: &BalancerRow) -> Balancer {
        let network = self.with_both(|_, live, _| live.clusters.get(&row.cluster).and_then(|c| c.network.clone()));
        let seen = network.map(|network| network.targets(&row.name)).unwrap_or_default();
        // What nobody has looked at yet is not up.
        let unseen = |machine: &Label, port: u16| Target {
            machine: machine.clone(),
            port,
            state: TargetState::Down,
            reason: Some("not looked at yet".to_owned()),
            connections: 0,
        };
        let wanted =
            row.spec.targets.iter().flat_map(|machine| row.spec.ports.iter().map(move |port| (machine, *port)));
        let find = |machine: &Label, port| seen.iter().find(|t| t.machine == *machine && t.port == port).cloned();
        let targets = wanted.map(|(machine, port)| find(machine, port).unwrap_or_else(|| unseen(machine, port)));
        Balancer { name: row.name.clone(), spec: row.spec.clone(), address: row.address, targets: targets.collect() }
    }

    /// Opens a door from 127.0.0.1, at the port that was asked for if it is free.
    pub async fn put_forward(&self, cluster: &Label, name: &Label, spec: ForwardSpec) -> Result<Forward, Refused> {
        let network = self.with_both(|_, live, _| live.clusters.get(cluster).and_then(|c| c.network.clone()));
        let old = self.read_cluster(cluster, |found| Ok(found.forwards.get(name).cloned()))?;
        let network =
            network.ok_or_else(|| Refused::new(Class::NotYet, format!("cluster {cluster} has no network yet")))?;
        let port = match old {
            Some(old) if old.spec == spec => old.port,
            _ => network.open_door(name, &spec).await?,
        };
        let row = ForwardRow { name: name.clone(), cluster: cluster.clone(), spec: spec.clone(), port };
        self.edit(|model| {
            known(model, cluster)?;
            Ok((vec![Edit::Put(Row::Forward(row))], ()))
        })?;
        Ok(Forward { name: name.clone(), spec, port })
    }

    /// The doors of a cluster.
    pub fn forwards(&self, cluster: &Label) -> Result<Vec<Forward>, Refused> {
        let view = |row: &ForwardRow| Forward { name: row.name.clone(), spec: row.spec.clone(), port: row.port };
        self.read_cluster(cluster, |found| Ok(found.forwards.values().map(view).collect()))
    }

    /// Closes a door.
    pub fn delete_forward(&self, cluster: &Label, name: &Label) -> Result<(), Refused> {
        self.edit(|model| match known(model, cluster)?.forwards.get(name) {
            Some(row) => Ok((vec![Edit::Drop(Row::Forward(row.clone()))], ())),
            None => Err(Refused::unknown("forward", name)),
        })
    }

    /// Puts these faults, and no others, into effect, and says when they are.
    pub async fn put_faults(&self, cluster: &Label, faults: Vec<Fault>) -> Result<Vec<Fault>, Refused> {
        let network = self.with_both(|_, live, _| live.clusters.get(cluster).and_then(|c| c.network.clone()));
        let network =
            network.ok_or_else(|| Refused::new(Class::NotYet, format!("cluster {cluster} has no network yet")))?;
        let machines = self.read_cluster(cluster, |found| {
            let named = faults.iter().flat_map(concerned);
            match named.into_iter().find(|name| !found.machines.contains_key(*name)) {
                Some(name) => Err(Refused::unknown("machine", name)),
                None => Ok(found.machines.clone()),
            }
        })?;
        network.put_faults(&faults, &machines).await?;
        self.edit(|model| {
            let row = ClusterRow { faults: faults.clone(), ..known(model, cluster)?.row.clone() };
            Ok((vec![Edit::Put(Row::Cluster(row))], ()))
        })?;
        Ok(faults)
    }
}

/// The machines that a fault is about.
fn concerned(fault: &Fault) -> Vec<&Label> {
    match fault {
        Fault::Cut { one, other } | Fault::Lose { one, other, .. } | Fault::Delay { one, other, .. } => {
            vec![one, other]
        }
        Fault::Isolate { machines } => machines.iter().collect(),
    }
}

fn check(spec: &BalancerSpec) -> Result<(), Refused> {
    let impossible = |why: &str| Err(Refused::new(Class::Impossible, why));
    let distinct: BTreeSet<u16> = spec.ports.iter().copied().collect();
    if spec.ports.is_empty() || distinct.len() != spec.ports.len() || distinct.contains(&0) {
        return impossible("a balancer has ports, each once");
    }
    let targets: BTreeSet<&Label> = spec.targets.iter().collect();
    if targets.len() != spec.targets.len() {
        return impossible("a balancer has each target once");
    }
    match &spec.check {
        Check::Tcp => Ok(()),
        Check::Https { path, ca, name } => HttpsCheck::new(path, name, ca).map(drop).map_err(|error| {
            let refused = Refused::new(Class::Impossible, "the balancer's check cannot be made");
            refused.because(error)
        }),
    }
}

fn balancer_address(cluster: &ClusterModel, name: &Label, spec: &BalancerSpec) -> Result<Ipv4Addr, Refused> {
    if let Some(old) = cluster.balancers.get(name) {
        return match spec.address.is_none_or(|address| address == old.address) {
            true => Ok(old.address),
            false => {
                Err(Refused::new(Class::Conflict, format!("balancer {name} is at {} and stays there", old.address)))
            }
        };
    }
    let subnet = cluster.row.spec.subnet;
    match spec.address {
        Some(address) if cluster.taken().contains(&address) => {
            Err(Refused::new(Class::Conflict, format!("{address} is taken")))
        }
        Some(address) if !subnet.hosts().any(|host| host == address) => {
            Err(Refused::new(Class::Impossible, format!("{address} is no host address of {subnet}")))
        }
        Some(address) => Ok(address),
        None => cluster
            .free_address(&BTreeSet::new())
            .ok_or_else(|| Refused::new(Class::Conflict, format!("every address of {subnet} is taken"))),
    }
}
