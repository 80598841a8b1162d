//! Writes what each fuzz target starts from: small sound inputs, made by the code that writes such things for real, and a
//! few that the parsers refuse late. `seeds DIR` makes `DIR/<target>/<number>`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use time::OffsetDateTime;
use time::macros::datetime;
use windlass_artifacts::addon::{AddonVersion, Board, OsVersion, PackageName, Publication, PublishedPackage, publish};
use windlass_artifacts::archive::{Content, FileMode, Writer};
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::oci::{Image, Layer, Run, write_archive};
use windlass_artifacts::signature::SigningKeys;

type Trouble = Box<dyn std::error::Error>;

const NOW: OffsetDateTime = datetime!(2026-11-16 12:00 UTC);
const CREATED: OffsetDateTime = datetime!(2026-11-01 12:00 UTC);

const OS_RELEASE: [&str; 4] = [
    "ID=debian\nVERSION_ID=\"1\"\nBUILD_ID=base-1\n",
    "# a comment\nPRETTY_NAME='Debian GNU/Linux 12 (bookworm)'\nID=debian\nVERSION_ID=12\nHOME_URL=\"https://x/\"\n",
    "ID=\"a\\\"b\\$c\\`d\\\\e\"\nVERSION_ID=1\\ 2\n",
    "NAME=Container Linux by CoreOS\nID=coreos\nVERSION_ID=1520.5.0\n",
];

const PINS: &str = "components:
- name: tool
  licence: MIT
  set: local
  releases:
  - version: 1.2.3
    kubernetes: [1.36.3]
    module: example.org/tool
    sum: h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=
    directory: tool
    binaries:
    - {name: tool, package: ., cgo: true, tags: [a], ldflags: [-X main.v=1], links: [b], check: {run: [b], prints: x}}
    needs: [gcc]
    release:
    - {name: tool, path: 'tool/v1.2.3/tool-$arch.tar.gz', member: bin/tool}
";

const OCI_DOCUMENTS: [&str; 4] = [
    r##"{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"$1","size":#1,"annotations":{"io.containerd.image.name":"example.org/a:1"}}]}"##,
    r##"{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"$2","size":#2},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"$3","size":#3}]}"##,
    r##"{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/a"]},"rootfs":{"type":"layers","diff_ids":["$3"]}}"##,
    "a layer",
];

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: seeds DIR");
        return ExitCode::from(2);
    };
    match write_all(Path::new(&dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("error: the seeds were not written\nbecause: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn write_all(dir: &Path) -> Result<(), Trouble> {
    let room = tempfile::tempdir()?;
    let keys = SigningKeys::generate(&mut ChaCha20Rng::from_seed([1; 32]), "fuzz", CREATED)?;
    put(dir, "os_release", OS_RELEASE.map(Vec::from))?;
    put(dir, "pins", [Vec::from(PINS), include_bytes!("../artifacts/pins.yaml").to_vec()])?;
    put(dir, "archive", archives()?)?;
    put(dir, "oci_archive", [image(room.path())?, OCI_DOCUMENTS.join("\0").into_bytes()])?;
    put(dir, "torcx_manifest", manifests(room.path(), &keys)?)?;
    put(dir, "signature", signatures(&keys)?)
}

fn put(dir: &Path, target: &str, seeds: impl IntoIterator<Item = Vec<u8>>) -> Result<(), Trouble> {
    let dir = dir.join(target);
    fs::create_dir_all(&dir)?;
    for (number, seed) in seeds.into_iter().enumerate() {
        fs::write(dir.join(number.to_string()), seed)?;
    }
    Ok(())
}

fn archives() -> Result<Vec<Vec<u8>>, Trouble> {
    let mut writer = Writer::new();
    writer.directory("usr/lib")?;
    writer.file("usr/bin/tool", Content::Bytes(b"program".to_vec()), FileMode::Program)?;
    writer.file(&format!("usr/{}/x", "long-name-".repeat(12)), Content::Bytes(b"data".to_vec()), FileMode::Data)?;
    writer.symlink("usr/bin/other", "tool")?;
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    writer.write_tar(&mut plain)?;
    writer.write_tar_gz(&mut packed)?;
    let climbing = String::from_utf8_lossy(&plain).replace("usr/bin/other", "../../x/other").into_bytes();
    Ok(vec![plain, packed, climbing])
}

fn image(room: &Path) -> Result<Vec<u8>, Trouble> {
    let mut layer = Layer::new();
    layer.bytes("a", "program", 0o755);
    let layer = layer.seal()?;
    let run = Run { entrypoint: vec!["/a".to_owned()], ..Run::default() };
    let names = vec!["example.org/a:1".to_owned(), "example.org/b:1".to_owned()];
    let file = room.join("image.tar");
    write_archive(&[Image { names, layers: vec![&layer], run }], &file)?;
    Ok(fs::read(file)?)
}

fn manifests(room: &Path, keys: &SigningKeys) -> Result<Vec<Vec<u8>>, Trouble> {
    let archive = room.join("addon");
    fs::write(&archive, "an addon")?;
    let package = |name, version| -> Result<PublishedPackage, Trouble> {
        let (name, version) = (PackageName::parse(name)?, AddonVersion::parse(version)?);
        let digest = Digest::of(Algorithm::Sha256, b"an addon");
        Ok(PublishedPackage { name, version, archive: archive.clone(), digest })
    };
    let publication = Publication {
        board: Board::amd64(),
        os_version: OsVersion::parse("1")?,
        packages: vec![package("containerd", "2.2.9")?, package("kubelet", "1.36.3")?],
        expires: NOW + time::Duration::days(30),
        at_least: 1,
        keys,
        now: NOW,
    };
    let ours = fs::read(publish(&room.join("bucket"), &publication)?.manifest)?;
    let foreign = br#"{"kind":"torcx-package-list-v0","value":{"packages":[]}}"#.to_vec();
    Ok(vec![ours, foreign])
}

/// Over other data than the target's, so that none of them counts there.
fn signatures(keys: &SigningKeys) -> Result<Vec<Vec<u8>>, Trouble> {
    let pair = keys.sign("torcx_manifest.json", b"signed", NOW)?;
    let packets = unarmored(&pair.asc)?;
    let trusted = keys.trusted();
    let minisign = trusted.minisign.ok_or("there is no minisign key")?.to_text();
    Ok(vec![pair.asc.into_bytes(), packets, pair.minisig.into_bytes(), minisign.into_bytes()])
}

fn unarmored(asc: &str) -> Result<Vec<u8>, Trouble> {
    let body = asc.lines().skip_while(|line| !line.is_empty()).take_while(|line| !line.starts_with(['-', '=']));
    Ok(STANDARD.decode(body.collect::<String>())?)
}
