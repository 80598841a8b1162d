//! Files that are made from code: each has a row in [`generators`], and `--check` fails when one is not current.

mod difference;
mod upstream;

use std::path::Path;

use windlass_spec::KubeVersion;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, write_file};

use crate::openapi;
use crate::report::{Failure, say};
use crate::session::Session;
use difference::first_difference;

const FILE_LIMIT: u64 = 64 << 20;
const REMEDY: &str = "run `cargo xtask generate` and commit what it writes";
const UPSTREAM_REMEDY: &str = "run `cargo xtask generate --upstream` and commit what it writes";

/// What making a file costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A function call.
    Nothing,
    /// Go modules that are downloaded once.
    Download,
    /// Upstream's programs, compiled; minutes.
    Compile,
}

type Make = Box<dyn Fn(&Session) -> Result<String, Failure>>;

/// One file and the function that makes it.
struct Generator {
    path: String,
    cost: Cost,
    make: Make,
}

impl Generator {
    fn page(path: &str, make: fn() -> String) -> Self {
        Self { path: path.to_owned(), cost: Cost::Nothing, make: Box::new(move |_| Ok(make())) }
    }
}

/// The table of everything that is generated.
fn generators() -> Vec<Generator> {
    let mut all = vec![
        Generator::page("docs/reference/spec.md", windlass_spec::schema::markdown),
        Generator::page("docs/reference/decisions.md", windlass_spec::complete::table::markdown),
        Generator::page("docs/reference/certificates.md", windlass_pki::reference::markdown),
        Generator::page("docs/reference/spec.schema.json", spec_schema),
        Generator::page("docs/reference/commands.md", windlass::reference::commands),
        Generator::page("docs/reference/exit-codes.md", windlass::reference::exit_codes),
    ];
    all.extend(KubeVersion::ALL.map(|version| Generator {
        path: format!("crates/windlass-assets/data/openapi-{version}.json"),
        cost: Cost::Download,
        make: Box::new(move |_| {
            let trouble = |error| {
                let what = format!("cannot make the schemas of Kubernetes {version}");
                Failure::new(what, "Go and a module proxy are needed").because(error)
            };
            openapi::generate(&version.to_string()).map_err(trouble)
        }),
    }));
    all.extend(upstream::DESCRIPTIONS.map(|description| Generator {
        path: description.path(),
        cost: Cost::Compile,
        make: Box::new(move |session| description.make(session)),
    }));
    all
}

/// Writes every file, or with `check` compares them; upstream's only when asked for.
pub fn run(session: &mut Session, check_only: bool, upstream: bool) -> Result<(), Failure> {
    let mut costs = vec![Cost::Nothing, Cost::Download];
    costs.extend(upstream.then_some(Cost::Compile));
    session.stage("generate", |session| if check_only { check(session, &costs) } else { write(session, &costs) })
}

/// Fails if a file of one of these costs is not what it would be, showing the first difference of each.
pub fn check(session: &Session, costs: &[Cost]) -> Result<(), Failure> {
    let mut stale = Vec::new();
    for generator in generators().into_iter().filter(|one| costs.contains(&one.cost)) {
        let made = (generator.make)(session)?;
        let there = read(&session.root.join(&generator.path))?;
        match there.as_deref().map(|there| first_difference(there, &made)) {
            Some(None) => say(format_args!("    current  {}", generator.path)),
            Some(Some(difference)) => {
                say(format_args!("    stale    {}\n{difference}", generator.path));
                stale.push(generator.cost);
            }
            None => {
                say(format_args!("    absent   {}", generator.path));
                stale.push(generator.cost);
            }
        }
    }
    let remedy = match stale.contains(&Cost::Compile) {
        true => UPSTREAM_REMEDY,
        false => REMEDY,
    };
    match stale.len() {
        0 => Ok(()),
        count => Err(Failure::new(format_args!("{count} generated files are not current"), remedy)),
    }
}

fn write(session: &Session, costs: &[Cost]) -> Result<(), Failure> {
    for generator in generators().into_iter().filter(|one| costs.contains(&one.cost)) {
        let path = session.root.join(&generator.path);
        let trouble = || Failure::new(format_args!("cannot write {}", generator.path), "look at the cause");
        let made = (generator.make)(session)?;
        if read(&path)?.as_deref() == Some(made.as_str()) {
            say(format_args!("    current  {}", generator.path));
            continue;
        }
        let dir = path.parent().ok_or_else(trouble)?;
        make_dir(dir, Mode::PUBLIC_DIR).map_err(|error| trouble().because(error))?;
        write_file(&path, made, Mode::PUBLIC).map_err(|error| trouble().because(error))?;
        say(format_args!("    written  {}", generator.path));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match read_file(path, FILE_LIMIT) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(HostError::ReadFile { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new("cannot compare a generated file", "look at the cause").because(error)),
    }
}

fn spec_schema() -> String {
    // `{:#}` of a value is pretty JSON, and cannot fail.
    format!("{:#}\n", windlass_spec::schema::json_schema())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_one_generator_and_lies_in_the_tree() {
        let paths: Vec<_> = generators().into_iter().map(|one| one.path).collect();
        for (at, path) in paths.iter().enumerate() {
            assert!(!paths[at + 1..].contains(path), "{path}");
            assert!(path.starts_with("docs/reference/") || path.starts_with("crates/"), "{path}");
        }
    }

    #[test]
    fn pages_are_whole_lines_and_the_same_each_time() {
        let pages = [
            windlass_spec::schema::markdown,
            windlass_spec::complete::table::markdown,
            windlass_pki::reference::markdown,
            spec_schema,
            windlass::reference::commands,
            windlass::reference::exit_codes,
        ];
        for page in pages {
            let text = page();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{text}");
            assert_eq!(text, page());
        }
    }
}
