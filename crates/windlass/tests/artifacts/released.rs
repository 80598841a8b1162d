//! `--source release` from beginning to end: a mirror in the official layout and a registry, both on loopback, which
//! publish what was built from source.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use windlass_artifacts::image::{ImageSet, TABLE};
use windlass_artifacts::pins::{Pins, ReleaseFile};
use windlass_artifacts::release::Arch;
use windlass_steps::host::{Mode, cmd, make_dir, run_blocking, write_file};

use crate::cached::{Artifact, Content, Place, Programs, VERSION, full, list, pinned};
use crate::daemon::{Daemon, wait_for};
use crate::server::Server;

/// Publishes every pinned release, archives made as upstream makes them.
fn publish(server: &Server, programs: &Programs, work: &Path) {
    let pins = Pins::embedded().unwrap();
    let mut files: BTreeMap<&str, Vec<&ReleaseFile>> = BTreeMap::new();
    pinned(&pins).into_iter().flat_map(|release| &release.release).for_each(|f| {
        files.entry(&f.path).or_default().push(f);
    });
    let on_this_host = |text: &str| text.replace("$arch", Arch::of_this_host().as_str());
    for (number, (path, members)) in files.into_iter().enumerate() {
        let url = format!("/{}", on_this_host(path));
        if let [ReleaseFile { name, member: None, .. }] = members.as_slice() {
            server.publish(&url, &programs.path(name));
            continue;
        }
        let (tree, archive) = (work.join(format!("tree-{number}")), work.join(format!("archive-{number}")));
        for file in members {
            let place = tree.join(on_this_host(file.member.as_deref().unwrap()));
            make_dir(place.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
            symlink(programs.path(&file.name), place).unwrap();
        }
        let pack = cmd("tar").args(["--create", "--dereference", "--use-compress-program", "gzip -1", "--file"]);
        run_blocking(pack.arg(&archive).arg("--directory").arg(&tree).arg(".")).unwrap();
        server.publish(&url, &archive);
    }
}

/// A registry with every image that upstream publishes, under upstream's names.
fn registry(listed: &[Artifact], work: &Path) -> (Daemon, String) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (config, storage) = (work.join("registry.yml"), work.join("registry"));
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{address}'}}\n",
        storage.display()
    );
    write_file(&config, text, Mode::PRIVATE_FILE).unwrap();
    let daemon = Daemon::start(cmd("docker-registry").arg("serve").arg(config));
    wait_for("the registry answers", || {
        std::net::TcpStream::connect(&address).map(drop).map_err(|error| error.to_string())
    });
    for row in TABLE.iter().filter(|row| !matches!(row.set, ImageSet::Pause | ImageSet::WindlassNode)) {
        let (set, version) = (row.set.to_string(), row.set.version(VERSION));
        let archive = listed.iter().find(|a| a.kind == "image" && a.name == set && a.version == version).unwrap();
        let name = row.name(VERSION);
        let (_, rest) = name.split_once('/').unwrap();
        let copy = cmd("skopeo").args(["copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false"]);
        let copy = copy.arg(format!("oci-archive:{}:{name}", archive.path.display()));
        run_blocking(copy.arg(format!("docker://{address}/{rest}"))).unwrap();
    }
    (daemon, address)
}

#[test]
#[ignore = "needs root, docker-registry, skopeo and every artifact"]
fn a_mirror_and_a_registry_give_everything_and_are_not_asked_twice() {
    let place = Place::new(Content::Empty);
    let listed = list(&full());
    // What nobody publishes: Ignition, and the machine's root.
    let unpublished = |a: &&Artifact| matches!(a.name.as_str(), "ignition" | "root");
    listed.iter().filter(unpublished).for_each(|artifact| place.copy(artifact));
    let server = Server::start();
    let programs = Programs::linked();
    publish(&server, &programs, &place.beside("mirror"));
    make_dir(place.beside("registry"), Mode::PUBLIC_DIR).unwrap();
    let (registry, address) = registry(&listed, &place.beside("registry"));

    let origin = ["--mirror", &server.base, "--registry", &address];
    place.done(&[&["fetch", "--source", "release"], &origin[..]].concat());
    place.done(&["list", "--verify"]);
    let released = list(&place.cache());
    let binary = |name: &str| released.iter().find(|a| a.kind == "binary" && a.name == name).unwrap();
    for name in ["containerd", "runc", "etcd", "coredns", "flanneld", "bridge", "kubelet"] {
        // The full cache may have another version's too.
        let got = binary(name);
        let published = if name == "kubelet" { "kubernetes" } else { name };
        let is_it = |a: &&Artifact| a.kind == "binary" && a.name == published && a.version == got.version;
        let digest = listed.iter().find(is_it).map(|a| &a.digest);
        assert_eq!(Some(&got.digest), digest, "{name} is what the mirror published");
    }
    for artifact in released.iter().filter(|a| ["kubelet", "etcd", "coredns", "flannel"].contains(&a.name.as_str())) {
        assert_eq!(artifact.source, "release", "{artifact:?}");
    }

    let asked = server.asked();
    assert!(asked.iter().any(|line| line.starts_with("GET /release/v") && line.ends_with("/kubelet")), "{asked:?}");
    drop(registry);
    for source in ["release", "auto"] {
        let again = place.done(&[&["fetch", "--source", source], &origin[..]].concat());
        assert!(!again.stderr.contains("started"), "{source}: {}", again.stderr);
    }
    assert_eq!(server.asked(), asked, "everything was there");
}
