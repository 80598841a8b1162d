//! What can be asked of `cargo xtask`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Parser, Subcommand, ValueEnum};

/// The developer's command of windlass.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub struct Args {
    /// Where cargo builds; the workspace's own directory unless given.
    #[arg(long, env = "CARGO_TARGET_DIR", hide = true, global = true)]
    pub target_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub task: Task,
}

/// One thing to do.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// What you run all day: format, clippy, tests, documents, generated files, dependencies
    Check,
    /// What the build runs: host set-up, check, and the tests that need a machine; ends with its counts
    Test {
        /// A fresh clone: build in the user's cache, so that dependencies are compiled once.
        #[arg(long, env = "CI", hide = true, value_parser = FalseyValueParser::new())]
        ci: bool,
        /// The user's cache directory.
        #[arg(long, env = "XDG_CACHE_HOME", hide = true)]
        cache: Option<PathBuf>,
        /// Where the artifacts are kept that the tests use
        #[arg(long, value_name = "DIR", default_value = "/var/cache/windlass")]
        artifacts: PathBuf,
    },
    /// Compare what windlass makes with the golden files
    Golden {
        /// Rewrite the golden files; review the difference before you commit it
        #[arg(long)]
        accept: bool,
    },
    /// Compare the crates' dependencies with the table of the house style
    Deps,
    /// Write the files that are made from code: the reference pages, and data from pinned modules
    Generate {
        /// Write nothing; fail if a file is not what it would be
        #[arg(long)]
        check: bool,
        /// Also the lists of flags, for which upstream's programs are compiled; this takes minutes
        #[arg(long)]
        upstream: bool,
    },
    /// Set up this host, build windlass, fetch the software, and launch a local cluster of three masters and two workers
    Up {
        /// The cluster directory
        #[arg(long, default_value = "windlass-cluster")]
        dir: PathBuf,
    },
    /// Measure against the limits that we promise, in a release build
    Bench {
        /// What to measure
        what: Measure,
        /// Where the artifacts are kept that are used
        #[arg(long, value_name = "DIR", default_value = "/var/cache/windlass")]
        artifacts: PathBuf,
    },
    /// Feed the parsers of foreign bytes with what a fuzzer makes up, for a bounded time
    Fuzz {
        /// How long each target runs
        #[arg(long, value_name = "N", default_value_t = 20)]
        seconds: u64,
        /// The targets, as the files in fuzz/fuzz_targets are called; all unless given
        targets: Vec<String>,
    },
    /// Interrupt the real thing at random moments and see that it recovers; this takes minutes and the whole machine
    Drill {
        /// What to interrupt
        what: Drill,
        /// Decides the moments; drawn and printed unless given
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// A directory to drill in, which is emptied first [default: in the target directory]
        #[arg(long, value_name = "DIR")]
        place: Option<PathBuf>,
        /// Where the artifacts are kept that are used
        #[arg(long, value_name = "DIR", default_value = "/var/cache/windlass")]
        artifacts: PathBuf,
    },
    /// The part of `bench` that runs in the release build
    #[command(hide = true)]
    BenchInner {
        /// What to measure
        what: Measure,
        /// Where the artifacts are kept that are used
        #[arg(long, value_name = "DIR", default_value = "/var/cache/windlass")]
        artifacts: PathBuf,
    },
    /// The balancer that `bench cloud` measures, in a process of its own
    #[command(hide = true)]
    BenchBalancer {
        /// Where to listen
        listen: SocketAddr,
        /// Where to carry connections
        #[arg(required = true)]
        targets: Vec<SocketAddr>,
    },
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// Completing and rendering a spec of 5,000 nodes, and the journal's rate
    Spec,
    /// The local cloud: its balancer beside HAProxy, a machine beside a bare nspawn boot, and its return after a kill
    Cloud,
    /// A cluster of three masters and two workers beside kubeadm's
    Launch,
}

/// What can be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Drill {
    /// `windlass artifacts fetch`, building and making the machine base, into a cache of its own
    Artifacts,
    /// The local cloud's daemon, killed again and again, on simulated and on real machines; clusters that come and go
    Cloud,
    /// `windlass launch` on real machines: killed at every step, without power, with a master cut off, with faults
    Launch,
    /// The node flow on real machines: without bucket, API, update, room or power; updates and versions on clusters
    Node,
}

impl Measure {
    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Spec => "spec",
            Measure::Cloud => "cloud",
            Measure::Launch => "launch",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_measure_is_typed_as_it_is_called() {
        for measure in Measure::value_variants() {
            assert_eq!(Measure::from_str(measure.word(), false), Ok(*measure));
        }
    }
}
