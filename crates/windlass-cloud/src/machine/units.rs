//! What the cloud puts into a machine besides its identity: its own program, the update engine, kernel settings of its
//! own, and on hosts with control groups of version 1 the right to use them.

/// Our program, as a machine sees it; `/run` is the machine's own there.
pub const PROGRAM: &str = "/run/windlass-cloud/windlass-cloud";
/// The unit of the update engine.
pub const UPDATE_ENGINE: &str = "update-engine.service";

/// Files of the machine's `/etc`.
///
/// Units are enabled by a preset, as everything is at a first boot; ours is read before Ignition's (20-).
pub(super) const FILES: &[(&str, &str)] = &[
    (
        "etc/systemd/system-preset/10-windlass-cloud.preset",
        "enable update-engine.service\nenable windlass-cloud-cgroups.service\nenable windlass-cloud-settings.service\n",
    ),
    (
        "etc/systemd/system/update-engine.service",
        "[Unit]\n\
         Description=Update engine, backed by the cloud's OS channel\n\
         StartLimitIntervalSec=0\n\n\
         [Service]\n\
         Type=dbus\n\
         BusName=com.coreos.update1\n\
         ExecStart=/run/windlass-cloud/windlass-cloud guest update-engine\n\
         Restart=always\n\
         RestartSec=1\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n",
    ),
    (
        "etc/dbus-1/system.d/com.coreos.update1.conf",
        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\"\n \
         \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n\
         <busconfig>\n  \
         <policy user=\"root\">\n    \
         <allow own=\"com.coreos.update1\"/>\n    \
         <allow send_destination=\"com.coreos.update1\"/>\n  \
         </policy>\n\
         </busconfig>\n",
    ),
    // systemd-nspawn mounts controllers of version 1 read-only; container runtimes inside make groups in them.
    (
        "etc/systemd/system/windlass-cloud-cgroups.service",
        "[Unit]\n\
         Description=Writable control groups\n\
         DefaultDependencies=no\n\
         Before=sysinit.target\n\
         ConditionPathExists=!/sys/fs/cgroup/cgroup.controllers\n\n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart=/run/windlass-cloud/windlass-cloud guest own-cgroups\n\n\
         [Install]\n\
         WantedBy=sysinit.target\n",
    ),
    (
        "etc/systemd/system/windlass-cloud-settings.service",
        "[Unit]\n\
         Description=Kernel settings of the machine's own\n\
         DefaultDependencies=no\n\
         Before=sysinit.target systemd-sysctl.service\n\n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart=/run/windlass-cloud/windlass-cloud guest own-settings\n\n\
         [Install]\n\
         WantedBy=sysinit.target\n",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_enabled_by_the_preset_and_runs_our_program() {
        let preset = FILES[0].1;
        let units: Vec<_> = FILES.iter().filter(|(path, _)| path.ends_with(".service")).collect();
        assert_eq!(units.len(), preset.lines().count());
        for (path, text) in units {
            let name = path.rsplit('/').next().unwrap();
            assert!(preset.lines().any(|line| line == format!("enable {name}")), "{name}");
            assert!(text.lines().any(|line| line.starts_with(&format!("ExecStart={PROGRAM} guest "))), "{name}");
        }
        assert!(FILES.iter().any(|(path, _)| path.ends_with(UPDATE_ENGINE)));
    }
}
