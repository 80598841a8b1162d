//! Section 1 of the house style as data: which of our crates each of our crates may use.

/// What one crate may use of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// These and no others.
    Only(&'static [&'static str]),
    /// Any: it is not shipped.
    Any,
}

/// Every crate of the workspace, those to come included; dependencies point up this list.
pub const TABLE: &[(&str, Allowed)] = &[
    ("windlass-spec", Allowed::Only(&[])),
    ("windlass-steps", Allowed::Only(&[])),
    ("windlass-pki", Allowed::Only(&["windlass-spec"])),
    ("windlass-artifacts", Allowed::Only(&["windlass-spec", "windlass-steps"])),
    ("windlass-assets", Allowed::Only(&["windlass-spec", "windlass-steps", "windlass-pki"])),
    ("windlass-cluster", Allowed::Only(&["windlass-spec", "windlass-steps", "windlass-pki"])),
    ("windlass-cloud-api", Allowed::Only(&[])),
    ("windlass-cloud", Allowed::Only(&["windlass-steps", "windlass-cloud-api"])),
    ("windlass-platform", Allowed::Only(&["windlass-spec", "windlass-steps", "windlass-assets", "windlass-cloud-api"])),
    (
        "windlass-install",
        Allowed::Only(&[
            "windlass-spec",
            "windlass-steps",
            "windlass-pki",
            "windlass-artifacts",
            "windlass-assets",
            "windlass-cluster",
            "windlass-cloud-api",
            "windlass-platform",
        ]),
    ),
    (
        "windlass-node",
        Allowed::Only(&[
            "windlass-spec",
            "windlass-steps",
            "windlass-pki",
            "windlass-artifacts",
            "windlass-assets",
            "windlass-cluster",
            "windlass-cloud-api",
            "windlass-platform",
        ]),
    ),
    (
        "windlass",
        Allowed::Only(&[
            "windlass-spec",
            "windlass-steps",
            "windlass-pki",
            "windlass-artifacts",
            "windlass-assets",
            "windlass-cluster",
            "windlass-cloud-api",
            "windlass-platform",
            "windlass-install",
        ]),
    ),
    ("xtask", Allowed::Any),
    ("windlass-e2e", Allowed::Only(&["windlass-spec", "windlass-cluster", "windlass-cloud-api"])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_points_up_the_table() {
        let names: Vec<_> = TABLE.iter().map(|(name, _)| *name).collect();
        for (at, (name, allowed)) in TABLE.iter().enumerate() {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name} is listed twice");
            let Allowed::Only(allowed) = allowed else { continue };
            for used in *allowed {
                assert!(names[..at].contains(used), "{name} may use {used}, which is not above it");
            }
        }
    }
}
