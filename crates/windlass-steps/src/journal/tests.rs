use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use super::*;
use crate::event::Subject;

const TIME: OffsetDateTime = datetime!(2026-11-16 03:23:42.123 UTC);

fn subject(step: &'static str) -> Subject {
    Subject { cluster: "demo".into(), step: StepName::new(step), machine: None }
}

fn story() -> Vec<(Event, Option<Value>)> {
    let (preflight, provision) = (subject("preflight"), subject("provision-machines"));
    vec![
        (preflight.started(TIME), None),
        (preflight.finished(TIME, Duration::from_secs(1)), Some(json!({"cleared": ["ports", "disk"]}))),
        (provision.started(TIME), None),
        (provision.observed(TIME, "every machine answers", Some("0 of 3 \u{1f980}\n".into())), None),
        (provision.failed(TIME, Duration::from_millis(1), "no disk".into()), None),
        (provision.finished(TIME, Duration::from_millis(7)), None),
    ]
}

fn written(story: &[(Event, Option<Value>)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let mut journal = Journal::open(&path).unwrap().journal;
    for (event, done) in story {
        journal.append(event, done.as_ref()).unwrap();
    }
    (dir, path)
}

fn as_story(history: &History) -> Vec<(Event, Option<Value>)> {
    history.entries.iter().map(|entry| (entry.event.clone(), entry.done.clone())).collect()
}

#[test]
fn a_reopened_journal_answers_for_finished_steps() {
    let (_dir, path) = written(&story());
    let Opened { journal, torn } = Journal::open(&path).unwrap();
    assert_eq!(torn, None);
    assert!(journal.started());
    let finished = |step| journal.finished(&StepName::new(step), None);
    assert_eq!(finished("preflight"), Some(&json!({"cleared": ["ports", "disk"]})));
    assert_eq!(finished("provision-machines"), Some(&Value::Null));
    assert_eq!(finished("form-etcd-quorum"), None);
    assert_eq!(journal.finished(&StepName::new("preflight"), Some("master-0")), None);
}

#[test]
fn an_empty_journal_has_not_started() {
    let (_dir, path) = written(&[]);
    assert!(!Journal::open(&path).unwrap().journal.started());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn lines_are_events_with_done_added() {
    let (_dir, path) = written(&story()[1..2]);
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        concat!(
            r#"{"time":"2026-11-16T03:23:42.123Z","cluster":"demo","step":"preflight","kind":"finished","took":1.0,"#,
            r#""done":{"cleared":["ports","disk"]}}"#,
            "\n"
        )
    );
}

#[test]
fn a_journal_cut_at_any_byte_opens_with_what_came_before() {
    // Three lines, one with a result, one with characters of several bytes and an escape.
    let story = story()[1..4].to_vec();
    let (_dir, path) = written(&story);
    let whole = fs::read(&path).unwrap();
    let next = (subject("form-etcd-quorum").started(TIME), None);
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let mut opened = Journal::open(&path).unwrap();
        let clean = cut == 0 || whole[cut - 1] == b'\n';
        assert_eq!(opened.torn.is_none(), clean, "cut at {cut}");
        if let Some(torn) = &opened.torn {
            assert_eq!((torn.line, torn.offset + torn.bytes), (lines + 1, cut as u64));
        }
        opened.journal.append(&next.0, None).unwrap();
        drop(opened);
        let history = Journal::read(&path).unwrap();
        assert_eq!(history.torn, None);
        let mut want = story[..lines].to_vec();
        want.push(next.clone());
        assert_eq!(as_story(&history), want, "cut at {cut}");
    }
}

#[test]
fn a_last_line_of_nonsense_is_torn_also_with_a_line_break() {
    let (_dir, path) = written(&story());
    let whole = fs::read(&path).unwrap();
    let cases: [&[u8]; 5] = [b"\0\0\0\0", b"\0\0\n", b"{\"time\":\n", b"\n", b"\xff\xfe\n"];
    for tail in cases {
        fs::write(&path, [&whole[..], tail].concat()).unwrap();
        assert_eq!(Journal::read(&path).unwrap().torn.unwrap().line, 7);
        let torn = Journal::open(&path).unwrap().torn.unwrap();
        assert_eq!((torn.line, torn.bytes), (7, tail.len() as u64));
        assert!(torn.to_string().starts_with("line 7 of the journal was torn"));
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn damage_in_the_middle_is_an_error_that_names_the_line_and_changes_nothing() {
    let (_dir, path) = written(&story());
    let whole = fs::read_to_string(&path).unwrap();
    let bad = whole.replacen("\"kind\":\"started\"", "\"kind\":\"sta", 1);
    for text in [bad, whole.replacen('\n', "\n\n", 1)] {
        let line = if text.contains("\n\n") { 2 } else { 1 };
        fs::write(&path, &text).unwrap();
        for error in [Journal::open(&path).unwrap_err(), Journal::read(&path).unwrap_err()] {
            let want = format!("cannot understand line {line} of the journal {}", path.display());
            assert_eq!(error.to_string(), want);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let (_dir, path) = written(&[]);
    let first = Journal::open(&path).unwrap();
    assert!(matches!(Journal::open(&path), Err(JournalError::Lock { .. })));
    assert!(Journal::read(&path).is_ok());
    drop(first);
    assert!(Journal::open(&path).is_ok());
}

#[test]
fn a_journal_with_a_wide_mode_is_tightened_and_a_link_is_refused() {
    let (dir, path) = written(&[]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(Journal::open(&path).unwrap());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(matches!(Journal::open(&link), Err(JournalError::Open { .. })));
    assert!(matches!(Journal::read(dir.path().join("no")), Err(JournalError::Open { .. })));
}

#[test]
fn after_a_failed_append_nothing_more_is_written() {
    let (_dir, path) = written(&[]);
    let mut journal = Journal::open(&path).unwrap().journal;
    // A descriptor that cannot be written to stands for a full disk.
    let unlocked = std::mem::replace(&mut journal.file, File::open(&path).unwrap());
    let event = subject("preflight").started(TIME);
    assert!(matches!(journal.append(&event, None), Err(JournalError::Append { .. })));
    journal.file = unlocked;
    assert!(matches!(journal.append(&event, None), Err(JournalError::AppendToBroken { .. })));
    assert!(!journal.started());
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn a_batch_reads_back_like_single_events() {
    let story = story();
    let (_dir, single) = written(&story);
    let (_dir2, batched) = written(&[]);
    let mut journal = Journal::open(&batched).unwrap().journal;
    journal.append_batch(story.iter().map(|(event, done)| (event, done.as_ref()))).unwrap();
    assert_eq!(fs::read(single).unwrap(), fs::read(batched).unwrap());
    assert_eq!(journal.finished(&StepName::new("provision-machines"), None), Some(&Value::Null));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(History { torn: Some(torn), .. }) = History::parse(&bytes) {
            prop_assert_eq!(torn.offset + torn.bytes, bytes.len() as u64);
        }
    }
}
