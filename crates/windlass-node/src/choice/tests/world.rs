//! Everybody who is asked, with the answers that a row of the table gives them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::OffsetDateTime;
use time::macros::datetime;
use windlass_artifacts::addon::{
    AddonVersion, Board, Location, Manifest, ManifestUrl, OsVersion, Package, PackageName, PackageVersion, Stamp,
};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::download::Url;
use windlass_artifacts::signature::{SigningKeys, Trusted, Verification};
use windlass_steps::clock::ManualClock;

use super::super::*;

const NOW: OffsetDateTime = datetime!(2026-11-18 12:00 UTC);
const EXPIRES: OffsetDateTime = datetime!(2027-01-01 0:00 UTC);

static OWN: LazyLock<SigningKeys> = LazyLock::new(|| keys(1));
static STRANGER: LazyLock<SigningKeys> = LazyLock::new(|| keys(2));

fn keys(seed: u64) -> SigningKeys {
    SigningKeys::generate(&mut ChaCha20Rng::seed_from_u64(seed), "test", NOW - time::Duration::DAY).unwrap()
}

/// How the bucket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    Well,
    Down,
    Empty,
}

#[derive(Debug, Clone)]
enum Engine {
    Absent,
    Fails,
    Hangs,
    Offers(Option<&'static str>),
    Staged(&'static str),
}

/// Everybody's answers.
pub struct World {
    pub knobs: Knobs,
    api: Option<&'static str>,
    map: Option<String>,
    env: Option<String>,
    installer_map: Option<String>,
    os_release: Option<&'static str>,
    engine: Engine,
    bucket: Bucket,
    documents: BTreeMap<String, Vec<u8>>,
    trusted: Trusted,
    seen: Seen,
    now: OffsetDateTime,
}

fn table(minor: &str, runtimes: &str) -> String {
    format!("kind: VersionManifestV1\nversions:\n  k8s:\n    \"{minor}\":\n      containerd: {runtimes}\n")
}

/// The manifest of a bucket that has both versions.
pub fn manifest(board: &str, os: &str, version: u64) -> Vec<u8> {
    let mut manifest = Manifest::parse(&unsigned()).unwrap();
    let hashes =
        manifest.packages.iter().flat_map(|package| package.versions.iter().map(|version| version.hash.clone()));
    manifest.stamp = Some(Stamp {
        version,
        expires: EXPIRES,
        board: Board::parse(board).unwrap(),
        os_version: OsVersion::parse(os).unwrap(),
        lengths: hashes.map(|hash| (hash, 7)).collect(),
    });
    manifest.to_json().into_bytes()
}

/// The same as others write them, without our object.
pub fn unsigned() -> Vec<u8> {
    let package = |name: &str, versions: &[&str]| Package {
        name: PackageName::parse(name).unwrap(),
        default_version: None,
        versions: versions.iter().map(|version| offered(name, version)).collect(),
    };
    let packages = vec![package("containerd", &["1.7.35", "2.2.9"]), package("kubelet", &["1.35.4", "1.36.3"])];
    Manifest { packages, stamp: None }.to_json().into_bytes()
}

fn offered(name: &str, version: &str) -> PackageVersion {
    PackageVersion {
        version: AddonVersion::parse(version).unwrap(),
        hash: Digest::of(Algorithm::Sha512, format!("{name} {version}").as_bytes()),
        cas_digest: None,
        source_package: None,
        locations: vec![Location::parse_url(&format!("packages/{name}-{version}.tar.gz")).unwrap()],
    }
}

impl World {
    /// A machine at whose first boot everything is well: Kubernetes 1.36.3, OS version 1, no update.
    pub fn well() -> Self {
        let both = "kind: VersionManifestV1\nversions:\n  k8s:\n    \"1.36\": {containerd: [2.2.9]}\n    \"1.35\": \
                    {containerd: [1.7.35]}\n";
        let template = "http://bucket.test/addons/{{.Board}}/{{.OSVersion}}/torcx_manifest.json";
        let world = World {
            knobs: Knobs {
                upgrade_os: UpgradeOs::Yes,
                addons: Addons::Set,
                verification: Verification::Required,
                version: None,
                had: Vec::new(),
                manifests: ManifestUrl::parse(template).unwrap(),
            },
            api: Some("v1.36.3"),
            map: Some(both.to_owned()),
            env: Some("KUBELET_VERSION=v1.36.3\nKUBELET_ARGS='x'\n".to_owned()),
            installer_map: Some(both.to_owned()),
            os_release: Some("ID=debian\nVERSION_ID=\"1\"\n"),
            engine: Engine::Offers(None),
            bucket: Bucket::Well,
            documents: BTreeMap::new(),
            trusted: OWN.trusted(),
            seen: Seen::default(),
            now: NOW,
        };
        world.publish("1", manifest("amd64-usr", "1", 5)).publish("2", manifest("amd64-usr", "2", 5))
    }

    pub fn api(self, version: &'static str) -> Self {
        World { api: Some(version), ..self }
    }

    pub fn api_down(self) -> Self {
        World { api: None, map: None, ..self }
    }

    pub fn env(self, version: &str) -> Self {
        self.env_text(&format!("KUBELET_VERSION={version}\n"))
    }

    pub fn env_text(self, text: &str) -> Self {
        World { env: Some(text.to_owned()), ..self }
    }

    pub fn no_env(self) -> Self {
        World { env: None, ..self }
    }

    pub fn force(mut self, version: &str) -> Self {
        self.knobs.version = Some(Forced { version: ClusterVersion::parse(version).unwrap(), why: "it is forced" });
        self
    }

    pub fn map(self, minor: &str, runtimes: &str) -> Self {
        World { map: Some(table(minor, runtimes)), ..self }
    }

    pub fn map_text(self, text: &str) -> Self {
        World { map: Some(text.to_owned()), ..self }
    }

    pub fn no_map(self) -> Self {
        World { map: None, ..self }
    }

    pub fn installer_map(self, minor: &str, runtimes: &str) -> Self {
        World { installer_map: Some(table(minor, runtimes)), ..self }
    }

    pub fn no_installer_map(self) -> Self {
        World { installer_map: None, ..self }
    }

    pub fn os_release(self, text: Option<&'static str>) -> Self {
        World { os_release: text, ..self }
    }

    pub fn next(self, version: &'static str) -> Self {
        World { engine: Engine::Offers(Some(version)), ..self }
    }

    pub fn staged(self, version: &'static str) -> Self {
        World { engine: Engine::Staged(version), ..self }
    }

    pub fn no_bus(self) -> Self {
        World { engine: Engine::Absent, ..self }
    }

    pub fn update_fails(self) -> Self {
        World { engine: Engine::Fails, ..self }
    }

    pub fn update_hangs(self) -> Self {
        World { engine: Engine::Hangs, ..self }
    }

    pub fn keep_os(mut self) -> Self {
        self.knobs.upgrade_os = UpgradeOs::No;
        self
    }

    pub fn ask_no_engine(mut self) -> Self {
        self.knobs.upgrade_os = UpgradeOs::Unasked;
        self
    }

    pub fn had(mut self, runtimes: &[&str]) -> Self {
        self.knobs.had = runtimes.iter().map(|runtime| AddonVersion::parse(runtime).unwrap()).collect();
        self
    }

    pub fn skip(mut self) -> Self {
        self.knobs.addons = Addons::Skip;
        self
    }

    pub fn no_verify(mut self) -> Self {
        self.knobs.verification = Verification::Skipped;
        self
    }

    pub fn no_keys(self) -> Self {
        World { trusted: Trusted::default(), ..self }
    }

    pub fn bucket(self, bucket: Bucket) -> Self {
        World { bucket, ..self }
    }

    pub fn later(self) -> Self {
        World { now: EXPIRES, ..self }
    }

    pub fn seen(mut self, os: &str, version: u64) -> Self {
        self.seen = serde_json::from_str(&format!("{{\"amd64-usr/{os}\":{version}}}")).unwrap();
        self
    }

    /// Puts a manifest and its signatures where the machine looks for OS version `os`.
    pub fn publish(self, os: &str, manifest: Vec<u8>) -> Self {
        self.publish_by(&OWN, os, manifest)
    }

    pub fn signed_by_a_stranger(self) -> Self {
        self.publish_by(&STRANGER, "1", manifest("amd64-usr", "1", 5))
    }

    fn publish_by(self, keys: &SigningKeys, os: &str, manifest: Vec<u8>) -> Self {
        let name = format!("{os}/torcx_manifest.json");
        let signed = keys.sign("torcx_manifest.json", &manifest, NOW).unwrap();
        self.put(&name, &manifest)
            .put(&format!("{name}.asc"), signed.asc.as_bytes())
            .put(&format!("{name}.minisig"), signed.minisig.as_bytes())
    }

    pub fn put(mut self, name: &str, bytes: &[u8]) -> Self {
        self.documents.insert(format!("/addons/amd64-usr/{name}"), bytes.to_vec());
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.documents.remove(&format!("/addons/amd64-usr/{name}")).unwrap();
        self
    }

    /// The same manifest with one more space, which means the same and is not what was signed.
    pub fn changed(self, os: &str) -> Self {
        let mut bytes = manifest("amd64-usr", os, 5);
        bytes.push(b' ');
        self.put(&format!("{os}/torcx_manifest.json"), &bytes)
    }

    pub async fn choose(&self, explanation: &mut Explanation) -> Result<Choice, ChoiceError> {
        let clock = ManualClock::at(self.now);
        let given = Given { knobs: &self.knobs, trusted: &self.trusted, seen: &self.seen, clock: &clock };
        choose(self, &given, explanation).await
    }
}

fn silent() -> Unanswered {
    Unanswered::new("nobody answers")
}

impl Sources for World {
    async fn api_version(&self) -> Result<String, Unanswered> {
        self.api.map(str::to_owned).ok_or_else(silent)
    }

    async fn api_mappings(&self) -> Result<Vec<u8>, Unanswered> {
        self.map.clone().map(String::into_bytes).ok_or_else(silent)
    }

    fn installer_env(&self) -> Result<String, Unanswered> {
        self.env.clone().ok_or_else(silent)
    }

    fn installer_mappings(&self) -> Result<Vec<u8>, Unanswered> {
        self.installer_map.clone().map(String::into_bytes).ok_or_else(silent)
    }

    fn os_release(&self) -> Result<Vec<u8>, Unanswered> {
        self.os_release.map(|text| text.as_bytes().to_vec()).ok_or_else(silent)
    }

    async fn next_os(&self, upgrade: UpgradeOs) -> Result<Option<String>, UpdateTrouble> {
        match (&self.engine, upgrade) {
            (Engine::Absent, _) => Err(UpdateTrouble::Absent("no bus".to_owned())),
            (Engine::Fails, UpgradeOs::Yes) => Err(UpdateTrouble::Failed("it failed".to_owned())),
            (Engine::Hangs, UpgradeOs::Yes) => Err(UpdateTrouble::Stuck("nothing moves".to_owned())),
            (Engine::Offers(version), UpgradeOs::Yes) => Ok(version.map(str::to_owned)),
            (Engine::Staged(version), _) => Ok(Some((*version).to_owned())),
            (Engine::Fails | Engine::Hangs | Engine::Offers(_), _) => Ok(None),
        }
    }

    async fn document(&self, url: &Url) -> Result<Vec<u8>, Missing> {
        match self.bucket {
            Bucket::Down => Err(Missing::Failed("nobody answers".to_owned())),
            Bucket::Empty => Err(Missing::Absent),
            Bucket::Well => self.documents.get(url.path()).cloned().ok_or(Missing::Absent),
        }
    }
}
