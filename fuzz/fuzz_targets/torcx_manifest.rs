//! Whatever a server calls a manifest: no panic, and what was read survives being written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_artifacts::addon::{Location, Manifest, Origins};

fuzz_target!(|data: &[u8]| {
    let Ok(manifest) = Manifest::parse(data) else { return };
    assert_eq!(Manifest::parse(manifest.to_json().as_bytes()).expect("we read what we write"), manifest);
    let base: url::Url = "https://bucket.example/a/b/torcx_manifest.json".parse().expect("a URL");
    let locations =
        manifest.packages.iter().flat_map(|package| &package.versions).flat_map(|version| &version.locations);
    for location in locations {
        if let Location::Url(location) = location
            && let Ok(resolved) = location.resolve(&base, &Origins::SameAsManifest)
        {
            assert_eq!(resolved.origin(), base.origin());
        }
    }
});
