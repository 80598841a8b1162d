//! Who gets a volume, with a world that the test makes up: nothing follows what is wanted here.

use std::time::Duration;

use tempfile::TempDir;
use windlass_cloud_api::{AttachRequest, Hold, Label, Tags};

use super::*;
use crate::cloud::{ClusterLive, MachineLive, VolumeLive};
use crate::model::tests::{cluster, label, machine, volume};
use crate::places::Places;
use crate::plan::{MachineFacts, Stage, VolumeFacts};
use crate::world::World;

const MOMENT: Duration = Duration::from_millis(50);

/// A cloud with machines `one` and `two`, which run as processes 1 and 2, and the volume `v`.
fn cloud(row: VolumeRow, facts: VolumeFacts) -> (TempDir, Cloud) {
    let dir = tempfile::tempdir().unwrap();
    let places = Places { state: dir.path().to_owned(), run: dir.path().to_owned() };
    let cloud = Cloud::open(places, World::simulated()).unwrap();
    let rows = [Row::Cluster(cluster("a")), Row::Machine(machine("a", "one")), Row::Machine(machine("a", "two"))];
    let edits = rows.into_iter().chain([Row::Volume(row)]).map(Edit::Put).collect();
    cloud.edit(|_| Ok((edits, ()))).unwrap();
    cloud.learn(|live| {
        let live = live.clusters.entry(label("a")).or_default();
        for (name, pid) in [("one", 1), ("two", 2)] {
            live.machines.insert(label(name), running_as(pid));
        }
        live.volumes.insert(label("v"), VolumeLive { facts, ..VolumeLive::default() });
        live.adopted = true;
    });
    (dir, cloud)
}

fn running_as(pid: u32) -> MachineLive {
    let process = Process::Running { boot: 1, pid, stage: Stage::Up };
    let facts = MachineFacts { plugged: true, served: true, kept: true, process };
    MachineLive { leader: Some(pid), ..MachineLive::seen(facts, time::OffsetDateTime::UNIX_EPOCH) }
}

fn seen_by(pid: u32) -> VolumeFacts {
    VolumeFacts { made: true, open: true, seen_by: Some(pid) }
}

fn held_by(holder: &str) -> VolumeRow {
    VolumeRow { holder: Some(label(holder)), ..volume("a", "v") }
}

fn to(machine: &str, hold: Hold) -> AttachRequest {
    AttachRequest { machine: label(machine), hold }
}

fn row(cloud: &Cloud) -> VolumeRow {
    cloud.read(|model| volume_row(model, &label("a"), &label("v")).unwrap().clone())
}

fn not_adopted(cloud: &Cloud) {
    cloud.learn(|live| *live.clusters.entry(label("a")).or_default() = ClusterLive::default());
}

async fn within_a_moment<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(MOMENT, work).await.ok()
}

#[tokio::test]
async fn a_volume_was_attached_again_while_its_last_holder_still_had_the_device() {
    let (a, v): (Label, Label) = (label("a"), label("v"));
    let (_dir, cloud) = cloud(held_by("one"), seen_by(1));
    assert!(within_a_moment(cloud.detach(&a, &v)).await.is_none(), "it was let go with its device open");
    let refused = cloud.attach(&a, &v, &to("two", Hold::Respect)).await.unwrap_err();
    assert_eq!((refused.class, row(&cloud).holder), (Class::Conflict, Some(label("one"))), "{refused}");
    let refused = cloud.attach(&a, &v, &to("one", Hold::Respect)).await.unwrap_err();
    assert_eq!(refused.class, Class::Conflict, "{refused}");
    assert!(within_a_moment(cloud.attach(&a, &v, &to("two", Hold::Fence))).await.is_none());
    let now = row(&cloud);
    assert_eq!((now.holder, now.next_holder, now.letting_go), (Some(label("one")), Some(label("two")), false));
}

#[tokio::test]
async fn a_volume_of_nobodys_that_is_still_open_is_not_given_away() {
    let (_dir, cloud) = cloud(volume("a", "v"), seen_by(1));
    let refused = cloud.attach(&label("a"), &label("v"), &to("two", Hold::Respect)).await.unwrap_err();
    assert_eq!((refused.class, row(&cloud).holder), (Class::Conflict, None), "{refused}");
}

#[tokio::test]
async fn what_the_old_holder_saw_acknowledged_the_new_attachment() {
    let (a, v): (Label, Label) = (label("a"), label("v"));
    let (_dir, cloud) = cloud(held_by("two"), seen_by(1));
    assert!(within_a_moment(cloud.attach(&a, &v, &to("two", Hold::Respect))).await.is_none());
    cloud.learn(|live| live.clusters.get_mut(&a).unwrap().volumes.get_mut(&v).unwrap().facts = seen_by(2));
    let attached = cloud.attach(&a, &v, &to("two", Hold::Respect)).await.unwrap();
    assert_eq!((attached.holder, attached.device.is_some()), (Some(label("two")), true));
}

#[tokio::test]
async fn a_holder_that_a_new_daemon_had_not_seen_yet_lost_its_volume() {
    let (a, v): (Label, Label) = (label("a"), label("v"));
    let (_dir, cloud) = cloud(held_by("one"), seen_by(1));
    not_adopted(&cloud);
    assert!(within_a_moment(cloud.attach(&a, &v, &to("two", Hold::Respect))).await.is_none());
    assert!(within_a_moment(cloud.detach(&a, &v)).await.is_none());
    assert_eq!(row(&cloud), held_by("one"));
}

#[tokio::test]
async fn a_holder_that_was_just_switched_on_keeps_its_volume() {
    let (a, v): (Label, Label) = (label("a"), label("v"));
    let (_dir, cloud) = cloud(held_by("one"), VolumeFacts { made: true, ..VolumeFacts::default() });
    cloud.learn(|live| {
        let one = live.clusters.get_mut(&a).unwrap().machines.get_mut("one").unwrap();
        (one.facts, one.leader) = (MachineFacts::NOTHING, None);
    });
    let refused = cloud.attach(&a, &v, &to("two", Hold::Respect)).await.unwrap_err();
    assert_eq!(refused.class, Class::Conflict, "{refused}");
}

#[tokio::test]
async fn a_volume_that_took_the_name_of_a_copy_meanwhile_was_overwritten() {
    let (a, v, copy): (Label, Label, Label) = (label("a"), label("v"), label("copy"));
    let (_dir, cloud) = cloud(volume("a", "v"), VolumeFacts { made: true, ..VolumeFacts::default() });
    let spec = VolumeSpec { size: 1 << 20, tags: Tags::new() };
    cloud.learn(|live| live.clusters.get_mut(&a).unwrap().copying.insert(copy.clone(), v.clone()));
    let refused = [
        cloud.put_volume(&a, &copy, spec).await.unwrap_err(),
        cloud.snapshot(&a, &v, &copy).await.unwrap_err(),
        cloud.attach(&a, &v, &to("one", Hold::Respect)).await.unwrap_err(),
        cloud.delete_volume(&a, &v).await.unwrap_err(),
    ];
    assert!(refused.iter().all(|refused| refused.class == Class::Conflict), "{refused:?}");
    assert_eq!(row(&cloud), volume("a", "v"));
}

#[tokio::test]
async fn a_copy_that_fails_leaves_its_name_free_and_one_that_is_made_is_a_volume() {
    let (a, v, copy): (Label, Label, Label) = (label("a"), label("v"), label("copy"));
    let (_dir, cloud) = cloud(volume("a", "v"), VolumeFacts { made: true, ..VolumeFacts::default() });
    let missing = cloud.snapshot(&a, &v, &copy).await.unwrap_err();
    assert_eq!(missing.class, Class::Failed, "there are no bytes to copy: {missing}");
    cloud.world().make_volume(cloud.places(), &row(&cloud)).await.unwrap();
    // Nobody follows what is wanted, so that nobody says that the copy was made.
    assert!(within(Duration::from_secs(10), cloud.snapshot(&a, &v, &copy), || has(&cloud, &copy)).await);
    let again = cloud.snapshot(&a, &v, &copy).await.unwrap_err();
    assert_eq!(again.class, Class::Conflict, "{again}");
    assert!(cloud.with_both(|_, live, _| live.clusters[&a].copying.is_empty()));
}

fn has(cloud: &Cloud, name: &Label) -> bool {
    cloud.read(|model| volume_row(model, &label("a"), name).is_ok())
}

/// Whether it comes true while the work goes on.
async fn within<T>(limit: Duration, work: impl Future<Output = T>, is_so: impl Fn() -> bool) -> bool {
    let looking = async {
        let mut glance = tokio::time::interval(Duration::from_millis(5));
        while !is_so() {
            glance.tick().await;
        }
    };
    tokio::select! {
        _ = work => is_so(),
        so = tokio::time::timeout(limit, looking) => so.is_ok(),
    }
}
