//! `windlass image …`.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use windlass_platform::{MachineState, Platform, SeenMachine, Task};
use windlass_steps::host::read_file;

use super::launch::platform_failure;
use super::place::{Place, block_on};
use super::{answer, say};
use crate::args::{Common, Image, ImageCommand, Output};
use crate::exit::{Exit, Failure};

/// The local cloud takes no larger body.
const LIMIT: u64 = 500 << 20;
const IMPORT: [&str; 6] = ["ctr", "--namespace", "k8s.io", "images", "import", "-"];
/// More would each be slower, and each holds the whole archive.
const AT_ONCE: usize = 3;
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) fn run(
    common: &Common,
    command: &Image,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let here = Place::open(common, &command.place)?;
    let ImageCommand::Load { archives } = &command.command;
    let machines = block_on(async { here.platform.machines().await.map_err(|error| platform_failure(&error)) })?;
    if machines.is_empty() {
        let because = vec![format!("{} has no machine", here.metadata.infra_id)];
        return Err(Failure::new(Exit::Usage, "there is nowhere to load images to", because, "windlass up"));
    }
    let mut loaded = Vec::new();
    for archive in archives {
        let next = "name an OCI or docker archive of at most 500 MiB";
        let bytes = read_file(archive, LIMIT).map_err(|error| Failure::of(Exit::Usage, &error, next))?;
        for some in machines.chunks(AT_ONCE) {
            let names: Vec<&str> = some.iter().map(|machine| machine.name.as_str()).collect();
            if common.output == Output::Text {
                say(err, &format!("{}: to {}\n", archive.display(), names.join(", ")))?;
            }
            block_on(async { load_on(&here, some, archive, &bytes).await })?;
        }
        loaded.push(archive.display().to_string());
    }
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    answer(&common.output, out, &json!({ "archives": loaded, "machines": names }), || {
        format!("{} archives are on {} machines\n", loaded.len(), names.len())
    })?;
    Ok(Exit::Done)
}

async fn load_on(here: &Place, machines: &[SeenMachine], archive: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let loads = machines.iter().map(|machine| load(here, machine, archive, bytes));
    futures_util::future::try_join_all(loads).await.map(drop)
}

async fn load(here: &Place, machine: &SeenMachine, archive: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |because: String| {
        let error = format!("{} was not loaded on {}", archive.display(), machine.name);
        let next = "mend the cause and load it again; machines that have it are left alone";
        Failure::new(Exit::Unexpected, error, vec![because], next)
    };
    if machine.state != MachineState::Running {
        return Err(failed(format!("it {}", machine.state)));
    }
    let task = Task { stdin: bytes.to_vec(), ..Task::new(IMPORT, PATIENCE) };
    let ran = here.platform.exec(&machine.name, &task).await.map_err(|error| platform_failure(&error))?;
    match ran.code {
        0 => Ok(()),
        code => Err(failed(format!("ctr ended with code {code}: {}", ran.stderr.trim()))),
    }
}
