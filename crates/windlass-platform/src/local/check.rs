//! What can be known about the local cloud before it is asked for anything.

use std::path::Path;

use windlass_cloud_api::Egress;
use windlass_spec::CompleteSpec;
use windlass_spec::file::{self, Platform as PlatformSpec};
use windlass_steps::report::chain;

use super::Local;

/// Where programs are that every service finds.
const PROGRAM_DIRS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// What lets machines out, without root's help.
const WAYS_OUT: [&str; 2] = ["pasta", "slirp4netns"];

/// Whether machines reach the outside: by the spec, or by what this host has.
pub(super) fn egress(spec: &CompleteSpec) -> Egress {
    match wanted(spec) {
        file::Egress::On => Egress::On,
        file::Egress::Off => Egress::Off,
        file::Egress::Auto if has_way_out() => Egress::On,
        file::Egress::Auto => Egress::Off,
    }
}

pub(super) async fn problems(local: &Local, spec: &CompleteSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if !local.daemon.program.is_file() {
        problems.push(format!("{} is missing: it belongs beside windlass", local.daemon.program.display()));
    }
    if wanted(spec) == file::Egress::On && !has_way_out() {
        problems.push(format!("egress is on, but none of {} is installed", WAYS_OUT.join(" and ")));
    }
    let subnet = spec.spec.network.machine_cidr.net();
    if !(12..=28).contains(&subnet.prefix_len()) || !subnet.network().is_private() {
        problems.push(format!("the machines' range {subnet} is not a private range between a /12 and a /28"));
    }
    problems.extend(taken(local).await);
    problems
}

/// Whether something of this name is there already. A cloud that does not run has nothing, unless its host has started again
/// since: it is woken then.
async fn taken(local: &Local) -> Option<String> {
    if let Err(error) = local.wake().await {
        return Some(chain(&error).join(": "));
    }
    let status = match local.daemon.status().await {
        Ok(status) => status?,
        Err(error) => return Some(chain(&error).join(": ")),
    };
    let known = status.clusters.iter().chain(&status.strays).any(|name| *name == local.cluster);
    known.then(|| format!("a cluster {0} is there already: windlass down --infra-id {0}", local.cluster))
}

fn wanted(spec: &CompleteSpec) -> file::Egress {
    match &spec.spec.platform {
        PlatformSpec::Local(local) => local.egress,
        _ => file::Egress::Off,
    }
}

fn has_way_out() -> bool {
    let installed = |name: &str| PROGRAM_DIRS.iter().any(|dir| Path::new(dir).join(name).is_file());
    WAYS_OUT.iter().any(|name| installed(name))
}
