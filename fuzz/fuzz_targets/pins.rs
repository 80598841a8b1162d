//! Whatever is given as a pins file: no panic, and what passes is safe as a file name, an argument and a part of a URL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_artifacts::pins::Pins;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Pins::parse(text) {
        Err(error) => assert!(!error.problems.is_empty() && !error.to_string().is_empty()),
        Ok(pins) => pins.releases().for_each(check),
    }
});

fn check(release: &windlass_artifacts::pins::Release) {
    for name in [&release.component, &release.version].into_iter().chain(release.binaries.iter().map(|b| &b.name)) {
        assert!(!name.is_empty() && !name.starts_with(['-', '.']) && !name.contains(['/', '\\', '\0', ' ', '\n']));
    }
    let paths = release.release.iter().map(|file| &file.path).chain([&release.directory]);
    for path in paths {
        assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path:?}");
    }
    for word in release.binaries.iter().map(|b| &b.package).chain(&release.needs) {
        assert!(!word.starts_with('-') && !word.contains(char::is_control), "{word:?}");
    }
}
