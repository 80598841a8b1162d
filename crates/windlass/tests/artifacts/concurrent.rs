//! Two fetches at once.

use std::fs;

use windlass_artifacts::pins::Pins;

use crate::cached::{Content, Place, digests, full, list, pinned};

#[test]
#[ignore = "needs root, Go and every artifact"]
fn of_two_fetches_one_builds_and_the_other_waits_and_says_so() {
    let place = Place::new(Content::Shared);
    let pins = Pins::embedded().unwrap();
    let plugins = pinned(&pins).into_iter().find(|release| release.component == "cni-plugins").unwrap();
    for binary in &plugins.binaries {
        let record = format!("entries/binary/{}@{}.json", binary.name, plugins.version);
        fs::remove_file(place.cache().join(record)).unwrap();
    }
    let fetch = || place.done(&["fetch", "--source", "source"]).stderr;
    let said: Vec<String> = std::thread::scope(|scope| {
        let fetches = [scope.spawn(fetch), scope.spawn(fetch)];
        fetches.map(|fetch| fetch.join().unwrap()).into()
    });
    let title = plugins.title();
    let saying = |words: &str| said.iter().filter(|stderr| stderr.contains(words)).count();
    assert_eq!(saying(&format!("{title}: build started")), 1, "{said:#?}");
    assert_eq!(saying(&format!("{title}: waiting for another windlass (pid ")), 1, "{said:#?}");
    assert_eq!(digests(&list(&place.cache())), digests(&list(&full())), "built again, it is the same");
}
