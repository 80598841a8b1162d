//! What upstream's programs accept, told by themselves: small Go programs in `artifacts/` link the pinned modules and
//! print every flag and every configuration field as JSON.

use windlass_steps::host::{cmd, run_blocking};

use crate::report::{Failure, say};
use crate::session::Session;

/// One Go module of ours that has a `describe` program.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Under `artifacts/`.
    module: &'static str,
    /// Under `crates/windlass-spec/data/`.
    file: &'static str,
}

/// Every description that is committed.
pub const DESCRIPTIONS: [Description; 3] = [
    Description { module: "kubernetes-1.36", file: "kubernetes-1.36.3.json" },
    Description { module: "kubernetes-1.35", file: "kubernetes-1.35.4.json" },
    Description { module: "etcd", file: "etcd-3.6.16.json" },
];

impl Description {
    /// Where the result is committed.
    pub fn path(&self) -> String {
        format!("crates/windlass-spec/data/{}", self.file)
    }

    /// Compiles the program and takes what it prints.
    pub fn make(&self, session: &Session) -> Result<String, Failure> {
        let dir = session.root.join("artifacts").join(self.module);
        let trouble = || {
            let what = format!("cannot describe {}", self.module);
            Failure::new(what, format_args!("run `go run ./describe` in {}", dir.display()))
        };
        let command = cmd("go").args(["run", "./describe"]).current_dir(&dir);
        say(format_args!("    {command} in {}, which compiles for minutes", dir.display()));
        let output = run_blocking(command).map_err(|error| trouble().because(error))?;
        String::from_utf8(output.stdout).map_err(|error| trouble().because(error))
    }
}

#[cfg(test)]
mod tests {
    use windlass_spec::KubeVersion;

    use super::*;

    #[test]
    fn every_kubernetes_version_is_described() {
        for version in KubeVersion::ALL {
            let file = format!("kubernetes-{version}.json");
            assert!(DESCRIPTIONS.iter().any(|one| one.file == file && file.starts_with(one.module)), "{version}");
        }
    }
}
