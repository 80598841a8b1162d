use windlass_steps::host::{Mode, make_dir, write_file};

use super::*;

fn place(dir: &Path) -> Where {
    let dir = dir.canonicalize().unwrap();
    Where { state: dir.join("state"), run: dir.join("run"), cgroup_parent: "windlass-no-such-group".to_owned() }
}

fn put(path: PathBuf, text: &str) {
    make_dir(path.parent().unwrap(), Mode::PRIVATE_DIR).unwrap();
    write_file(path, text, Mode::PRIVATE_FILE).unwrap();
}

fn words(inventory: &Inventory) -> Vec<String> {
    inventory.items().iter().map(|item| item.thing.to_string()).collect()
}

#[test]
fn a_path_says_by_its_place_whose_it_is() {
    let place = Where { state: "/s".into(), run: "/r".into(), cgroup_parent: "w".to_owned() };
    let cases = [
        ("/s/clusters/a/volumes/v.img", Some("a"), true),
        ("/r/clusters/a b/net", Some("a b"), true),
        ("/s/clusters/a", Some("a"), true),
        ("/s/clusters", None, true),
        ("/s/images/base/tree", None, true),
        ("/s", None, false),
        ("/sx/clusters/a", None, false),
        ("/elsewhere/s/clusters/a", None, false),
    ];
    for (path, cluster, held) in cases {
        assert_eq!(place.cluster_of(Path::new(path)).as_deref(), cluster, "{path}");
        assert_eq!(place.holds(Path::new(path)), held, "{path}");
    }
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_and_removing_it_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let inventory = Inventory::take(&place(dir.path())).unwrap();
    assert!(inventory.is_empty());
    assert_eq!((inventory.count(), inventory.clusters()), (Count::default(), vec![]));
    let receipt = remove(&inventory).await;
    assert!(receipt.is_clean() && receipt.removed.is_empty());
}

#[tokio::test]
async fn one_cluster_goes_and_the_other_stays() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    for cluster in ["a", "b"] {
        put(place.state.join(format!("clusters/{cluster}/machines/m-0/var/x")), "x");
        put(place.state.join(format!("clusters/{cluster}/volumes/v.img")), "x");
        put(place.run.join(format!("clusters/{cluster}/machines/m-0/runner.json")), "{damaged");
        put(place.run.join(format!("clusters/{cluster}/net")), "");
    }
    put(place.state.join("cloud.redb"), "precious");
    let all = Inventory::take(&place).unwrap();
    assert_eq!((all.clusters(), all.notes().len()), (vec!["a".to_owned(), "b".to_owned()], 2));
    let part = all.of("a");
    let path = |path: PathBuf| format!("directory {}", path.display());
    let want = [
        path(place.state.join("clusters/a/machines/m-0")),
        path(place.state.join("clusters/a/volumes")),
        path(place.state.join("clusters/a")),
        path(place.run.join("clusters/a/machines/m-0")),
        path(place.run.join("clusters/a")),
    ];
    assert_eq!(words(&part), want);
    let receipt = remove(&part).await;
    assert_eq!((receipt.left.len(), receipt.removed.len()), (0, 5), "{receipt:?}");
    assert_eq!(
        Inventory::take(&place).unwrap(),
        Inventory { notes: vec![all.notes[1].clone()], scope: None, ..all.of("b") }
    );
    assert!(place.state.join("cloud.redb").exists());
}

#[tokio::test]
async fn a_link_in_the_place_of_a_cluster_is_removed_and_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    let precious = dir.path().join("precious/machines/m/file");
    put(precious.clone(), "x");
    make_dir(place.state.join("clusters"), Mode::PRIVATE_DIR).unwrap();
    std::os::unix::fs::symlink(dir.path().join("precious"), place.state.join("clusters/a")).unwrap();
    let inventory = Inventory::take(&place).unwrap();
    assert_eq!(inventory.count(), Count { directories: 1, ..Count::default() });
    let receipt = remove(&inventory).await;
    assert!(receipt.is_clean(), "{receipt:?}");
    assert!(precious.exists());
    assert!(place.state.join("clusters/a").symlink_metadata().is_err());
}

#[test]
fn an_inventory_survives_being_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let place = place(dir.path());
    put(place.state.join("clusters/a b/machines/m/x"), "");
    let inventory = Inventory::take(&place).unwrap();
    let text = serde_json::to_string(&inventory).unwrap();
    assert_eq!(serde_json::from_str::<Inventory>(&text).unwrap(), inventory);
}
