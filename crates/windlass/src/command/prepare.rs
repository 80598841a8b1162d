//! `windlass prepare`.

use std::io::Write;

use time::{Date, Month, OffsetDateTime, Time};
use windlass_install::prepare::{PrepareError, Prepared, prepare};
use windlass_pki::{RandomKeys, SeededKeys};
use windlass_steps::clock::{Clock as _, SystemClock};

use super::{answer, notice, say, spec};
use crate::args::{Common, Output, Prepare};
use crate::exit::{Exit, Failure, prepare_failure};

pub(super) fn run(
    common: &Common,
    command: &Prepare,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let (place, bytes) = spec::read(common, &command.source)?;
    let now = SystemClock::new().now();
    let prepared = match &command.seed {
        Some(seed) => {
            notice(&common.output, err, "warning: --seed makes keys that are not secret: for tests only")?;
            prepare(common.dir.clone(), &bytes, &mut SeededKeys::new(seed), start_of_month(now))
        }
        None => prepare(common.dir.clone(), &bytes, &mut random_keys()?, now),
    };
    let prepared = prepared.map_err(|error: PrepareError| prepare_failure(&place, &error))?;
    if common.output == Output::Text && !prepared.kept.is_empty() {
        say(err, &format!("edited, and kept as they are: {}\n", prepared.kept.join(", ")))?;
    }
    answer(&common.output, out, &prepared, || text(&prepared))?;
    Ok(Exit::Done)
}

/// Prepares the cluster directory from the text of a spec, for whoever goes on with it.
pub(super) fn with_random_keys(common: &Common, place: &str, bytes: &[u8]) -> Result<Prepared, Failure> {
    again(common, bytes)?.map_err(|error| prepare_failure(place, &error))
}

/// The same, for whoever makes something of a refusal.
pub(super) fn again(common: &Common, bytes: &[u8]) -> Result<Result<Prepared, PrepareError>, Failure> {
    let now = SystemClock::new().now();
    Ok(prepare(common.dir.clone(), bytes, &mut random_keys()?, now))
}

fn random_keys() -> Result<RandomKeys, Failure> {
    let next = "see that this system has a source of randomness";
    RandomKeys::from_os().map_err(|error| Failure::of(Exit::Unexpected, &error, next))
}

fn text(prepared: &Prepared) -> String {
    format!(
        "{} is prepared in {}: {} files written, {} removed, {} edited ones kept\nnext: windlass plan --dir {1}\n",
        prepared.infra_id,
        prepared.directory.display(),
        prepared.written.len(),
        prepared.removed.len(),
        prepared.kept.len(),
    )
}

/// With a seed, runs of the same month are the same to the byte; certificates begin where it began.
fn start_of_month(now: OffsetDateTime) -> OffsetDateTime {
    let first = Date::from_calendar_date(now.year(), now.month(), 1);
    let first =
        first.or_else(|_| Date::from_calendar_date(1970, Month::January, 1)).expect("every month has a first day");
    first.with_time(Time::MIDNIGHT).assume_utc()
}
