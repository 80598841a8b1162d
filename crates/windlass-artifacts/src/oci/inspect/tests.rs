use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::*;
use crate::digest::{Algorithm, Digest};
use crate::oci::{Image, Layer, Run, write_archive};

/// A member as it will be written, whatever its name.
#[derive(Clone)]
struct Raw {
    name: String,
    bytes: Vec<u8>,
    kind: EntryType,
}

/// The parts of a sound archive, to be broken one at a time.
struct Parts {
    layout: Value,
    index: Value,
    manifest: Value,
    config: Value,
    layer: Vec<u8>,
    /// After the documents refer to each other, before the tar file is written.
    last: fn(&mut Vec<Raw>),
}

impl Parts {
    fn sound() -> Self {
        let layer = b"a layer, which nobody unpacks here".to_vec();
        Self {
            layout: json!({"imageLayoutVersion": "1.0.0"}),
            index: json!({"schemaVersion": 2, "manifests": [{
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "annotations": {"io.containerd.image.name": "example.org/a:1"},
            }]}),
            manifest: json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json"},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar"}]}),
            config: json!({"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/a"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]}}),
            layer,
            last: |_| {},
        }
    }

    /// Fills digests and sizes in where nothing was written, then lays the members out.
    fn members(mut self) -> Vec<Raw> {
        let config = self.config.to_string().into_bytes();
        fill(&mut self.manifest["config"], &config);
        if let Some(layers) = self.manifest["layers"].as_array_mut() {
            layers.iter_mut().for_each(|layer| fill(layer, &self.layer));
        }
        let manifest = self.manifest.to_string().into_bytes();
        if let Some(entries) = self.index["manifests"].as_array_mut() {
            entries.iter_mut().for_each(|entry| fill(entry, &manifest));
        }
        let mut members = vec![raw("oci-layout", self.layout.to_string()), raw("index.json", self.index.to_string())];
        for blob in [config, manifest, self.layer] {
            members.push(raw(&format!("blobs/sha256/{}", &digest(&blob)[7..]), blob));
        }
        (self.last)(&mut members);
        members
    }
}

fn digest(bytes: &[u8]) -> String {
    Digest::of(Algorithm::Sha256, bytes).to_string()
}

fn fill(descriptor: &mut Value, bytes: &[u8]) {
    let Some(fields) = descriptor.as_object_mut() else { return };
    fields.entry("digest").or_insert_with(|| digest(bytes).into());
    fields.entry("size").or_insert_with(|| bytes.len().into());
}

fn raw(name: &str, bytes: impl Into<Vec<u8>>) -> Raw {
    Raw { name: name.to_owned(), bytes: bytes.into(), kind: EntryType::Regular }
}

fn blob(text: &str) -> Raw {
    raw(&format!("blobs/sha256/{}", &digest(text.as_bytes())[7..]), text)
}

fn tar(members: &[Raw]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for member in members {
        let mut header = Header::new_gnu();
        // By hand, because the library refuses what an attacker would write.
        header.as_old_mut().name[..member.name.len()].copy_from_slice(member.name.as_bytes());
        header.set_entry_type(member.kind);
        header.set_size(member.bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, member.bytes.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn inspect_bytes(bytes: &[u8]) -> Result<Vec<ImageSummary>, OciError> {
    inspect_from(Cursor::new(bytes), Path::new("a.tar"))
}

fn refusal(bytes: &[u8], case: &str) -> String {
    match inspect_bytes(bytes) {
        Err(error @ OciError::TrustArchive { .. }) => {
            assert!(error.is_trust());
            error.to_string()
        }
        other => panic!("{case}: {other:?}"),
    }
}

#[test]
fn a_sound_archive_is_described() {
    let summaries = inspect_bytes(&tar(&Parts::sound().members())).unwrap();
    assert_eq!(summaries.len(), 1);
    assert_eq!(summaries[0].names, ["example.org/a:1"]);
    assert_eq!(summaries[0].entrypoint, ["/a"]);
}

#[test]
fn documents_that_lie_are_refused() {
    type Break = fn(&mut Parts);
    let cases: [(&str, Break, &str); 25] = [
        ("layout version", |p| p.layout["imageLayoutVersion"] = json!("2.0.0"), "layout version"),
        ("layout not json", |p| p.layout = json!([]), "oci-layout cannot be read"),
        ("index schema", |p| p.index["schemaVersion"] = json!(1), "schema version 1"),
        ("index empty", |p| p.index["manifests"] = json!([]), "0 images"),
        (
            "index of indexes",
            |p| index_entry(p)["mediaType"] = json!("application/vnd.oci.image.index.v1+json"),
            "media type",
        ),
        ("no name", |p| index_entry(p)["annotations"] = json!({}), "has no name"),
        ("name goes up", |p| index_name(p, "../../etc/passwd"), "not the name of an image"),
        ("name has a space", |p| index_name(p, "a b"), "not the name of an image"),
        ("name too long", |p| index_name(p, &"a".repeat(300)), "not the name of an image"),
        ("name twice", |p| duplicate_entry(p), "there twice"),
        ("manifest missing", |p| index_entry(p)["digest"] = json!(digest(b"other")), "is missing"),
        ("manifest size", |p| index_entry(p)["size"] = json!(1), "bytes, not 1"),
        (
            "manifest weak digest",
            |p| index_entry(p)["digest"] = json!(format!("sha512:{}", "a".repeat(128))),
            "not a SHA-256",
        ),
        ("manifest schema", |p| p.manifest["schemaVersion"] = json!(1), "schema version 1"),
        (
            "manifest type differs",
            |p| p.manifest["mediaType"] = json!("application/vnd.oci.image.index.v1+json"),
            "different media types",
        ),
        ("manifest not a manifest", |p| p.manifest = json!({"schemaVersion": 2}), "a manifest cannot be read"),
        (
            "config type",
            |p| p.manifest["config"]["mediaType"] = json!("text/plain"),
            "a configuration has the media type",
        ),
        ("config missing", |p| p.manifest["config"]["digest"] = json!(digest(b"other")), "is missing"),
        ("config not json", |p| p.config = json!("x"), "a configuration cannot be read"),
        (
            "layer type",
            |p| p.manifest["layers"][0]["mediaType"] = json!("application/x-sh"),
            "a layer has the media type",
        ),
        ("layer missing", |p| p.manifest["layers"][0]["digest"] = json!(digest(b"other")), "another diff id"),
        ("layer size", |p| p.manifest["layers"][0]["size"] = json!(u64::MAX), "bytes, not"),
        ("no layers", |p| p.manifest["layers"] = json!([]), "0 layers"),
        ("diff id", |p| p.config["rootfs"]["diff_ids"] = json!([digest(b"other")]), "another diff id"),
        ("diff ids too many", |p| p.config["rootfs"]["diff_ids"] = json!([digest(b""), digest(b"")]), "2 diff ids"),
    ];
    for (case, break_it, reason) in cases {
        let mut parts = Parts::sound();
        break_it(&mut parts);
        let said = refusal(&tar(&parts.members()), case);
        assert!(said.contains(reason), "{case}: {said}");
    }
}

fn index_entry(parts: &mut Parts) -> &mut Value {
    &mut parts.index["manifests"][0]
}

fn index_name(parts: &mut Parts, name: &str) {
    index_entry(parts)["annotations"]["io.containerd.image.name"] = json!(name);
}

fn duplicate_entry(parts: &mut Parts) {
    let entry = index_entry(parts).clone();
    parts.index["manifests"].as_array_mut().unwrap().push(entry);
}

#[test]
fn members_that_do_not_belong_are_refused() {
    type Break = fn(&mut Vec<Raw>);
    let cases: [(&str, Break, &str); 15] = [
        ("traversal", |m| m.push(raw("blobs/sha256/../../../etc/passwd", "x")), "does not belong"),
        ("absolute", |m| m.push(raw("/etc/passwd", "x")), "does not belong"),
        ("stray file", |m| m.push(raw("manifest.json", "[]")), "does not belong"),
        ("other algorithm", |m| m.push(raw("blobs/sha512/aa", "x")), "does not belong"),
        ("upper case digest", |m| m[4].name = m[4].name.to_uppercase(), "does not belong"),
        ("not text", |m| m.push(raw("blobs/sha256/\u{fffd}", "x")), "too long or not text"),
        ("symbolic link", |m| m[4].kind = EntryType::Symlink, "neither a plain file"),
        ("hard link", |m| m[4].kind = EntryType::Link, "neither a plain file"),
        ("device", |m| m[1].kind = EntryType::Char, "neither a plain file"),
        (
            "long name header",
            |m| m.insert(0, Raw { kind: EntryType::GNULongName, ..raw("blobs", "x") }),
            "neither a plain",
        ),
        (
            "pax header",
            |m| m.insert(0, Raw { kind: EntryType::XHeader, ..raw("index.json", "9 path=x\n") }),
            "neither a plain",
        ),
        ("blob is a directory", |m| m[2].kind = EntryType::Directory, "neither a plain file"),
        ("index twice", |m| m.push(m[1].clone()), "there twice"),
        ("stray blob", |m| m.push(blob("x")), "no image has the blob"),
        ("flipped byte", |m| m[4].bytes[3] ^= 1, "has the digest"),
    ];
    for (case, last, reason) in cases {
        let said = refusal(&tar(&Parts { last, ..Parts::sound() }.members()), case);
        assert!(said.contains(reason), "{case}: {said}");
    }
}

#[test]
fn archives_without_their_parts_are_refused() {
    let whole = tar(&Parts::sound().members());
    let without = |n: usize| {
        let mut members = Parts::sound().members();
        members.remove(n);
        tar(&members)
    };
    let big = Parts { last: |m| m[1].bytes.resize(5 << 20, b' '), ..Parts::sound() };
    let many = Parts { last: |m| (0..5000).for_each(|n| m.push(blob(&n.to_string()))), ..Parts::sound() };
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("empty", Vec::new(), "no oci-layout"),
        ("noise", vec![7; 2000], "not a tar file"),
        ("cut in a blob", whole[..whole.len() - 1800].to_vec(), "not a tar file"),
        ("cut in a header", whole[..700].to_vec(), "not a tar file"),
        ("no layout", without(0), "no oci-layout"),
        ("no index", without(1), "no index.json"),
        ("no layer", without(4), "is missing"),
        ("index too large", tar(&big.members()), "more than 4194304"),
        ("too many members", tar(&many.members()), "more than 4096 members"),
    ];
    for (case, bytes, reason) in cases {
        let said = refusal(&bytes, case);
        assert!(said.contains(reason), "{case}: {said}");
    }
}

#[test]
fn a_missing_archive_is_not_a_matter_of_trust() {
    let error = inspect(Path::new("/nowhere/a.tar")).unwrap_err();
    assert!(matches!(error, OciError::ReadArchive { .. }) && !error.is_trust());
}

#[test]
fn what_was_written_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut shared = Layer::new();
    shared.bytes("usr/bin/tool", vec![1; 70_000], 0o755).link("bin", "usr/bin").directory("tmp", 0o1777);
    let mut own = Layer::new();
    own.bytes("etc/own", "x", 0o644);
    let (shared, own) = (shared.seal().unwrap(), own.seal().unwrap());
    let image = |name: &str, layers| Image {
        names: vec![format!("example.org/{name}:1"), format!("example.org/{name}:latest")],
        layers,
        run: Run { entrypoint: vec![name.to_owned()], env: vec!["PATH=/".to_owned()], user: None },
    };
    let images = [image("a", vec![&shared]), image("b", vec![&shared, &own])];
    let (one, two) = (dir.path().join("1.tar"), dir.path().join("2.tar"));
    let written = write_archive(&images, &one).unwrap();
    write_archive(&images, &two).unwrap();
    assert_eq!(inspect(&one).unwrap(), written);
    let bytes = std::fs::read(&one).unwrap();
    assert!(bytes == std::fs::read(&two).unwrap(), "the same images gave different archives");
    assert!(bytes.len() < 100_000, "the shared layer is there more than once: {} bytes", bytes.len());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn a_file_that_changes_after_sealing_stops_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("program"), dir.path().join("a.tar"));
    windlass_steps::host::write_file(&source, "before", windlass_steps::host::Mode::PUBLIC).unwrap();
    let mut layer = Layer::new();
    layer.file("program", &source, 0o755);
    let sealed = layer.seal().unwrap();
    windlass_steps::host::write_file(&source, "behind", windlass_steps::host::Mode::PUBLIC).unwrap();
    let image = Image { names: vec!["a:1".to_owned()], layers: vec![&sealed], run: Run::default() };
    assert!(matches!(write_archive(&[image], &out), Err(OciError::WriteLayer { .. })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
}

proptest! {
    #[test]
    fn no_bytes_make_the_inspection_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        prop_assert!(inspect_bytes(&bytes).is_err());
    }

    #[test]
    fn no_flipped_byte_makes_the_inspection_panic(position in 0usize..8192, value in any::<u8>()) {
        let mut bytes = tar(&Parts::sound().members());
        let position = position % bytes.len();
        bytes[position] = value;
        let _ = inspect_bytes(&bytes);
    }
}
