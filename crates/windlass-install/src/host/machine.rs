//! What set-up asks of a machine: look for a program, say who we are, run a command. [`ThisMachine`] is the real one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use windlass_steps::host::{CommandSpec, HostError, Mode, cmd, run_blocking, write_file};

use super::table::{Group, REQUIREMENTS, Requirement, Source, debian};

/// Where Debian and administrators put programs. Not `PATH`: what a user has there is not what a service finds.
const PROGRAM_DIRS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Where settings are kept over boots.
const KEPT: &str = "/etc/sysctl.d";

/// A machine to look at and to set up.
pub trait Machine {
    /// What it should have; a double may ask for less.
    fn requirements(&self) -> &'static [Requirement] {
        &REQUIREMENTS
    }
    /// Where the program, or the file if a path is given, lies, if it is installed for everyone.
    fn find_program(&self, name: &str) -> Option<PathBuf>;
    /// The version of a cargo subcommand such as `cargo-deny`, if cargo finds it and it runs.
    fn tool_version(&self, name: &str) -> Option<String>;
    /// Whether we may change what belongs to the whole machine.
    fn is_root(&self) -> bool;
    /// The value of a kernel setting, if it has a number for one.
    fn setting(&self, name: &str) -> Option<u64>;
    /// Sets a kernel setting, now and after every boot.
    fn raise(&mut self, name: &str, value: u64) -> io::Result<()>;
    /// Runs the command to its end.
    fn run(&mut self, command: CommandSpec) -> Result<(), HostError>;
}

/// The machine that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    fn find_program(&self, name: &str) -> Option<PathBuf> {
        if name.starts_with('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        PROGRAM_DIRS.iter().map(|dir| Path::new(dir).join(name)).find(|path| is_program(path))
    }

    fn tool_version(&self, name: &str) -> Option<String> {
        // Through cargo, which looks into its own home as well as on `PATH`.
        let output = run_blocking(cmd("cargo").args([name.strip_prefix("cargo-")?, "--version"])).ok()?;
        Some(output.text().ok()?.strip_prefix(name)?.trim().to_owned())
    }

    fn is_root(&self) -> bool {
        nix::unistd::geteuid().is_root()
    }

    fn setting(&self, name: &str) -> Option<u64> {
        fs::read_to_string(setting_path(name)).ok()?.trim().parse().ok()
    }

    fn raise(&mut self, name: &str, value: u64) -> io::Result<()> {
        // Written in place: a setting is no file that could be replaced.
        fs::OpenOptions::new().write(true).open(setting_path(name))?.write_all(value.to_string().as_bytes())?;
        let text = format!("# Written by `windlass host setup`.\n{name} = {value}\n");
        write_file(Path::new(KEPT).join(format!("90-windlass-{name}.conf")), text, Mode::PUBLIC)
            .map_err(io::Error::other)
    }

    fn run(&mut self, command: CommandSpec) -> Result<(), HostError> {
        run_blocking(command).map(drop)
    }
}

fn setting_path(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// A double for tests: programs and tools by name, and a script of what each command brings along.
#[derive(Clone, Debug, Default)]
pub struct FakeMachine {
    /// The programs in `/usr/bin`.
    pub programs: Vec<&'static str>,
    /// Cargo's subcommands with their versions.
    pub tools: BTreeMap<&'static str, &'static str>,
    /// The one kernel setting.
    pub setting: u64,
    /// Whether we are root.
    pub root: bool,
    /// The program that a command brings, by the last word of the command's line; a command not listed fails.
    pub brings: BTreeMap<&'static str, Option<&'static str>>,
    /// The lines that were run.
    pub ran: Vec<String>,
}

/// What a double should have: a row of each kind, so that tests do not change with the real list.
const FEW: [Requirement; 5] = [
    debian("ignition", Group::Base, "ignition-validate", "checks the Ignition configs that windlass makes"),
    Requirement {
        package: "fs.setting",
        source: Source::Kernel { at_least: 9 },
        group: Group::Dev,
        program: "/proc/sys/fs/setting",
        purpose: "stands for a kernel setting",
    },
    debian("openssl", Group::Dev, "openssl", "stands for what is there"),
    debian("systemd", Group::Dev, "systemd-analyze", "checks the systemd units in the tests"),
    Requirement {
        package: "cargo-deny",
        source: Source::CratesIo { version: "0.20.2" },
        group: Group::Dev,
        program: "cargo-deny",
        purpose: "stands for a tool of cargo's",
    },
];

impl Machine for FakeMachine {
    fn requirements(&self) -> &'static [Requirement] {
        &FEW
    }

    fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.programs.contains(&name).then(|| Path::new("/usr/bin").join(name))
    }

    fn tool_version(&self, name: &str) -> Option<String> {
        self.tools.get(name).map(|version| (*version).to_owned())
    }

    fn is_root(&self) -> bool {
        self.root
    }

    fn setting(&self, _: &str) -> Option<u64> {
        Some(self.setting)
    }

    fn raise(&mut self, name: &str, value: u64) -> io::Result<()> {
        self.setting = value;
        self.ran.push(format!("{name} = {value}"));
        Ok(())
    }

    fn run(&mut self, command: CommandSpec) -> Result<(), HostError> {
        let line = command.line();
        let last = line.rsplit(' ').next().unwrap_or_default();
        let brought = self.brings.get(last).copied();
        self.ran.push(line.clone());
        match brought {
            None => Err(HostError::FindProgram { program: line }),
            Some(None) => Ok(()),
            Some(Some(tool)) if tool.starts_with("cargo-") => {
                self.tools.insert(tool, "99.0.0");
                Ok(())
            }
            Some(Some(program)) => {
                self.programs.push(program);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_shell_and_no_nonsense() {
        assert!(ThisMachine.find_program("sh").is_some());
        assert_eq!(ThisMachine.find_program("no-such-program"), None);
        assert_eq!(ThisMachine.tool_version("cargo-no-such-tool"), None);
        assert_eq!(ThisMachine.tool_version("not-of-cargo"), None);
    }

    #[test]
    fn a_directory_or_a_plain_file_is_not_a_program() {
        assert!(!is_program(Path::new("/usr/bin")));
        assert!(!is_program(Path::new("/etc/passwd")));
    }
}
