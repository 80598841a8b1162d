//! What a launch that failed leaves behind for whoever looks into it: one directory per failure, with what every machine
//! said. Everything in it is bounded, and nothing that was gathered before is touched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use time::OffsetDateTime;
use tracing::warn;
use windlass_platform::{Platform, SeenMachine, Task};
use windlass_steps::clock::rfc3339_millis;
use windlass_steps::host::{HostError, Mode, make_dir, write_file};
use windlass_steps::report::chain;

const LIMIT: Duration = Duration::from_secs(10);
/// The end of a text that is kept.
const TAIL: usize = 256 << 10;
const GATHER: &str = "gather";

/// What is asked of a machine that runs, and the file that keeps the answer.
const QUESTIONS: [(&str, &[&str]); 5] = [
    ("report.json", &["/opt/windlass/bin/windlass-node", "report"]),
    ("health.json", &["/opt/windlass/bin/windlass-node", "health"]),
    ("failed-units.txt", &["systemctl", "--failed", "--no-pager"]),
    ("journal.txt", &["journalctl", "--no-pager", "-n", "1000", "-p", "notice"]),
    (
        "windlass-units.txt",
        &[
            "journalctl",
            "--no-pager",
            "-n",
            "1000",
            "-u",
            "k8s-node-bootstrap",
            "-u",
            "kubelet",
            "-u",
            "kubelet-join",
            "-u",
            "bootstrap-assets",
            "-u",
            "bootkube",
            "-u",
            "addons",
            "-u",
            "machine-config-server",
            "-u",
            "etcd-signer",
            "-u",
            "containerd",
            "-u",
            "kubelet-checker",
            "-u",
            "runtime-images",
            "-u",
            "os-addons",
            "-u",
            "update-engine",
            "-u",
            "systemd-sysext",
            "-u",
            "windlass-guard",
            "-u",
            "windlass-hook-*",
            "-u",
            "windlass-user-data-*",
        ],
    ),
];

/// Makes `DIR/gather/<time>` with the failure itself in it, and says where that is: whatever comes after, this is kept.
pub fn begin(directory: &Path, why: &str, now: OffsetDateTime) -> Result<PathBuf, HostError> {
    let time = rfc3339_millis(now).replace([':', '.'], "-");
    let target = directory.join(GATHER).join(time);
    make_dir(&target, Mode::PRIVATE_DIR)?;
    write_file(target.join("why.txt"), why, Mode::PRIVATE_FILE)?;
    Ok(target)
}

/// Adds what every machine says, each in a folder of its own; all are asked at once, so that none is waited for twice.
pub async fn gather(target: &Path, platform: &impl Platform) -> Result<(), HostError> {
    let machines = match platform.machines().await {
        Ok(machines) => machines,
        Err(error) => {
            warn!(error = chain(&error).join(": "), "no machine can be asked for evidence");
            return Ok(());
        }
    };
    let asked = machines.iter().map(async |machine| of_machine(&target.join(&machine.name), platform, machine).await);
    join_all(asked).await.into_iter().collect()
}

async fn of_machine(target: &Path, platform: &impl Platform, machine: &SeenMachine) -> Result<(), HostError> {
    make_dir(target, Mode::PRIVATE_DIR)?;
    write_file(target.join("state.txt"), format!("{}\n", machine.state), Mode::PRIVATE_FILE)?;
    let console = platform.console(&machine.name).await.unwrap_or_else(|error| told(&error));
    write_file(target.join("console.txt"), tail(&console), Mode::PRIVATE_FILE)?;
    for (file, words) in QUESTIONS {
        let answer = platform.exec(&machine.name, &Task::new(words.iter().copied(), LIMIT)).await;
        let text = match answer {
            Ok(ran) => ran.stdout + &ran.stderr,
            // One that cannot be asked will not answer the next question either, and each would be waited for.
            Err(error) => {
                write_file(target.join(file), told(&error), Mode::PRIVATE_FILE)?;
                break;
            }
        };
        write_file(target.join(file), tail(&text), Mode::PRIVATE_FILE)?;
    }
    Ok(())
}

fn told(error: &windlass_platform::PlatformError) -> String {
    chain(error).join(": ") + "\n"
}

fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(TAIL);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use windlass_platform::Executed;
    use windlass_platform::fake::Fake;

    use super::*;

    #[test]
    fn only_the_end_of_a_long_text_is_kept() {
        assert_eq!(tail("short"), "short");
        let long = "ü".repeat(TAIL);
        let kept = tail(&long);
        assert!(kept.len() <= TAIL && kept.starts_with('ü'));
    }

    #[tokio::test]
    async fn the_folder_is_there_before_anybody_is_asked_and_every_machine_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let target = begin(dir.path(), "it is broken\n", datetime!(2026-11-18 10:00 UTC)).unwrap();
        assert_eq!(target, dir.path().join("gather/2026-11-18T10-00-00-000Z"));
        assert_eq!(std::fs::read_to_string(target.join("why.txt")).unwrap(), "it is broken\n");
        let platform = Fake::default();
        for machine in ["master-0", "worker-0"] {
            platform.put(machine, "worker");
        }
        for (_, words) in QUESTIONS {
            let stdout = format!("{} said\n", words[0]);
            platform.answer(&words.join(" "), Executed { code: 0, stdout, stderr: String::new() });
        }
        gather(&target, &platform).await.unwrap();
        for machine in ["master-0", "worker-0"] {
            let read = |name: &str| std::fs::read_to_string(target.join(machine).join(name)).unwrap();
            assert_eq!(read("console.txt"), format!("the console of {machine}\n"));
            assert!(QUESTIONS.iter().all(|(file, words)| read(file) == format!("{} said\n", words[0])));
        }
    }

    #[test]
    fn the_units_that_make_a_node_are_asked_for() {
        let (_, words) = QUESTIONS.iter().find(|(file, _)| *file == "windlass-units.txt").unwrap();
        for unit in
            ["runtime-images", "os-addons", "update-engine", "systemd-sysext", "windlass-guard", "kubelet", "bootkube"]
        {
            assert!(words.windows(2).any(|pair| pair == ["-u", unit]), "{unit}");
        }
    }
}
