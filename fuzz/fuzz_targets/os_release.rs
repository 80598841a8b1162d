//! Whatever a machine has as `os-release`: no panic, and no control character gets through.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_artifacts::addon::OsRelease;

fuzz_target!(|data: &[u8]| {
    if let Ok(release) = OsRelease::parse(data) {
        for value in [Some(release.id()), release.version_id(), release.build_id()].into_iter().flatten() {
            assert!(!value.is_empty() && !value.contains(char::is_control));
        }
    }
});
