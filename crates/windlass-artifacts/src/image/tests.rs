use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use windlass_spec::KubeVersion;
use windlass_spec::file::read_and_complete;
use windlass_steps::host::{Mode, make_dir, write_file};

use super::root::follow;
use super::tools::FromRoot;
use super::*;
use crate::oci::inspect;

fn put(path: &Path, text: &str) {
    make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
    write_file(path, text, Mode::EXECUTABLE).unwrap();
}

/// A root as far as images look at one: the tools are scripts here, so that they need no libraries.
fn root(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    put(&root.join("etc/ssl/certs/ca-certificates.crt"), "certificates");
    put(&root.join("usr/lib/x86_64-linux-gnu/xtables/libxt_comment.so"), "plugin");
    for tool in ["nft", "conntrack", "ipset", "ip", "xtables-nft-multi", "xtables-legacy-multi"] {
        put(&root.join("usr/sbin").join(tool), "#!/bin/sh\n");
    }
    make_dir(root.join("etc/alternatives"), Mode::PUBLIC_DIR).unwrap();
    for family in ["iptables", "ip6tables"] {
        for action in ["", "-save", "-restore"] {
            for kind in ["nft", "legacy"] {
                let name = format!("usr/sbin/{family}-{kind}{action}");
                symlink(format!("xtables-{kind}-multi"), root.join(name)).unwrap();
            }
            let name = format!("{family}{action}");
            symlink(format!("/usr/sbin/{family}-nft{action}"), root.join("etc/alternatives").join(&name)).unwrap();
            symlink(format!("/etc/alternatives/{name}"), root.join("usr/sbin").join(&name)).unwrap();
        }
    }
    root
}

/// One file for all programs of a set, as the source build makes them, or one for each, as releases have them.
fn binaries(dir: &Path, multi_call: bool) -> BTreeMap<String, PathBuf> {
    let programs = ImageSet::ALL.into_iter().flat_map(|set| set.programs().map(move |name| (set, name)));
    let file = |(set, name): (ImageSet, &str)| {
        let path = if multi_call { dir.join(set.to_string()) } else { dir.join(name) };
        put(&path, &format!("program of {}", path.file_name().unwrap().display()));
        (name.to_owned(), path)
    };
    programs.map(file).collect()
}

fn archive(dir: &Path, set: ImageSet, binaries: &BTreeMap<String, PathBuf>) -> Result<Vec<ImageSummary>, ImageError> {
    let root = dir.join("root");
    let inputs = ImageInputs { kubernetes: KubeVersion::DEFAULT, binaries, root: &root };
    make_archive(set, &inputs, &dir.join(set.file_name(KubeVersion::DEFAULT)))
}

#[test]
fn names_are_those_of_the_complete_spec() {
    for version in KubeVersion::ALL {
        let text = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata: {{name: a}}\nspec: {{domain: example.org, kubernetesVersion: {version}}}\n"
        );
        let spec = read_and_complete(text.as_bytes()).unwrap().1;
        let wanted = serde_json::to_value(&spec.spec.images).unwrap();
        let wanted: BTreeSet<String> =
            wanted.as_object().unwrap().values().map(|v| v.as_str().unwrap().to_owned()).collect();
        assert_eq!(TABLE.iter().map(|row| row.name(version)).collect::<BTreeSet<_>>(), wanted);
    }
}

#[test]
fn the_same_files_elsewhere_make_the_same_images() {
    for multi_call in [true, false] {
        let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [one, two] = dirs.each_ref().map(|dir| {
            root(dir.path());
            let binaries = binaries(&dir.path().join("bin"), multi_call);
            ImageSet::ALL.map(|set| archive(dir.path(), set, &binaries).unwrap())
        });
        assert_eq!(one, two);
        for (set, made) in ImageSet::ALL.into_iter().zip(one) {
            let files = dirs.each_ref().map(|dir| dir.path().join(set.file_name(KubeVersion::DEFAULT)));
            assert_eq!(inspect(&files[0]).unwrap(), made);
            let [one, two] = files.map(|file| fs::read(file).unwrap());
            assert!(one == two, "{set}: the archives differ");
        }
    }
}

#[test]
fn a_multi_call_binary_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    root(dir.path());
    let mut binaries = binaries(&dir.path().join("bin"), true);
    let large = dir.path().join("bin/kubernetes");
    put(&large, &"x".repeat(1 << 20));
    // A link to it is the same file.
    symlink("kubernetes", dir.path().join("bin/kube-proxy")).unwrap();
    binaries.insert("kube-proxy".to_owned(), dir.path().join("bin/kube-proxy"));
    let images = archive(dir.path(), ImageSet::Kubernetes, &binaries).unwrap();
    assert_eq!(images.len(), 4);
    let size = fs::metadata(dir.path().join("kubernetes-1.36.3.tar")).unwrap().len();
    assert!(size < 2 << 20, "{size}");
}

#[test]
fn every_program_is_where_its_manifest_looks_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = root(dir.path());
    for multi_call in [true, false] {
        let binaries = binaries(&dir.path().join("bin"), multi_call);
        let inputs = ImageInputs { kubernetes: KubeVersion::DEFAULT, binaries: &binaries, root: &root };
        for row in TABLE {
            let layers = layers::make(row.set, &inputs).unwrap();
            let paths: BTreeSet<&str> = layers.of(row).into_iter().flat_map(|layer| layer.paths()).collect();
            let bare = row.entrypoint.trim_start_matches('/');
            let found = ["", "usr/local/bin/"].iter().any(|place| paths.contains(format!("{place}{bare}").as_str()));
            assert!(found, "{}: {paths:?}", row.repository);
            let tools =
                ["usr/sbin/nft", "usr/sbin/iptables", "etc/alternatives/iptables", "usr/sbin/xtables-nft-multi"];
            let changes_networks = row.repository.ends_with("kube-proxy") || row.repository.ends_with("flannel");
            assert_eq!(tools.iter().all(|tool| paths.contains(tool)), changes_networks, "{}", row.repository);
            assert_eq!(paths.contains("etc/ssl/certs/ca-certificates.crt"), row.set != ImageSet::Pause);
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = root(dir.path());
    let mut all = binaries(&dir.path().join("bin"), false);
    all.remove("etcdctl");
    let error = archive(dir.path(), ImageSet::Etcd, &all).unwrap_err();
    assert_eq!(error.to_string(), "cannot make the images of etcd: there is no binary etcdctl");
    fs::remove_file(root.join("usr/sbin/nft")).unwrap();
    let error = archive(dir.path(), ImageSet::Flannel, &all).unwrap_err();
    assert!(error.to_string().starts_with("cannot find /usr/sbin/nft in the machine's root"), "{error}");
    fs::remove_file(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert!(matches!(archive(dir.path(), ImageSet::CoreDns, &all), Err(ImageError::FindInRoot { .. })));
    assert!(archive(dir.path(), ImageSet::Pause, &all).is_ok(), "pause needs nothing of the root");
}

#[test]
fn links_are_followed_within_the_root_only() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("usr/lib/a.so.1.2"), "x");
    let links =
        [("lib", "usr/lib"), ("usr/lib/a.so.1", "a.so.1.2"), ("usr/lib/a.so", "/lib/a.so.1"), ("up", "../../usr")];
    for (link, target) in links {
        symlink(target, dir.path().join(link)).unwrap();
    }
    symlink("loop", dir.path().join("loop")).unwrap();
    let found = follow(dir.path(), "/lib/a.so").unwrap();
    assert_eq!(found.path, "usr/lib/a.so.1.2");
    assert_eq!(found.links.keys().collect::<Vec<_>>(), ["lib", "usr/lib/a.so", "usr/lib/a.so.1"]);
    assert_eq!(follow(dir.path(), "/up/lib/a.so.1.2").unwrap().path, "usr/lib/a.so.1.2");
    for bad in ["/loop", "/nothing", "/etc/passwd"] {
        assert!(follow(dir.path(), bad).is_err(), "{bad}");
    }
}

#[test]
fn a_program_that_is_not_static_brings_its_libraries() {
    // This test itself is one, and the machine it runs on has what it needs.
    let program = std::env::current_exe().unwrap();
    let needs = tools::read(&program).unwrap();
    assert!(needs.interpreter.is_some());
    let layer = FromRoot::new(Path::new("/")).unwrap().libraries_of(&program, &needs).unwrap();
    let paths: Vec<&str> = layer.paths().collect();
    for part in ["libc.so.6", "ld-linux"] {
        assert!(paths.iter().any(|path| path.contains(part)), "{part}: {paths:?}");
    }
}
