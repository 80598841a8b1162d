//! `windlass plan`.

use std::io::Write;

use windlass_assets::AssetDir;
use windlass_install::plan::Plan;

use super::answer;
use crate::args::Common;
use crate::exit::{Exit, Failure, asset_failure};

pub(super) fn run(common: &Common, out: &mut impl Write) -> Result<Exit, Failure> {
    let dir = open_prepared(common)?;
    let plan = Plan::of(&dir).map_err(|error| asset_failure(&error))?;
    answer(&common.output, out, &plan, || plan.to_string())?;
    Ok(Exit::Done)
}

/// The cluster directory, if `prepare` has finished there.
pub(super) fn open_prepared(common: &Common) -> Result<AssetDir, Failure> {
    let dir = AssetDir::open(&common.dir).map_err(|error| asset_failure(&error))?;
    if dir.is_prepared() {
        return Ok(dir);
    }
    let error = format!("{} is not prepared", common.dir.display());
    let next = format!("windlass prepare --dir {}", common.dir.display());
    Err(Failure::new(Exit::Usage, error, vec!["there is no assets.lock in it".to_owned()], next))
}
