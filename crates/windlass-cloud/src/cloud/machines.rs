//! Requests about machines.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use time::OffsetDateTime;
use windlass_cloud_api::{Console, ExecAnswer, ExecRequest, Label, Machine, MachineSpec, Power};
use windlass_steps::clock::Clock as _;

use super::{Cloud, Live, known};
use crate::model::{ClusterModel, ClusterRow, Edit, Ending, MachineRow, Model, Row};
use crate::plan::{self, MachineFacts, Process};
use crate::refused::{Class, Refused};

const LEAST_MEMORY: u64 = 32 << 20;
const LEAST_CPUS: u32 = 10;
/// How long a request waits for the world before it says that it goes on without it.
const PATIENCE: Duration = Duration::from_secs(120);
const EXEC_LIMIT: u32 = 3600;

impl Cloud {
    /// Makes a machine and switches it on; one that is there has to be the same.
    pub fn put_machine(&self, cluster: &Label, name: &Label, spec: MachineSpec) -> Result<Machine, Refused> {
        let now = self.clock().now();
        let row = self.edit(|model| {
            let found = known(model, cluster)?;
            if let Some(old) = found.machines.get(name) {
                return same(old, &spec).map(|()| (Vec::new(), old.clone()));
            }
            check(model, &spec)?;
            let address = address(found, spec.address)?;
            let row = new_machine(found, name.clone(), spec, address, now, None);
            Ok((vec![Edit::Put(counted(found, 1)), Edit::Put(Row::Machine(row.clone()))], row))
        })?;
        self.log().note(self.clock(), Some(cluster), Some(name.to_string()), "machine wanted".to_owned());
        Ok(self.with_both(|_, live, _| view(&row, live)))
    }

    /// One machine.
    pub fn machine(&self, cluster: &Label, name: &Label) -> Result<Machine, Refused> {
        self.with_both(|model, live, _| Ok(view(machine_row(model, cluster, name)?, live)))
    }

    /// Every machine of a cluster.
    pub fn machines(&self, cluster: &Label) -> Result<Vec<Machine>, Refused> {
        self.with_both(|model, live, _| {
            Ok(known(model, cluster)?.machines.values().map(|row| view(row, live)).collect())
        })
    }

    /// Switches a machine on; one that runs goes on.
    pub async fn start(&self, cluster: &Label, name: &Label) -> Result<Machine, Refused> {
        self.adopted(cluster).await?;
        let running = self.runs(cluster, name);
        self.change(cluster, name, |row| {
            let boot = if running && row.power == Power::On { row.boot } else { row.boot + 1 };
            MachineRow { power: Power::On, boot, ending: Ending::Asked, ..row.clone() }
        })?;
        self.machine(cluster, name)
    }

    /// Asks a machine to power off and waits until it is.
    pub async fn stop(&self, cluster: &Label, name: &Label) -> Result<Machine, Refused> {
        self.change(cluster, name, |row| MachineRow { power: Power::Off, ending: Ending::Asked, ..row.clone() })?;
        self.off(cluster, name).await
    }

    /// Takes a machine's power away and waits until nothing of it runs.
    pub async fn power_cut(&self, cluster: &Label, name: &Label) -> Result<Machine, Refused> {
        self.change(cluster, name, |row| MachineRow { power: Power::Off, ending: Ending::Cut, ..row.clone() })?;
        self.off(cluster, name).await
    }

    /// Asks a machine to power off, and starts it again.
    pub async fn reboot(&self, cluster: &Label, name: &Label) -> Result<Machine, Refused> {
        let wanted = self.change(cluster, name, |row| MachineRow {
            power: Power::On,
            boot: row.boot + 1,
            ending: Ending::Asked,
            ..row.clone()
        })?;
        let booted = |_: &Model, live: &Live| match facts(live, cluster, name).process {
            Process::Running { boot, .. } if boot >= wanted.boot => Some(()),
            _ => None,
        };
        self.until(PATIENCE, booted).await.ok_or_else(|| late(name, "start again"))?;
        self.machine(cluster, name)
    }

    /// Switches a machine off and removes it with its disk; volumes stay.
    pub async fn delete_machine(&self, cluster: &Label, name: &Label) -> Result<(), Refused> {
        self.change(cluster, name, |row| MachineRow { leaving: true, ..row.clone() })?;
        let gone = |model: &Model, _: &Live| machine_row(model, cluster, name).is_err().then_some(());
        self.until(PATIENCE, gone).await.ok_or_else(|| late(name, "go away"))
    }

    /// Runs a command in a machine that runs; it reads these bytes.
    pub async fn exec(
        &self,
        cluster: &Label,
        name: &Label,
        request: &ExecRequest,
        stdin: Vec<u8>,
    ) -> Result<ExecAnswer, Refused> {
        if request.command.is_empty() {
            return Err(Refused::new(Class::Malformed, "there is no command to run"));
        }
        let row = self.read(|model| machine_row(model, cluster, name).cloned())?;
        self.adopted(cluster).await?;
        if !self.runs(cluster, name) {
            let state = self.machine(cluster, name)?.state;
            let refused = Refused::new(Class::Conflict, format!("machine {name} does not run"));
            return Err(refused.because(format!("it is {state:?}")));
        }
        let limit = Duration::from_secs(request.timeout.unwrap_or(60).min(EXEC_LIMIT).into());
        self.world().exec(self.places(), &row, request, stdin, limit).await
    }

    /// The end of what a machine printed.
    pub fn console(&self, cluster: &Label, name: &Label) -> Result<Console, Refused> {
        let row = self.read(|model| machine_row(model, cluster, name).cloned())?;
        Ok(Console { text: self.world().console(self.places(), &row)? })
    }

    fn change(
        &self,
        cluster: &Label,
        name: &Label,
        change: impl FnOnce(&MachineRow) -> MachineRow,
    ) -> Result<MachineRow, Refused> {
        self.edit(|model| {
            let old = machine_row(model, cluster, name)?;
            if old.leaving {
                return Err(Refused::new(Class::Conflict, format!("machine {name} is being removed")));
            }
            let new = change(old);
            let edits = if new == *old { Vec::new() } else { vec![Edit::Put(Row::Machine(new.clone()))] };
            Ok((edits, new))
        })
    }

    fn runs(&self, cluster: &Label, name: &Label) -> bool {
        self.with_both(|_, live, _| matches!(facts(live, cluster, name).process, Process::Running { .. }))
    }

    /// Waits until this daemon has seen what runs of a cluster: before that, a machine that runs looks like one that does
    /// not. A cluster that is not known is nothing to wait for.
    pub(super) async fn adopted(&self, cluster: &Label) -> Result<(), Refused> {
        let seen = |model: &Model, live: &Live| {
            let waits = model.clusters.contains_key(cluster) && !live.clusters.get(cluster).is_some_and(|c| c.adopted);
            (!waits).then_some(())
        };
        let late = || Refused::new(Class::NotYet, format!("cluster {cluster} was not looked at yet")).next("ask again");
        self.until(PATIENCE, seen).await.ok_or_else(late)
    }

    async fn off(&self, cluster: &Label, name: &Label) -> Result<Machine, Refused> {
        self.adopted(cluster).await?;
        let off = |_: &Model, live: &Live| {
            (!matches!(facts(live, cluster, name).process, Process::Running { .. })).then_some(())
        };
        self.until(PATIENCE, off).await.ok_or_else(|| late(name, "stop"))?;
        self.machine(cluster, name)
    }
}

/// The machine, if its cluster knows it.
pub(crate) fn machine_row<'a>(model: &'a Model, cluster: &Label, name: &Label) -> Result<&'a MachineRow, Refused> {
    known(model, cluster)?.machines.get(name).ok_or_else(|| Refused::unknown("machine", name))
}

/// What is known to be there of a machine.
pub(crate) fn facts(live: &Live, cluster: &Label, name: &Label) -> MachineFacts {
    let machine = live.clusters.get(cluster).and_then(|cluster| cluster.machines.get(name));
    machine.map_or(MachineFacts::NOTHING, |machine| machine.facts.clone())
}

/// A machine as it is told to people.
pub(crate) fn view(row: &MachineRow, live: &Live) -> Machine {
    let machine = live.clusters.get(&row.cluster).and_then(|cluster| cluster.machines.get(&row.name));
    let setback = machine.and_then(|m| m.setback.as_ref()).map(|setback| setback.reason.clone());
    let reason = setback.or_else(|| machine.and_then(|m| m.said.clone()));
    let facts = machine.map_or(MachineFacts::NOTHING, |m| m.facts.clone());
    Machine {
        name: row.name.clone(),
        cluster: row.cluster.clone(),
        group: row.group.clone(),
        spec: row.spec.clone(),
        index: row.index,
        address: row.address,
        power: row.power,
        state: plan::state(row, &facts, reason),
        image: machine.and_then(|m| m.image.clone()).unwrap_or_else(|| row.spec.image.clone()),
        staged: machine.and_then(|m| m.staged.clone()),
    }
}

/// A new machine of a cluster, to be written together with [`counted`].
pub(crate) fn new_machine(
    cluster: &ClusterModel,
    name: Label,
    spec: MachineSpec,
    address: Ipv4Addr,
    created: OffsetDateTime,
    group: Option<(Label, u64)>,
) -> MachineRow {
    let (group, generation) = group.map_or((None, 0), |(name, generation)| (Some(name), generation));
    MachineRow {
        name,
        cluster: cluster.row.name.clone(),
        group,
        generation,
        spec,
        index: cluster.row.next_index,
        address,
        created,
        power: Power::On,
        boot: 1,
        ending: Ending::Asked,
        leaving: false,
    }
}

/// The cluster with so many more machines counted.
pub(crate) fn counted(cluster: &ClusterModel, more: u32) -> Row {
    Row::Cluster(ClusterRow { next_index: cluster.row.next_index + more, ..cluster.row.clone() })
}

fn same(old: &MachineRow, spec: &MachineSpec) -> Result<(), Refused> {
    match old.spec == *spec && !old.leaving {
        true => Ok(()),
        false => {
            let refused = Refused::new(Class::Conflict, format!("machine {} is there and is another one", old.name));
            Err(refused.next("remove it first, or choose another name"))
        }
    }
}

/// What a machine of this sort would lack.
pub(crate) fn check(model: &Model, spec: &MachineSpec) -> Result<(), Refused> {
    let impossible = |why: String| Err(Refused::new(Class::Impossible, why));
    if !model.images.contains_key(&spec.image) {
        return Err(Refused::unknown("image", &spec.image).next("name it with PUT /v1/images/NAME"));
    }
    if let Some(memory) = spec.memory.filter(|memory| *memory < LEAST_MEMORY) {
        return impossible(format!("{memory} bytes are too little for a machine; it needs {LEAST_MEMORY} at least"));
    }
    if let Some(cpus) = spec.cpus.filter(|cpus| *cpus < LEAST_CPUS) {
        return impossible(format!("{cpus} thousandths of a processor are too little for a machine"));
    }
    match spec.user_data.as_ref().is_some_and(|data| data.len() > 1 << 20) {
        true => impossible("user-data has more than 1 MiB".to_owned()),
        false => Ok(()),
    }
}

fn address(cluster: &ClusterModel, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr, Refused> {
    let subnet = cluster.row.spec.subnet;
    match wanted {
        None => cluster.free_address(&BTreeSet::new()).ok_or_else(|| {
            Refused::new(Class::Conflict, format!("every address of {subnet} is taken")).next("use a larger subnet")
        }),
        Some(address) if !subnet.contains(&address) || [subnet.network(), subnet.broadcast()].contains(&address) => {
            Err(Refused::new(Class::Impossible, format!("{address} is no host address of {subnet}")))
        }
        Some(address) if cluster.taken().contains(&address) => {
            Err(Refused::new(Class::Conflict, format!("{address} is taken")))
        }
        Some(address) => Ok(address),
    }
}

fn late(name: &Label, what: &str) -> Refused {
    let refused = Refused::new(Class::NotYet, format!("machine {name} did not {what} within {} s", PATIENCE.as_secs()));
    refused.next("the cloud goes on trying; ask again")
}
