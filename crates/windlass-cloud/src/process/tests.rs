use std::time::Duration;

use windlass_steps::host::{Mode, cmd, run};

use super::*;

fn line(name: &str, state: char) -> String {
    let rest: Vec<String> = (5..=52).map(|n| n.to_string()).collect();
    format!("77 ({name}) {state} 4 {}\n", rest.join(" "))
}

#[test]
fn the_line_of_a_process_is_read_whatever_its_name() {
    for name in ["bash", "a b", "x) R 1 (y", "((", "))", ""] {
        let stat = parse_stat(&line(name, 'S')).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent, stat.started), (name, 4, 22), "{name}");
    }
    for bad in ["", "77", "77 (a", "77 (a) S", "77 (a) S x 1", "77 (a) S 4 5 6 7"] {
        assert_eq!(parse_stat(bad), None, "{bad}");
    }
}

#[test]
fn the_letter_tells_the_condition() {
    let cases = [
        ('R', Condition::Runs),
        ('S', Condition::Runs),
        ('D', Condition::Runs),
        ('I', Condition::Runs),
        ('T', Condition::Stopped),
        ('t', Condition::Stopped),
        ('Z', Condition::Gone),
        ('X', Condition::Gone),
    ];
    for (letter, want) in cases {
        assert_eq!(parse_stat(&line("a", letter)).unwrap().condition(), want, "{letter}");
    }
}

#[test]
fn a_number_that_means_another_process_or_boot_is_not_alive() {
    let own = Identity::own().unwrap();
    assert!(own.is_alive().unwrap());
    let others = [
        Identity { started: own.started + 1, ..own.clone() },
        Identity { boot_id: "another".to_owned(), ..own.clone() },
        Identity { pid: i32::MAX, ..own.clone() },
        Identity { pid: 0, ..own.clone() },
        Identity { pid: -1, ..own.clone() },
    ];
    for other in others {
        assert!(!other.is_alive().unwrap(), "{other:?}");
        assert!(other.open().unwrap().is_none(), "{other:?}");
    }
    assert!(matches!(Identity::of(i32::MAX), Err(ProcessError::FindProcess { .. })));
}

#[test]
fn a_record_reads_back_and_a_damaged_one_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runner.json");
    assert_eq!(Identity::read(&path).unwrap(), None);
    let own = Identity::own().unwrap();
    let text = format!(r#"{{"pid":{},"started":{},"boot_id":"{}","more":[1]}}"#, own.pid, own.started, own.boot_id);
    host::write_file(&path, text, Mode::PRIVATE_FILE).unwrap();
    assert_eq!(Identity::read(&path).unwrap(), Some(own));
    for damaged in ["", "{", "{\"pid\":1}", "null"] {
        host::write_file(&path, damaged, Mode::PRIVATE_FILE).unwrap();
        assert!(matches!(Identity::read(&path), Err(ProcessError::ParseRecord { .. })), "{damaged}");
    }
}

#[tokio::test]
async fn the_end_of_a_process_is_seen_stopped_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let script = format!("echo $$ > {0}.part && mv {0}.part {0}; exec sleep 60", file.display());
    let sleeper = run(cmd("sh").args(["-c", &script]).timeout(Duration::from_secs(20)));
    let watch = async {
        let identity = Identity::of(written_pid(&file).await).unwrap();
        assert_eq!(identity.condition().unwrap(), Condition::Runs);
        let handle = identity.open().unwrap().unwrap();
        handle.signal(Signal::STOP).unwrap();
        wait_for(&identity, Condition::Stopped).await;
        handle.signal(Signal::KILL).unwrap();
        handle.ended().await.unwrap();
        assert_eq!(identity.condition().unwrap(), Condition::Gone);
        identity.ended().await.unwrap();
    };
    let (ended, ()) = tokio::join!(sleeper, watch);
    assert!(ended.unwrap_err().to_string().contains("signal: 9"));
}

async fn written_pid(file: &Path) -> i32 {
    loop {
        match fs::read_to_string(file) {
            Ok(text) => return text.trim().parse().unwrap(),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn wait_for(identity: &Identity, want: Condition) {
    while identity.condition().unwrap() != want {
        tokio::task::yield_now().await;
    }
}
