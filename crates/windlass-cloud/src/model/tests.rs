use windlass_cloud_api::{ClusterSpec, MachineSpec, Power, Tags, VolumeSpec};

use super::*;

pub(crate) fn label(text: &str) -> Label {
    Label::parse(text).unwrap()
}

pub(crate) fn cluster(name: &str) -> ClusterRow {
    let spec = ClusterSpec {
        domain: format!("{name}.example"),
        subnet: "10.80.0.0/24".parse().unwrap(),
        mtu: 1500,
        tags: Tags::new(),
        egress: windlass_cloud_api::Egress::Off,
        channel: windlass_cloud_api::Channel::default(),
        public: Vec::new(),
    };
    ClusterRow {
        name: label(name),
        spec,
        secret: "00".repeat(32),
        next_index: 0,
        next_version: 1,
        faults: Vec::new(),
        leaving: false,
    }
}

pub(crate) fn machine(cluster: &str, name: &str) -> MachineRow {
    let spec = MachineSpec {
        image: label("base-1"),
        role: String::new(),
        address: None,
        memory: None,
        cpus: None,
        user_data: None,
        tags: Tags::new(),
    };
    MachineRow {
        name: label(name),
        cluster: label(cluster),
        group: None,
        generation: 0,
        spec,
        index: 0,
        address: "10.80.0.9".parse().unwrap(),
        created: time::OffsetDateTime::UNIX_EPOCH,
        power: Power::On,
        boot: 1,
        ending: Ending::Asked,
        leaving: false,
    }
}

pub(crate) fn volume(cluster: &str, name: &str) -> VolumeRow {
    VolumeRow {
        name: label(name),
        cluster: label(cluster),
        spec: VolumeSpec { size: 1 << 20, tags: Tags::new() },
        holder: None,
        next_holder: None,
        letting_go: false,
        leaving: false,
    }
}

fn sample() -> Vec<Row> {
    vec![
        Row::Machine(machine("a", "m")),
        Row::Volume(volume("a", "v")),
        Row::Cluster(cluster("a")),
        Row::Cluster(cluster("b")),
        Row::Machine(machine("b", "m")),
    ]
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let forward = Model::of(sample());
    let backward = Model::of(sample().into_iter().rev());
    assert_eq!(forward, backward);
    assert_eq!(forward.clusters[&label("a")].machines.len(), 1);
}

#[test]
fn dropping_a_cluster_leaves_the_other_whole() {
    let mut model = Model::of(sample());
    let other = model.clusters[&label("b")].clone();
    model.without(&label("a")).iter().for_each(|edit| model.apply(edit));
    assert_eq!(model.clusters.len(), 1);
    assert_eq!(model.clusters[&label("b")], other);
    assert!(model.without(&label("a")).is_empty());
}

#[test]
fn keys_of_different_things_differ() {
    let keys: BTreeSet<Key> = sample().iter().map(Row::key).collect();
    assert_eq!(keys.len(), sample().len());
}

#[test]
fn addresses_are_given_once() {
    let mut model = Model::of(sample());
    let mut given = BTreeSet::new();
    for number in 0..250 {
        let cluster = &model.clusters[&label("a")];
        let address = cluster.free_address(&BTreeSet::new()).unwrap();
        assert!(given.insert(address) && address != cluster.gateway() && cluster.row.spec.subnet.contains(&address));
        let row = MachineRow { address, ..machine("a", &format!("m{number}")) };
        model.apply(&Edit::Put(Row::Machine(row)));
    }
}
