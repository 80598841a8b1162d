//! Whether the kubelet runs, and what it complains about.

use std::time::Duration;

use windlass_steps::host::{CommandSpec, Commands, cmd};

use super::last_words::brief;
use super::unmet;
use crate::places::Places;
use crate::record::Unmet;

const LIMIT: Duration = Duration::from_secs(3);
/// How much of its journal is looked through.
const LINES: &str = "600";

/// Says why the kubelet does not run, if it should.
pub async fn look(places: &Places, commands: &impl Commands) -> Option<Unmet> {
    // Without the file it is not to run yet, and k8s-node-bootstrap says why there is none.
    if !places.kubelet_env().exists() {
        return None;
    }
    let show = cmd("systemctl").args(["show", "kubelet.service", "--property", "SubState,NRestarts", "--value"]);
    let said = text(commands, show).await;
    let state: Vec<&str> = said.lines().map(str::trim).collect();
    let is_state = |word: &&&str| word.chars().any(char::is_alphabetic);
    let sub = state.iter().find(is_state).copied().unwrap_or("unknown");
    if sub == "running" {
        return None;
    }
    let restarts = state.iter().find_map(|word| word.parse::<u32>().ok()).unwrap_or(0);
    let complaint = journal(commands).await.into_iter().rev().find(|line| is_grave(line)).unwrap_or_default();
    Some(unmet("the kubelet runs", format!("it is {sub} after {restarts} restarts: {}", brief(&complaint))))
}

/// The last thing that the kubelet complained about, of those that name this.
pub async fn complaint(commands: &impl Commands, about: &str) -> Option<String> {
    let lines = journal(commands).await;
    let found = lines.iter().rev().find(|line| is_grave(line) && line.contains(about))?;
    Some(cause(found))
}

async fn journal(commands: &impl Commands) -> Vec<String> {
    let words = ["--unit", "kubelet.service", "--no-pager", "--output", "cat", "--lines", LINES];
    text(commands, cmd("journalctl").args(words)).await.lines().map(str::to_owned).collect()
}

async fn text(commands: &impl Commands, command: CommandSpec) -> String {
    let said = commands.run(command.timeout(LIMIT)).await;
    said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Errors begin with an E in the kubelet's log, and what ended it with an F or the flag library's own words.
fn is_grave(line: &str) -> bool {
    let klog = |line: &str| {
        let mut chars = line.chars();
        matches!(chars.next(), Some('E' | 'F')) && chars.next().is_some_and(|c| c.is_ascii_digit())
    };
    klog(line) || line.starts_with("Error:")
}

/// What stands behind `err=` in a line of the log, or the line's text.
fn cause(line: &str) -> String {
    let after = line.split_once("err=\"").map(|(_, rest)| rest);
    let end = |rest: &str| {
        let mut escaped = false;
        let found = rest.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        found.map_or(rest.len(), |(at, _)| at)
    };
    let text = after.map_or(line, |rest| &rest[..end(rest)]);
    brief(&text.replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::{Mode, ScriptedHost, make_dir, write_file};

    use super::*;

    const SHOW: &str = "systemctl show kubelet.service --property SubState,NRestarts --value";
    const JOURNAL: &str = "journalctl --unit kubelet.service --no-pager --output cat --lines 600";

    #[tokio::test]
    async fn a_kubelet_is_only_missed_when_it_may_run() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let ended = ScriptedHost::default().answer(SHOW, "auto-restart\n7\n").answer(
            JOURNAL,
            "I1117 all is well\nE1117 10:00:00 run.go:72] \"command failed\" err=\"no such flag\"\nbye\n",
        );
        assert_eq!(look(&places, &ended).await, None);
        make_dir(places.kubelet_env().parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(places.kubelet_env(), "", Mode::PUBLIC).unwrap();
        let said = look(&places, &ended).await.unwrap().reason;
        assert!(said.starts_with("it is auto-restart after 7 restarts: ") && said.contains("no such flag"), "{said}");
        let runs = ScriptedHost::default().answer(SHOW, "0\nrunning\n");
        assert_eq!(look(&places, &runs).await, None);
    }

    #[tokio::test]
    async fn a_complaint_is_the_cause_of_the_last_line_about_it() {
        let log = "E1117 a] \"x\" err=\"old\" pod=\"etcd-master-0\"\n\
                   E1117 b] \"Error syncing pod, skipping\" err=\"failed to \\\"CreatePodSandbox\\\" for it\" pod=\"etcd-master-0\"\n\
                   I1117 c] etcd-master-0 is fine\nE1117 d] \"y\" err=\"other\" pod=\"other\"\n";
        let host = ScriptedHost::default().answer(JOURNAL, log);
        assert_eq!(complaint(&host, "etcd-master-0").await.unwrap(), "failed to \"CreatePodSandbox\" for it");
        assert_eq!(complaint(&host, "absent").await, None);
    }
}
