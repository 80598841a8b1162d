//! The dependency rule: `cargo metadata` compared with the house style's [`TABLE`], and every version in one place.

mod manifest;
mod table;

use std::fmt;

use serde_json::Value;
use windlass_steps::host::{read_file, run_blocking};

use crate::report::{Failure, say};
use crate::session::Session;
use manifest::not_from_workspace;
use table::{Allowed, TABLE};

const MANIFEST_LIMIT: u64 = 1 << 20;

/// One way in which the workspace is not what the table says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Violation {
    /// The crate is not in the table.
    Unknown { name: String },
    /// The crate uses one of ours that the table does not grant it.
    Forbidden { name: String, uses: String },
    /// The entry does not take its version from the workspace.
    NotFromWorkspace { name: String, entry: String },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name } => write!(f, "{name} is not in the table of xtask/src/deps/table.rs"),
            Self::Forbidden { name, uses } => write!(f, "{name} depends on {uses}, which the table does not allow"),
            Self::NotFromWorkspace { name, entry } => {
                write!(f, "{name} has the dependency `{entry}`, which is not one line with `workspace = true`")
            }
        }
    }
}

/// A member of the workspace with what it uses, of ours or not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    name: String,
    manifest: String,
    uses: Vec<String>,
}

/// Compares the workspace with the table and names each violation.
pub fn run(session: &mut Session) -> Result<(), Failure> {
    let members = members(session)?;
    let mut violations = violations(&members);
    for member in &members {
        let trouble = || Failure::new(format_args!("cannot read {}", member.manifest), "look at the cause");
        let bytes = read_file(&member.manifest, MANIFEST_LIMIT).map_err(|error| trouble().because(error))?;
        let entries = not_from_workspace(&String::from_utf8_lossy(&bytes));
        let found = |entry| Violation::NotFromWorkspace { name: member.name.clone(), entry };
        violations.extend(entries.into_iter().map(found));
    }
    if violations.is_empty() {
        let edges: usize = members.iter().map(|member| ours(member).count()).sum();
        say(format_args!("    {} crates, {edges} dependencies between them, all in the table", members.len()));
        return Ok(());
    }
    violations.iter().for_each(|violation| say(format_args!("    {violation}")));
    let what = format!("the dependency rule is broken {} times", violations.len());
    Err(Failure::new(what, "move the code, or change section 1 of the house style and xtask/src/deps/table.rs"))
}

/// The names of the workspace's own packages.
pub fn member_names(session: &Session) -> Result<Vec<String>, Failure> {
    Ok(members(session)?.into_iter().map(|member| member.name).collect())
}

fn members(session: &Session) -> Result<Vec<Member>, Failure> {
    let trouble = || Failure::new("cannot read the workspace's metadata", "look at what `cargo metadata` says");
    let command = session.cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let output = run_blocking(command).map_err(|error| trouble().because(error))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| trouble().because(error))?;
    let members = parse(&metadata).ok_or_else(|| trouble().because("its form is not the known one"))?;
    match members.is_empty() {
        true => Err(trouble().because("there are no packages in it")),
        false => Ok(members),
    }
}

fn parse(metadata: &Value) -> Option<Vec<Member>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let member = |package: &Value| {
        let uses = package["dependencies"].as_array()?.iter().map(|used| text(&used["name"]));
        let (name, manifest) = (text(&package["name"])?, text(&package["manifest_path"])?);
        Some(Member { name, manifest, uses: uses.collect::<Option<_>>()? })
    };
    metadata["packages"].as_array()?.iter().map(member).collect()
}

fn violations(members: &[Member]) -> Vec<Violation> {
    members.iter().flat_map(of_member).collect()
}

fn of_member(member: &Member) -> Vec<Violation> {
    let name = &member.name;
    match TABLE.iter().find(|(listed, _)| listed == name) {
        None => vec![Violation::Unknown { name: name.clone() }],
        Some((_, Allowed::Any)) => Vec::new(),
        Some((_, Allowed::Only(allowed))) => ours(member)
            .filter(|used| !allowed.contains(used))
            .map(|used| Violation::Forbidden { name: name.clone(), uses: used.to_owned() })
            .collect(),
    }
}

/// Test code is held to the rule too: a test that needs a crate from below belongs to that crate.
fn ours(member: &Member) -> impl Iterator<Item = &str> {
    let is_ours = |name: &&str| name.starts_with("windlass") || TABLE.iter().any(|(listed, _)| listed == name);
    member.uses.iter().map(String::as_str).filter(is_ours)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(packages: &[(&str, &[&str])]) -> Value {
        let package = |(name, uses): &(&str, &[&str])| {
            let uses: Vec<_> = uses.iter().map(|used| json!({"name": used, "kind": null, "req": "*"})).collect();
            json!({"name": name, "manifest_path": format!("/w/{name}/Cargo.toml"), "dependencies": uses})
        };
        json!({"packages": packages.iter().map(package).collect::<Vec<_>>(), "version": 1})
    }

    fn named(packages: &[(&str, &[&str])]) -> Vec<String> {
        violations(&parse(&metadata(packages)).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_workspace_that_keeps_the_rule_has_no_violations() {
        let good: [(&str, &[&str]); 4] = [
            ("windlass-spec", &["serde"]),
            ("windlass-pki", &["windlass-spec", "rcgen"]),
            ("windlass-assets", &["windlass-pki", "windlass-steps", "windlass-spec"]),
            ("xtask", &["windlass-pki", "windlass", "clap"]),
        ];
        assert_eq!(named(&good), [""; 0]);
    }

    #[test]
    fn every_violation_is_named() {
        let bad: [(&str, &[&str]); 4] = [
            ("windlass-spec", &["windlass-steps", "xtask"]),
            ("windlass-pki", &["windlass-spec", "windlass-assets"]),
            ("windlass-steps", &["windlass-new"]),
            ("windlass-common", &["windlass-spec"]),
        ];
        let want = [
            "windlass-spec depends on windlass-steps, which the table does not allow",
            "windlass-spec depends on xtask, which the table does not allow",
            "windlass-pki depends on windlass-assets, which the table does not allow",
            "windlass-steps depends on windlass-new, which the table does not allow",
            "windlass-common is not in the table of xtask/src/deps/table.rs",
        ];
        assert_eq!(named(&bad), want);
    }

    #[test]
    fn metadata_of_another_form_is_not_taken_for_an_empty_workspace() {
        let cases = [json!({}), json!({"packages": [{"name": "a"}]}), json!({"packages": [{"dependencies": []}]})];
        for metadata in cases {
            assert_eq!(parse(&metadata), None, "{metadata}");
        }
    }
}
