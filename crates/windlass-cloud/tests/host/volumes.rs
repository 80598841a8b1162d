//! Volumes on real loop devices and real file systems.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use windlass_cloud::process::Signal;
use windlass_cloud::volume::{self, Space, Volume, VolumeError, loops};
use windlass_steps::host::{cmd, run_blocking};

use crate::support::{Beside, Loops, MIB, Mounted, mounts_of_our_own};

pub fn a_volume(name: &str, size: u64, space: Space) -> Volume {
    let (name, cluster) = (name.to_owned(), "c".to_owned());
    Volume { name, cluster, size, tags: BTreeMap::new(), space, snapshot_of: None }
}

#[tokio::test]
#[ignore = "needs root: loop devices and mounts"]
async fn data_survives_growing_letting_go_and_attaching_again() {
    mounts_of_our_own();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let (attached, file) = (Loops(dir), volume::image(dir, "data"));
    let content = vec![7; 3 * MIB as usize];
    volume::create(dir, &a_volume("data", 16 * MIB, Space::Sparse)).unwrap();
    let device = loops::attach(&file).await.unwrap();
    assert_eq!(loops::attach(&file).await.unwrap(), device, "attaching again finds the same device");
    run_blocking(cmd("mkfs.ext4").arg("-q").arg(&device)).unwrap();
    let there = Mounted::new(&device, "ext4", &dir.join("mnt"));
    fs::File::create(there.path().join("file")).unwrap().write_all(&content).unwrap();
    volume::grow(dir, "data", 64 * MIB).await.unwrap();
    let size = fs::read_to_string(Path::new("/sys/block").join(device.file_name().unwrap()).join("size")).unwrap();
    assert_eq!(size.trim().parse::<u64>().unwrap() * 512, 64 * MIB);
    assert!(matches!(volume::snapshot(dir, "data", "copy").await, Err(VolumeError::InUse { .. })));
    assert!(matches!(volume::delete(dir, "data"), Err(VolumeError::InUse { .. })));
    drop(there);
    // Off-line, because growing a mounted file system needs a right that root has not in every container.
    run_blocking(cmd("e2fsck").args(["-f", "-p"]).arg(&device)).unwrap();
    run_blocking(cmd("resize2fs").arg(&device)).unwrap();
    loops::release(&file).await.unwrap();
    loops::release(&file).await.unwrap();
    assert_eq!(attached.files(), [""; 0]);
    volume::snapshot(dir, "data", "copy").await.unwrap();
    for name in ["data", "copy"] {
        let file = volume::image(dir, name);
        let device = loops::attach(&file).await.unwrap();
        let there = Mounted::new(&device, "ext4", &dir.join("mnt"));
        assert!(fs::read(there.path().join("file")).unwrap() == content, "{name}");
        drop(there);
        loops::release(&file).await.unwrap();
        volume::delete(dir, name).unwrap();
    }
    assert_eq!(attached.files(), [""; 0]);
}

#[tokio::test]
#[ignore = "needs root: loop devices and mounts"]
async fn a_device_that_is_mounted_is_not_released_and_the_reason_says_where() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let (attached, file) = (Loops(dir), volume::image(dir, "busy"));
    volume::create(dir, &a_volume("busy", 16 * MIB, Space::Sparse)).unwrap();
    let device = loops::attach(&file).await.unwrap();
    run_blocking(cmd("mkfs.ext4").arg("-q").arg(&device)).unwrap();
    let target = dir.join("mnt");
    fs::create_dir(&target).unwrap();
    let mount = format!("mount {} {}; echo \\$\\$ > \\$1; exec sleep 50", device.display(), target.display());
    let holder = Beside::start(&format!("exec unshare --mount sh -ec \"{mount}\" sh \"$1\""), dir).await;
    let error = loops::release(&file).await.unwrap_err();
    let VolumeError::Release { unmet, .. } = &error else { panic!("{error:?}") };
    let pid = holder.identity.pid;
    assert_eq!(unmet.reason, format!("held by a mount on {} seen by sleep ({pid})", target.display()));
    assert!(matches!(loops::attach(&file).await, Err(VolumeError::AwaitRelease { .. })), "it is on its way out");
    holder.identity.open().unwrap().unwrap().signal(Signal::KILL).unwrap();
    holder.identity.ended().await.unwrap();
    loops::release(&file).await.unwrap();
    assert_eq!(attached.files(), [""; 0]);
}

#[tokio::test]
#[ignore = "needs root: loop devices"]
async fn a_stopped_process_keeps_its_disk_until_it_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let (attached, file) = (Loops(dir), volume::image(dir, "held"));
    volume::create(dir, &a_volume("held", MIB, Space::Sparse)).unwrap();
    let device = loops::attach(&file).await.unwrap();
    let script = format!("exec 7<>{}; echo $$ > $1; exec sleep 50", device.display());
    let holder = Beside::start(&script, dir).await;
    let handle = holder.identity.open().unwrap().unwrap();
    handle.signal(Signal::STOP).unwrap();
    let error = loops::release(&file).await.unwrap_err();
    let VolumeError::Release { unmet, .. } = &error else { panic!("{error:?}") };
    assert_eq!(unmet.reason, format!("held by sleep ({})", holder.identity.pid));
    handle.signal(Signal::KILL).unwrap();
    handle.ended().await.unwrap();
    loops::release(&file).await.unwrap();
    assert_eq!(attached.files(), [""; 0]);
}

#[tokio::test]
#[ignore = "needs root: loop devices and mounts"]
async fn a_full_disk_is_told_and_nothing_is_damaged() {
    mounts_of_our_own();
    let temp = tempfile::tempdir().unwrap();
    let disk = temp.path().join("disk.img");
    fs::File::create(&disk).unwrap().set_len(32 * MIB).unwrap();
    run_blocking(cmd("mkfs.ext4").args(["-q", "-m", "0"]).arg(&disk)).unwrap();
    let attached = Loops(temp.path());
    let device = loops::attach(&disk).await.unwrap();
    let small = Mounted::new(&device, "ext4", &temp.path().join("mnt"));
    let place = small.path();
    volume::create(place, &a_volume("first", 4 * MIB, Space::Reserved)).unwrap();
    let error = volume::create(place, &a_volume("second", 64 * MIB, Space::Reserved)).unwrap_err();
    assert!(matches!(error, VolumeError::FindRoom { bytes, .. } if bytes == 64 * MIB), "{error:?}");
    let error = volume::grow(place, "first", 64 * MIB).await.unwrap_err();
    assert!(matches!(error, VolumeError::FindRoom { .. }), "{error:?}");
    assert_eq!(volume::describe(place, "first").unwrap().size, 4 * MIB);
    assert_eq!(volume::image(place, "first").metadata().unwrap().len(), 4 * MIB);
    volume::create(place, &a_volume("sparse", 14 * MIB, Space::Sparse)).unwrap();
    let mut inside = OpenOptions::new().write(true).open(volume::image(place, "sparse")).unwrap();
    inside.write_all(&vec![9; 14 * MIB as usize]).unwrap();
    let error = volume::snapshot(place, "sparse", "copy").await.unwrap_err();
    assert!(matches!(error, VolumeError::FindRoom { .. }), "{error:?}");
    volume::grow(place, "first", 5 * MIB).await.unwrap();
    let mut names: Vec<_> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["first.img", "first.json", "lost+found", "sparse.img", "sparse.json"]);
    drop((inside, small));
    loops::release(&disk).await.unwrap();
    assert_eq!(attached.files(), [""; 0]);
}
