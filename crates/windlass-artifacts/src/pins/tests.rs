use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SMALL: &str = "\
components:
- name: hello
  licence: MIT
  set: local
  releases:
  - version: 1.0.0
    kubernetes: [1.36.3]
    module: example.org/hello
    sum: h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=
    directory: hello
    binaries:
    - name: hello
      package: .
      cgo: false
      tags: [netgo]
      ldflags: [\"-X main.version=1.0.0\"]
      links: [hi]
      check: {run: [hi, --version], prints: hello 1.0.0}
    needs: [gcc]
    release:
    - {name: hello, path: hello/v1.0.0/hello-$arch.tar.gz, member: bin/hello, links: [hi]}
";

fn problems(text: &str) -> Vec<String> {
    Pins::parse(text).unwrap_err().problems.iter().map(Problem::to_string).collect()
}

#[test]
fn a_pins_file_becomes_types() {
    let pins = Pins::parse(SMALL).unwrap();
    let release = pins.release("hello", "1.0.0").unwrap();
    assert_eq!(release.title(), "hello 1.0.0");
    assert_eq!(release.upstream.as_ref().unwrap().module, "example.org/hello");
    assert_eq!(release.binaries[0].check.run, ["hi", "--version"]);
    assert_eq!(release.release[0].member.as_deref(), Some("bin/hello"));
    assert_eq!(pins.for_kubernetes(KubeVersion::V1_36_3, Set::Local), [release]);
    assert!(pins.for_kubernetes(KubeVersion::V1_35_4, Set::Local).is_empty());
    assert!(pins.for_kubernetes(KubeVersion::V1_36_3, Set::Extra).is_empty());
    assert!(pins.has_program("hello", "1.0.0") && !pins.has_program("hello", "1.0.1"));
    assert!(!pins.has_program("other", "1.0.0"));
}

/// Their go.mod files differ, and one module cannot have two; so the sources are there twice, and must not drift.
#[test]
fn both_kubernetes_modules_have_the_same_sources() {
    let modules = Modules::embedded();
    let sources = |directory: &str| -> BTreeMap<String, String> {
        let names = ["main.go", "components/components.go", "describe/main.go"];
        let text = |name: &str| {
            let file = modules.file(&format!("{directory}/{name}"));
            let bytes = file.unwrap_or_else(|| panic!("{directory} has no {name}"));
            String::from_utf8_lossy(bytes).replace(&format!("windlass/{directory}/"), "windlass/kubernetes/")
        };
        names.into_iter().map(|name| (name.to_owned(), text(name))).collect()
    };
    assert_eq!(sources("kubernetes-1.35"), sources("kubernetes-1.36"));
}

#[test]
fn a_release_without_kubernetes_versions_goes_with_all_of_them() {
    let pins = Pins::parse(&SMALL.replace("    kubernetes: [1.36.3]\n", "")).unwrap();
    for version in KubeVersion::ALL {
        assert_eq!(pins.for_kubernetes(version, Set::Local).len(), 1);
    }
}

#[test]
fn each_mistake_is_named_with_its_line() {
    let cases = [
        ("set: local", "set: lokal", "line 4: components[0].set: \"lokal\" is not local or extra"),
        ("licence: MIT", "license: MIT", "did you mean licence?"),
        ("  licence: MIT\n", "", "the field licence is missing"),
        ("version: 1.0.0", "version: latest", "is not a version"),
        ("[1.36.3]", "[1.12.0]", "is not a Kubernetes version"),
        ("h1:qDQ", "h1:qD", "is not a digest as go.sum has it"),
        ("    module: example.org/hello\n", "", "module and sum go together"),
        ("directory: hello", "directory: ../hello", "is not a name"),
        ("package: .", "package: -exec=x", "does not start with a dash"),
        ("cgo: false", "cgo: perhaps", "true or false is wanted here, not a text"),
        ("tags: [netgo]", "tags: netgo", "a list is wanted here, not a text"),
        ("run: [hi,", "run: [sh,", "the check must run hello or one of its links"),
        ("      check: {run: [hi, --version], prints: hello 1.0.0}\n", "", "the field check is missing"),
        ("path: hello/", "path: ../", "is not a relative path"),
        ("path: hello/", "path: /", "is not a relative path"),
        ("member: bin", "member: bin/..", "is not a relative path"),
        ("needs: [gcc]", "needs: [gcc, gcc]", "stands here twice"),
        ("- name: hello\n  licence", "- name: [a]\n  licence", "a text is wanted here, not a list"),
    ];
    for (from, to, says) in cases {
        let text = SMALL.replace(from, to);
        assert_ne!(text, SMALL, "{from}");
        let found = problems(&text);
        assert!(found.iter().any(|p| p.contains(says) && p.starts_with("line ")), "{from} -> {to}: {found:?}");
    }
}

#[test]
fn all_mistakes_are_named_at_once() {
    let text =
        SMALL.replace("set: local", "set: x").replace("cgo: false", "cgo: 3").replace("1.0.0\n    k", "1\n    k");
    assert_eq!(problems(&text).len(), 3);
    let twice = format!("{SMALL}{}", SMALL.strip_prefix("components:\n").unwrap());
    let found = problems(&twice);
    assert!(found.iter().any(|p| p.contains("the component hello stands here twice")), "{found:?}");
    assert!(found.iter().any(|p| p.contains("the binary hello 1.0.0 stands here twice")), "{found:?}");
}

#[test]
fn the_embedded_pins_agree_with_the_versions_that_a_spec_decides() {
    let pins = Pins::embedded().unwrap();
    for kube in KubeVersion::ALL {
        let want = kube.companions();
        let want = BTreeMap::from([
            ("kubernetes", kube.as_str()),
            ("etcd", want.etcd),
            ("containerd", want.containerd),
            ("runc", want.runc),
            ("cni-plugins", want.cni),
            ("coredns", want.core_dns),
            ("flannel", want.flannel),
            ("pause", want.pause),
        ]);
        for release in pins.for_kubernetes(kube, Set::Local) {
            let Some(version) = want.get(release.component.as_str()) else { continue };
            assert_eq!(release.version, *version, "{} for Kubernetes {kube}", release.component);
        }
        let names: Vec<_> = pins.for_kubernetes(kube, Set::Local).iter().map(|r| r.component.clone()).collect();
        for name in ["kubernetes", "etcd", "containerd", "runc", "cni-plugins", "ignition"] {
            assert_eq!(names.iter().filter(|n| *n == name).count(), 1, "{name} for Kubernetes {kube}");
        }
    }
}

#[test]
fn every_pinned_module_is_embedded_and_its_go_sum_has_the_digest() {
    let modules = Modules::embedded();
    for release in Pins::embedded().unwrap().releases() {
        let directory = &release.directory;
        assert!(modules.contains(directory), "artifacts/{directory}/go.mod");
        modules.digest(directory).unwrap();
        let Some(upstream) = &release.upstream else { continue };
        let go_sum = String::from_utf8(modules.file(&format!("{directory}/go.sum")).unwrap().to_vec()).unwrap();
        let has = |line: &str| line.starts_with(&format!("{} ", upstream.module)) && line.ends_with(&upstream.sum);
        assert!(go_sum.lines().any(has), "artifacts/{directory}/go.sum lacks {} {}", upstream.module, upstream.sum);
    }
}

#[test]
fn every_program_that_a_build_gives_a_mirror_gives_too() {
    for release in Pins::embedded().unwrap().releases().filter(|release| !release.release.is_empty()) {
        let built = release.binaries.iter().flat_map(|b| {
            let multi_call = release.component == "kubernetes";
            b.links.iter().chain((!multi_call).then_some(&b.name)).cloned()
        });
        let mut built: Vec<String> = built.collect();
        let mut offered: Vec<String> =
            release.release.iter().flat_map(|f| f.links.iter().chain([&f.name]).cloned()).collect();
        built.sort();
        offered.sort();
        assert_eq!(built, offered, "{}", release.title());
        assert!(release.release.iter().all(|f| f.path.contains(&release.version) && f.path.contains("$arch")));
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,400}", at in 0..SMALL.len(), junk in "[\\[\\]{}:, a-z0-9\n-]{0,20}") {
        let _ = Pins::parse(&text);
        let mut mangled = SMALL.to_owned();
        mangled.insert_str(at, &junk);
        let _ = Pins::parse(&mangled);
    }
}
