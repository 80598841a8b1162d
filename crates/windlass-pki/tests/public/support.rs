//! What these tests share: a small cluster, a moment, and the set made from both.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use time::OffsetDateTime;
use time::macros::datetime;
use windlass_pki::{Pki, SeededKeys};
use windlass_spec::complete::CompleteSpec;
use windlass_spec::file::read_and_complete;

pub const NOW: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// The cluster `demo` under a domain, with three masters.
pub fn spec(domain: &str) -> CompleteSpec {
    let text = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: demo\nspec:\n  domain: {domain}\n  masters: 3\n"
    );
    read_and_complete(text.as_bytes()).expect("the spec is good").1
}

pub fn make(spec: &CompleteSpec, previous: Option<&Pki>, seed: &str, now: OffsetDateTime) -> Pki {
    Pki::make(spec, previous, &mut SeededKeys::new(seed), now).expect("the table is good")
}

/// The set of the cluster at `demo.test` as of [`NOW`], made once.
pub fn pki() -> &'static Pki {
    static PKI: LazyLock<Pki> = LazyLock::new(|| make(&spec("demo.test"), None, "demo", NOW));
    &PKI
}

/// The set's files by path.
pub fn files(pki: &Pki) -> BTreeMap<String, Vec<u8>> {
    pki.files().into_iter().map(|file| (file.path, file.contents.expose().to_vec())).collect()
}
