use std::time::Instant;

use serde_json::json;
use time::macros::datetime;
use windlass_steps::clock::ManualClock;

use super::*;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(datetime!(2026-11-18 10:00:00 UTC)))
}

#[test]
fn a_record_tells_the_stage_and_what_is_unmet() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let mut recorder = Recorder::begin(&places, "bootkube", "await-quorum");
    recorder.observe("three members answer", Some("1 of 3"));
    recorder.observe("three members answer", Some("2 of 3"));
    recorder.data("served", 3);
    let record = &collect(&places)["bootkube"];
    assert_eq!((record.state, record.stage.as_str()), (State::Running, "await-quorum"));
    assert_eq!(record.unmet.len(), 1);
    assert_eq!(record.unmet[0].reason, "2 of 3");
    recorder.observe("three members answer", None);
    assert_eq!(collect(&places)["bootkube"].unmet, []);
    recorder.stage("apply");
    recorder.failed(vec!["no".to_owned()]);
    let record = &collect(&places)["bootkube"];
    assert_eq!((record.state, record.because.as_slice()), (State::Failed, ["no".to_owned()].as_slice()));
    recorder.done();
    let record = &collect(&places)["bootkube"];
    assert_eq!((record.state, record.because.len()), (State::Done, 0));
}

#[test]
fn a_record_tells_when_each_stage_began_and_how_long_it_took() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let clock = clock();
    let mut recorder = Recorder::begin_by(clock.clone(), &places, "join", "read-facts", Kept::OverReboots);
    clock.advance(Duration::from_millis(1250));
    recorder.stage("await-api");
    clock.advance(Duration::from_micros(2_000_400));
    let stage = |name: &str, started: &str, took| Stage { name: name.into(), started: started.into(), took };
    let record = &collect(&places)["join"];
    let first = stage("read-facts", "2026-11-18T10:00:00.000Z", Some(1.25));
    let second = |took| stage("await-api", "2026-11-18T10:00:01.250Z", took);
    assert_eq!(record.stages, [first.clone(), second(None)]);
    assert_eq!((record.started.as_str(), record.ended.as_deref()), ("2026-11-18T10:00:00.000Z", None));
    assert_eq!(record.since, "2026-11-18T10:00:01.250Z");
    recorder.done();
    let record = &collect(&places)["join"];
    assert_eq!(record.stages, [first, second(Some(2.0))]);
    assert_eq!(record.ended.as_deref(), Some("2026-11-18T10:00:03.250Z"));
}

#[test]
fn stages_attempts_and_words_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    for attempt in 1..=20 {
        let mut recorder = Recorder::begin(&places, "bootkube", "begin");
        (0..100).for_each(|n| recorder.stage(&format!("stage-{n}")));
        let stderr: Vec<String> = (0..1000).map(|n| format!("{n} {}", "ü".repeat(1000))).collect();
        recorder.failed(vec!["cannot start".into(), format!("`x` failed; stderr:\n{}", stderr.join("\n"))]);
        let record = &collect(&places)["bootkube"];
        assert_eq!(record.attempt, attempt);
        assert_eq!((record.stages.len(), record.stages[0].name.as_str()), (STAGES, "stage-60"));
        assert_eq!(record.because, ["cannot start", "`x` failed"]);
        assert_eq!((record.said.len(), record.said[LINES - 1].chars().count()), (LINES, LINE + 1));
        assert!(record.said[LINES - 1].starts_with("999 "));
    }
    let record = &collect(&places)["bootkube"];
    let numbers: Vec<u32> = record.earlier.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [12, 13, 14, 15, 16, 17, 18, 19]);
}

/// What the machine remembers when its power goes, and what a new attempt says about the one before.
#[test]
fn a_story_goes_on_over_attempts_and_reboots() {
    type End = fn(&mut Recorder);
    let cases: [(&str, End, Ending, &str, &[&str]); 4] = [
        ("done", |r| r.done(), Ending::Done, "install", &[]),
        ("failed", |r| r.failed(vec!["no disk".into()]), Ending::Failed, "install", &["no disk"]),
        ("killed", |_| {}, Ending::Cut, "install", &[]),
        ("rebooted by itself", |r| r.keep(), Ending::Cut, "install", &[]),
    ];
    for (name, end, ending, stage, because) in cases {
        for reboot in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let places = Places::below(dir.path());
            let clock = clock();
            let mut recorder = Recorder::begin_by(clock.clone(), &places, "bootstrap", "begin", Kept::OverReboots);
            recorder.stage("install");
            end(&mut recorder);
            if reboot {
                std::fs::remove_dir_all(places.records()).unwrap();
            }
            clock.advance(Duration::from_secs(60));
            let _recorder = Recorder::begin_by(clock, &places, "bootstrap", "begin", Kept::OverReboots);
            let record = &collect(&places)["bootstrap"];
            assert_eq!((record.attempt, record.started.as_str()), (2, "2026-11-18T10:01:00.000Z"), "{name}");
            let [before] = record.earlier.as_slice() else { panic!("{name}: {:?}", record.earlier) };
            // Only beginnings and ends survive a cut without being asked for.
            let stage = if reboot && name == "killed" { "begin" } else { stage };
            assert_eq!((before.number, before.ending, before.stage.as_str()), (1, ending, stage), "{name} {reboot}");
            assert_eq!(before.because, because, "{name}");
            assert_eq!(before.ended.is_some(), ending != Ending::Cut, "{name}");
        }
    }
}

#[test]
fn after_a_reboot_only_what_had_ended_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    Recorder::begin(&places, "bootstrap", "begin").done();
    Recorder::begin(&places, "hook-a", "run").failed(vec!["exit code 3".into()]);
    let _works = Recorder::begin(&places, "join", "await-api");
    Recorder::begin_serving(&places, "etcd-signer", "serve").done();
    assert_eq!(collect(&places).len(), 4);
    std::fs::remove_dir_all(places.records()).unwrap();
    let told = collect(&places);
    assert_eq!(told.keys().collect::<Vec<_>>(), ["bootstrap", "hook-a"]);
    assert_eq!((told["bootstrap"].state, told["hook-a"].state), (State::Done, State::Failed));
    let _again = Recorder::begin(&places, "hook-a", "run");
    assert_eq!(collect(&places)["hook-a"].state, State::Running, "what is written now is told first");
}

#[test]
fn a_record_of_an_older_program_is_read() {
    let old = json!({ "state": "failed", "stage": "apply", "since": "2026-11-16T03:00:00.000Z", "because": ["no"] });
    let record: Record = serde_json::from_value(old).unwrap();
    assert_eq!((record.attempt, record.stages.len(), record.ended), (1, 0, None));
}

#[test]
fn news_are_told_when_they_come_and_what_is_known_only_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::below(dir.path());
    let (brief, long) = (Duration::from_millis(40), Duration::from_secs(60));
    let nothing = BTreeMap::new();
    let begun = Instant::now();
    assert_eq!(news(&places, Some(&nothing), brief), nothing);
    assert!(begun.elapsed() >= brief);
    let mut recorder = Recorder::begin(&places, "bootkube", "await-quorum");
    let first = news(&places, Some(&nothing), long);
    assert_eq!(first["bootkube"].stage, "await-quorum");
    assert_eq!(news(&places, None, long), first);
    assert_eq!(news(&places, Some(&first), brief), first);
    let begun = Instant::now();
    let second = std::thread::scope(|scope| {
        let asked = scope.spawn(|| news(&places, Some(&first), long));
        recorder.stage("apply");
        asked.join().unwrap()
    });
    assert_eq!(second["bootkube"].stage, "apply");
    assert!(begun.elapsed() < long);
}
