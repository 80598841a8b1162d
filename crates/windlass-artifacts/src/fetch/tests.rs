use std::sync::Mutex;

use windlass_steps::host::{Host, make_dir, write_file};

use super::*;
use crate::digest::{Algorithm, Digest};
use crate::download::server::Server;

const MAIN: &str = "package main\n\nfunc main() { println(\"tool 1.2.3\") }\n";

const PINS: &str = "\
components:
- name: kubernetes
  licence: Apache-2.0
  set: local
  releases:
  - version: 1.36.3
    directory: kubernetes
    binaries:
    - {name: kubernetes, package: ., links: [kubelet], check: {run: [kubelet], prints: x}}
    release:
    - {name: kubelet, path: kubelet}
- name: tool
  licence: MIT
  set: local
  releases:
  - version: 1.2.3
    directory: tool
    binaries:
    - {name: tool, package: ., check: {run: [tool], prints: tool 1.2.3}}
    release:
    - {name: tool, path: tool}
";

/// A mirror that has Kubernetes and lacks the tool, whose module needs no network.
struct Bench {
    server: Server,
    cache: Cache,
    modules: Modules,
    told: Mutex<Vec<Progress>>,
    _dir: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kubernetes", "tool"] {
            let module = dir.path().join("modules").join(name);
            make_dir(&module, Mode::PUBLIC_DIR).unwrap();
            write_file(module.join("go.mod"), format!("module windlass/{name}\n\ngo 1.24\n"), Mode::PUBLIC).unwrap();
            write_file(module.join("main.go"), MAIN, Mode::PUBLIC).unwrap();
        }
        let server = Server::start().await;
        server.publish("/kubelet", b"the kubelet");
        Bench {
            server,
            cache: Cache::open(dir.path().join("cache")).unwrap(),
            modules: Modules::from_dir(&dir.path().join("modules")).unwrap(),
            told: Mutex::default(),
            _dir: dir,
        }
    }

    async fn binaries(&self, source: ArtifactSource) -> Result<(Choice, Vec<(String, SourceKind)>), FetchError> {
        let fetch = Fetch {
            cache: &self.cache,
            pins: &Pins::parse(PINS).unwrap(),
            modules: &self.modules,
            commands: &Host,
            mirror: &Mirror::parse(&self.server.base).unwrap(),
            registry: None,
            source,
            own_program: Path::new("/nonexistent"),
            apt: Path::new("/nonexistent"),
        };
        let observer = |progress: Progress| self.told.lock().unwrap().push(progress);
        let (choice, entries) = fetch.binaries(KubeVersion::DEFAULT, Extent::Local, &observer).await?;
        Ok((choice, entries.iter().map(|entry| (entry.key.name().to_owned(), entry.source)).collect()))
    }
}

#[tokio::test]
async fn what_the_mirror_lacks_is_built_if_we_may_choose() {
    let bench = Bench::new().await;
    let error = bench.binaries(ArtifactSource::Release).await.unwrap_err();
    assert!(matches!(&error, FetchError::Download { source } if source.is_absent()) && !error.is_trust(), "{error}");
    let (choice, entries) = bench.binaries(ArtifactSource::Auto).await.unwrap();
    assert_eq!(choice.source, SourceKind::Release);
    let expected = [("kubelet".to_owned(), SourceKind::Release), ("tool".to_owned(), SourceKind::Source)];
    assert_eq!(entries, expected);
    let said = |p: &Progress| p.what == "tool 1.2.3" && format!("{:?}", p.happened).contains("building it: ");
    assert!(bench.told.lock().unwrap().iter().any(said));
}

#[tokio::test]
async fn binaries_from_a_mirror_need_no_mirror_again() {
    let bench = Bench::new().await;
    let (_, entries) = bench.binaries(ArtifactSource::Auto).await.unwrap();
    let asked = bench.server.requests();
    for source in [ArtifactSource::Auto, ArtifactSource::Release] {
        let (choice, again) = bench.binaries(source).await.unwrap();
        assert_eq!((choice.source, choice.why.as_str()), (SourceKind::Release, "everything is in the cache"));
        assert_eq!(again, entries);
    }
    assert_eq!(bench.server.requests(), asked);
}

#[tokio::test]
async fn what_a_bundle_gave_is_made_again_for_another_windlass_node() {
    let bench = Bench::new().await;
    let add = |key: &Key, source, text: &str, inputs| {
        let file = bench.cache.root().with_file_name("file");
        write_file(&file, text, Mode::PUBLIC).unwrap();
        bench.cache.add_with(key, source, &file, Mode::PUBLIC, Details { links: vec![], inputs }).unwrap()
    };
    let root = add(&key(Kind::Base, "root", "12").unwrap(), SourceKind::Bundle, "root", None);
    let program = key(Kind::Binary, "windlass-node", env!("CARGO_PKG_VERSION")).unwrap();
    let image = key(Kind::Image, "windlass-node", env!("CARGO_PKG_VERSION")).unwrap();
    let [old, new] = ["old", "new"].map(|text| add(&program, SourceKind::Made, text, None));
    let from = |parts: &[String]| Some(Digest::of(Algorithm::Sha256, parts.join("\n").as_bytes()));
    let made = from(&[root.digest.to_string(), old.digest.to_string()]);
    let pulled = from(&[format!("windlass.dev/windlass-node:v{}", env!("CARGO_PKG_VERSION"))]);
    let is_current = |own: &Entry| {
        let maker = Maker {
            cache: &bench.cache,
            commands: &Host,
            version: KubeVersion::DEFAULT,
            apt: Path::new("/nonexistent"),
            registry: None,
            binaries: programs(&[], own),
            tree: OnceCell::new(),
            observer: &|_| {},
        };
        maker.made_images(ImageSet::WindlassNode, &root).unwrap().is_some()
    };
    let cases = [
        ("made from the old one", SourceKind::Bundle, made.clone(), [true, false]),
        ("pulled, whatever the program", SourceKind::Bundle, pulled.clone(), [true, true]),
        ("of an older bundle, which does not say", SourceKind::Bundle, None, [true, true]),
        ("made here", SourceKind::Made, made, [true, false]),
        ("pulled here", SourceKind::Release, pulled, [false, false]),
    ];
    for (what, source, inputs, wanted) in cases {
        add(&image, source, what, inputs);
        assert_eq!([is_current(&old), is_current(&new)], wanted, "{what}");
    }
}
