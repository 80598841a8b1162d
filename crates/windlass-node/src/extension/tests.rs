use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::Router;
use axum::extract::Path as Named;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use windlass_artifacts::addon::{Extension, ExtensionFile, Location, PackageName, PackageVersion, pack_extension};
use windlass_artifacts::archive::FileMode;
use windlass_artifacts::download::{Downloader, Limits, Url};
use windlass_steps::host::{Mode, make_dir, write_file};

use super::*;
use crate::choice::{ClusterVersion, Seen, Setup};

fn os(text: &str) -> OsVersion {
    OsVersion::parse(text).unwrap()
}

fn version(text: &str) -> AddonVersion {
    AddonVersion::parse(text).unwrap()
}

fn hash(text: &str) -> Digest {
    Digest::of(windlass_artifacts::digest::Algorithm::Sha512, text.as_bytes())
}

fn wanted(package: &str, number: &str, on: &str) -> WantedPackage {
    WantedPackage {
        name: PackageName::parse(package).unwrap(),
        os: os(on),
        offered: PackageVersion {
            version: version(number),
            hash: hash(&format!("{package}-{number}-os{on}")),
            cas_digest: None,
            source_package: None,
            locations: Vec::new(),
        },
        length: None,
        manifest: "http://bucket.test/x".parse().unwrap(),
    }
}

/// As they are on a machine: a `?` behind the name says that nobody knows what it came from.
fn installed(names: &[&str]) -> Vec<Installed> {
    let one = |name: &&str| {
        let plain = name.trim_end_matches('?');
        let (package, version, os) = Installed::parse(plain).unwrap();
        Installed { package, version, os, hash: (plain == *name).then(|| hash(plain)) }
    };
    names.iter().map(one).collect()
}

fn choice(kubernetes: &str, runtime: &str, next: Option<&str>) -> Choice {
    let systems: Vec<&str> = next.into_iter().chain(["1"]).collect();
    let packages = systems
        .iter()
        .flat_map(|on| [wanted("containerd", runtime, on), wanted("kubelet", kubernetes.trim_start_matches('v'), on)]);
    Choice {
        kubernetes: ClusterVersion::parse(kubernetes).unwrap(),
        os: os("1"),
        next_os: next.map(os).map(Upcoming::Booted),
        setup: Some(Setup { runtime: version(runtime), packages: packages.collect(), seen: Seen::default() }),
    }
}

const SEEDED: [&str; 4] = ["containerd-2.2.9-os1", "containerd-2.2.9-os2", "kubelet-1.36.3-os1", "kubelet-1.36.3-os2"];

/// A name, what is there, what was chosen, what is fetched, what is removed, and what follows.
type Case<'a> = (&'a str, &'a [&'a str], Choice, &'a [&'a str], &'a [&'a str], Then);

#[test]
fn the_plan_fetches_what_is_missing_removes_what_is_other_and_boots_when_it_must() {
    let as_seeded = choice("v1.36.3", "2.2.9", None);
    let reboot = |why| Then::Reboot(why);
    let runtime = Why::Runtime { from: version("2.2.9"), to: version("1.7.35") };
    let both = ["containerd-1.7.35-os1", "kubelet-1.35.4-os1"];
    let left = Choice { next_os: Some(Upcoming::Left(os("2"))), ..choice("v1.36.3", "2.2.9", Some("2")) };
    let cases: [Case<'_>; 11] = [
        ("as it came", &SEEDED, as_seeded.clone(), &[], &[], Then::Nothing),
        ("nothing is there", &[], as_seeded.clone(), &["containerd-2.2.9-os1", "kubelet-1.36.3-os1"], &[], Then::Merge),
        (
            "nobody knows what it came from",
            &["containerd-2.2.9-os1?", "kubelet-1.36.3-os1"],
            as_seeded.clone(),
            &["containerd-2.2.9-os1"],
            &[],
            Then::Merge,
        ),
        ("another cluster", &SEEDED, choice("v1.35.4", "1.7.35", None), &both, &SEEDED, reboot(runtime)),
        (
            "another kubelet alone",
            &["containerd-2.2.9-os1", "kubelet-1.36.2-os1"],
            as_seeded.clone(),
            &["kubelet-1.36.3-os1"],
            &["kubelet-1.36.2-os1"],
            Then::Merge,
        ),
        (
            "an update, staged before",
            &SEEDED,
            choice("v1.36.3", "2.2.9", Some("2")),
            &[],
            &[],
            reboot(Why::Os { to: os("2") }),
        ),
        (
            "an update",
            &SEEDED[..1],
            choice("v1.36.3", "2.2.9", Some("2")),
            &["containerd-2.2.9-os2", "kubelet-1.36.3-os2", "kubelet-1.36.3-os1"],
            &[],
            reboot(Why::Os { to: os("2") }),
        ),
        ("an update that nobody asked for, staged before", &SEEDED, left.clone(), &[], &[], Then::Nothing),
        (
            "an update that nobody asked for",
            &["containerd-2.2.9-os1", "kubelet-1.36.3-os1"],
            left,
            &["containerd-2.2.9-os2", "kubelet-1.36.3-os2"],
            &[],
            Then::Nothing,
        ),
        (
            "another version for another system only",
            &["containerd-2.2.9-os1", "containerd-1.7.35-os2", "kubelet-1.36.3-os1"],
            as_seeded.clone(),
            &[],
            &["containerd-1.7.35-os2"],
            Then::Nothing,
        ),
        (
            "no addons, with an update",
            &SEEDED,
            Choice { setup: None, ..choice("v1.36.3", "2.2.9", Some("2")) },
            &[],
            &[],
            reboot(Why::Os { to: os("2") }),
        ),
    ];
    for (name, there, choice, fetch, remove, then) in cases {
        let plan = plan(&installed(there), &choice);
        assert_eq!(plan.fetch.iter().map(WantedPackage::directory).collect::<Vec<_>>(), fetch, "{name}");
        assert_eq!(plan.remove, remove, "{name}");
        assert_eq!(plan.then, then, "{name}");
    }
}

#[test]
fn what_was_planned_is_what_the_next_plan_finds() {
    for (there, choice) in [
        (&SEEDED[..], choice("v1.35.4", "1.7.35", None)),
        (&[], choice("v1.36.3", "2.2.9", Some("2"))),
        (&["containerd-2.2.9-os1?"], choice("v1.36.3", "2.2.9", None)),
    ] {
        let mut there = installed(there);
        let first = plan(&there, &choice);
        there.retain(|own| !first.remove.contains(&own.directory()));
        there.retain(|own| first.fetch.iter().all(|wanted| wanted.directory() != own.directory()));
        there.extend(first.fetch.iter().flat_map(|wanted| installed(&[&wanted.directory()])));
        let second = plan(&there, &choice);
        assert_eq!((second.fetch.len(), second.remove.len()), (0, 0));
    }
}

#[test]
fn names_of_extensions_are_read_and_others_are_left_alone() {
    for (name, want) in [
        ("containerd-2.2.9-os1", Some(("containerd", "2.2.9", "1"))),
        ("kubelet-1.37.0-rc.1-os2", Some(("kubelet", "1.37.0-rc.1", "2"))),
        ("kubelet-1.36.3", None),
        ("containerd", None),
        ("containerd-x/y-os1", None),
        ("users-own-1-os1", None),
    ] {
        let read = Installed::parse(name);
        let read = read.as_ref().map(|(package, version, os)| (*package, version.as_str(), os.as_str()));
        assert_eq!(read, want, "{name}");
    }
}

/// A machine and a bucket with packages in it.
pub(crate) struct Ground {
    pub dir: tempfile::TempDir,
    pub places: Places,
    packages: BTreeMap<String, Vec<u8>>,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Ground { places: Places::below(dir.path()), dir, packages: BTreeMap::new() }
    }

    /// Packs an extension and puts it into the bucket; what the manifest would say about it.
    fn offer(&mut self, package: &str, number: &str, on: &str) -> WantedPackage {
        let program = self.dir.path().join("program");
        write_file(&program, format!("{package} {number}"), Mode::EXECUTABLE).unwrap();
        let file = ExtensionFile { path: format!("bin/{package}"), source: program, mode: FileMode::Program };
        let extension = Extension {
            package: PackageName::parse(package).unwrap(),
            version: version(number),
            os_id: "debian".to_owned(),
            os_version_id: os(on),
            files: vec![file],
        };
        let mut bytes = Vec::new();
        let packed = pack_extension(&extension, &mut bytes).unwrap();
        let name = format!("{}.tar.gz", extension.directory());
        self.packages.insert(name.clone(), bytes);
        let mut wanted = wanted(package, number, on);
        wanted.offered.hash = packed.hash;
        wanted.offered.locations = vec![Location::parse_url(&name).unwrap()];
        wanted.length = Some(packed.length);
        wanted
    }

    /// Serves the bucket, and says where its manifest would be.
    async fn serve(&self) -> Url {
        let packages = self.packages.clone();
        let give =
            move |Named(name): Named<String>| async move { packages.get(&name).cloned().ok_or(StatusCode::NOT_FOUND) };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/{name}", get(give))).await });
        format!("http://{address}/torcx_manifest.json").parse().unwrap()
    }

    fn extensions(&self) -> Vec<String> {
        list(&self.places).unwrap().iter().map(Installed::directory).collect()
    }

    fn program(&self, directory: &str, package: &str) -> String {
        let path = self.places.extensions().join(directory).join("usr/bin").join(package);
        String::from_utf8(read_file(path, 100).unwrap()).unwrap()
    }
}

fn downloader() -> Downloader {
    Downloader::new(Limits { size: 1 << 20, stall: std::time::Duration::from_secs(5) }).unwrap()
}

#[tokio::test]
async fn packages_are_staged_installed_and_known_again() {
    let mut ground = Ground::new();
    let mut packages = vec![ground.offer("containerd", "2.2.9", "1"), ground.offer("kubelet", "1.36.3", "1")];
    let manifest = ground.serve().await;
    packages.iter_mut().for_each(|package| package.manifest = manifest.clone());
    let old = ground.places.extensions().join("containerd-1.7.35-os1/usr");
    make_dir(&old, Mode::PUBLIC_DIR).unwrap();
    make_dir(ground.places.extensions().join("users-own"), Mode::PUBLIC_DIR).unwrap();
    for _ in 0..2 {
        let staged = stage(&ground.places, &downloader(), &packages).await.unwrap();
        install(&ground.places, &staged, &["containerd-1.7.35-os1".to_owned(), "never-there".to_owned()]).unwrap();
        assert_eq!(ground.extensions(), ["containerd-2.2.9-os1", "kubelet-1.36.3-os1"]);
        assert_eq!(ground.program("containerd-2.2.9-os1", "containerd"), "containerd 2.2.9");
    }
    assert!(ground.places.extensions().join("users-own").exists(), "what is the user's stays");
    let there = list(&ground.places).unwrap();
    assert!(packages.iter().all(|wanted| there.iter().any(|own| wanted.is(own))), "{there:?}");
}

#[tokio::test]
async fn what_is_not_what_was_signed_is_not_installed() {
    type Change = fn(&mut Ground, &mut WantedPackage);
    let cases: [(&str, Change, bool); 8] = [
        ("digest should be", |_, wanted| wanted.offered.hash = hash("other"), true),
        ("length should be", |_, wanted| wanted.length = Some(wanted.length.unwrap() + 1), true),
        ("larger than", |_, wanted| wanted.length = Some(5), true),
        ("is not there", |ground, _| ground.packages.clear(), false),
        ("there is none", |_, wanted| wanted.offered.locations.clear(), false),
        (
            "another server",
            |_, wanted| wanted.offered.locations = vec![Location::parse_url("http://169.254.169.254/x").unwrap()],
            true,
        ),
        ("no system extension of that name", |_, wanted| wanted.os = os("2"), true),
        (
            "no-such-file",
            |_, wanted| wanted.offered.locations = vec![Location::parse_path("/no-such-file").unwrap()],
            false,
        ),
    ];
    for (word, change, is_trust) in cases {
        let mut ground = Ground::new();
        let mut wanted = ground.offer("containerd", "2.2.9", "1");
        change(&mut ground, &mut wanted);
        wanted.manifest = ground.serve().await;
        let error = stage(&ground.places, &downloader(), &[wanted]).await.unwrap_err();
        let told = windlass_steps::report::chain(&error).join(": ");
        assert!(told.contains(word), "{word}: {told}");
        assert_eq!(error.is_trust(), is_trust, "{told}");
        assert_eq!(ground.extensions(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_second_location_helps_when_the_first_is_gone_and_a_path_is_one() {
    let mut ground = Ground::new();
    let mut wanted = ground.offer("kubelet", "1.36.3", "1");
    let archive: PathBuf = ground.dir.path().join("archive");
    write_file(&archive, &ground.packages["kubelet-1.36.3-os1.tar.gz"], Mode::PUBLIC).unwrap();
    ground.packages.clear();
    wanted.offered.locations.push(Location::parse_path(archive.to_str().unwrap()).unwrap());
    wanted.manifest = ground.serve().await;
    let staged = stage(&ground.places, &downloader(), &[wanted]).await.unwrap();
    install(&ground.places, &staged, &[]).unwrap();
    assert_eq!(ground.extensions(), ["kubelet-1.36.3-os1"]);
}

#[tokio::test]
async fn leftovers_of_a_run_that_was_cut_off_are_no_obstacle() {
    let mut ground = Ground::new();
    let mut wanted = ground.offer("kubelet", "1.36.3", "1");
    wanted.manifest = ground.serve().await;
    let work = ground.places.addon_work();
    make_dir(work.join("kubelet-1.36.3-os1/usr"), Mode::PUBLIC_DIR).unwrap();
    make_dir(work.join("old/kubelet-1.36.3-os1"), Mode::PUBLIC_DIR).unwrap();
    write_file(work.join("kubelet-1.36.3-os1.tar.gz"), "half", Mode::PUBLIC).unwrap();
    let staged = stage(&ground.places, &downloader(), &[wanted]).await.unwrap();
    install(&ground.places, &staged, &[]).unwrap();
    assert_eq!(ground.program("kubelet-1.36.3-os1", "kubelet"), "kubelet 1.36.3");
}

/// In a pod the folder of the extensions is a mount, and no rename leads from one mount to another.
#[test]
fn addons_were_unpacked_on_another_mount_than_the_one_they_are_moved_to() {
    let places = Places::below("/");
    let work = places.addon_work();
    assert_eq!(work.parent(), Some(places.extensions().as_path()));
    let name = work.file_name().and_then(|name| name.to_str()).unwrap();
    assert!(name.starts_with(".#"), "systemd-sysext would take {name} for an extension");
}
