//! The umask belongs to the process, so this is a test binary with one test.

use std::fs::metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::stat::{Mode as Umask, umask};
use windlass_steps::host::{Batch, Made, Mode, make_dir, write_file};

#[test]
fn modes_are_exact_under_any_umask() {
    let bits = |path: &Path| metadata(path).unwrap().permissions().mode() & 0o7777;
    let dir = tempfile::tempdir().unwrap();
    for mask in [0o000, 0o022, 0o027, 0o077, 0o777] {
        umask(Umask::from_bits(mask).unwrap());
        let sub = dir.path().join(format!("{mask:o}"));
        for mode in [Mode::PRIVATE_DIR, Mode::PUBLIC_DIR] {
            let made = sub.join(mode.to_string()).join("deep");
            assert_eq!(make_dir(&made, mode).unwrap(), Made::New);
            assert_eq!(bits(&made), mode.bits(), "{mask:o}");
        }
        for mode in [Mode::PRIVATE_FILE, Mode::PUBLIC, Mode::EXECUTABLE] {
            let (single, batched) = (sub.join(format!("single-{mode}")), sub.join(format!("batched-{mode}")));
            write_file(&single, "x", mode).unwrap();
            let mut batch = Batch::default();
            batch.write(&batched, "x", mode).unwrap();
            batch.commit().unwrap();
            assert_eq!((bits(&single), bits(&batched)), (mode.bits(), mode.bits()), "{mask:o}");
        }
    }
}
