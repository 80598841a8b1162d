//! kill -9 at random moments: what was acknowledged is there again, and nothing is there twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use windlass_cloud::model::{Edit, ObjectRow, RecordRow, Row, VolumeRow};
use windlass_cloud::object::{Object, ObjectDigest};
use windlass_cloud::store::Store;
use windlass_cloud_api::{
    ClientError, Condition, Label, ObjectKey, Record, RecordChange, RecordKind, RecordName, VolumeSpec,
};

use crate::support::{Daemon, label, machine, soon};

const KILLS: usize = 50;
const MANY: usize = 10_000;

/// What may be found under a key: what was acknowledged, or, for a request that got no answer, either way.
type Expected = BTreeMap<String, Vec<Option<String>>>;

#[ignore = "kills a daemon fifty times"]
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_every_kill() {
    let (seed, kills) = (asked("seed=").unwrap_or(7), asked("kills=").unwrap_or(KILLS));
    println!("seed {seed}, {kills} kills");
    let mut random = StdRng::seed_from_u64(seed);
    let mut daemon = Daemon::start().await;
    let cluster = daemon.cluster("mixed").await;
    let mut expected = Expected::new();
    let mut requests = 0;
    for kill in 0..kills {
        let lives = Duration::from_millis(random.gen_range(5..250));
        let client = daemon.client.clone();
        let work = work(client, &cluster, &mut expected, &mut random, &mut requests);
        // The work never ends by itself, so the daemon is killed in the middle of a request.
        let _ = tokio::time::timeout(lives, work).await;
        daemon.kill();
        let usable = daemon.again().await;
        assert!(usable < Duration::from_secs(5), "kill {kill}: usable after {usable:?}");
        settle(&daemon, &cluster, &mut expected, kill).await;
    }
    println!("{requests} requests, {} things known at the end", expected.len());
    assert!(requests > kills, "hardly anything was asked");
    no_doubles(&daemon, &cluster).await;
    let receipt = daemon.client.destroy(&cluster).await.unwrap();
    assert!(receipt.is_clean(), "{:?}", receipt.left);
    assert!(daemon.stubs().is_empty());
}

/// A number that a drill asks for, given to the harness as if it were the name of a test.
fn asked<N: std::str::FromStr>(word: &str) -> Option<N> {
    std::env::args().find_map(|argument| argument.strip_prefix(word)?.parse().ok())
}

/// Asks for one thing after the other.
async fn work(
    client: windlass_cloud_api::Client,
    cluster: &Label,
    expected: &mut Expected,
    random: &mut StdRng,
    requests: &mut usize,
) {
    loop {
        let number = random.gen_range(0..12);
        let value = random.gen_range(1..250_u8);
        let kind = random.gen_range(0..4);
        let (key, new) = match kind {
            0 => (format!("record r{number}"), Some(format!("10.0.0.{value}")).filter(|_| value > 40)),
            1 => (format!("object o{number}"), Some(ObjectDigest::of(&[value; 64]).to_string()).filter(|_| value > 40)),
            2 => (format!("volume v{number}"), Some("there".to_owned()).filter(|_| value > 60)),
            _ => (format!("machine m{number}"), Some("there".to_owned()).filter(|_| value > 60)),
        };
        // Until it is answered, both are possible.
        let old = expected.get(&key).cloned().unwrap_or_else(|| vec![None]);
        let mut either = old.clone();
        either.push(new.clone());
        expected.insert(key.clone(), either);
        *requests += 1;
        match ask(&client, cluster, kind, number, value, new.is_some()).await {
            Ok(()) => drop(expected.insert(key, vec![new])),
            Err(error) if error.status().is_some_and(|status| status < 500) => drop(expected.insert(key, old)),
            Err(_) => {}
        }
    }
}

async fn ask(
    client: &windlass_cloud_api::Client,
    cluster: &Label,
    kind: u32,
    number: u32,
    value: u8,
    there: bool,
) -> Result<(), ClientError> {
    match (kind, there) {
        (0, _) => {
            let values = if there { vec![format!("10.0.0.{value}")] } else { Vec::new() };
            let change = RecordChange { kind: RecordKind::A, values, only_if: Condition::Always };
            client.put_record(cluster, &RecordName::parse(&format!("r{number}")).unwrap(), &change).await.map(drop)
        }
        (1, true) => {
            let key = ObjectKey::parse(&format!("o{number}")).unwrap();
            client.put_object(cluster, &key, vec![value; 64]).await.map(drop)
        }
        (1, false) => client.delete_object(cluster, &ObjectKey::parse(&format!("o{number}")).unwrap()).await.map(drop),
        (2, true) => {
            let spec = VolumeSpec { size: 1 << 20, tags: windlass_cloud_api::Tags::new() };
            client.put_volume(cluster, &label(&format!("v{number}")), &spec).await.map(drop)
        }
        (2, false) => gone(client.delete_volume(cluster, &label(&format!("v{number}"))).await),
        (_, true) => client.put_machine(cluster, &label(&format!("m{number}")), &machine()).await.map(drop),
        (_, false) => gone(client.delete_machine(cluster, &label(&format!("m{number}"))).await),
    }
}

/// Removing what is not there is as good as having removed it.
fn gone(answer: Result<(), ClientError>) -> Result<(), ClientError> {
    answer.or_else(|error| if error.status() == Some(404) { Ok(()) } else { Err(error) })
}

/// Compares what is there with what may be there, and remembers which it was.
async fn settle(daemon: &Daemon, cluster: &Label, expected: &mut Expected, kill: usize) {
    let client = &daemon.client;
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for record in client.records(cluster).await.unwrap() {
        found.insert(format!("record {}", record.name), record.values.join(","));
    }
    for object in client.objects(cluster).await.unwrap() {
        found.insert(format!("object {}", object.key), object.digest);
    }
    for volume in client.volumes(cluster).await.unwrap() {
        found.insert(format!("volume {}", volume.name), "there".to_owned());
    }
    for machine in client.machines(cluster).await.unwrap() {
        found.insert(format!("machine {}", machine.name), "there".to_owned());
    }
    for (key, may_be) in expected.iter_mut() {
        let is = found.remove(key);
        assert!(may_be.contains(&is), "kill {kill}: {key} is {is:?}, but may be {may_be:?}");
        // A removal that was asked for and not answered may still be under way.
        *may_be = if may_be.contains(&None) && is.is_some() { vec![is, None] } else { vec![is] };
    }
    assert!(found.is_empty(), "kill {kill}: nobody asked for {found:?}");
}

/// Each machine that is there has one process, and there is no other; each volume has its file.
async fn no_doubles(daemon: &Daemon, cluster: &Label) {
    let settled = async || {
        let machines = daemon.client.machines(cluster).await.unwrap();
        let mut wanted: Vec<String> = machines.iter().map(|machine| machine.name.to_string()).collect();
        let mut running: Vec<String> =
            daemon.stubs().iter().map(|run| run.file_name().unwrap().to_string_lossy().into_owned()).collect();
        wanted.sort();
        running.sort();
        machines.iter().all(|machine| machine.state.is_running()) && wanted == running
    };
    soon("every machine has one process", settled).await;
    let files = async || {
        let volumes = daemon.client.volumes(cluster).await.unwrap();
        let dir = daemon.state().join("clusters").join(cluster.as_str()).join("volumes");
        let images = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let images = images.filter(|file| file.file_name().to_string_lossy().ends_with(".img")).count();
        images == volumes.len()
    };
    soon("every volume has its file", files).await;
}

#[ignore = "keeps thirty thousand things"]
#[tokio::test(flavor = "multi_thread")]
async fn with_ten_thousand_of_everything_it_is_usable_within_half_a_second_of_a_kill() {
    let mut daemon = Daemon::start().await;
    let cluster = daemon.cluster("large").await;
    daemon.kill();
    fill(&daemon, &cluster);
    daemon.again().await;
    let change = RecordChange { kind: RecordKind::A, values: vec!["10.1.1.1".into()], only_if: Condition::Always };
    let name = RecordName::parse("api").unwrap();
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        daemon.client.put_record(&cluster, &name, &change).await.unwrap();
        daemon.kill();
        let started = Instant::now();
        daemon.again().await;
        daemon.client.put_record(&cluster, &name, &change).await.unwrap();
        slowest = slowest.max(started.elapsed());
    }
    println!("usable {:.0} ms after a kill, with 10,000 objects, volumes and records", slowest.as_secs_f64() * 1e3);
    assert_eq!(daemon.client.records(&cluster).await.unwrap().len(), MANY + 1);
    assert_eq!(daemon.client.objects(&cluster).await.unwrap().len(), MANY);
    assert_eq!(daemon.client.volumes(&cluster).await.unwrap().len(), MANY);
    let limit = if cfg!(debug_assertions) { Duration::from_secs(5) } else { Duration::from_millis(500) };
    assert!(slowest < limit, "{slowest:?}");
    assert!(daemon.client.destroy(&cluster).await.unwrap().is_clean());
}

/// Ten thousand of each, as requests would have left them.
fn fill(daemon: &Daemon, cluster: &Label) {
    let (store, _) = Store::open(&daemon.state().join("cloud.redb")).unwrap();
    let dir = daemon.state().join("clusters").join(cluster.as_str());
    let (volumes, bytes) = (dir.join("volumes"), dir.join("objects"));
    std::fs::create_dir_all(&volumes).unwrap();
    let objects = windlass_cloud::object::ObjectStore::with_index(&bytes, []).unwrap();
    let content = b"the same for all";
    let one =
        objects.put(windlass_cloud::object::ObjectKey::parse("o0").unwrap(), content, None, now()).unwrap().object;
    let mut edits = Vec::new();
    for number in 0..MANY {
        let name = RecordName::parse(&format!("r{number}")).unwrap();
        let record = Record { name, kind: RecordKind::A, values: vec!["10.0.0.1".into()], version: 1 };
        edits.push(Edit::Put(Row::Record(RecordRow { cluster: cluster.clone(), record })));
        let key = windlass_cloud::object::ObjectKey::parse(&format!("o{number}")).unwrap();
        let object = Object { key, ..one.clone() };
        edits.push(Edit::Put(Row::Object(ObjectRow { cluster: cluster.clone(), object })));
        let name = label(&format!("v{number}"));
        let said = serde_json::json!({
            "name": name, "cluster": cluster, "size": 1 << 20, "tags": {}, "space": "sparse"
        });
        std::fs::File::create(volumes.join(format!("{name}.img"))).unwrap().set_len(1 << 20).unwrap();
        serde_json::to_writer(std::fs::File::create(volumes.join(format!("{name}.json"))).unwrap(), &said).unwrap();
        let spec = VolumeSpec { size: 1 << 20, tags: windlass_cloud_api::Tags::new() };
        let row = VolumeRow {
            name,
            cluster: cluster.clone(),
            spec,
            holder: None,
            next_holder: None,
            letting_go: false,
            leaving: false,
        };
        edits.push(Edit::Put(Row::Volume(row)));
    }
    store.commit(&edits).unwrap();
}

fn now() -> time::OffsetDateTime {
    use windlass_steps::clock::Clock as _;
    windlass_steps::clock::SystemClock::new().now()
}
