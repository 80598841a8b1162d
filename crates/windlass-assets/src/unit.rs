//! The systemd units, ordered exactly as the node bootstrapping flow orders them. The texts are files of
//! their own in `units/`; here is which machine gets which.

use std::collections::BTreeMap;

use windlass_spec::file::{Delivery, Topology};
use windlass_spec::{CompleteSpec, file::Role};

use crate::asset::{Asset, AssetError, AssetFile};
use crate::directory::AssetDir;

const FOLDER: &str = "assets/units/";

/// A kind of machine, as far as units go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The throw-away machine that starts the control plane.
    Bootstrap,
    /// A control-plane machine.
    Master,
    /// A machine for workloads.
    Worker,
}

impl From<Role> for Host {
    fn from(role: Role) -> Self {
        match role {
            Role::Master => Host::Master,
            Role::Worker => Host::Worker,
        }
    }
}

struct UnitRow {
    name: &'static str,
    text: &'static str,
    hosts: &'static [Host],
}

macro_rules! unit {
    ($name:literal, $hosts:expr) => {
        UnitRow { name: $name, text: include_str!(concat!("../units/", $name)), hosts: $hosts }
    };
}

/// The unit that fetches the bootstrap machine's assets.
const FETCHES: &str = "bootstrap-assets.service";
const EVERY: &[Host] = &[Host::Bootstrap, Host::Master, Host::Worker];

static UNITS: &[UnitRow] = &[
    unit!("windlass-guard.service", EVERY),
    unit!("containerd.service", EVERY),
    unit!("runtime-images.service", EVERY),
    unit!("k8s-node-bootstrap.service", EVERY),
    unit!("reboot-due.service", EVERY),
    unit!("os-addons.service", EVERY),
    unit!("kubelet.service", EVERY),
    unit!("kubelet-join.service", &[Host::Master]),
    unit!("kubelet-checker.service", &[Host::Master, Host::Worker]),
    unit!("machine-config-server.service", &[Host::Bootstrap]),
    unit!("etcd-signer.service", &[Host::Bootstrap]),
    unit!("bootstrap-assets.service", &[Host::Bootstrap]),
    unit!("bootkube.path", &[Host::Bootstrap]),
    unit!("bootkube.service", &[Host::Bootstrap]),
    unit!("addons.path", &[Host::Bootstrap]),
    unit!("addons.service", &[Host::Bootstrap]),
];

/// The units of a cluster's machines, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Units {
    texts: BTreeMap<String, String>,
}

/// A unit as a machine gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Its name with its ending.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

impl Unit<'_> {
    /// Whether it is enabled: units without an `[Install]` part are started by others.
    pub fn is_enabled(&self) -> bool {
        self.text.lines().any(|line| line == "[Install]")
    }
}

impl Units {
    /// The units that a cluster of this spec needs.
    pub fn make(spec: &CompleteSpec) -> Self {
        let texts = UNITS.iter().filter(|u| wanted(u, spec)).map(|u| (u.name.to_owned(), u.text.to_owned()));
        Units { texts: texts.collect() }
    }

    /// The units of one kind of machine, in the order of the table.
    pub fn of(&self, host: Host) -> Vec<Unit<'_>> {
        let rows = UNITS.iter().filter(|u| u.hosts.contains(&host));
        rows.filter_map(|u| self.texts.get(u.name).map(|text| Unit { name: u.name, text })).collect()
    }
}

/// Topology `volumes` has no bootstrap machine, so its units are not made; nor is the one that fetches what is pushed.
fn wanted(unit: &UnitRow, spec: &CompleteSpec) -> bool {
    let fetches = unit.name != FETCHES || spec.spec.bootstrap_assets == Delivery::Pull;
    fetches && (spec.spec.topology == Topology::SelfHosted || unit.hosts != [Host::Bootstrap])
}

impl Asset for Units {
    const NAME: &'static str = "systemd units";

    fn files(&self) -> Vec<AssetFile> {
        self.texts.iter().map(|(name, text)| AssetFile::new(format!("{FOLDER}{name}"), text.as_bytes())).collect()
    }

    fn read(dir: &AssetDir) -> Result<Self, AssetError> {
        let mut texts = BTreeMap::new();
        for path in dir.known(FOLDER) {
            texts.insert(path[FOLDER.len()..].to_owned(), dir.require_text(&path, Self::NAME)?);
        }
        Ok(Units { texts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap_assets::{Folder, Landing};

    fn lines(name: &str) -> Vec<&'static str> {
        UNITS.iter().find(|u| u.name == name).unwrap().text.lines().collect()
    }

    /// The snippets of the node bootstrapping flow, in today's names.
    #[test]
    fn units_say_what_the_node_bootstrapping_flow_says() {
        let cases: &[(&str, &[&str])] = &[
            (
                "k8s-node-bootstrap.service",
                &[
                    "ConditionPathExists=!/etc/kubernetes/kubelet.env",
                    "Before=kubelet.service",
                    "Restart=on-failure",
                    "ExecStart=/usr/bin/echo \"node components bootstrapped\"",
                    "WantedBy=multi-user.target kubelet.service",
                ],
            ),
            (
                "kubelet.service",
                &[
                    "EnvironmentFile=/etc/kubernetes/kubelet.env",
                    "ExecStart=/usr/bin/kubelet $KUBELET_ARGS $KUBELET_MACHINE_ARGS",
                    "Restart=always",
                    "WantedBy=multi-user.target",
                ],
            ),
            (
                "bootkube.service",
                &[
                    "ConditionPathExists=!/opt/windlass/bootkube.done",
                    "Wants=kubelet.service",
                    "After=kubelet.service",
                    "Type=oneshot",
                    "RemainAfterExit=true",
                    "Restart=on-failure",
                    "ExecStartPost=/bin/touch /opt/windlass/bootkube.done",
                ],
            ),
            (
                "addons.service",
                &[
                    "ConditionPathExists=!/opt/windlass/addons.done",
                    "Requires=bootkube.service",
                    "After=bootkube.service",
                    "Type=oneshot",
                    "RemainAfterExit=true",
                    "Restart=on-failure",
                    "ExecStartPost=/bin/touch /opt/windlass/addons.done",
                ],
            ),
            (
                "bootstrap-assets.service",
                &[
                    "ConditionPathExists=!/opt/windlass/bootstrap-assets.done",
                    "Type=oneshot",
                    "RemainAfterExit=true",
                    "Restart=on-failure",
                    "ExecStartPost=/bin/touch /opt/windlass/bootstrap-assets.done",
                    "WantedBy=multi-user.target",
                ],
            ),
            (
                "bootkube.path",
                &["ConditionPathExists=!/opt/windlass/bootkube.done", "PathExists=/opt/windlass/bootkube/manifests"],
            ),
            (
                "addons.path",
                &["ConditionPathExists=!/opt/windlass/addons.done", "PathExists=/opt/windlass/addons/manifests"],
            ),
        ];
        for (unit, wanted) in cases {
            let lines = lines(unit);
            for line in *wanted {
                assert!(lines.contains(line), "{unit} lacks {line}");
            }
        }
    }

    #[test]
    fn the_work_of_bootstrapping_is_done_before_the_unit_counts_as_started() {
        assert!(lines("k8s-node-bootstrap.service").iter().any(|l| l.starts_with("ExecStartPre=")));
    }

    /// The gate is the condition of the node flow, and the note that of runtime and kubelet: a run that ended between opening
    /// the gate and booting would leave a machine on which none of them ever starts.
    #[test]
    fn a_flow_that_was_killed_after_the_gate_was_open_left_a_machine_without_a_kubelet() {
        let flow = lines("k8s-node-bootstrap.service");
        assert!(flow.contains(&"ExecStopPost=-/usr/bin/systemctl --no-block start reboot-due.service"));
        let boots = lines("reboot-due.service");
        let conditions: Vec<_> = boots.iter().filter(|line| line.starts_with("Condition")).collect();
        let wanted =
            [&"ConditionPathExists=/run/windlass/reboot-due", &"ConditionPathExists=/etc/kubernetes/kubelet.env"];
        assert_eq!(conditions, wanted, "a boot before the gate is open is the flow's own");
        assert!(boots.contains(&"ExecStart=/usr/bin/systemctl --no-block reboot"));
        assert!(boots.contains(&"Restart=on-failure") && !boots.contains(&"[Install]"));
        for host in [Host::Bootstrap, Host::Master, Host::Worker] {
            assert!(UNITS.iter().any(|unit| unit.name == "reboot-due.service" && unit.hosts.contains(&host)));
        }
    }

    /// The node flow never runs again on a machine that works, and the pre-reboot hook not before its turn.
    #[test]
    fn an_update_that_took_effect_before_its_turn_left_a_machine_without_a_runtime() {
        let lines = lines("os-addons.service");
        let conditions: Vec<_> = lines.iter().filter(|line| line.starts_with("Condition")).collect();
        let wanted =
            [&"ConditionPathExists=/etc/kubernetes/kubelet.env", &"ConditionPathExists=!/run/windlass/reboot-due"];
        assert_eq!(conditions, wanted, "before the gate is open addons are the node flow's");
        for line in ["Type=oneshot", "RemainAfterExit=true", "Restart=on-failure", "WantedBy=multi-user.target"] {
            assert!(lines.contains(&line), "{line}");
        }
        for key in ["Wants=", "After="] {
            let runtime = self::lines("containerd.service");
            assert!(runtime.iter().any(|line| line.starts_with(key) && line.contains(" os-addons.service ")), "{key}");
        }
        assert!(lines.contains(&"Before=containerd.service kubelet.service"));
        assert!(lines.contains(&"After=systemd-sysext.service k8s-node-bootstrap.service"));
        assert!(!lines.iter().any(|line| line.contains("network-online") && !line.starts_with('#')));
        for host in [Host::Bootstrap, Host::Master, Host::Worker] {
            assert!(UNITS.iter().any(|unit| unit.name == "os-addons.service" && unit.hosts.contains(&host)));
        }
    }

    /// The file with which the kubelet joins is there before the kubelet has read it: a unit with that for its condition
    /// would leave a kubelet standalone whose joining was killed in between.
    #[test]
    fn joining_that_was_killed_before_the_kubelet_restarted_is_taken_up_again() {
        let lines = lines("kubelet-join.service");
        let conditions: Vec<_> = lines.iter().filter(|line| line.starts_with("Condition")).collect();
        // The second one holds only on a boot that is about to end.
        let done = "ConditionPathExists=!/opt/windlass/kubelet-join.done";
        assert_eq!(conditions, [&done, &"ConditionPathExists=!/run/windlass/reboot-due"]);
        assert!(lines.contains(&"ExecStartPost=/bin/touch /opt/windlass/kubelet-join.done"));
    }

    /// On a boot in the middle of the pivot bootkube is not done, and the port is the API's.
    #[test]
    fn the_servers_of_the_bootstrap_machine_came_back_on_a_boot_after_they_had_served_their_time() {
        for unit in ["machine-config-server.service", "etcd-signer.service"] {
            let lines = lines(unit);
            let conditions: Vec<_> = lines.iter().filter(|line| line.starts_with("Condition")).collect();
            let bootkube = "ConditionPathExists=!/opt/windlass/bootkube.done";
            assert_eq!(conditions, [&bootkube, &"ConditionPathExists=!/opt/windlass/servers.done"], "{unit}");
        }
    }

    /// What the path units wait for is what the document of assets puts there in one motion.
    #[test]
    fn the_path_units_wait_for_folders_that_appear_whole() {
        for (unit, folder) in [("bootkube.path", Folder::ControlPlane), ("addons.path", Folder::Addons)] {
            assert!(lines(unit).contains(&format!("PathExists={}", folder.path()).as_str()), "{unit}");
            assert_eq!(folder.landing(), Landing::Whole);
        }
        assert_eq!(
            Folder::BOOTKUBE.last(),
            Some(&Folder::ControlPlane),
            "bootkube starts when everything else is there"
        );
    }

    #[test]
    fn what_is_pushed_is_not_fetched() {
        for (delivery, fetched) in [("pull", true), ("push", false)] {
            let text = format!(
                "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  bootstrapAssets: {delivery}\n"
            );
            let (_, spec) = windlass_spec::file::read_and_complete(text.as_bytes()).unwrap();
            let units = Units::make(&spec);
            assert_eq!(units.of(Host::Bootstrap).iter().any(|unit| unit.name == FETCHES), fetched, "{delivery}");
            assert!(!units.of(Host::Master).iter().any(|unit| unit.name == FETCHES));
        }
    }

    /// It must see a machine through whose node flow failed at first, so that no condition may keep it from starting, and a
    /// kubelet that is stopped must not take it along.
    #[test]
    fn the_watchdog_starts_after_what_it_watches_and_whatever_became_of_it() {
        let lines = lines("kubelet-checker.service");
        assert!(lines.contains(&"After=k8s-node-bootstrap.service containerd.service kubelet.service"));
        let tied =
            |line: &&&str| ["Condition", "Requires", "BindsTo", "PartOf"].iter().any(|word| line.starts_with(word));
        assert_eq!(lines.iter().find(tied), None);
        for watched in ["kubelet.service", "containerd.service"] {
            assert!(self::lines(watched).contains(&"KillMode=process"), "{watched}: what it started stays");
        }
    }

    #[test]
    fn bootkube_and_addons_are_started_by_their_paths_alone() {
        for name in ["bootkube.service", "addons.service"] {
            assert!(!lines(name).contains(&"[Install]"), "{name}");
        }
        for name in ["bootkube.path", "addons.path"] {
            assert!(lines(name).contains(&"[Install]"), "{name}");
        }
    }

    /// A crash loop that must go on is ended for good by systemd's default start limit, and work in
    /// `ExecStartPre` by its start time-out.
    #[test]
    fn no_restarting_unit_meets_a_start_limit() {
        for unit in UNITS.iter().filter(|u| u.text.contains("\nRestart=")) {
            assert!(unit.text.contains("\nStartLimitIntervalSec=0\n"), "{}", unit.name);
            if unit.text.contains("ExecStartPre=") || unit.text.contains("Type=oneshot") {
                assert!(unit.text.contains("\nTimeoutStartSec=infinity\n"), "{}", unit.name);
            }
        }
    }
}
