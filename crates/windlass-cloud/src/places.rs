//! Where things are. Everything of a cluster is found again from these places alone, because the state file may be
//! damaged when it is needed most.

use std::path::PathBuf;

use windlass_cloud_api::Label;

/// The directories of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// What outlives the host's reboot.
    pub state: PathBuf,
    /// What does not.
    pub run: PathBuf,
}

impl Places {
    /// Where people and programs find the cloud unless they say otherwise.
    pub fn usual() -> Self {
        Places { state: PathBuf::from("/var/lib/windlass"), run: PathBuf::from("/run/windlass") }
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.run.join("cloud.sock")
    }

    /// Held by the one daemon of these places.
    pub fn lock(&self) -> PathBuf {
        self.run.join("cloud.lock")
    }

    /// The state file.
    pub fn store(&self) -> PathBuf {
        self.state.join("cloud.redb")
    }

    /// The daemon's log.
    pub fn log(&self) -> PathBuf {
        self.state.join("cloud.log")
    }

    /// Unpacked trees.
    pub fn images(&self) -> PathBuf {
        self.state.join("images")
    }

    /// Large files that several clusters have.
    pub fn shelf(&self) -> PathBuf {
        self.state.join("shelf")
    }

    /// What is kept of all clusters.
    pub fn clusters(&self) -> PathBuf {
        self.state.join("clusters")
    }

    /// What is kept of a cluster.
    pub fn cluster(&self, cluster: &Label) -> PathBuf {
        self.clusters().join(cluster.as_str())
    }

    /// What lives as long as the host is up.
    pub fn cluster_run(&self, cluster: &Label) -> PathBuf {
        self.run.join("clusters").join(cluster.as_str())
    }

    /// The cluster's pinned network namespace.
    pub fn network(&self, cluster: &Label) -> PathBuf {
        self.cluster_run(cluster).join("net")
    }

    /// What is kept of a machine.
    pub fn machine(&self, cluster: &Label, machine: &Label) -> PathBuf {
        self.cluster(cluster).join("machines").join(machine.as_str())
    }

    /// What lives of a machine as long as the host is up.
    pub fn machine_run(&self, cluster: &Label, machine: &Label) -> PathBuf {
        self.cluster_run(cluster).join("machines").join(machine.as_str())
    }

    /// A machine's pinned network namespace.
    pub fn machine_network(&self, cluster: &Label, machine: &Label) -> PathBuf {
        self.machine_run(cluster, machine).join("net")
    }

    /// A cluster's volumes.
    pub fn volumes(&self, cluster: &Label) -> PathBuf {
        self.cluster(cluster).join("volumes")
    }

    /// A cluster's objects.
    pub fn objects(&self, cluster: &Label) -> PathBuf {
        self.cluster(cluster).join("objects")
    }
}
