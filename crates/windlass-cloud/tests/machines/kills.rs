//! The daemon dies without notice, and nothing that it acknowledged is lost or doubled.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use windlass_cloud::process::Identity;
use windlass_cloud::volume::loops;
use windlass_cloud_api::{AttachRequest, Hold, ObjectKey, RecordChange, RecordKind, RecordName, VolumeSpec};

use crate::cloud::{CONFIG, Cloud, Cluster, LONG, asked, label, pass, until};
use crate::processes;

/// How often the daemon is killed, unless a drill asks for more.
const KILLS: usize = 3;

/// What was acknowledged.
#[derive(Clone, Default)]
struct Acknowledged {
    volumes: BTreeSet<String>,
    records: BTreeSet<String>,
    objects: BTreeSet<String>,
}

/// Changes one thing after the other until nobody answers.
async fn work(cluster: &Cluster<'_>, round: usize, done: &Mutex<Acknowledged>) {
    let (client, name) = (&cluster.cloud.client, &cluster.name);
    for n in 0.. {
        let thing = format!("x{round}-{n}");
        let values = vec![format!("10.90.1.{}", n % 250 + 1)];
        let record = RecordChange { kind: RecordKind::A, values, only_if: Default::default() };
        if client.put_record(name, &RecordName::parse(&thing).unwrap(), &record).await.is_err() {
            return;
        }
        done.lock().unwrap().records.insert(thing.clone());
        if client.put_object(name, &ObjectKey::parse(&thing).unwrap(), thing.clone().into_bytes()).await.is_err() {
            return;
        }
        done.lock().unwrap().objects.insert(thing.clone());
        let volume = VolumeSpec { size: 1 << 20, tags: Default::default() };
        if client.put_volume(name, &label(&thing), &volume).await.is_err() {
            return;
        }
        done.lock().unwrap().volumes.insert(thing);
    }
}

async fn nothing_is_lost(cluster: &Cluster<'_>, done: &Acknowledged) {
    let (client, name) = (&cluster.cloud.client, &cluster.name);
    let volumes: BTreeSet<String> = client.volumes(name).await.unwrap().iter().map(|v| v.name.to_string()).collect();
    let records: BTreeSet<String> = client.records(name).await.unwrap().iter().map(|r| r.name.to_string()).collect();
    let objects: BTreeSet<String> = client.objects(name).await.unwrap().iter().map(|o| o.key.to_string()).collect();
    for (acknowledged, there) in [(&done.volumes, volumes), (&done.records, records), (&done.objects, objects)] {
        assert_eq!(acknowledged.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
    }
}

/// One runner and one first process for each machine, the same as before; one loop device for the one attached volume.
fn nothing_is_doubled(cloud: &Cloud, machines: &[(String, Identity)]) {
    for (machine, leader) in machines {
        assert_eq!(processes::leader("kills", machine), *leader, "{machine} did not go on");
        assert_eq!(processes::of("kills", machine, "runner").len(), 1, "{machine}");
    }
    let ours = loops::list().unwrap().into_iter().filter(|one| one.file.starts_with(cloud.dir()));
    assert_eq!(ours.map(|one| one.file).collect::<Vec<_>>(), [cloud.state.join("clusters/kills/volumes/held.img")]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_daemon_killed_at_any_moment_loses_nothing_and_doubles_nothing() {
    let (mut random, kills) = (Random::seeded(), asked("kills=").unwrap_or(KILLS));
    let cloud = Cloud::start().await;
    let cluster = cloud.cluster("kills", "10.90.0.0/23").await;
    cluster.machine("m0", Some(CONFIG)).await;
    cluster.volume("held").await;
    cluster.running("m0").await;
    let request = AttachRequest { machine: label("m0"), hold: Hold::Respect };
    cloud.client.attach(&cluster.name, &label("held"), &request).await.unwrap();
    cluster
        .sh("m0", "mkfs.ext4 -q /dev/disk/windlass/held; mount /dev/disk/windlass/held /mnt; echo data > /mnt/f")
        .await;
    let mut machines = vec![("m0".to_owned(), processes::leader("kills", "m0"))];
    let done = Mutex::new(Acknowledged::default());

    for round in 0..kills {
        // Acknowledged, and under way when the daemon dies.
        let new = format!("m{}", round + 1);
        cluster.machine(&new, Some(CONFIG)).await;
        let moment = Duration::from_millis(random.below(2000));
        eprintln!("round {round}: killing the daemon after {moment:?}");
        tokio::join!(work(&cluster, round, &done), async {
            pass(moment).await;
            cloud.kill().await;
        });
        let took = cloud.serve().await;
        eprintln!("round {round}: the next daemon answered after {took:?}");
        let acknowledged = done.lock().unwrap().clone();
        nothing_is_lost(&cluster, &acknowledged).await;
        cluster.running(&new).await;
        assert_eq!(cluster.sh(&new, "cat /etc/written; wc -l < /var/lib/starts").await, "hello\n1");
        let leader = processes::leader("kills", &new);
        machines.push((new, leader));
        nothing_is_doubled(&cloud, &machines);
        assert_eq!(cluster.sh("m0", "echo more >> /mnt/f; head -n 1 /mnt/f; wc -l < /var/lib/starts").await, "data\n1");
    }
    until("every machine is known to run", LONG, async || match cloud.client.status().await.unwrap().running {
        running if running == kills + 1 => Ok(()),
        running => Err(format!("{running} run")),
    })
    .await;
    cluster.destroy().await;
    let left = loops::list().unwrap().into_iter().filter(|one| one.file.starts_with(cloud.dir())).count();
    assert_eq!(left, 0);
}

/// Moments that can be had again: the seed is printed, and may be asked for.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = asked("seed=").unwrap_or_else(|| getrandom::u64().unwrap()) | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
