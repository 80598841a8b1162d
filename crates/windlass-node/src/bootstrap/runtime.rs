//! The container runtime's configuration for this machine: which format its version reads, and what the kernel lets it do.

use thiserror::Error;
use windlass_steps::host::{Commands, HostError, cmd};

const CAP_SYS_RESOURCE: u32 = 24;

/// The format of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Of containerd 1.7.
    Two,
    /// Of containerd 2.
    Three,
}

/// Whether containers may be made less likely to be killed than the runtime itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomScores {
    /// The kernel takes any score.
    Free,
    /// Without `CAP_SYS_RESOURCE` a score can only be raised, and runc fails to start a sandbox that asks for less.
    Restricted,
}

/// Why the runtime cannot be configured.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// It is not there, or does not run.
    #[error("cannot ask containerd for its version")]
    AskVersion {
        /// What happened.
        source: HostError,
    },
    /// It is one that windlass does not know.
    #[error("cannot configure the containerd that says {said:?}")]
    KnowVersion {
        /// What it said.
        said: String,
    },
}

/// The format that the installed containerd reads.
pub async fn format(commands: &impl Commands) -> Result<Format, RuntimeError> {
    let output = commands.run(cmd("containerd").arg("--version")).await;
    let output = output.map_err(|source| RuntimeError::AskVersion { source })?;
    let said = output.text().map_err(|source| RuntimeError::AskVersion { source })?;
    parse_version(said).ok_or_else(|| RuntimeError::KnowVersion { said: said.trim().chars().take(100).collect() })
}

/// The format that a version of containerd reads.
pub fn format_of(version: &str) -> Result<Format, RuntimeError> {
    known(version).ok_or_else(|| RuntimeError::KnowVersion { said: version.chars().take(100).collect() })
}

/// `containerd <module> v2.2.9 <revision>`, also without the `v`.
fn parse_version(said: &str) -> Option<Format> {
    known(said.split_whitespace().nth(2)?)
}

fn known(version: &str) -> Option<Format> {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (numbers.next()?, numbers.next()?) {
        (Ok(1), Ok(7..)) => Some(Format::Two),
        (Ok(2), Ok(_)) => Some(Format::Three),
        _ => None,
    }
}

/// What the kernel lets this process do, from `/proc/self/status`. What cannot be read is taken for missing.
pub fn oom_scores(status: &str) -> OomScores {
    let has = |field: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(field));
        let set = value.and_then(|v| u64::from_str_radix(v.trim(), 16).ok());
        set.is_some_and(|set| set & (1 << CAP_SYS_RESOURCE) != 0)
    };
    if has("CapEff:") && has("CapBnd:") { OomScores::Free } else { OomScores::Restricted }
}

/// The configuration. The kubelet keeps cgroups itself (`cgroupfs`, on v1 and v2 alike), so the runtime does not ask
/// systemd for them.
pub fn render(format: Format, pause_image: &str, scores: OomScores) -> String {
    // A JSON string is a TOML string.
    let pause = serde_json::to_string(pause_image).expect("a text has a JSON form");
    let restrict = scores == OomScores::Restricted;
    match format {
        Format::Three => format!(
            r#"version = 3

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = {pause}

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = {restrict}

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"#
        ),
        Format::Two => format!(
            r#"version = 2

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = {pause}
restrict_oom_score_adj = {restrict}

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"#
        ),
    }
}

#[cfg(test)]
mod tests {
    use windlass_steps::host::ScriptedHost;

    use super::*;

    #[test]
    fn the_format_follows_the_version() {
        let cases = [
            ("containerd github.com/containerd/containerd/v2 v2.2.9 abc", Some(Format::Three)),
            ("containerd github.com/containerd/containerd/v2 2.2.9+unknown", Some(Format::Three)),
            ("containerd github.com/containerd/containerd v1.7.30 abc", Some(Format::Two)),
            ("containerd github.com/containerd/containerd v1.6.8 abc", None),
            ("containerd github.com/containerd/containerd/v3 v3.0.0 abc", None),
            ("containerd", None),
            ("containerd x vx.y", None),
            ("", None),
        ];
        for (said, want) in cases {
            assert_eq!(parse_version(said), want, "{said}");
        }
    }

    #[test]
    fn a_version_that_was_chosen_has_its_format() {
        assert_eq!(format_of("2.2.9").unwrap(), Format::Three);
        assert_eq!(format_of("1.7.35").unwrap(), Format::Two);
        assert!(matches!(format_of("0.9"), Err(RuntimeError::KnowVersion { .. })));
    }

    #[tokio::test]
    async fn a_runtime_that_is_not_there_is_told_from_one_that_is_strange() {
        assert!(matches!(format(&ScriptedHost::default()).await, Err(RuntimeError::AskVersion { .. })));
        let strange = ScriptedHost::default().answer("containerd --version", "containerd x 0.1");
        assert!(matches!(format(&strange).await, Err(RuntimeError::KnowVersion { .. })));
        let known = ScriptedHost::default().answer("containerd --version", "containerd x v2.2.9 r\n");
        assert_eq!(format(&known).await.unwrap(), Format::Three);
    }

    #[test]
    fn scores_are_free_only_with_the_capability() {
        let cases = [
            ("CapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n", OomScores::Free),
            ("CapEff:\t000001fffeffffff\nCapBnd:\t000001fffeffffff\n", OomScores::Restricted),
            ("CapEff:\t000001ffffffffff\nCapBnd:\t000001fffeffffff\n", OomScores::Restricted),
            ("CapEff:\tx\nCapBnd:\ty\n", OomScores::Restricted),
            ("", OomScores::Restricted),
        ];
        for (status, want) in cases {
            assert_eq!(oom_scores(status), want, "{status}");
        }
    }

    #[test]
    fn every_format_says_the_same() {
        for format in [Format::Two, Format::Three] {
            let text = render(format, "registry.example/pause:3.10", OomScores::Restricted);
            for line in [
                "= \"registry.example/pause:3.10\"",
                "restrict_oom_score_adj = true",
                "snapshotter = \"overlayfs\"",
                "\"/opt/cni/bin\"",
                "conf_dir = \"/etc/cni/net.d\"",
                "SystemdCgroup = false",
            ] {
                assert!(text.contains(line), "{format:?} lacks {line}");
            }
            assert!(render(format, "p", OomScores::Free).contains("restrict_oom_score_adj = false"));
            assert!(render(format, "a\"\nb", OomScores::Free).contains(r#"= "a\"\nb""#));
        }
    }
}
