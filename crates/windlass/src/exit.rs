//! Exit codes, and how a failure is told.

use std::process::ExitCode;

use serde::Serialize;
use windlass_assets::asset::AssetError;
use windlass_install::prepare::PrepareError;
use windlass_spec::Problems;
use windlass_steps::report::{Report, chain};

use crate::args::Output;

/// How `windlass` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Something that nobody foresaw.
    Unexpected,
    /// The arguments make no sense.
    Usage,
    /// The spec was rejected or cannot be read.
    SpecRejected,
    /// Something stands in the way of a launch.
    PreflightRefused,
    /// The platform did not make or remove what it was asked for.
    PlatformFailed,
    /// The cluster did not come up.
    StepFailed,
    /// Something is not as it should be.
    Unmet,
    /// Already launched, or an edit would be overwritten.
    Refused,
    /// An artifact is not what it should be.
    NotTrusted,
    /// A signal ended it.
    Interrupted,
}

impl Exit {
    /// Every code that is in use, in order.
    pub const ALL: [Exit; 11] = [
        Exit::Done,
        Exit::Unexpected,
        Exit::Usage,
        Exit::SpecRejected,
        Exit::PreflightRefused,
        Exit::PlatformFailed,
        Exit::StepFailed,
        Exit::Unmet,
        Exit::Refused,
        Exit::NotTrusted,
        Exit::Interrupted,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Unexpected => 1,
            Exit::Usage => 2,
            Exit::SpecRejected => 3,
            Exit::PreflightRefused => 4,
            Exit::PlatformFailed => 5,
            Exit::StepFailed => 6,
            Exit::Unmet => 7,
            Exit::Refused => 8,
            Exit::NotTrusted => 9,
            Exit::Interrupted => 130,
        }
    }

    /// What it means, for the reference.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Unexpected => "unexpected failure",
            Exit::Usage => "wrong usage",
            Exit::SpecRejected => "spec rejected, or not readable",
            Exit::PreflightRefused => "preflight refused: something stands in the way of a launch",
            Exit::PlatformFailed => "platform resources failed",
            Exit::StepFailed => "bootstrap or a later step failed",
            Exit::Unmet => "criteria unmet at the deadline, or `verify` or `host check` found something wrong",
            Exit::Refused => "refused: already launched, or an edit would be overwritten",
            Exit::NotTrusted => "artifact not trusted: digest or signature",
            Exit::Interrupted => "interrupted",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A command that did not do what it was asked, and what to say about it.
#[derive(Debug)]
pub struct Failure {
    /// The code to leave with.
    pub exit: Exit,
    /// The words for stderr.
    pub report: Report,
}

impl Failure {
    /// A failure from an error and what to do next.
    pub fn of(exit: Exit, error: &dyn std::error::Error, next: impl Into<String>) -> Self {
        let mut because = chain(error).into_iter();
        let error = because.next().unwrap_or_default();
        Failure { exit, report: Report { error, because: because.collect(), next: next.into() } }
    }

    /// A failure in words.
    pub fn new(exit: Exit, error: impl Into<String>, because: Vec<String>, next: impl Into<String>) -> Self {
        Failure { exit, report: Report { error: error.into(), because, next: next.into() } }
    }

    /// As it is told on stderr, where one line of data follows others if progress is data.
    pub fn told(&self, form: &Output) -> String {
        let Report { error, because, next } = &self.report;
        match form {
            Output::Text | Output::File(_) => self.report.to_string(),
            Output::Json => {
                let line = FailureLine { error, because, next, exit: self.exit.code() };
                serde_json::to_string(&line).expect("words and a number have a JSON form") + "\n"
            }
        }
    }

    /// A spec that was rejected: one line for each problem.
    pub fn spec(place: &str, problems: &Problems) -> Self {
        let because = problems.0.iter().map(ToString::to_string).collect();
        let next = "mend the spec; `windlass spec explain PATH` tells what a field takes";
        Failure::new(Exit::SpecRejected, format!("{place}: {problems}"), because, next)
    }
}

/// A failure as data.
#[derive(Serialize)]
struct FailureLine<'a> {
    error: &'a str,
    because: &'a [String],
    next: &'a str,
    exit: u8,
}

/// What to do about an asset that could not be made, read or written.
pub fn asset_failure(error: &AssetError) -> Failure {
    let (exit, next) = match error {
        AssetError::Overwrite { .. } => {
            (Exit::Refused, "undo the edits, or remove those files and prepare again; nothing was changed")
        }
        AssetError::FindFile { .. } | AssetError::OpenFile { .. } => {
            (Exit::Unexpected, "put the file back, or use another --dir; nothing was changed")
        }
        AssetError::MakePki { .. } | AssetError::ReadAsset { .. } => {
            (Exit::Unexpected, "put the file right, or use another --dir; nothing was changed")
        }
        AssetError::LockDirectory { .. } => (Exit::Refused, "wait until it has finished"),
        AssetError::UseDirectory { .. } => {
            (Exit::Unexpected, "see that the directory can be written, or use another --dir")
        }
        AssetError::MakeAddonKeys { .. } => (Exit::Unexpected, "see that this host's clock is right"),
        AssetError::RenderManifests { .. } => (Exit::Unexpected, "this is a fault of windlass: please report it"),
    };
    Failure::of(exit, error, next)
}

/// The same for what a launch is made from: a file that is missing or damaged stands in its way, and nothing was made yet.
pub fn launch_asset_failure(error: &AssetError) -> Failure {
    let failure = asset_failure(error);
    match is_damaged(error) {
        true => Failure { exit: Exit::PreflightRefused, ..failure },
        false => failure,
    }
}

/// The same for everything that is missing or damaged, so that it is put right at once; nothing if that is not more than one.
pub fn damage_failure(damage: &[AssetError]) -> Option<Failure> {
    let mut because: Vec<String> =
        damage.iter().filter(|error| is_damaged(error)).map(|error| chain(error).join(": ")).collect();
    because.dedup();
    let next = "put these files right or back, or use another --dir; nothing was changed";
    let error = format!("{} files of this cluster are missing or damaged", because.len());
    (because.len() > 1).then(|| Failure::new(Exit::PreflightRefused, error, because, next))
}

fn is_damaged(error: &AssetError) -> bool {
    use AssetError::{FindFile, MakePki, OpenFile, ReadAsset};
    matches!(error, FindFile { .. } | OpenFile { .. } | ReadAsset { .. } | MakePki { .. })
}

/// What to do about a launch that could not prepare again.
pub fn launch_prepare_failure(place: &str, error: &PrepareError) -> Failure {
    let failure = prepare_failure(place, error);
    match error {
        PrepareError::PrepareAssets { source } if is_damaged(source) => {
            Failure { exit: Exit::PreflightRefused, ..failure }
        }
        _ => failure,
    }
}

/// What to do about a `prepare` that stopped.
pub fn prepare_failure(place: &str, error: &PrepareError) -> Failure {
    match error {
        PrepareError::RejectSpec { source } => Failure::spec(place, source),
        PrepareError::Launched { .. } => Failure::of(Exit::Refused, error, "use another --dir for another cluster"),
        PrepareError::ReadJournal { .. } => {
            Failure::of(Exit::Unexpected, error, "look at journal.jsonl, or use another --dir")
        }
        PrepareError::PrepareAssets { source } => {
            let failure = asset_failure(source);
            Failure::of(failure.exit, error, failure.report.next)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_no_refusal_and_stands_in_the_way_of_a_launch() {
        let find = || AssetError::FindFile { path: "assets/pki/ca.crt".into() };
        let open = || AssetError::OpenFile { path: "assets/pki/ca.crt".into() };
        let read = || AssetError::ReadAsset { path: "complete.yaml".into(), asset: "spec", reason: "no".into() };
        let overwrite = || AssetError::Overwrite { paths: vec!["complete.yaml".into()] };
        let cases = [(find(), 1, 4), (open(), 1, 4), (read(), 1, 4), (overwrite(), 8, 8)];
        for (error, alone, launching) in cases {
            assert_eq!(asset_failure(&error).exit.code(), alone, "{error}");
            assert_eq!(launch_asset_failure(&error).exit.code(), launching, "{error}");
            let error = PrepareError::PrepareAssets { source: error };
            assert_eq!(prepare_failure("the spec", &error).exit.code(), alone, "{error}");
            assert_eq!(launch_prepare_failure("the spec", &error).exit.code(), launching, "{error}");
        }
    }

    #[test]
    fn a_failure_is_one_line_where_progress_is_data() {
        let because = vec!["two\nlines".to_owned()];
        let failure = Failure::new(Exit::Unmet, "it is not", because, "look");
        let line = "{\"error\":\"it is not\",\"because\":[\"two\\nlines\"],\"next\":\"look\",\"exit\":7}\n";
        assert_eq!(failure.told(&Output::Json), line);
        assert!(failure.told(&Output::Text).starts_with("error: it is not\nbecause: two\n"));
    }
}
