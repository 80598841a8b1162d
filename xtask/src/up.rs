//! `cargo xtask up`: from a clone to as far as windlass goes today.

use std::path::Path;

use windlass_install::host::Group;
use windlass_steps::host::{Mode, cmd, make_dir, run_blocking, write_file};

use crate::check::set_up_host;
use crate::report::{Failure, say};
use crate::session::Session;

/// Sets up the host, builds everything in release mode, and prepares a cluster directory.
pub fn run(session: &mut Session, dir: &Path) -> Result<(), Failure> {
    session.stage("host set-up", |_| set_up_host(Group::Base))?;
    session.stage("build", |s| s.run(s.cargo(&["build", "--release", "--workspace"])))?;
    let windlass = session.built().join("release/windlass");
    session.stage("spec", |_| start_spec(&windlass, dir))?;
    session.stage("prepare", |s| s.run(cmd(&windlass).arg("prepare").arg("--dir").arg(dir)))?;
    session.summary();
    say(format_args!("the cluster in {} is prepared; to go on:", dir.display()));
    say(format_args!("    {}", cmd(&windlass).arg("plan").arg("--dir").arg(dir)));
    Ok(())
}

/// Writes the smallest spec, unless there is one: what the user wrote is the user's.
fn start_spec(windlass: &Path, dir: &Path) -> Result<(), Failure> {
    let path = dir.join("cluster.yaml");
    if path.exists() {
        say(format_args!("    {} is there and stays as it is", path.display()));
        return Ok(());
    }
    let failed = || Failure::new(format_args!("cannot write {}", path.display()), "look at the cause");
    let init = cmd(windlass).args(["spec", "init"]);
    say(format_args!("    {init} > {}", path.display()));
    let spec = run_blocking(init).map_err(|error| failed().because(error))?;
    make_dir(dir, Mode::PRIVATE_DIR).map_err(|error| failed().because(error))?;
    write_file(&path, &spec.stdout, Mode::PRIVATE_FILE).map_err(|error| failed().because(error))
}
