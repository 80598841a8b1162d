//! Whatever is given as an image archive: no panic, and whatever passes has sound names and a digest of what is there.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use windlass_artifacts::digest::{Algorithm, Digest};
use windlass_artifacts::oci::inspect_from;

fuzz_target!(|data: &[u8]| {
    inspect(data);
    inspect(&layout(data));
});

fn inspect(archive: &[u8]) {
    let Ok(images) = inspect_from(Cursor::new(archive), Path::new("fuzzed.tar")) else { return };
    assert!(!images.is_empty());
    for image in images {
        assert!(!image.names.is_empty() && image.names.is_sorted());
        assert!(image.names.iter().all(|name| !name.contains("..") || !name.split('/').any(|part| part == "..")));
    }
}

/// Takes the bytes for documents with NUL between them, the index first, and makes a layout of them whose digests are
/// right, which a fuzzer does not find by itself: `$1` and `#1` in a document stand for digest and size of document 1,
/// which comes after it.
fn layout(data: &[u8]) -> Vec<u8> {
    let mut documents: Vec<Vec<u8>> = data.split(|byte| *byte == 0).take(8).map(<[u8]>::to_vec).collect();
    for later in (1..documents.len()).rev() {
        let digest = Digest::of(Algorithm::Sha256, &documents[later]).to_string();
        let size = documents[later].len().to_string();
        for earlier in &mut documents[..later] {
            *earlier = replaced(earlier, format!("${later}").as_bytes(), digest.as_bytes());
            *earlier = replaced(earlier, format!("#{later}").as_bytes(), size.as_bytes());
        }
    }
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes).expect("memory takes everything");
    };
    add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    for (place, document) in documents.iter().enumerate() {
        match place {
            0 => add("index.json", document),
            _ => add(&format!("blobs/sha256/{}", Digest::of(Algorithm::Sha256, document).hex()), document),
        }
    }
    builder.into_inner().expect("memory takes everything")
}

fn replaced(text: &[u8], mark: &[u8], with: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(with);
        rest = &rest[at + mark.len()..];
    }
    result.extend_from_slice(rest);
    result
}
