//! What windlass needs on the host it runs on, and how to get it: one list, [`REQUIREMENTS`], a [`check`] that
//! only looks, a [`plan`] that only decides, and a [`setup`] that does what the plan says and then looks again.
//!
//! Packages come from Debian; the tools of `--dev` that Debian does not have come from crates.io. What is there already
//! is left alone, so that a second set-up does nothing and needs no rights.

mod error;
mod machine;
mod report;
mod table;

pub use error::SetupError;
pub use machine::{FakeMachine, Machine, ThisMachine};
pub use report::{Finding, Report, State};
pub use table::{Group, REQUIREMENTS, Requirement, Source};

use windlass_steps::host::{CommandSpec, HostError, cmd};

/// One thing that set-up will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask Debian for these packages, all at once.
    InstallPackages(Vec<&'static str>),
    /// Raise a setting of the kernel, now and after every boot.
    Raise {
        /// Its name, as sysctl writes it.
        name: &'static str,
        /// Its new value.
        value: u64,
    },
    /// Build one tool from crates.io into cargo's home.
    InstallTool {
        /// The crate, which is also the program.
        name: &'static str,
        /// The version that the repository's files are written for.
        version: &'static str,
    },
}

/// Looks for everything in the group, and changes nothing.
pub fn check(machine: &impl Machine, group: Group) -> Report {
    let wanted = machine.requirements().iter().filter(|requirement| group.includes(requirement.group));
    let findings = wanted.map(|requirement| Finding { requirement, state: look(machine, requirement) }).collect();
    Report { group, findings }
}

/// What has to be done about what is missing, in order; nothing if nothing is.
pub fn plan(report: &Report) -> Vec<Action> {
    let mut packages = Vec::new();
    let mut tools = Vec::new();
    for requirement in report.missing() {
        match requirement.source {
            Source::Debian => packages.push(requirement.package),
            Source::Kernel { at_least } => tools.push(Action::Raise { name: requirement.package, value: at_least }),
            Source::CratesIo { version } => tools.push(Action::InstallTool { name: requirement.package, version }),
        }
    }
    let packages = Some(packages).filter(|packages| !packages.is_empty()).map(Action::InstallPackages);
    packages.into_iter().chain(tools).collect()
}

/// Installs what is missing from the group, says each thing before doing it, and answers with a second look.
pub fn setup(machine: &mut impl Machine, group: Group, mut announce: impl FnMut(&str)) -> Result<Report, SetupError> {
    let before = check(machine, group);
    let actions = plan(&before);
    if actions.is_empty() {
        announce(&format!("nothing to install, all {} are present", before.findings.len()));
        return Ok(before);
    }
    for action in &actions {
        match action {
            Action::InstallPackages(packages) => install_packages(machine, group, packages, &mut announce)?,
            Action::Raise { name, value } => raise(machine, name, *value, &mut announce)?,
            Action::InstallTool { name, version } => install_tool(machine, name, version, &mut announce)?,
        }
    }
    let after = check(machine, group);
    match after.is_complete() {
        true => Ok(after),
        false => Err(SetupError::StillMissing { missing: after.missing().map(|one| one.sign()).collect() }),
    }
}

fn look(machine: &impl Machine, requirement: &Requirement) -> State {
    let found = match requirement.source {
        Source::Debian => machine.find_program(requirement.program).map(|path| path.display().to_string()),
        Source::Kernel { at_least } => {
            let value = machine.setting(requirement.package).filter(|value| *value >= at_least);
            value.map(|value| format!("{} = {value}", requirement.package))
        }
        Source::CratesIo { version } => machine
            .tool_version(requirement.program)
            .filter(|found| table::is_at_least(found, version))
            .map(|found| format!("{} {found}", requirement.program)),
    };
    found.map_or(State::Missing, |found| State::Present { found })
}

fn install_packages(
    machine: &mut impl Machine,
    group: Group,
    packages: &[&'static str],
    announce: &mut impl FnMut(&str),
) -> Result<(), SetupError> {
    if machine.find_program("apt-get").is_none() {
        return Err(SetupError::InstallWithoutApt { packages: packages.to_vec() });
    }
    if !machine.is_root() {
        return Err(SetupError::InstallWithoutRoot { group, packages: packages.to_vec() });
    }
    let update = apt_get().arg("update");
    let install = apt_get().args(["install", "-y", "--no-install-recommends"]).args(packages);
    // The lists that are here may do: `update` does not wait for another apt to release them. The install decides.
    let updated = announced(machine, update, announce).inspect_err(|error| {
        announce(&format!("{error}"));
        announce("going on with the package lists that are here");
    });
    announced(machine, install, announce).map_err(|source| SetupError::InstallPackages {
        packages: packages.to_vec(),
        update: updated.err().map(Box::new),
        source,
    })
}

fn raise(
    machine: &mut impl Machine,
    name: &'static str,
    value: u64,
    announce: &mut impl FnMut(&str),
) -> Result<(), SetupError> {
    if !machine.is_root() {
        return Err(SetupError::RaiseWithoutRoot { name, value });
    }
    announce(&format!("setting: {name} = {value}"));
    machine.raise(name, value).map_err(|source| SetupError::Raise { name, value, source })
}

fn install_tool(
    machine: &mut impl Machine,
    name: &'static str,
    version: &'static str,
    announce: &mut impl FnMut(&str),
) -> Result<(), SetupError> {
    // What cargo prints goes to stderr, and there is much to wait for.
    let install = cmd("cargo").args(["install", "--locked", "--version", version, name]).inherit();
    announced(machine, install, announce).map_err(|source| SetupError::InstallTool { name, version, source })
}

fn apt_get() -> CommandSpec {
    // Waits for another dpkg instead of failing at once; a fresh machine is often still upgrading itself.
    cmd("apt-get").args(["-o", "DPkg::Lock::Timeout=120"]).env("DEBIAN_FRONTEND", "noninteractive")
}

fn announced(
    machine: &mut impl Machine,
    command: CommandSpec,
    announce: &mut impl FnMut(&str),
) -> Result<(), HostError> {
    announce(&format!("running: {command}"));
    machine.run(command)
}

#[cfg(test)]
mod tests;
