//! `cargo xtask up`: from a clone to a running cluster.

use std::path::Path;

use windlass_install::host::Group;
use windlass_steps::host::cmd;

use crate::check::set_up_host;
use crate::report::Failure;
use crate::session::Session;

/// Not the whole workspace: an optimised xtask and the tests' crate are of no use here.
const PROGRAMS: [&str; 8] = ["build", "--release", "-p", "windlass", "-p", "windlass-cloud", "-p", "windlass-node"];

/// Sets up the host, builds the programs in release mode, and lets `windlass up` do the rest: a spec unless there is one,
/// the software, the assets, the launch, and how to use what came of it.
pub fn run(session: &mut Session, dir: &Path) -> Result<(), Failure> {
    session.stage("host set-up", |_| set_up_host(Group::Base))?;
    session.stage("build", |s| s.run(s.cargo(&PROGRAMS)))?;
    let windlass = session.built().join("release/windlass");
    session.stage("windlass up", |s| s.run(cmd(&windlass).arg("up").arg("--dir").arg(dir)))?;
    session.summary();
    Ok(())
}
