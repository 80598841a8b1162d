//! What carries changes out: the real world, with namespaces, systemd-nspawn and loop devices, or a simulated one, with
//! processes that do nothing, for the scale and the faults that no single box has room for. The cloud above is the same.

mod boot;
mod real;
mod simulated;
mod view;

use std::collections::BTreeMap;
use std::error::Error;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use windlass_cloud_api::{ExecAnswer, ExecRequest, Fault, ForwardSpec, Image, Label, Residue, Target, Thing};

use crate::cloud::Cloud;
use crate::model::{BalancerRow, ClusterModel, ClusterRow, Ending, ForwardRow, MachineRow, RecordRow, VolumeRow};
use crate::places::Places;
use crate::plan::{MachineFacts, VolumeFacts};
use crate::refused::{Class, Refused};
pub(crate) use real::leader_ended;

/// Why a change was not carried out; it is told, and tried again.
pub type Trouble = Box<dyn Error + Send + Sync>;

/// An error with all its causes, in one line.
pub fn words(error: &(dyn Error + Send + Sync)) -> String {
    windlass_steps::report::chain(error).join(": ")
}

/// What carries changes out.
pub enum World {
    /// Machines.
    Real(real::Real),
    /// Processes that do nothing.
    Simulated(simulated::Simulated),
}

/// A cluster's network while the daemon runs: its services, and the way in.
pub enum Network {
    /// Namespaces.
    Real(Box<real::RealNetwork>),
    /// Nothing.
    Simulated,
}

/// What a machine has around it.
#[derive(Clone)]
pub struct Surroundings {
    /// Where it asks for names.
    pub gateway: Ipv4Addr,
    /// Where short names are looked up.
    pub domain: String,
}

/// What was seen of a machine.
pub struct SeenMachine {
    /// What is there.
    pub facts: MachineFacts,
    /// The image that it runs, where that is another than it started with.
    pub image: Option<Label>,
    /// What an update has put ready.
    pub staged: Option<Label>,
    /// Its own first process.
    pub leader: Option<u32>,
    /// What it says about how far it has come.
    pub reason: Option<String>,
}

impl SeenMachine {
    /// Only facts.
    pub fn facts(facts: MachineFacts) -> Self {
        SeenMachine { facts, image: None, staged: None, leader: None, reason: None }
    }
}

/// What a network's services are to be.
pub struct Following {
    /// The cluster.
    pub cluster: ClusterRow,
    /// Names.
    pub records: Vec<RecordRow>,
    /// Balancers.
    pub balancers: BTreeMap<Label, BalancerRow>,
    /// Doors.
    pub forwards: BTreeMap<Label, ForwardRow>,
    /// Where machines are, by name.
    pub machines: BTreeMap<Label, (u32, Ipv4Addr)>,
}

impl Following {
    /// What of a cluster its services follow.
    pub fn of(cluster: &ClusterModel) -> Self {
        let place = |(name, row): (&Label, &MachineRow)| (name.clone(), (row.index, row.address));
        Following {
            cluster: cluster.row.clone(),
            records: cluster.records.values().cloned().collect(),
            balancers: cluster.balancers.clone(),
            forwards: cluster.forwards.clone(),
            machines: cluster.machines.iter().map(place).collect(),
        }
    }
}

impl World {
    /// The real one.
    pub fn real() -> Self {
        World::Real(real::Real::default())
    }

    /// The simulated one.
    pub fn simulated() -> Self {
        World::Simulated(simulated::Simulated::default())
    }

    /// As the status has it.
    pub fn word(&self) -> &'static str {
        match self {
            World::Real(_) => "real",
            World::Simulated(_) => "simulated",
        }
    }

    /// The clusters of which something is on this host.
    pub fn clusters_on_host(&self, places: &Places) -> Vec<Label> {
        let in_dir = |dir: &Path| {
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter_map(|entry| Label::parse(&entry.file_name().to_string_lossy()).ok()).collect::<Vec<_>>()
        };
        let mut found = in_dir(&places.clusters());
        found.extend(in_dir(&places.run.join("clusters")));
        found.sort();
        found.dedup();
        found
    }

    /// Brings a cluster's network up, or takes up the one that is there.
    pub async fn open_network(&self, cloud: &Cloud, row: &ClusterRow) -> Result<Network, Trouble> {
        match self {
            World::Real(real) => real.open_network(cloud, row).await.map(|network| Network::Real(Box::new(network))),
            World::Simulated(_) => Ok(Network::Simulated),
        }
    }

    /// Looks at a machine. What cannot be looked at is not there: the plan will run into the reason.
    pub async fn look(&self, places: &Places, row: &MachineRow) -> SeenMachine {
        match self {
            World::Real(real) => real.look(places, row).await,
            World::Simulated(simulated) => simulated.look(places, row).await,
        }
    }

    /// Gives a machine its link.
    pub async fn plug(&self, places: &Places, network: &Network, row: &MachineRow) -> Result<(), Trouble> {
        match (self, network) {
            (World::Real(real), Network::Real(network)) => real.plug(places, network, row).await,
            (World::Simulated(simulated), _) => simulated.plug(places, row),
            (World::Real(_), Network::Simulated) => Ok(()),
        }
    }

    /// Answers a machine's questions from now on.
    pub async fn serve(&self, cloud: &Cloud, network: &Network, row: &MachineRow) -> Result<(), Trouble> {
        match (self, network) {
            (World::Real(real), Network::Real(network)) => real.serve(cloud, network, row).await,
            _ => Ok(()),
        }
    }

    /// Starts a machine.
    pub async fn boot(
        &self,
        places: &Places,
        row: &MachineRow,
        image: &Image,
        around: &Surroundings,
    ) -> Result<(), Trouble> {
        match self {
            World::Real(real) => real.boot(places, row, image, around).await,
            World::Simulated(simulated) => simulated.boot(places, row).await,
        }
    }

    /// Waits until nothing of a machine runs.
    pub async fn ended(&self, places: &Places, row: &MachineRow) -> Result<(), Trouble> {
        match self {
            World::Real(real) => real.ended(places, row).await,
            World::Simulated(simulated) => simulated.ended(places, row).await,
        }
    }

    /// Ends a machine.
    pub async fn end(&self, places: &Places, row: &MachineRow, ending: Ending) -> Result<(), Trouble> {
        match self {
            World::Real(real) => real.end(places, row, ending).await,
            World::Simulated(simulated) => simulated.end(places, row).await,
        }
    }

    /// Takes away what is there of a machine that does not run.
    pub async fn remove_machine(&self, places: &Places, network: &Network, row: &MachineRow) -> Result<(), Trouble> {
        match (self, network) {
            (World::Real(real), Network::Real(network)) => real.remove_machine(places, network, row).await,
            (World::Simulated(simulated), _) => simulated.remove_machine(places, row),
            (World::Real(_), Network::Simulated) => Ok(()),
        }
    }

    /// Runs a command in a machine.
    pub async fn exec(
        &self,
        places: &Places,
        row: &MachineRow,
        request: &ExecRequest,
        stdin: Vec<u8>,
        limit: Duration,
    ) -> Result<ExecAnswer, Refused> {
        match self {
            World::Real(real) => real.exec(places, row, request, stdin, limit).await,
            World::Simulated(_) => Err(Refused::new(Class::Impossible, "a simulated machine runs nothing")),
        }
    }

    /// The end of what a machine printed.
    pub fn console(&self, places: &Places, row: &MachineRow) -> Result<String, Refused> {
        match self {
            World::Real(real) => real.console(places, row),
            World::Simulated(_) => Ok(String::new()),
        }
    }

    /// Puts an operating system ready for a machine's next boot.
    pub async fn stage(&self, places: &Places, row: &MachineRow, image: &Image) -> Result<(), Trouble> {
        match self {
            World::Real(real) => real.stage(places, row, image).await,
            World::Simulated(_) => Ok(()),
        }
    }

    /// Looks at a volume, and at how large it is.
    pub async fn look_at_volume(&self, places: &Places, row: &VolumeRow) -> (VolumeFacts, u64) {
        match self {
            World::Real(_) => real::volume::look(places, row),
            World::Simulated(_) => simulated::volume::look(places, row),
        }
    }

    /// Makes a volume's file, or makes it larger.
    pub async fn make_volume(&self, places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
        real::volume::make(places, row).await
    }

    /// Shows a volume to the machine with this first process.
    pub async fn present(&self, places: &Places, row: &VolumeRow, leader: u32) -> Result<(), Trouble> {
        match self {
            World::Real(_) => real::volume::present(places, row, leader).await,
            World::Simulated(_) => simulated::volume::present(places, row),
        }
    }

    /// Takes a volume out of the machine with this first process.
    pub async fn withdraw(&self, row: &VolumeRow, leader: u32) -> Result<(), Trouble> {
        match self {
            World::Real(_) => real::volume::withdraw(row, leader).await,
            World::Simulated(_) => Ok(()),
        }
    }

    /// Closes the host's device of a volume, and proves it.
    pub async fn release(&self, places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
        match self {
            World::Real(_) => real::volume::release(places, row).await,
            World::Simulated(_) => simulated::volume::release(places, row),
        }
    }

    /// Whether a volume can be taken from a machine that runs without harm.
    pub async fn may_detach(&self, places: &Places, row: &VolumeRow) -> Result<(), Refused> {
        match self {
            World::Real(_) => real::volume::may_detach(places, row),
            World::Simulated(_) => Ok(()),
        }
    }

    /// Copies a volume that nobody has.
    pub async fn copy_volume(&self, places: &Places, row: &VolumeRow, copy: &VolumeRow) -> Result<(), Refused> {
        real::volume::copy(places, row, copy).await
    }

    /// Removes a volume's file.
    pub async fn remove_volume(&self, places: &Places, row: &VolumeRow) -> Result<(), Trouble> {
        real::volume::remove(places, row)
    }

    /// What of a cluster is on this host, by looking at the host alone.
    pub fn inventory(&self, places: &Places, cluster: &Label) -> Result<Vec<Thing>, Refused> {
        real::destroy::inventory(places, cluster)
    }

    /// Takes everything of a cluster away, and says what is left.
    pub async fn destroy(&self, places: &Places, cluster: &Label) -> Result<Vec<Residue>, Refused> {
        real::destroy::destroy(places, cluster).await
    }

    /// Takes away what all clusters shared.
    pub fn tidy(&self, places: &Places) {
        real::destroy::tidy(places);
    }
}

impl Network {
    /// Makes the services what they are to be.
    pub async fn follow(&self, following: Following) -> Result<(), Trouble> {
        match self {
            Network::Real(network) => network.follow(following).await,
            Network::Simulated => Ok(()),
        }
    }

    /// What a balancer thinks of its targets.
    pub fn targets(&self, balancer: &Label) -> Vec<Target> {
        match self {
            Network::Real(network) => network.targets(balancer),
            Network::Simulated => Vec::new(),
        }
    }

    /// Opens a door from 127.0.0.1 and answers at which port.
    pub async fn open_door(&self, name: &Label, spec: &ForwardSpec) -> Result<u16, Refused> {
        match self {
            Network::Real(network) => network.open_door(name, spec).await,
            // Nobody listens: whoever asks for a port is told the one that it wanted.
            Network::Simulated => Ok(spec.port.unwrap_or_default()),
        }
    }

    /// Puts faults into effect.
    pub async fn put_faults(&self, faults: &[Fault], machines: &BTreeMap<Label, MachineRow>) -> Result<(), Refused> {
        match self {
            Network::Real(network) => {
                let places = machines.iter().map(|(name, row)| (name.clone(), (row.index, row.address))).collect();
                network.put_faults(faults, &places).await
            }
            Network::Simulated => Ok(()),
        }
    }

    /// Ends its services; what is in the kernel stays for whoever comes next, or for a destruction.
    pub async fn close(&self) {
        match self {
            Network::Real(network) => network.close().await,
            Network::Simulated => {}
        }
    }
}
