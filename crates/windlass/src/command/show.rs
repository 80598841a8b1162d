//! `windlass status`, `windlass verify` and `windlass why`.

use std::io::Write;

use windlass_install::logbook;
use windlass_install::sight::{FakeSight, Watcher};
use windlass_install::status::status as look;
use windlass_install::verify::{Verified, verify as verify_cluster};
use windlass_install::why::why as ask;
use windlass_steps::journal::History;

use super::answer;
use super::launch::logbook_failure;
use super::place::{Place, block_on};
use crate::args::{CloudPlace, Common};
use crate::exit::{Exit, Failure};

pub(super) fn status(common: &Common, place: &CloudPlace, out: &mut impl Write) -> Result<Exit, Failure> {
    let here = Place::open(common, place)?;
    let history = history(common)?.unwrap_or_default();
    let id = &here.metadata.infra_id;
    let status = block_on(async {
        Ok(match place.cloud_simulated {
            false => look(id, &history, &here.platform, &Watcher::new(&here.platform, &here.kubeconfig)).await,
            true => look(id, &history, &here.platform, &FakeSight::whole(&here.spec)).await,
        })
    })?;
    answer(&common.output, out, &status, || status.to_string())?;
    Ok(Exit::Done)
}

pub(super) fn why(common: &Common, place: &CloudPlace, out: &mut impl Write) -> Result<Exit, Failure> {
    let here = Place::open(common, place)?;
    let history = history(common)?;
    let why = block_on(async {
        Ok(match place.cloud_simulated {
            false => ask(history.as_ref(), &here.platform, &Watcher::new(&here.platform, &here.kubeconfig)).await,
            true => ask(history.as_ref(), &here.platform, &FakeSight::whole(&here.spec)).await,
        })
    })?;
    answer(&common.output, out, &why, || match why.findings.is_empty() {
        true => "nothing is known to be wrong\n".to_owned(),
        false => why.to_string(),
    })?;
    Ok(Exit::Done)
}

pub(super) fn verify(common: &Common, place: &CloudPlace, out: &mut impl Write) -> Result<Exit, Failure> {
    let here = Place::open(common, place)?;
    let verified = block_on(async {
        Ok(match place.cloud_simulated {
            false => verify_cluster(&Watcher::new(&here.platform, &here.kubeconfig), &here.spec).await,
            true => verify_cluster(&FakeSight::whole(&here.spec), &here.spec).await,
        })
    })?;
    answer(&common.output, out, &verified, || lines(&verified))?;
    if verified.is_good() {
        return Ok(Exit::Done);
    }
    let wrong = verified.statements.iter();
    let wrong = wrong.filter_map(|one| Some(format!("not met: {}: {}", one.statement, one.reason.as_ref()?)));
    let next = format!("windlass why --dir {}", common.dir.display());
    Err(Failure::new(Exit::Unmet, "the cluster is not ready for its user", wrong.collect(), next))
}

fn lines(verified: &Verified) -> String {
    let word = |reason: &Option<String>| if reason.is_none() { "yes" } else { "no " };
    verified.statements.iter().map(|one| format!("{} {}\n", word(&one.reason), one.statement)).collect()
}

fn history(common: &Common) -> Result<Option<History>, Failure> {
    logbook::read(&common.dir).map_err(|error| logbook_failure(common, &error))
}
