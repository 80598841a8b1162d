//! What of its machines an update of the operating system changes, and what it leaves.

use windlass_e2e::Installation;

/// Every machine: workers first, each by its name, which is the order of their turns.
pub const ORDER: [&str; 5] = ["worker-0", "worker-1", "master-0", "master-1", "master-2"];
/// How a kubelet begins to say which it is.
const KUBELET: &str = "Kubernetes v";
/// Goes with the runtime's data when that is cleaned, and disturbs nobody.
const MARK: &str = "/var/lib/containerd/drill-mark";

/// Machines come with addons for both systems. Of a system that was not known then they have none. What is theirs of the
/// runtime's data is marked, to be looked for afterwards.
pub async fn forget_the_next_os(cluster: &Installation) {
    let forget = "ls -d /var/lib/extensions/*-os2; rm -r /var/lib/extensions/*-os2";
    for name in ORDER {
        cluster.on(name, &format!("{forget}; touch {MARK}; sync")).await;
    }
}

/// The machines, in the order of their turns.
#[derive(Debug, PartialEq, Eq)]
pub struct Machines(Vec<Machine>);

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Machine {
    /// How often it has booted.
    pub boots: usize,
    os: String,
    runtime: String,
    kubelet: String,
    /// The addons for the next OS.
    addons: String,
    /// Whose data the runtime finds.
    data: String,
    /// The mark among that data, if nobody has cleaned it.
    mark: String,
    /// Whether its images are still to be imported again.
    images: String,
}

impl Machine {
    /// As it is now.
    pub async fn look(cluster: &Installation, name: &str) -> Self {
        let ask = async |script: &str| cluster.on(name, script).await.trim().to_owned();
        Machine {
            boots: ask("journalctl --quiet --list-boots | wc -l").await.parse().expect("a number"),
            os: ask(". /usr/lib/os-release; echo $VERSION_ID").await,
            runtime: ask("containerd --version").await,
            kubelet: ask("kubelet --version").await,
            addons: ask("ls /var/lib/extensions | grep -e -os2 || echo none").await.replace('\n', " "),
            data: ask("cat /var/lib/windlass/runtime-data").await,
            mark: ask(&format!("ls {MARK} 2>/dev/null || echo gone")).await,
            images: ask("ls /var/lib/windlass/import-images 2>/dev/null || echo none").await,
        }
    }

    /// With the other OS and addons for it. Runtime, kubelet and the runtime's data are what they were.
    fn on_the_next_os(self, boots: usize) -> Self {
        assert!(self.data.starts_with("2.") && self.runtime.contains(&self.data), "{self:?}");
        assert_eq!((self.os.as_str(), self.addons.as_str(), self.mark.as_str()), ("1", "none", MARK), "{self:?}");
        let kubelet = self.kubelet.trim_start_matches(KUBELET);
        let addons = format!("containerd-{}-os2 kubelet-{kubelet}-os2", self.data);
        Machine { boots, os: "2".to_owned(), addons, ..self }
    }
}

impl Machines {
    /// As they are now.
    pub async fn look(cluster: &Installation) -> Self {
        let mut machines = Vec::new();
        for name in ORDER {
            machines.push(Machine::look(cluster, name).await);
        }
        Machines(machines)
    }

    /// Each has the next OS since one boot.
    pub fn booted_once_into_the_next_os(self, after: &Machines) {
        for ((name, before), after) in ORDER.iter().zip(self.0).zip(&after.0) {
            let boots = before.boots + 1;
            assert_eq!(*after, before.on_the_next_os(boots), "{name}");
        }
    }

    /// Each has the next OS, however often it has booted: of a boot that was cut off the journal may know nothing.
    pub fn came_to_the_next_os(self, after: &Machines) {
        for ((name, before), after) in ORDER.iter().zip(self.0).zip(&after.0) {
            assert_eq!(*after, before.on_the_next_os(after.boots), "{name}");
        }
    }
}
