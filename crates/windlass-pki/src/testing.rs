//! What this crate's tests share: a small cluster, a moment, and the set made from both.

use std::sync::LazyLock;
use std::time::Duration;

use time::OffsetDateTime;
use time::macros::datetime;
use windlass_spec::complete::CompleteSpec;
use windlass_spec::file::read_and_complete;

use crate::key::SeededKeys;
use crate::pki::Pki;

pub(crate) const NOW: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

const SPEC: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: Cluster
metadata:
  name: demo
spec:
  domain: demo.test
";

/// The cluster `demo` at `demo.test`, with some lines added to its spec.
pub(crate) fn spec_with(lines: &str) -> CompleteSpec {
    read_and_complete(format!("{SPEC}{lines}").as_bytes()).expect("the spec is good").1
}

pub(crate) fn spec() -> CompleteSpec {
    spec_with("")
}

/// The set of [`spec`] as of [`NOW`], made once.
pub(crate) fn pki() -> &'static Pki {
    static PKI: LazyLock<Pki> =
        LazyLock::new(|| Pki::make(&spec(), None, &mut SeededKeys::new("demo"), NOW).expect("the table is good"));
    &PKI
}
