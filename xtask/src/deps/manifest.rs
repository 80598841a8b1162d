//! Reading a manifest's dependency entries, one to a line, to see that each takes its version from the workspace.

/// The entries of every dependency section that are not `name.workspace = true` or `name = { workspace = true, … }`.
///
/// It is stricter than TOML: an entry that spreads over lines, or has a section of its own, is named as well.
pub fn not_from_workspace(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = is_dependencies(section);
            if section.split_once("dependencies.").is_some_and(|(before, _)| is_prefix(before)) {
                found.push(line.to_owned());
            }
        } else if inside && !line.is_empty() && !is_inherited(line) {
            found.push(line.to_owned());
        }
    }
    found
}

fn is_dependencies(section: &str) -> bool {
    section.strip_suffix("dependencies").is_some_and(is_prefix)
}

/// What may stand before `dependencies`: nothing, `dev-`, `build-`, or a target.
fn is_prefix(before: &str) -> bool {
    let kind = before.strip_suffix("dev-").or_else(|| before.strip_suffix("build-")).unwrap_or(before);
    kind.is_empty() || kind.starts_with("target.")
}

fn is_inherited(line: &str) -> bool {
    let plain: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    let Some((name, value)) = plain.split_once('=') else { return false };
    let table = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    (name.ends_with(".workspace") && value == "true")
        || table.is_some_and(|table| table.starts_with("workspace=true") || table.contains(",workspace=true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_entries_are_good_in_both_forms() {
        let manifest = r#"
[package]
name = "a"
version = "1.0"

[dependencies]
serde.workspace = true
clap = { workspace = true, features = ["env"] } # for CI
time = { features = ["macros"], workspace = true }

[dev-dependencies]
proptest.workspace = true

[features]
x = []
"#;
        assert_eq!(not_from_workspace(manifest), [""; 0]);
    }

    #[test]
    fn every_other_entry_is_named() {
        let cases = [
            ("[dependencies]\nserde = \"1\"", "serde = \"1\""),
            ("[dependencies]\nserde = { version = \"1\" }", "serde = { version = \"1\" }"),
            ("[dependencies]\nserde = { path = \"../workspace=true\" }", "serde = { path = \"../workspace=true\" }"),
            ("[dev-dependencies]\na.path = \"../a\"", "a.path = \"../a\""),
            ("[build-dependencies]\ncc = '1'", "cc = '1'"),
            ("[target.'cfg(unix)'.dependencies]\nnix = \"1\"", "nix = \"1\""),
            ("[dependencies.serde]\nworkspace = true", "[dependencies.serde]"),
            ("[target.'cfg(unix)'.dev-dependencies.nix]\nversion = '1'", "[target.'cfg(unix)'.dev-dependencies.nix]"),
        ];
        for (manifest, named) in cases {
            assert_eq!(not_from_workspace(manifest), [named], "{manifest}");
        }
    }
}
