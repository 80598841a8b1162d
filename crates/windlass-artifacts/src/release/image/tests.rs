use std::time::Duration;

use oci_client::manifest::OCI_IMAGE_INDEX_MEDIA_TYPE;
use serde_json::json;

use super::*;
use crate::download::server::{Answer, Server};

struct Bench {
    server: Server,
    dir: tempfile::TempDir,
    layer: Vec<u8>,
    manifest: Vec<u8>,
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::of(Algorithm::Sha256, bytes)
}

impl Bench {
    /// A registry with an image of two platforms.
    async fn new() -> Self {
        let server = Server::start().await;
        server.put("/v2/", Answer::File(b"{}".to_vec()));
        let (config, layer) = (b"{}".to_vec(), vec![7; 5000]);
        let blob = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": OCI_IMAGE_MEDIA_TYPE,
            "config": blob("application/vnd.oci.image.config.v1+json", &config),
            "layers": [blob("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        let manifest = serde_json::to_vec(&manifest).unwrap();
        let entry = |arch: &str, digest: Digest| {
            let platform = json!({"os": "linux", "architecture": arch});
            json!({"mediaType": OCI_IMAGE_MEDIA_TYPE, "digest": digest, "size": 1, "platform": platform})
        };
        let entries = [entry("s390x", digest(b"other")), entry("amd64", digest(&manifest))];
        let index = json!({"schemaVersion": 2, "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE, "manifests": entries});
        server.put("/v2/app/manifests/1.0", Answer::File(serde_json::to_vec(&index).unwrap()));
        server.put(&format!("/v2/app/manifests/{}", digest(&manifest)), Answer::File(manifest.clone()));
        for bytes in [&config, &layer] {
            server.put(&format!("/v2/app/blobs/{}", digest(bytes)), Answer::File(bytes.clone()));
        }
        Bench { server, dir: tempfile::tempdir().unwrap(), layer, manifest }
    }

    fn layer_path(&self) -> String {
        format!("/v2/app/blobs/{}", digest(&self.layer))
    }

    async fn pull(&self, name: &str) -> Result<Pulled, ReleaseError> {
        let room = tempfile::tempdir_in(self.dir.path()).unwrap().keep();
        let limits = Limits { size: 10_000, stall: Duration::from_millis(400) };
        let registry = self.server.base.strip_prefix("http://").unwrap();
        pull_image(&format!("{registry}/{name}"), None, Arch::Amd64, &room, limits).await
    }
}

#[tokio::test]
async fn an_image_is_pulled_for_this_platform_byte_for_byte() {
    let bench = Bench::new().await;
    let by_digest = format!("app@{}", digest(&bench.manifest));
    for name in ["app:1.0", by_digest.as_str()] {
        let pulled = bench.pull(name).await.unwrap();
        assert!(pulled.name.ends_with(name), "{}", pulled.name);
        assert_eq!(pulled.manifest, bench.manifest);
        assert_eq!(pulled.media_type, OCI_IMAGE_MEDIA_TYPE);
        assert_eq!(pulled.blobs.len(), 2);
        assert_eq!(std::fs::read(&pulled.blobs[&digest(&bench.layer)]).unwrap(), bench.layer);
    }
}

#[tokio::test]
async fn an_image_from_another_registry_keeps_its_name() {
    let bench = Bench::new().await;
    let registry = Registry::parse(bench.server.base.strip_prefix("http://").unwrap()).unwrap();
    let limits = Limits { size: 10_000, stall: Duration::from_millis(400) };
    let by_digest = format!("registry.example/app@{}", digest(&bench.manifest));
    for name in ["registry.example/app:1.0", by_digest.as_str()] {
        let room = tempfile::tempdir_in(bench.dir.path()).unwrap();
        let pulled = pull_image(name, Some(&registry), Arch::Amd64, room.path(), limits).await.unwrap();
        assert_eq!(pulled.name, name);
        assert_eq!(pulled.manifest, bench.manifest);
    }
}

#[test]
fn a_registry_is_a_host_with_or_without_port_and_path() {
    let image = reference("registry.example/coredns/coredns:v1").unwrap();
    for (text, name) in [
        ("mirror.example", "mirror.example/coredns/coredns:v1"),
        ("127.0.0.1:5000/", "127.0.0.1:5000/coredns/coredns:v1"),
        ("localhost/k8s", "localhost/k8s/coredns/coredns:v1"),
    ] {
        assert_eq!(Registry::parse(text).unwrap().name(&image).unwrap().whole(), name);
    }
    for bad in ["", "/", "mirror", "mirror/k8s", "https://mirror.example", "mirror.example/A B", "mirror.example:x"] {
        assert!(matches!(Registry::parse(bad), Err(ReleaseError::NameRegistry { .. })), "{bad}");
    }
}

#[tokio::test]
async fn a_registry_that_gives_something_else_is_not_trusted() {
    let mut tampered = vec![7; 5000];
    tampered[3] = 8;
    let answers = [
        ("another layer", Answer::File(tampered)),
        ("a longer layer", Answer::File(vec![7; 6000])),
        ("a shorter layer", Answer::File(vec![7; 4000])),
        ("an endless layer", Answer::Endless),
    ];
    for (what, answer) in answers {
        let bench = Bench::new().await;
        bench.server.put(&bench.layer_path(), answer);
        let error = bench.pull("app:1.0").await.unwrap_err();
        assert!(error.is_trust(), "{what}: {error}");
    }
    let bench = Bench::new().await;
    let path = format!("/v2/app/manifests/{}", digest(&bench.manifest));
    bench.server.put(&path, Answer::File([bench.manifest.as_slice(), b" "].concat()));
    let error = bench.pull("app:1.0").await.unwrap_err();
    assert!(error.is_trust(), "another manifest: {error}");
}

#[tokio::test]
async fn a_manifest_is_never_held_in_memory_whatever_its_size() {
    let larger = MANIFEST_LIMIT as usize + 1;
    let answers = [
        ("endless", Answer::Endless),
        ("too long", Answer::File(vec![b' '; larger])),
        ("said to be too long", Answer::Boast(1 << 40)),
    ];
    for (what, answer) in answers {
        for name in ["1.0".to_owned(), digest(&Bench::new().await.manifest).to_string()] {
            let bench = Bench::new().await;
            bench.server.put(&format!("/v2/app/manifests/{name}"), answer.clone());
            let error = bench.pull("app:1.0").await.unwrap_err();
            assert!(error.is_trust(), "{what}: {error}");
            let reason = std::error::Error::source(&error).unwrap().to_string();
            assert!(reason.contains("larger than 4194304 bytes"), "{what}: {reason}");
        }
    }
}

#[tokio::test]
async fn a_registry_that_stalls_cuts_off_or_lacks_the_image_is_not_a_matter_of_trust() {
    let bench = Bench::new().await;
    let content = bench.layer.clone();
    bench.server.put(&bench.layer_path(), Answer::Stall { content: content.clone(), after: 100 });
    let error = bench.pull("app:1.0").await.unwrap_err();
    assert!(!error.is_trust(), "{error}");
    bench.server.put(&bench.layer_path(), Answer::Cut { content, after: 100 });
    let error = bench.pull("app:1.0").await.unwrap_err();
    assert!(matches!(error, ReleaseError::Pull { .. }) && !error.is_trust(), "{error}");
    assert!(!error.is_absent(), "{error}");
    let error = bench.pull("app:2.0").await.unwrap_err();
    assert!(matches!(error, ReleaseError::Pull { .. }) && !error.is_trust() && error.is_absent(), "{error}");
    assert!(matches!(bench.pull("App:~").await, Err(ReleaseError::NameImage { .. })));
}

#[tokio::test]
async fn an_image_that_is_too_large_or_for_other_platforms_is_refused() {
    let bench = Bench::new().await;
    let room = bench.dir.path();
    let registry = bench.server.base.strip_prefix("http://").unwrap();
    let limits = Limits { size: 5001, stall: Duration::from_millis(400) };
    let error = pull_image(&format!("{registry}/app:1.0"), None, Arch::Amd64, room, limits).await.unwrap_err();
    assert!(error.to_string().contains("larger than 5001"), "{error}");
    let error = pull_image(&format!("{registry}/app:1.0"), None, Arch::Arm64, room, limits).await.unwrap_err();
    assert!(error.to_string().contains("linux/arm64"), "{error}");
}
