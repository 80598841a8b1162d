//! The way in for a push: a host key that launch knows, and one client that sshd lets in.

use super::config::Config;
use crate::ssh::SshKeys;

const CONFIG: &str = include_str!("../../configs/sshd.conf");
const UNIT: &str = include_str!("../../configs/sshd-unit.conf");

/// Opens it, with the unit of the machine's own system.
pub(super) fn open(config: Config, keys: &SshKeys) -> Config {
    // Nothing but a command: no terminal, no forwarding.
    let client = format!("restrict {}\n", keys.client.public_line());
    config
        .directory("/root/.ssh", 0o700)
        .file("/root/.ssh/authorized_keys", client)
        .file("/etc/ssh/windlass_host_key", keys.host.to_text().expose())
        .file_with_mode("/etc/ssh/sshd_config.d/10-windlass.conf", CONFIG, 0o644)
        .file_with_mode("/etc/systemd/system/ssh.service.d/20-windlass.conf", UNIT, 0o644)
        .enable("ssh.service")
}
