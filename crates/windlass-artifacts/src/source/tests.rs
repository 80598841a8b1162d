use std::fs;
use std::sync::Mutex;

use windlass_steps::host::{CommandSpec, Host, Output, ScriptedHost, make_dir, write_file};

use super::*;
use crate::pins::Pins;
use crate::progress::Progress;

const MAIN: &str = "package main

import (
	\"fmt\"
	\"os\"
	\"path/filepath\"
)

var version = \"unset\"

func main() { fmt.Println(filepath.Base(os.Args[0]), version) }
";

const PINS: &str = "\
components:
- name: tool
  licence: MIT
  set: local
  releases:
  - version: 1.2.3
    directory: tool
    binaries:
    - {name: tool, package: ., ldflags: [-X main.version=1.2.3], links: [other], check: {run: [other], prints: other 1.2.3}}
";

/// A module without dependencies, so that Go needs no network.
struct Bench {
    dir: tempfile::TempDir,
    cache: Cache,
    told: Mutex<Vec<Progress>>,
}

const ROOM: Capacity = Capacity { slots: 2, memory: 8 << 30 };

impl Bench {
    fn new(main: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().join("modules/tool");
        make_dir(&module, Mode::PUBLIC_DIR).unwrap();
        write_file(module.join("go.mod"), "module windlass/tool\n\ngo 1.24\n", Mode::PUBLIC).unwrap();
        write_file(module.join("main.go"), main, Mode::PUBLIC).unwrap();
        let cache = Cache::open(dir.path().join("cache")).unwrap();
        Bench { dir, cache, told: Mutex::default() }
    }

    fn modules(&self) -> Modules {
        Modules::from_dir(&self.dir.path().join("modules")).unwrap()
    }

    async fn build(&self, commands: &impl Commands, pins: &str) -> Result<Vec<Entry>, SourceError> {
        let (pins, modules) = (Pins::parse(pins).unwrap(), self.modules());
        let source =
            Source { cache: &self.cache, modules: &modules, commands, arch: Arch::of_this_host(), capacity: ROOM };
        let observer = |progress: Progress| self.told.lock().unwrap().push(progress);
        source.build_all(&pins.releases().collect::<Vec<_>>(), &observer).await
    }

    fn told(&self) -> Vec<Happened> {
        std::mem::take(&mut *self.told.lock().unwrap()).into_iter().map(|progress| progress.happened).collect()
    }
}

#[tokio::test]
async fn a_pinned_module_becomes_a_binary_that_has_run_once() {
    // Go compiles a package again if a comment changed, though the result is the same.
    let unseen = tempfile::tempdir().unwrap();
    let bench = Bench::new(&format!("{MAIN}// {}\n", unseen.path().display()));
    let entries = bench.build(&Host, PINS).await.unwrap();
    assert_eq!(
        (entries[0].key.to_string().as_str(), entries[0].links.as_slice()),
        ("binary tool@1.2.3", &["other".to_owned()][..])
    );
    assert_eq!(entries[0].source, SourceKind::Source);
    let told = bench.told();
    assert_eq!(told[0], Happened::Started { way: Way::Build });
    assert!(matches!(told.last(), Some(Happened::Finished { .. })));
    assert!(told.iter().any(|h| matches!(h, Happened::Line(line) if line.contains("packages"))), "{told:?}");
    // At least our own package was compiled, and it is among those that were counted beforehand.
    let compiled = |h: &Happened| matches!(h, Happened::Compiling { done, of, .. } if *done > 0 && done <= of);
    assert!(told.iter().any(compiled) && told.contains(&Happened::Line("tool: linking".to_owned())), "{told:?}");
    assert_eq!(fs::read_dir(bench.cache.root().join("tmp")).unwrap().count(), 0);

    // Present: no command is run, also not by a machine that has no Go at all.
    let nothing = ScriptedHost::default();
    assert_eq!(bench.build(&nothing, PINS).await.unwrap(), entries);
    assert!(nothing.ran().is_empty());
    assert_eq!(bench.told(), [Happened::Present]);

    // The same input in another place gives the same bytes.
    let again = Bench::new(MAIN);
    assert_eq!(again.build(&Host, PINS).await.unwrap()[0].digest, entries[0].digest);

    // Other input is built again.
    write_file(bench.dir.path().join("modules/tool/main.go"), MAIN.replace("unset", "new"), Mode::PUBLIC).unwrap();
    bench.build(&Host, PINS).await.unwrap();
    assert!(matches!(bench.told().last(), Some(Happened::Finished { .. })));
}

#[tokio::test]
async fn a_build_that_fails_shows_its_command_and_what_go_said() {
    let bench = Bench::new("package main\nfunc main() { undefined() }\n");
    let error = bench.build(&Host, PINS).await.unwrap_err();
    let SourceError::Build { source, .. } = &error else { panic!("{error}") };
    let text = source.to_string();
    assert!(text.contains("go build -v -trimpath") && text.contains("undefined: undefined"), "{text}");
    assert!(!error.is_trust() && bench.cache.list().unwrap().is_empty());
    assert_eq!(fs::read_dir(bench.cache.root().join("tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_binary_that_is_something_else_does_not_enter_the_cache() {
    let bench = Bench::new(MAIN);
    let pins = PINS.replace("prints: other 1.2.3", "prints: other 9.9.9");
    let error = bench.build(&Host, &pins).await.unwrap_err();
    assert!(error.to_string().contains("prints \"other 1.2.3\" where \"other 9.9.9\" is expected"), "{error}");
    let bench = Bench::new(&MAIN.replace("fmt.Println(", "defer os.Exit(3); fmt.Println("));
    let error = bench.build(&Host, PINS).await.unwrap_err();
    assert!(matches!(error, SourceError::TryBinary { .. }), "{error}");
    assert!(bench.cache.list().unwrap().is_empty());
}

#[tokio::test]
async fn missing_programs_and_packages_are_named_with_the_remedy() {
    let bench = Bench::new(MAIN);
    let error = bench.build(&ScriptedHost::default(), PINS).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot build tool 1.2.3: the program go is not installed");
    assert!(error.hint().unwrap().contains("windlass host setup"));
    let pins = format!("{PINS}    needs: [gcc, libseccomp-dev]\n");
    let query = "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' gcc libseccomp-dev";
    let debian = ScriptedHost::default().answer(query, "ii  gcc\nrc  libseccomp-dev\n");
    let error = bench.build(&debian, &pins).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot build tool 1.2.3: it needs libseccomp-dev");
    assert!(error.hint().unwrap().ends_with("--no-install-recommends libseccomp-dev`"));
}

#[tokio::test]
async fn a_module_that_is_not_the_pinned_one_is_a_matter_of_trust() {
    struct Mismatch;
    impl Commands for Mismatch {
        async fn run(&self, spec: CommandSpec) -> Result<Output, HostError> {
            let status = std::os::unix::process::ExitStatusExt::from_raw(256);
            let stderr = "verifying k8s.io/api@v0.36.3: checksum mismatch\n".to_owned();
            Err(HostError::RunCommand { command: spec.line(), status, stderr })
        }
    }
    let error = Bench::new(MAIN).build(&Mismatch, PINS).await.unwrap_err();
    assert!(error.is_trust() && error.hint().unwrap().contains("GOPROXY"), "{error}");
}

#[tokio::test]
async fn of_two_runs_one_builds_and_the_other_waits_and_says_so() {
    let bench = Bench::new(MAIN);
    let (one, two) = tokio::join!(bench.build(&Host, PINS), bench.build(&Host, PINS));
    assert_eq!(one.unwrap(), two.unwrap());
    let told = bench.told();
    let count = |matches: fn(&Happened) -> bool| told.iter().filter(|h| matches(h)).count();
    assert_eq!(count(|h| matches!(h, Happened::Started { .. })), 1, "{told:?}");
    assert_eq!(count(|h| matches!(h, Happened::Waiting(w) if w.pid == Some(std::process::id()))), 1, "{told:?}");
    assert_eq!(count(|h| matches!(h, Happened::Present)), 1, "{told:?}");
}
