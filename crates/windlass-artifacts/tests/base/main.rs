//! The machine base for real: debootstrap, images, preload, packing, booting. Ring 2: root, a package mirror, and the
//! programs that the `#[ignore]` reasons name. Everything is made in one directory and nothing is left behind.
//!
//! Three variables stand in for what other tests have made: `WINDLASS_TEST_PACKAGES` (a directory that keeps Debian
//! packages), `WINDLASS_TEST_BINARIES` (real programs by name; without it, a stand-in that waits), and
//! `WINDLASS_TEST_CONTAINERD` (a directory with `containerd` and `ctr`; without it, Debian's).
#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod boot;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use windlass_artifacts::addon::{self, AddonVersion, Extension, Runtime, pack_extension};
use windlass_artifacts::archive::{Limits, extract};
use windlass_artifacts::base::{
    BaseError, BaseInputs, IMAGES, Layers, OsVersion, PreloadInputs, RootInputs, make_base, make_preload, make_root,
    pack_tree, unpack_tree,
};
use windlass_artifacts::image::{ImageInputs, ImageSet, make_archive};
use windlass_artifacts::oci::inspect;
use windlass_spec::KubeVersion;
use windlass_steps::host::{Host, Mode, cmd, make_dir, run, write_file};

/// What pause does, in the fewest words.
const WAITS: &str = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n";

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

#[expect(clippy::print_stderr, reason = "these times go into docs/figures.md")]
fn told(what: &str, since: Instant, of: &Path) {
    let size: u64 = match of.is_file() {
        true => of.metadata().unwrap().len(),
        false => walk(of).iter().filter_map(|path| path.symlink_metadata().ok()).map(|m| m.blocks() * 512).sum(),
    };
    eprintln!("{what}: {:.1} s, {} MB", since.elapsed().as_secs_f64(), size / 1_000_000);
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, a Debian mirror, debootstrap, systemd-nspawn, containerd, skopeo, gcc; minutes"]
async fn a_base_is_made_packed_preloaded_and_booted() {
    let dir = tempfile::Builder::new().prefix("windlass-base-").tempdir_in("/var/tmp").unwrap();
    let root = dir.path().join("root");
    let since = Instant::now();
    let packages = variable("WINDLASS_TEST_PACKAGES");
    let inputs = RootInputs { apt: Path::new("/etc/apt"), mirror: None, packages: packages.as_deref() };
    make_root(&inputs, &root, &Host, &|_| {}).await.unwrap();
    told("root", since, &root);
    nobody_is_in(&root);

    let images = images(dir.path(), &root).await;
    preload(dir.path(), &images).await;

    let mut trees = Vec::new();
    for os_version in OsVersion::ALL {
        trees.push(base(dir.path(), &root, os_version, &images).await);
    }
    differ_in_version_only(&trees[0], &trees[1]);
    for os_version in OsVersion::ALL {
        lay_out_extension(dir.path(), &trees[0], os_version);
    }
    let since = Instant::now();
    boot::runs_and_stops(dir.path(), &trees[0]).await;
    told("boot and stop", since, &trees[0].join("etc"));
    boot::nothing_is_left(dir.path());
}

/// Unpacks a runtime for one OS version where machines have them; its programs say which they are.
fn lay_out_extension(dir: &Path, tree: &Path, os_version: OsVersion) {
    let program = dir.join(format!("says-{os_version}"));
    write_file(&program, format!("#!/bin/sh\necho for OS {os_version}\n"), Mode::EXECUTABLE).unwrap();
    let runtime =
        Runtime { containerd: program.clone(), shim: program.clone(), ctr: program.clone(), runc: program.clone() };
    let (version, os) = (AddonVersion::parse("2.2.9").unwrap(), addon::OsVersion::parse(os_version.as_str()).unwrap());
    let extension = Extension::containerd(version, os, &runtime);
    let mut archive = Vec::new();
    pack_extension(&extension, &mut archive).unwrap();
    let place = tree.join("var/lib/extensions").join(extension.directory());
    make_dir(&place, Mode::PUBLIC_DIR).unwrap();
    extract(archive.as_slice(), &Limits::default(), &place).unwrap();
}

fn nobody_is_in(root: &Path) {
    for gone in
        ["etc/machine-id", "etc/resolv.conf", "etc/hostname", "etc/ssh/ssh_host_rsa_key", "var/lib/dbus/machine-id"]
    {
        assert!(!root.join(gone).exists(), "{gone}");
    }
    let shadow = fs::read_to_string(root.join("etc/shadow")).unwrap();
    assert!(shadow.lines().any(|line| line.starts_with("root:!")), "{shadow}");
    assert!(!root.join("usr/bin/containerd").exists() && root.join("etc/selinux/config").exists());
}

async fn binaries(dir: &Path) -> BTreeMap<String, PathBuf> {
    let stand_in = dir.join("waits");
    write_file(dir.join("waits.c"), WAITS, Mode::PUBLIC).unwrap();
    run(cmd("gcc").args(["-static", "-O2", "-s", "-o"]).arg(&stand_in).arg(dir.join("waits.c"))).await.unwrap();
    let real = |name: &str| {
        let found = variable("WINDLASS_TEST_BINARIES")?.join(name);
        found.exists().then_some(found)
    };
    let names = ImageSet::ALL.into_iter().flat_map(|set| set.programs());
    names.map(|name| (name.to_owned(), real(name).unwrap_or_else(|| stand_in.clone()))).collect()
}

/// Makes every archive twice, and lets skopeo and the tools inside say that they are sound.
async fn images(dir: &Path, root: &Path) -> Vec<PathBuf> {
    let binaries = binaries(dir).await;
    let inputs = ImageInputs { kubernetes: KubeVersion::DEFAULT, binaries: &binaries, root };
    let mut archives = Vec::new();
    for set in ImageSet::ALL {
        let (file, again) = (dir.join(set.file_name(KubeVersion::DEFAULT)), dir.join("again.tar"));
        let since = Instant::now();
        let made = make_archive(set, &inputs, &file).unwrap();
        told(&format!("images of {set}"), since, &file);
        assert_eq!(make_archive(set, &inputs, &again).unwrap(), made);
        assert_eq!(inspect(&file).unwrap(), made);
        for name in made.iter().flat_map(|image| &image.names) {
            let reference = format!("oci-archive:{}:{name}", file.display());
            let seen = run(cmd("skopeo").args(["inspect", "--format", "{{.Digest}}", &reference])).await.unwrap();
            let digest = made.iter().find(|image| image.names.contains(name)).unwrap().digest.to_string();
            assert_eq!(seen.text().unwrap(), digest, "{name}");
            if name.contains("kube-proxy") || name.contains("flannel") {
                network_tools_start(dir, &reference).await;
            }
        }
        archives.push(file);
    }
    fs::remove_file(dir.join("again.tar")).unwrap();
    archives
}

async fn network_tools_start(dir: &Path, reference: &str) {
    let (copied, unpacked) = (dir.join("copied"), dir.join("unpacked"));
    make_dir(&unpacked, Mode::PUBLIC_DIR).unwrap();
    run(cmd("skopeo").args(["copy", reference]).arg(format!("dir:{}", copied.display()))).await.unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(copied.join("manifest.json")).unwrap()).unwrap();
    for layer in manifest["layers"].as_array().unwrap() {
        let blob = copied.join(layer["digest"].as_str().unwrap().trim_start_matches("sha256:"));
        run(cmd("tar").arg("-xf").arg(blob).arg("-C").arg(&unpacked)).await.unwrap();
    }
    let commands: [&[&str]; 9] = [
        &["nft", "--version"],
        &["iptables", "--version"],
        &["iptables-legacy", "--version"],
        &["iptables-nft-restore", "--version"],
        &["ip6tables", "--version"],
        &["iptables", "-m", "comment", "--help"],
        &["conntrack", "--version"],
        &["ipset", "--version"],
        &["ip", "-V"],
    ];
    for words in commands {
        run(cmd("chroot").arg(&unpacked).args(words)).await.unwrap();
    }
    fs::remove_dir_all(copied).unwrap();
    fs::remove_dir_all(unpacked).unwrap();
}

async fn preload(dir: &Path, images: &[PathBuf]) {
    let own = variable("WINDLASS_TEST_CONTAINERD");
    let program = |name: &str| own.as_ref().map_or_else(|| PathBuf::from(name), |own| own.join(name));
    // Debian's containerd is older than the option to discard layers.
    let layers = if own.is_some() { Layers::Discard } else { Layers::Keep };
    let (containerd, ctr) = (program("containerd"), program("ctr"));
    let inputs = PreloadInputs { containerd: &containerd, ctr: &ctr, images, layers };
    let out = dir.join("preload");
    let since = Instant::now();
    let names = make_preload(&inputs, &dir.join("preload-work"), &out, &Host, &|_| {}).await.unwrap();
    told("preload", since, &out);
    let wanted: usize = ImageSet::ALL.into_iter().map(|set| set.rows().count()).sum();
    assert_eq!(names.len(), wanted, "{names:?}");
    assert!(walk(&out).iter().any(|path| path.ends_with("fs/usr/sbin/nft")), "nothing was unpacked");
    let blobs = fs::read_dir(out.join("io.containerd.content.v1.content/blobs/sha256")).unwrap().count();
    assert_eq!(blobs == 2 * wanted, layers == Layers::Discard, "{blobs} blobs");
    fs::remove_dir_all(dir.join("preload-work")).unwrap();
    round_trip(dir, "preload");
}

async fn base(dir: &Path, root: &Path, os_version: OsVersion, images: &[PathBuf]) -> PathBuf {
    let name = os_version.base_name();
    let out = dir.join(&name);
    let program = dir.join("waits");
    let programs = [("usr/bin/windlass-node".to_owned(), program)];
    let inputs = BaseInputs { root, os_version, programs: &programs, images };
    let since = Instant::now();
    make_base(&inputs, &out, &Host, &|_| {}).await.unwrap();
    told(&name, since, &out);
    assert_eq!(fs::read_dir(out.join(IMAGES)).unwrap().count(), images.len());
    round_trip(dir, &name)
}

/// Packs, unpacks and compares; answers with the unpacked tree.
fn round_trip(dir: &Path, name: &str) -> PathBuf {
    let (tree, file, back) = (dir.join(name), dir.join(format!("{name}.tar")), dir.join("trees").join(name));
    make_dir(dir.join("trees"), Mode::PUBLIC_DIR).unwrap();
    let since = Instant::now();
    pack_tree(&tree, &file, &|_| {}).unwrap();
    told(&format!("pack {name}"), since, &file);
    let since = Instant::now();
    unpack_tree(&file, &back, &|_| {}).unwrap();
    told(&format!("unpack {name}"), since, &back);
    assert_eq!(described(&tree), described(&back));
    back
}

/// Everything about a tree that a machine could notice.
fn described(tree: &Path) -> Vec<(PathBuf, u32, u32, u32, u64, Vec<OsString>)> {
    let describe = |path: PathBuf| {
        let metadata = path.symlink_metadata().unwrap();
        let size = if metadata.is_dir() { 0 } else { metadata.len() };
        let mut attributes: Vec<OsString> = xattr::list(&path).unwrap().collect();
        attributes.sort();
        let relative = path.strip_prefix(tree).unwrap().to_owned();
        (relative, metadata.permissions().mode(), metadata.uid(), metadata.gid(), size, attributes)
    };
    walk(tree).into_iter().map(describe).collect()
}

fn differ_in_version_only(one: &Path, two: &Path) {
    let differing: Vec<PathBuf> = walk(one)
        .into_iter()
        .filter(|path| path.symlink_metadata().unwrap().is_file())
        .map(|path| path.strip_prefix(one).unwrap().to_owned())
        .filter(|path| fs::read(one.join(path)).unwrap() != fs::read(two.join(path)).unwrap())
        .collect();
    assert_eq!(differing, [PathBuf::from("usr/lib/os-release"), PathBuf::from("usr/share/windlass/base")]);
}

#[tokio::test]
#[ignore = "ring 2: root, for mounts"]
async fn a_containerd_that_does_not_stay_up_is_reported() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let inputs = |containerd| PreloadInputs { containerd, ctr: Path::new("false"), images: &[], layers: Layers::Keep };
    for program in ["false", "true", "/nowhere/containerd"] {
        let (work, out) = (dir.path().join("work"), dir.path().join("out"));
        let made = make_preload(&inputs(Path::new(program)), &work, &out, &Host, &|_| {}).await;
        assert!(matches!(made, Err(BaseError::KeepRuntime { .. })), "{program}: {made:?}");
    }
}

#[test]
#[ignore = "ring 2: root, for owners and file capabilities"]
fn a_tree_comes_back_with_owners_links_and_attributes() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let tree = dir.path().join("tree");
    let long = format!("{0}/{0}", "a-long-name-".repeat(12));
    for path in ["usr/bin/ping", "var/private/x", &long] {
        make_dir(tree.join(path).parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(tree.join(path), path, Mode::EXECUTABLE).unwrap();
    }
    std::os::unix::fs::chown(tree.join("usr/bin/ping"), Some(7), Some(42)).unwrap();
    // Set after the owner, which clears both.
    xattr::set(tree.join("usr/bin/ping"), "security.capability", &CAP_NET_RAW).unwrap();
    xattr::set(tree.join("var"), "user.of", b"a directory").unwrap();
    fs::set_permissions(tree.join("var/private"), fs::Permissions::from_mode(0o2500)).unwrap();
    fs::hard_link(tree.join("usr/bin/ping"), tree.join("usr/bin/ping6")).unwrap();
    std::os::unix::fs::symlink("/usr/bin", tree.join("bin")).unwrap();
    // What a run that was killed has left.
    make_dir(dir.path().join("trees/.tree.making-1-0/half"), Mode::PUBLIC_DIR).unwrap();
    let back = round_trip(dir.path(), "tree");
    let inode = |name: &str| back.join("usr/bin").join(name).metadata().unwrap().ino();
    assert_eq!(inode("ping"), inode("ping6"));
    assert_eq!(xattr::get(back.join("usr/bin/ping"), "security.capability").unwrap().unwrap(), CAP_NET_RAW);
    assert_eq!(fs::read_dir(dir.path().join("trees")).unwrap().count(), 1, "the left-over is still there");
}

/// Version 2, effective, permitted: the thirteenth capability.
const CAP_NET_RAW: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
