//! `windlass host …`.

use std::io::Write;

use windlass_install::host::{Group, Report, ThisMachine, check, setup};

use super::{answer, notice};
use crate::args::{Common, Host, HostScope};
use crate::exit::{Exit, Failure};

pub(super) fn run(
    common: &Common,
    command: &Host,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    match command {
        Host::Check(scope) => {
            let report = check(&ThisMachine, group(*scope));
            answer(&common.output, out, &report, || report.to_string())?;
            if report.is_complete() { Ok(Exit::Done) } else { Err(incomplete(&report, *scope)) }
        }
        Host::Setup(scope) => {
            // Words that cannot be written are no reason to leave a machine half set up.
            let announce = |line: &str| drop(notice(&common.output, err, line));
            let report = setup(&mut ThisMachine, group(*scope), announce)
                .map_err(|error| Failure::of(Exit::Unexpected, &error, error.hint()))?;
            answer(&common.output, out, &report, || report.to_string())?;
            Ok(Exit::Done)
        }
    }
}

fn group(scope: HostScope) -> Group {
    if scope.dev { Group::Dev } else { Group::Base }
}

fn incomplete(report: &Report, scope: HostScope) -> Failure {
    let missing = report.missing().map(|r| format!("{} is missing: {}", r.package, r.purpose)).collect();
    let next = if scope.dev { "windlass host setup --dev" } else { "windlass host setup" };
    Failure::new(Exit::Unmet, "this machine lacks something that windlass needs", missing, next)
}
