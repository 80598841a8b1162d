//! How a launch that stopped is told, and with which code it ends.

use windlass_install::logbook::LogbookError;
use windlass_install::preflight;
use windlass_platform::PlatformError;
use windlass_steps::journal::JournalError;
use windlass_steps::report::Report;
use windlass_steps::step::{StepName, Stop};

use crate::args::Common;
use crate::exit::{Exit, Failure};

/// The steps that only ask the platform for something.
const RESOURCES: [&str; 2] = ["create-network", "start-machines"];

/// A flow that stopped.
pub(super) fn of_stop(common: &Common, stop: &Stop) -> Failure {
    let exit = exit_of(stop);
    let Report { error, because, next } = stop.report();
    // Each problem that preflight found is a line of one cause.
    let because = match exit {
        Exit::PreflightRefused => because.iter().flat_map(|cause| cause.lines()).map(str::to_owned).collect(),
        _ => because,
    };
    let dir = common.dir.display();
    let next = match exit {
        Exit::PreflightRefused => next,
        Exit::Interrupted => format!("windlass resume --dir {dir}"),
        _ => format!(
            "windlass why --dir {dir} says more; then windlass resume --dir {dir}, or windlass down --dir {dir}"
        ),
    };
    Failure::new(exit, error, because, next)
}

fn exit_of(stop: &Stop) -> Exit {
    let is_resource = |step: &StepName| RESOURCES.contains(&step.as_str());
    match stop {
        Stop::Failed { step, .. } | Stop::Unmet { step, .. } if *step == preflight::NAME => Exit::PreflightRefused,
        Stop::Failed { step, .. } if is_resource(step) => Exit::PlatformFailed,
        Stop::Failed { .. } => Exit::StepFailed,
        Stop::Unmet { .. } => Exit::Unmet,
        Stop::Interrupted { .. } => Exit::Interrupted,
        Stop::Journal { source: JournalError::Lock { .. }, .. } => Exit::Refused,
        Stop::Journal { .. } | Stop::NeedsFirst { .. } => Exit::Unexpected,
        Stop::Reached { .. } => Exit::Done,
    }
}

/// A journal that cannot be begun or gone on with.
pub(in crate::command) fn logbook_failure(common: &Common, error: &LogbookError) -> Failure {
    let dir = common.dir.display();
    let (exit, next) = match error {
        LogbookError::Launched { .. } => (
            Exit::Refused,
            format!("windlass resume --dir {dir} goes on with it, windlass down --dir {dir} removes it"),
        ),
        LogbookError::NotLaunched { .. } => (Exit::Usage, format!("windlass launch --dir {dir}")),
        LogbookError::UseJournal { source: JournalError::Lock { .. }, .. } => {
            (Exit::Refused, "wait until the other windlass has ended".to_owned())
        }
        LogbookError::UseJournal { .. } => (Exit::Unexpected, "look at journal.jsonl, or use another --dir".to_owned()),
        LogbookError::PutAside { .. } => (Exit::Unexpected, "see that the directory can be written".to_owned()),
    };
    Failure::of(exit, error, next)
}

/// Artifacts that machines are made from have gone since preflight saw them.
pub(super) fn missing(common: &Common, missing: &[String]) -> Failure {
    let next = format!("windlass artifacts fetch, then windlass resume --dir {}", common.dir.display());
    Failure::new(Exit::PreflightRefused, "no machine can be made any more", missing.to_vec(), next)
}

/// A platform that did not do what it was asked.
pub(in crate::command) fn platform_failure(error: &PlatformError) -> Failure {
    let next = error.hint().unwrap_or("windlass cloud status and windlass cloud logs say how the local cloud is");
    Failure::of(Exit::PlatformFailed, error, next)
}

#[cfg(test)]
mod tests {
    use windlass_install::preflight::PreflightError;
    use windlass_steps::step::StepError;

    use super::*;

    fn common() -> Common {
        use clap::Parser as _;
        crate::args::Arguments::parse_from(["windlass", "launch", "--dir", "c"]).common
    }

    #[test]
    fn each_stop_has_its_code() {
        let failed = |step| Stop::Failed { step: StepName::new(step), error: StepError::new("do it", "no") };
        let unmet = |step| Stop::Unmet { step: StepName::new(step), unmet: Vec::new() };
        let lock = JournalError::Lock { path: "c/journal.jsonl".into() };
        let cases = [
            (failed("preflight"), 4),
            (unmet("preflight"), 4),
            (failed("create-network"), 5),
            (failed("start-machines"), 5),
            (failed("retire-bootstrap"), 6),
            (unmet("start-machines"), 7),
            (unmet("form-etcd-quorum"), 7),
            (Stop::Interrupted { step: StepName::new("verify") }, 130),
            (Stop::Journal { step: StepName::new("verify"), source: lock }, 8),
        ];
        for (stop, code) in cases {
            assert_eq!(of_stop(&common(), &stop).exit.code(), code, "{stop:?}");
        }
    }

    #[test]
    fn every_problem_of_a_preflight_has_its_line_and_other_failures_name_what_to_run() {
        let problems = vec!["no root".to_owned(), "no nft".to_owned()];
        let error = StepError::new("launch", PreflightError { problems }).hint("mend them");
        let failure = of_stop(&common(), &Stop::Failed { step: StepName::new("preflight"), error });
        assert_eq!(failure.report.because, ["cannot launch", "no root", "no nft"]);
        assert_eq!(failure.report.next, "mend them");
        let failure = of_stop(&common(), &Stop::Unmet { step: StepName::new("verify"), unmet: Vec::new() });
        for words in ["windlass why --dir c", "windlass resume --dir c", "windlass down --dir c"] {
            assert!(failure.report.next.contains(words), "{}", failure.report.next);
        }
    }
}
