//! Whatever a server calls an archive: no panic, nothing outside the destination, and looking agrees with unpacking.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_artifacts::archive::{Limits, extract, inspect};

const LIMITS: Limits = Limits { bytes: 1 << 20, members: 64, ratio: 100, path_length: 256 };

fuzz_target!(|data: &[u8]| {
    unpack(data);
    unpack(&with_checksums(data));
});

fn unpack(data: &[u8]) {
    let looked = inspect(data, &LIMITS);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let destination = dir.path().join("destination");
    std::fs::create_dir(&destination).expect("a new directory");
    match (looked, extract(data, &LIMITS, &destination)) {
        (Ok(looked), Ok(extracted)) => assert_eq!(looked, extracted),
        (Err(_), Err(_)) => assert_eq!(std::fs::read_dir(&destination).expect("it is ours").count(), 0),
        (looked, extracted) => panic!("{looked:?} but {extracted:?}"),
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is ours").count(), 1);
}

/// Takes every block for a header and makes its checksum right, which a fuzzer does not find by itself.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(data.len().next_multiple_of(512), 0);
    for block in bytes.chunks_mut(512) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
