//! From the text of a pins file to [`Pins`], with every problem at once. What passes here is safe to use as a file name,
//! as an argument or as a part of a URL.

use std::collections::BTreeSet;

use windlass_spec::KubeVersion;
use windlass_spec::problem::Problems;
use windlass_spec::version::check_release;
use windlass_spec::yaml::{Budget, read};

use super::read::{Placed, Reader, Rule};
use super::{Binary, Cgo, Check, Component, Pins, PinsError, Release, ReleaseFile, Set, Upstream};

const NAME: Rule = Rule { wanted: "a name: lower-case letters, digits, dots and dashes", accepts: is_name };
const VERSION: Rule =
    Rule { wanted: "a version: three numbers, such as 3.6.16", accepts: |t| check_release(t).is_ok() };
const WORDS: Rule = Rule { wanted: "one line of text", accepts: is_line };
const WORD: Rule = Rule { wanted: "one word that does not start with a dash", accepts: is_word };
const SUM: Rule = Rule { wanted: "a digest as go.sum has it: h1: and 44 characters", accepts: is_sum };
const PATH: Rule = Rule { wanted: "a relative path without `..`", accepts: is_path };
const KUBERNETES: Rule =
    Rule { wanted: "a Kubernetes version that windlass installs", accepts: |t| KubeVersion::parse(t).is_ok() };
const SET: Rule = Rule { wanted: "local or extra", accepts: |t| matches!(t, "local" | "extra") };

const BUDGET: Budget = Budget { bytes: 1 << 20, depth: 16, values: 20_000 };

pub(super) fn parse(text: &str) -> Result<Pins, PinsError> {
    let root = read(text.as_bytes(), &BUDGET).map_err(|Problems(problems)| PinsError { problems })?;
    let mut reader = Reader::default();
    let top = reader.fields(&Placed { path: String::new(), node: &root }, &["components"]);
    let list = reader.required(&top, "components");
    let mut names = Names::default();
    let components = reader.list(list).iter().map(|at| component(&mut reader, at, &mut names)).collect();
    match reader.problems.is_empty() {
        true => Ok(Pins { components }),
        false => Err(PinsError { problems: Problems::sorted(reader.problems).0 }),
    }
}

/// What must not be there twice in the whole file.
#[derive(Default)]
struct Names {
    components: BTreeSet<String>,
    binaries: BTreeSet<(String, String)>,
}

fn component(reader: &mut Reader, at: &Placed<'_>, names: &mut Names) -> Component {
    let fields = reader.fields(at, &["name", "licence", "set", "releases"]);
    let name = reader.required(&fields, "name");
    let name = reader.text(name, &NAME);
    if !names.components.insert(name.clone()) {
        reader.note(at.node.line, &at.path, format!("the component {name} stands here twice"));
    }
    let licence = reader.required(&fields, "licence");
    let set = reader.required(&fields, "set");
    let releases = reader.required(&fields, "releases");
    Component {
        licence: reader.text(licence, &WORDS),
        set: if reader.text(set, &SET) == "extra" { Set::Extra } else { Set::Local },
        releases: reader.list(releases).iter().map(|at| release(reader, at, &name, names)).collect(),
        name,
    }
}

fn release(reader: &mut Reader, at: &Placed<'_>, component: &str, names: &mut Names) -> Release {
    const KNOWN: [&str; 8] = ["version", "kubernetes", "module", "sum", "directory", "binaries", "needs", "release"];
    let fields = reader.fields(at, &KNOWN);
    let version = reader.required(&fields, "version");
    let version = reader.text(version, &VERSION);
    let kubernetes = reader.optional(&fields, "kubernetes");
    let kubernetes = reader.texts(kubernetes, &KUBERNETES);
    let (module, sum) = (reader.optional(&fields, "module"), reader.optional(&fields, "sum"));
    if module.is_some() != sum.is_some() {
        reader.note(at.node.line, &at.path, "module and sum go together: give both or neither");
    }
    let upstream =
        module.is_some().then(|| Upstream { module: reader.text(module, &WORD), sum: reader.text(sum, &SUM) });
    let directory = reader.required(&fields, "directory");
    let binaries = reader.required(&fields, "binaries");
    let (needs, files) = (reader.optional(&fields, "needs"), reader.optional(&fields, "release"));
    let release = Release {
        component: component.to_owned(),
        kubernetes: kubernetes.iter().filter_map(|v| KubeVersion::parse(v).ok()).collect(),
        upstream,
        directory: reader.text(directory, &NAME),
        binaries: reader.list(binaries).iter().map(|at| binary(reader, at)).collect(),
        needs: reader.texts(needs, &NAME),
        release: reader.list(files).iter().map(|at| release_file(reader, at)).collect(),
        version,
    };
    for binary in &release.binaries {
        // The cache knows a binary by its name and version alone.
        if !names.binaries.insert((binary.name.clone(), release.version.clone())) {
            let message = format!("the binary {} {} stands here twice", binary.name, release.version);
            reader.note(at.node.line, &at.path, message);
        }
    }
    release
}

fn binary(reader: &mut Reader, at: &Placed<'_>) -> Binary {
    let fields = reader.fields(at, &["name", "package", "cgo", "tags", "ldflags", "links", "check"]);
    let name = reader.required(&fields, "name");
    let name = reader.text(name, &NAME);
    let package = reader.required(&fields, "package");
    let (cgo, tags) = (reader.optional(&fields, "cgo"), reader.optional(&fields, "tags"));
    let (ldflags, links) = (reader.optional(&fields, "ldflags"), reader.optional(&fields, "links"));
    let links = reader.texts(links, &NAME);
    let check = reader.required(&fields, "check");
    Binary {
        package: reader.text(package, &WORD),
        cgo: if reader.flag(cgo) { Cgo::On } else { Cgo::Off },
        tags: reader.texts(tags, &WORD),
        ldflags: reader.texts(ldflags, &WORDS),
        check: check.map_or_else(no_check, |at| self::check(reader, &at, &name, &links)),
        name,
        links,
    }
}

fn check(reader: &mut Reader, at: &Placed<'_>, name: &str, links: &[String]) -> Check {
    let fields = reader.fields(at, &["run", "prints"]);
    let (run, prints) = (reader.required(&fields, "run"), reader.required(&fields, "prints"));
    let items = reader.list(run);
    let run: Vec<String> = items.into_iter().map(|item| reader.text(Some(item), &WORDS)).collect();
    let is_ours = run.first().is_some_and(|program| program == name || links.contains(program));
    if !is_ours {
        reader.note(at.node.line, &at.path, format!("the check must run {name} or one of its links"));
    }
    Check { run, prints: reader.text(prints, &WORDS) }
}

/// Stands for a check that is missing, which was noted.
fn no_check() -> Check {
    Check { run: Vec::new(), prints: String::new() }
}

fn release_file(reader: &mut Reader, at: &Placed<'_>) -> ReleaseFile {
    let fields = reader.fields(at, &["name", "path", "member", "links"]);
    let (name, path) = (reader.required(&fields, "name"), reader.required(&fields, "path"));
    let (member, links) = (reader.optional(&fields, "member"), reader.optional(&fields, "links"));
    ReleaseFile {
        name: reader.text(name, &NAME),
        path: reader.text(path, &PATH),
        member: member.map(|at| reader.text(Some(at), &PATH)),
        links: reader.texts(links, &NAME),
    }
}

fn is_name(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() < 100
        && text.bytes().next().is_some_and(letter)
        && text.bytes().all(|b| letter(b) || b".-_+".contains(&b))
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && text.len() < 1000 && !text.chars().any(char::is_control)
}

fn is_word(text: &str) -> bool {
    is_line(text) && !text.starts_with('-') && !text.contains(|c: char| c.is_whitespace() || c == ',')
}

fn is_sum(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
    text.strip_prefix("h1:").is_some_and(|rest| rest.len() == 44 && rest.bytes().all(digit))
}

fn is_path(text: &str) -> bool {
    let safe = |b: u8| b.is_ascii_alphanumeric() || b"._+$/-".contains(&b);
    let part = |p: &str| !p.is_empty() && !p.starts_with('.');
    is_line(text) && text.bytes().all(safe) && text.split('/').all(part)
}
