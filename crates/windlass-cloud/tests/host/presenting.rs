//! Disks in the `/dev` of something like a machine: a process with its own root and its own, hostile, `/dev`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use windlass_cloud::volume::present::{link, present, withdraw};
use windlass_cloud::volume::{self, Space, VolumeError, holders, loops};
use windlass_steps::host::{cmd, run_blocking};

use crate::support::{Beside, Loops, MIB};
use crate::volumes::a_volume;

/// A process whose root is the host's, seen elsewhere, with an empty `/dev` of its own.
async fn machine(dir: &Path) -> Beside {
    let root = dir.join("root");
    fs::create_dir_all(&root).expect("it can be made");
    let root = root.display();
    // It tells its number from within the new root: a moment earlier its `/dev` is still the host's.
    let inner = "echo $$ > $1; exec sleep 50";
    let outer =
        format!("mount --rbind / {root}; mount -t tmpfs dev {root}/dev; exec chroot {root} sh -ec '{inner}' sh $1");
    let script = outer.replace('$', "\\$");
    Beside::start(&format!("exec unshare --mount sh -ec \"{script}\" sh \"$1\""), dir).await
}

fn inside(machine: &Beside, path: impl AsRef<Path>) -> PathBuf {
    let below = path.as_ref().strip_prefix("/").expect("it is absolute");
    PathBuf::from(format!("/proc/{}/root", machine.identity.pid)).join(below)
}

#[tokio::test]
#[ignore = "needs root: loop devices and mount namespaces"]
async fn a_disk_is_usable_in_its_machine_and_gone_afterwards() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let (attached, file) = (Loops(dir), volume::image(dir, "etcd-0"));
    let machine = machine(dir).await;
    let leader = machine.identity.pid;
    volume::create(dir, &a_volume("etcd-0", 16 * MIB, Space::Sparse)).unwrap();
    let device = loops::attach(&file).await.unwrap();
    for _ in 0..2 {
        assert_eq!(present(leader, "etcd-0", &device).unwrap(), link("etcd-0"));
    }
    let node = fs::metadata(inside(&machine, "/dev/windlass-etcd-0")).unwrap();
    assert!(node.file_type().is_block_device());
    assert_eq!(node.rdev(), fs::metadata(&device).unwrap().rdev());
    assert_eq!(fs::read_link(inside(&machine, link("etcd-0"))).unwrap(), Path::new("../../windlass-etcd-0"));
    let enter = |script: &str| {
        let mount = format!("--mount=/proc/{leader}/ns/mnt");
        cmd("nsenter").arg(mount).arg(format!("--root=/proc/{leader}/root")).args(["sh", "-ec", script])
    };
    run_blocking(enter("mkfs.ext4 -q /dev/disk/windlass/etcd-0; mkdir /dev/m; mount /dev/disk/windlass/etcd-0 /dev/m"))
        .unwrap();
    let one = loops::loop_of(&file).unwrap().unwrap();
    let held = holders::of(&one.numbers).unwrap();
    assert!(held.iter().any(|holder| holder.how == holders::Use::Mounted("/dev/m".into())), "{held:?}");
    run_blocking(enter("umount /dev/m")).unwrap();
    withdraw(leader, "etcd-0").unwrap();
    withdraw(leader, "etcd-0").unwrap();
    assert!(fs::symlink_metadata(inside(&machine, "/dev/windlass-etcd-0")).is_err());
    loops::release(&file).await.unwrap();
    assert_eq!(attached.files(), [""; 0]);
    assert!(!Path::new("/dev/windlass-etcd-0").exists(), "the host's own /dev was never touched");
}

#[tokio::test]
#[ignore = "needs root: loop devices and mount namespaces"]
async fn links_that_a_machine_put_in_the_way_are_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let target = dir.join("target");
    fs::create_dir_all(target.join("windlass")).unwrap();
    let _attached = Loops(dir);
    volume::create(dir, &a_volume("v", MIB, Space::Sparse)).unwrap();
    let device = loops::attach(&volume::image(dir, "v")).await.unwrap();
    let machine = machine(dir).await;
    let leader = machine.identity.pid;
    symlink(&target, inside(&machine, "/dev/disk")).unwrap();
    symlink(target.join("node"), inside(&machine, "/dev/windlass-v")).unwrap();
    let error = present(leader, "v", &device).unwrap_err();
    assert!(matches!(error, VolumeError::Present { .. }), "{error:?}");
    assert!(withdraw(leader, "v").is_err());
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    assert_eq!(fs::read_dir(target.join("windlass")).unwrap().count(), 0);
    fs::remove_file(inside(&machine, "/dev/disk")).unwrap();
    present(leader, "v", &device).unwrap();
    assert!(fs::symlink_metadata(inside(&machine, "/dev/windlass-v")).unwrap().file_type().is_block_device());
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
}

#[tokio::test]
#[ignore = "needs root: loop devices"]
async fn a_process_that_still_sees_the_hosts_dev_gets_no_disk() {
    let temp = tempfile::tempdir().unwrap();
    let _attached = Loops(temp.path());
    volume::create(temp.path(), &a_volume("v", MIB, Space::Sparse)).unwrap();
    let device = loops::attach(&volume::image(temp.path(), "v")).await.unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    let error = present(own, "v", &device).unwrap_err();
    assert!(matches!(error, VolumeError::Present { attempt: "open", .. }), "{error:?}");
    assert!(withdraw(own, "v").is_err());
    assert!(fs::symlink_metadata("/dev/windlass-v").is_err());
}

#[test]
#[ignore = "needs root: opens another process's root"]
fn a_machine_that_is_gone_needs_no_withdrawal_and_takes_no_disk() {
    withdraw(i32::MAX, "v").unwrap();
    assert!(matches!(present(i32::MAX, "v", Path::new("/dev/null")), Err(VolumeError::Present { .. })));
}
