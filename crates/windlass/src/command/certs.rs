//! `windlass certs …`.

use std::io::Write;

use windlass_pki::{Listing, Pki};
use windlass_steps::clock::{Clock as _, SystemClock};

use super::answer;
use super::plan::open_prepared;
use crate::args::{Certs, Common};
use crate::exit::{Exit, Failure, asset_failure};

pub(super) fn run(common: &Common, command: &Certs, out: &mut impl Write) -> Result<Exit, Failure> {
    let Certs::List = command;
    let dir = open_prepared(common)?;
    let pki = <Pki as windlass_assets::Asset>::read(&dir).map_err(|error| asset_failure(&error))?;
    let listing = Listing::of(&pki, SystemClock::new().now());
    answer(&common.output, out, &listing, || listing.to_text())?;
    Ok(Exit::Done)
}
