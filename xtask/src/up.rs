//! `cargo xtask up`: from a clone to as far as windlass goes today.

use std::path::Path;

use serde_json::Value;
use windlass_install::host::Group;
use windlass_steps::host::{CommandSpec, Mode, cmd, make_dir, run_blocking, write_file};

use crate::check::set_up_host;
use crate::report::{Failure, say};
use crate::session::Session;

/// Sets up the host, builds everything in release mode, prepares a cluster directory, and fetches the software for it.
pub fn run(session: &mut Session, dir: &Path) -> Result<(), Failure> {
    session.stage("host set-up", |_| set_up_host(Group::Base))?;
    session.stage("build", |s| s.run(s.cargo(&["build", "--release", "--workspace"])))?;
    let windlass = session.built().join("release/windlass");
    session.stage("spec", |_| start_spec(&windlass, dir))?;
    session.stage("prepare", |s| s.run(cmd(&windlass).arg("prepare").arg("--dir").arg(dir)))?;
    session.stage("artifacts", |s| s.run(fetch(&windlass, dir)?))?;
    session.summary();
    say(format_args!("the cluster in {} is prepared, and its software is here; to go on:", dir.display()));
    say(format_args!("    {}", cmd(&windlass).arg("plan").arg("--dir").arg(dir)));
    Ok(())
}

/// The software for the version that the spec decides for, from where it says.
fn fetch(windlass: &Path, dir: &Path) -> Result<CommandSpec, Failure> {
    let failed = || Failure::new("cannot read the completed spec", "look at the cause");
    let complete = cmd(windlass).args(["spec", "complete", "--output", "json", "--dir"]).arg(dir);
    let complete = run_blocking(complete).map_err(|error| failed().because(error))?;
    let spec: Value = serde_json::from_slice(&complete.stdout).map_err(|error| failed().because(error))?;
    let decided = [
        ("--kubernetes-version", "/spec/kubernetesVersion"),
        ("--source", "/spec/artifacts/source"),
        ("--mirror", "/spec/artifacts/mirror"),
    ];
    let mut command = cmd(windlass).args(["artifacts", "fetch"]);
    for (flag, path) in decided {
        let value = spec.pointer(path).and_then(Value::as_str);
        command = command.arg(flag).arg(value.ok_or_else(|| failed().because(format!("{path} is no text")))?);
    }
    Ok(command)
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
