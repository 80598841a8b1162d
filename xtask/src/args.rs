//! What can be asked of `cargo xtask`.

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
    /// Set up this host, build windlass, and go as far as windlass goes today: a prepared cluster directory
    Up {
        /// The cluster directory
        #[arg(long, default_value = "windlass-cluster")]
        dir: PathBuf,
    },
    /// Measure against the limits that we promise, in a release build
    Bench {
        /// What to measure
        what: Measure,
    },
    /// The part of `bench` that runs in the release build
    #[command(hide = true)]
    BenchInner {
        /// What to measure
        what: Measure,
    },
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// Completing and rendering a spec of 5,000 nodes, and the journal's rate
    Spec,
}

impl Measure {
    /// As it is typed.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Spec => "spec",
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
