use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::archive::{Content, FileMode, Writer};
use crate::download::Limits;
use crate::download::server::{Answer, Server};
use crate::pins::Pins;
use crate::progress::Progress;

const PINS: &str = "\
components:
- name: kubernetes
  licence: Apache-2.0
  set: local
  releases:
  - version: 1.36.3
    directory: kubernetes
    binaries:
    - {name: kubernetes, package: ., links: [kubelet, kubectl], check: {run: [kubelet], prints: x}}
    release:
    - {name: kubelet, path: release/v1.36.3/bin/linux/$arch/kubelet}
    - {name: kubectl, path: release/v1.36.3/bin/linux/$arch/kubectl}
- name: etcd
  licence: Apache-2.0
  set: local
  releases:
  - version: 3.6.16
    directory: etcd
    binaries:
    - {name: etcd, package: ., links: [etcdctl], check: {run: [etcd], prints: x}}
    release:
    - {name: etcd, path: etcd/v3.6.16/etcd-$arch.tar.gz, member: etcd-$arch/etcd}
    - {name: etcdctl, path: etcd/v3.6.16/etcd-$arch.tar.gz, member: etcd-$arch/etcdctl}
- name: ignition
  licence: Apache-2.0
  set: local
  releases:
  - version: 2.24.0
    directory: ignition
    binaries:
    - {name: ignition, package: ., check: {run: [ignition], prints: x}}
";

const KUBELET: &str = "/release/v1.36.3/bin/linux/amd64/kubelet";
const KUBECTL: &str = "/release/v1.36.3/bin/linux/amd64/kubectl";
const ETCD: &str = "/etcd/v3.6.16/etcd-amd64.tar.gz";

struct Bench {
    server: Server,
    mirror: Mirror,
    downloader: Downloader,
    cache: Cache,
    pins: Pins,
    told: Mutex<Vec<Progress>>,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start().await;
        Bench {
            mirror: Mirror::parse(&server.base).unwrap(),
            server,
            downloader: Downloader::new(Limits { size: 1 << 20, stall: Duration::from_millis(300) }).unwrap(),
            cache: Cache::open(dir.path()).unwrap(),
            pins: Pins::parse(PINS).unwrap(),
            told: Mutex::default(),
            _dir: dir,
        }
    }

    async fn fetch(&self, component: &str) -> Result<Vec<Entry>, ReleaseError> {
        let release = &self.pins.component(component).unwrap().releases[0];
        let observer = |progress: Progress| self.told.lock().unwrap().push(progress);
        self.published().fetch(release, &observer).await
    }

    fn published(&self) -> Published<'_> {
        Published { cache: &self.cache, mirror: &self.mirror, downloader: &self.downloader, arch: Arch::Amd64 }
    }

    fn publish_kubernetes(&self) {
        self.server.publish(KUBELET, b"the kubelet");
        self.server.publish(KUBECTL, b"the kubectl");
    }

    async fn refused(&self, component: &str) -> ReleaseError {
        let error = self.fetch(component).await.unwrap_err();
        assert!(self.cache.program("kubelet", "1.36.3").unwrap().is_none());
        error
    }
}

fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = Writer::new();
    for (path, text) in members {
        writer.file(path, Content::Bytes(text.as_bytes().to_vec()), FileMode::Program).unwrap();
    }
    let mut bytes = Vec::new();
    writer.write_tar_gz(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn a_release_in_the_official_layout_ends_in_the_cache_and_is_not_asked_for_again() {
    let bench = Bench::new().await;
    bench.publish_kubernetes();
    let entries = bench.fetch("kubernetes").await.unwrap();
    assert_eq!(entries.len(), 2);
    let kubelet = bench.cache.program("kubelet", "1.36.3").unwrap().unwrap();
    assert_eq!(fs::read(&kubelet.path).unwrap(), b"the kubelet");
    assert_eq!(kubelet.source, SourceKind::Release);
    let asked = bench.server.requests();
    assert!(asked.contains(&format!("GET {KUBELET}.sha512")) && !asked.contains(&format!("GET {KUBELET}.sha256")));
    bench.fetch("kubernetes").await.unwrap();
    assert_eq!(bench.server.requests(), asked);
    let told = bench.told.lock().unwrap();
    assert_eq!(told[0].happened, Happened::Started { way: Way::Download });
    assert_eq!(told.last().unwrap().happened, Happened::Present);
    assert!(told.iter().any(|p| matches!(p.happened, Happened::Received { got: 11, total: Some(11) })));
}

#[tokio::test]
async fn a_tampered_program_is_not_trusted() {
    let bench = Bench::new().await;
    bench.publish_kubernetes();
    bench.server.put(KUBECTL, Answer::File(b"the kubectI".to_vec()));
    let error = bench.fetch("kubernetes").await.unwrap_err();
    assert!(error.is_trust(), "{error}");
    assert!(bench.cache.list().unwrap().iter().all(|entry| entry.key.name() != "kubectl"));
}

#[tokio::test]
async fn checksums_are_needed_and_the_longer_one_is_preferred() {
    let bench = Bench::new().await;
    bench.publish_kubernetes();
    let checksums = [".sha512", ".sha256"].map(|ending| format!("{KUBELET}{ending}"));
    checksums.iter().for_each(|path| bench.server.remove(path));
    let error = bench.refused("kubernetes").await;
    assert!(error.is_trust(), "{error}");
    bench.server.put(&checksums[0], Answer::Status(500));
    let error = bench.refused("kubernetes").await;
    assert!(!error.is_trust() && !error.is_absent(), "a failing server is not an absent checksum: {error}");
    bench.server.put(&checksums[0], Answer::File(b"rubbish".to_vec()));
    assert!(bench.refused("kubernetes").await.is_trust());
    bench.server.publish(KUBELET, b"the kubelet");
    bench.server.put(&checksums[1], Answer::File(b"rubbish".to_vec()));
    bench.fetch("kubernetes").await.unwrap();
}

#[tokio::test]
async fn a_stalling_mirror_is_an_error_that_names_it() {
    let bench = Bench::new().await;
    bench.publish_kubernetes();
    bench.server.put(KUBELET, Answer::Stall { content: b"the kubelet".to_vec(), after: 3 });
    let error = bench.refused("kubernetes").await;
    let ReleaseError::Download { source, .. } = &error else { panic!("{error}") };
    assert!(source.to_string().contains("kubelet stalled"), "{source}");
    assert!(!error.is_trust());
}

#[tokio::test]
async fn programs_come_out_of_archives_and_hostile_archives_are_refused() {
    let bench = Bench::new().await;
    bench.server.publish(ETCD, &archive(&[("etcd-amd64/etcd", "e"), ("etcd-amd64/etcdctl", "c"), ("README", "")]));
    bench.fetch("etcd").await.unwrap();
    let etcdctl = bench.cache.program("etcdctl", "3.6.16").unwrap().unwrap();
    assert_eq!(fs::read(etcdctl.path).unwrap(), b"c");
    assert_eq!(bench.server.requests().iter().filter(|r| **r == format!("GET {ETCD}")).count(), 1);

    let bench = Bench::new().await;
    bench.server.publish(ETCD, &archive(&[("etcd-amd64/etcd", "e")]));
    let error = bench.refused("etcd").await;
    assert!(matches!(error, ReleaseError::FindMember { .. }) && error.is_trust(), "{error}");
    bench.server.publish(ETCD, b"not an archive at all");
    assert!(matches!(bench.refused("etcd").await, ReleaseError::Unpack { .. }));
}

#[tokio::test]
async fn what_nobody_publishes_or_the_mirror_lacks_may_be_built_instead() {
    let bench = Bench::new().await;
    assert!(bench.refused("ignition").await.is_absent());
    assert!(bench.refused("etcd").await.is_absent(), "neither file nor checksum");
    bench.server.put(&format!("{ETCD}.sha512"), Answer::File(vec![b'a'; 128]));
    assert!(bench.refused("etcd").await.is_absent());
}

#[tokio::test]
async fn auto_takes_the_mirror_if_it_answers_and_says_why_not() {
    let bench = Bench::new().await;
    let kubernetes = &bench.pins.component("kubernetes").unwrap().releases[0];
    let limit = Duration::from_millis(300);
    let ask = |mirror: Mirror| {
        let downloader = &bench.downloader;
        async move { choose(downloader, &mirror, kubernetes, Arch::Amd64, limit).await }
    };
    let choice = ask(bench.mirror.clone()).await;
    assert_eq!(choice.source, SourceKind::Source);
    assert!(choice.why.contains("is of no use") && choice.why.contains("is not there"), "{choice}");
    bench.publish_kubernetes();
    let choice = ask(bench.mirror.clone()).await;
    assert_eq!(choice.source, SourceKind::Release);
    assert_eq!(choice.to_string(), format!("taking everything from release: the mirror {} answers", bench.mirror));
    assert_eq!(bench.server.requests(), [format!("HEAD {KUBELET}.sha256"), format!("HEAD {KUBELET}.sha256")]);
    let choice = ask(Mirror::parse("http://127.0.0.1:1").unwrap()).await;
    assert!(choice.source == SourceKind::Source && choice.why.contains("cannot be reached"), "{choice}");
    // A server that takes the connection and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let choice = ask(Mirror::parse(&format!("http://{}", silent.local_addr().unwrap())).unwrap()).await;
    assert!(choice.source == SourceKind::Source && choice.why.ends_with("did not answer within 0.3 s"), "{choice}");
}
