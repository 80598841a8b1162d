//! What systemd says about the units that are watched, and about the one that prepares the machine for them.

use std::time::Duration;

use windlass_steps::host::{Commands, cmd};

use super::judge::Target;

const LIMIT: Duration = Duration::from_secs(3);
/// Until a unit has been running for this long it may still be starting.
const GRACE: Duration = Duration::from_secs(60);
const BOOTSTRAP: &str = "k8s-node-bootstrap.service";

/// Why a unit need not answer, if it need not. A systemd that does not answer is a reason to leave everything alone.
pub(super) async fn excuse(target: Target, commands: &impl Commands, since_boot: Duration) -> Option<String> {
    let show = cmd("systemctl").args(["show", "--property=Id,ActiveState,ActiveEnterTimestampMonotonic"]);
    match commands.run(show.args([target.unit(), BOOTSTRAP]).timeout(LIMIT)).await {
        Ok(output) => excused(&String::from_utf8_lossy(&output.stdout), target.unit(), since_boot),
        Err(error) => Some(format!("systemd does not say whether it runs: {error}")),
    }
}

fn excused(said: &str, unit: &str, since_boot: Duration) -> Option<String> {
    let blocks: Vec<&str> = said.split("\n\n").collect();
    let field = |id: &str, name: &str| {
        let of = |block: &&&str, name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        let block = blocks.iter().find(|block| of(block, "Id").as_deref() == Some(id))?;
        of(&block, name)
    };
    // While it works the machine may be about to reboot, or the runtime about to change.
    if field(BOOTSTRAP, "ActiveState").as_deref() == Some("activating") {
        return Some(format!("{BOOTSTRAP} is at work"));
    }
    match field(unit, "ActiveState").as_deref() {
        Some("active") => {}
        Some(other) => return Some(format!("it is {other}")),
        None => return Some("systemd does not know it".to_owned()),
    }
    let entered = field(unit, "ActiveEnterTimestampMonotonic").and_then(|micros| micros.parse().ok());
    let age = since_boot.saturating_sub(Duration::from_micros(entered.unwrap_or(u64::MAX)));
    (age < GRACE).then(|| "it has only begun to run".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_unit_that_has_been_running_for_a_while_has_to_answer() {
        let now = Duration::from_secs(1000);
        let block = |id: &str, state: &str, entered: &str| {
            format!("Id={id}\nActiveState={state}\nActiveEnterTimestampMonotonic={entered}\n")
        };
        let kubelet = |state: &str, entered: &str| block("kubelet.service", state, entered);
        let cases = [
            (kubelet("active", "100000000"), "inactive", None),
            (kubelet("active", "940000000"), "active", None),
            (kubelet("active", "940000001"), "inactive", Some("it has only begun to run")),
            (kubelet("active", "2000000000"), "inactive", Some("it has only begun to run")),
            (kubelet("active", "x"), "inactive", Some("it has only begun to run")),
            (kubelet("activating", "100000000"), "inactive", Some("it is activating")),
            (kubelet("inactive", "0"), "inactive", Some("it is inactive")),
            (kubelet("failed", "0"), "failed", Some("it is failed")),
            (kubelet("active", "100000000"), "activating", Some("k8s-node-bootstrap.service is at work")),
            (block("other.service", "active", "1"), "inactive", Some("systemd does not know it")),
            (String::new(), "inactive", Some("systemd does not know it")),
        ];
        for (said, bootstrap, want) in cases {
            let said = format!("{said}\n{}", block(BOOTSTRAP, bootstrap, "0"));
            assert_eq!(excused(&said, "kubelet.service", now).as_deref(), want, "{said}");
        }
    }
}
