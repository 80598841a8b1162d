//! A plan for people.

use std::fmt;

use super::{MachineConfig, Plan};

/// How many machines are listed one by one before the rest is counted.
const MOST_MACHINES: usize = 20;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan for {}", self.infra_id)?;
        if !self.edited.is_empty() {
            writeln!(f, "\nedited since prepare, and used as they are:")?;
            self.edited.iter().try_for_each(|path| writeln!(f, "  {path}"))?;
        }
        writeln!(f, "\nresources ({})", self.resources.len())?;
        let few = self.resources.iter().filter(|r| r.kind != "machine");
        let machines = self.resources.iter().filter(|r| r.kind == "machine");
        for resource in few.chain(machines.clone().take(MOST_MACHINES)) {
            writeln!(f, "  {:<9} {:<34} {}", resource.kind, resource.name, resource.detail)?;
        }
        let more = machines.count().saturating_sub(MOST_MACHINES);
        if more > 0 {
            writeln!(f, "  and {more} more machines (-o json lists them)")?;
        }
        self.configs.iter().try_for_each(|(name, config)| config_text(f, name, config))?;
        writeln!(f, "\ncertificates ({})", self.certificates.len())?;
        for certificate in &self.certificates {
            writeln!(f, "  {:<26} until {}  {}", certificate.name, certificate.expiry, certificate.sans.join(", "))?;
        }
        for (component, arguments) in &self.flags {
            writeln!(f, "\nflags of {component} ({})", arguments.len())?;
            arguments.iter().try_for_each(|argument| writeln!(f, "  {argument}"))?;
        }
        Ok(())
    }
}

fn config_text(f: &mut fmt::Formatter<'_>, name: &str, config: &MachineConfig) -> fmt::Result {
    writeln!(f, "\nconfig {name} ({} files, {} units)", config.files.len(), config.units.len())?;
    for file in &config.files {
        writeln!(f, "  {} {} {}", file.mode, &file.digest[..19], file.path)?;
    }
    for unit in &config.units {
        let start = if unit.enabled { "enabled" } else { "started by others" };
        writeln!(f, "  unit {} {} ({start})", &unit.digest[..19], unit.name)?;
    }
    Ok(())
}
