use super::double::status;
use super::*;

fn checked(at: i64, operation: Operation) -> Status {
    Status { last_checked: at, ..status(operation, "", 0.0) }
}

fn doing(operation: Operation) -> Status {
    status(operation, "2", 0.0)
}

#[tokio::test(start_paused = true)]
async fn an_update_ends_as_the_engine_says() {
    let staged = Outcome::Staged { version: "2".to_owned() };
    let cases = [
        (
            "nothing newer",
            vec![checked(0, Operation::CheckingForUpdate), checked(9, Operation::Idle)],
            Outcome::UpToDate,
        ),
        ("nothing newer, told late", vec![checked(9, Operation::Idle)], Outcome::UpToDate),
        (
            "nothing newer, in the same second",
            vec![checked(0, Operation::CheckingForUpdate), checked(0, Operation::Idle)],
            Outcome::UpToDate,
        ),
        (
            "staged",
            vec![
                checked(0, Operation::CheckingForUpdate),
                doing(Operation::UpdateAvailable),
                doing(Operation::Downloading),
                status(Operation::Downloading, "2", 0.5),
                doing(Operation::Verifying),
                doing(Operation::Finalizing),
                doing(Operation::UpdatedNeedReboot),
            ],
            staged.clone(),
        ),
        (
            "staged by an engine that knows more",
            vec![doing(Operation::Other("UPDATE_STATUS_NEW".to_owned())), doing(Operation::UpdatedNeedReboot)],
            staged,
        ),
    ];
    for (name, script, want) in cases {
        let told = script.len();
        let engine = script.into_iter().fold(ScriptedEngine::idle(), ScriptedEngine::tells);
        let mut seen = 0;
        assert_eq!(update(&engine, |_| seen += 1).await.unwrap(), want, "{name}");
        assert_eq!((seen, engine.attempts()), (told + 1, 1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_staged_already_is_not_asked_for_again() {
    let engine = ScriptedEngine::showing(doing(Operation::UpdatedNeedReboot));
    assert_eq!(update(&engine, |_| {}).await.unwrap(), Outcome::Staged { version: "2".to_owned() });
    assert_eq!(engine.attempts(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_reports_an_error_has_failed_although_it_is_idle_afterwards() {
    let failing = |version: &str| {
        let engine = ScriptedEngine::idle().tells(checked(0, Operation::CheckingForUpdate));
        engine.tells(status(Operation::ReportingErrorEvent, version, 0.0)).tells(checked(0, Operation::Idle))
    };
    let error = update(&failing("2"), |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "the update engine reports that the update failed (version 2)");
    assert!(!error.is_absence());
    let error = update(&failing(""), |_| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "the update engine reports that the update failed");
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_was_missed_is_made_good_by_asking() {
    let engine =
        ScriptedEngine::idle().becomes(doing(Operation::Downloading)).becomes(doing(Operation::UpdatedNeedReboot));
    assert_eq!(update(&engine, |_| {}).await.unwrap(), Outcome::Staged { version: "2".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_shows_nothing_new_has_stalled() {
    let cases = [
        ("before it looked", vec![], Operation::Idle),
        ("while it downloads", vec![status(Operation::Downloading, "2", 0.5)], Operation::Downloading),
    ];
    for (name, script, want) in cases {
        let engine = script.into_iter().fold(ScriptedEngine::idle(), ScriptedEngine::tells);
        let started = tokio::time::Instant::now();
        let error = update(&engine, |_| {}).await.unwrap_err();
        assert!(matches!(&error, EngineError::Follow { operation, .. } if *operation == want), "{name}: {error:?}");
        assert!(started.elapsed() >= STALL && started.elapsed() < STALL + 2 * SILENCE, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_download_has_not_stalled() {
    let mut engine = ScriptedEngine::idle();
    for percent in 0..40 {
        engine = engine.becomes(status(Operation::Downloading, "2", f64::from(percent) / 40.0));
        // As long as may be: the last silence would be the one too many.
        for _ in 0..STALL.as_secs() / SILENCE.as_secs() - 1 {
            engine = engine.becomes(status(Operation::Downloading, "2", f64::from(percent) / 40.0));
        }
    }
    let engine = engine.tells(doing(Operation::UpdatedNeedReboot));
    assert_eq!(update(&engine, |_| {}).await.unwrap(), Outcome::Staged { version: "2".to_owned() });
}
