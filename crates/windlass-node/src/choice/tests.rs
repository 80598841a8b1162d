//! The decision table: versions, mappings, operating systems and failures, each row with everybody's answer and what must
//! come of it. Manifests are really signed and really verified.

mod world;

use windlass_artifacts::signature::Verification;

use super::*;
use world::{Bucket, World, manifest, unsigned};

/// What must come of a row: `kubernetes runtime os>next`, with `os+next` if the flow does not boot into it, or a word of the
/// error.
#[derive(Debug, Clone, Copy)]
enum Want {
    Chosen(&'static str),
    Refused(&'static str),
}

use Want::{Chosen, Refused};

type Change = fn(World) -> World;

const SAME: Change = |w| w;

/// The rows: a name, what differs from a machine at whose first boot everything is well, and what comes of it.
const ROWS: &[(&str, Change, Want)] = &[
    // Versions.
    ("the API's word", SAME, Chosen("v1.36.3 2.2.9 1")),
    ("the API's word against older installer files", |w| w.env("v1.35.4"), Chosen("v1.36.3 2.2.9 1")),
    ("the API's word against newer installer files", |w| w.api("v1.35.4"), Chosen("v1.35.4 1.7.35 1")),
    ("no API: the installer's word", |w| w.api_down(), Chosen("v1.36.3 2.2.9 1")),
    ("no API, older installer files", |w| w.api_down().env("v1.35.4"), Chosen("v1.35.4 1.7.35 1")),
    ("no API, no installer file", |w| w.api_down().no_env(), Refused("nobody says which version")),
    (
        "no API, an installer file without a version",
        |w| w.api_down().env_text("X=y\n"),
        Refused("nobody says which version"),
    ),
    (
        "no API, an installer file that makes no sense",
        |w| w.api_down().env("new"),
        Refused("nobody says which version"),
    ),
    (
        "an API that makes no sense: the installer's word",
        |w| w.api("latest").env("v1.35.4"),
        Chosen("v1.35.4 1.7.35 1"),
    ),
    ("an API whose version climbs", |w| w.api("v1.36.3/../..").env("v1.35.4"), Chosen("v1.35.4 1.7.35 1")),
    ("an API and no installer file", |w| w.no_env(), Chosen("v1.36.3 2.2.9 1")),
    ("a forced version against both", |w| w.force("v1.35.4"), Chosen("v1.35.4 1.7.35 1")),
    ("a forced version with nobody to ask", |w| w.api_down().no_env().force("1.36.3"), Chosen("v1.36.3 2.2.9 1")),
    ("a patch that the bucket does not have", |w| w.api("v1.36.9"), Refused("no kubelet 1.36.9")),
    ("a build that the bucket does not have", |w| w.api("v1.36.3+vendor"), Refused("no kubelet 1.36.3+vendor")),
    ("a minor that nobody maps", |w| w.api("v1.99.0"), Refused("which container runtime goes with Kubernetes v1.99.0")),
    ("a pre-release of a minor that is mapped", |w| w.api("v1.36.0-rc.1"), Refused("no kubelet 1.36.0-rc.1")),
    // Mappings.
    ("the cluster's mapping", |w| w.map("1.36", "[1.7.35]"), Chosen("v1.36.3 1.7.35 1")),
    (
        "the cluster's mapping against the installer's",
        |w| w.installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 2.2.9 1"),
    ),
    ("no ConfigMap: the installer's", |w| w.no_map().installer_map("1.36", "[1.7.35]"), Chosen("v1.36.3 1.7.35 1")),
    ("no API: the installer's", |w| w.api_down().installer_map("1.36", "[1.7.35]"), Chosen("v1.36.3 1.7.35 1")),
    ("neither: the table in the program", |w| w.no_map().no_installer_map(), Chosen("v1.36.3 2.2.9 1")),
    ("neither, the other version", |w| w.no_map().no_installer_map().api("v1.35.4"), Chosen("v1.35.4 1.7.35 1")),
    (
        "neither, a version that the program does not know",
        |w| w.no_map().no_installer_map().api("v1.34.0"),
        Refused("which container runtime"),
    ),
    (
        "a ConfigMap without the version: the installer's",
        |w| w.map("1.30", "[2.2.9]").installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 1.7.35 1"),
    ),
    (
        "a ConfigMap of another kind: the installer's",
        |w| w.map_text("kind: X\n").installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 1.7.35 1"),
    ),
    (
        "a ConfigMap that is no YAML: the installer's",
        |w| w.map_text("[{").installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 1.7.35 1"),
    ),
    (
        "a ConfigMap that climbs: the installer's",
        |w| w.map("1.36", "[../../x]").installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 1.7.35 1"),
    ),
    (
        "an empty list: the installer's",
        |w| w.map("1.36", "[]").installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 1.7.35 1"),
    ),
    ("the cluster's mapping against what the machine had", |w| w.had(&["1.7.35"]), Chosen("v1.36.3 2.2.9 1")),
    ("no ConfigMap: what the machine had", |w| w.no_map().had(&["1.7.35"]), Chosen("v1.36.3 1.7.35 1")),
    (
        "no ConfigMap, and nobody offers what the machine had: the installer's",
        |w| w.no_map().had(&["3.0.0"]).installer_map("1.36", "[1.7.35]"),
        Chosen("v1.36.3 1.7.35 1"),
    ),
    ("a list: the first", |w| w.map("1.36", "[2.2.9, 1.7.35]"), Chosen("v1.36.3 2.2.9 1")),
    ("a list: the first that is offered", |w| w.map("1.36", "[3.0.0, 1.7.35]"), Chosen("v1.36.3 1.7.35 1")),
    ("a runtime that nobody offers", |w| w.map("1.36", "[3.0.0]"), Refused("no containerd 3.0.0")),
    ("one version without a list", |w| w.map("1.36", "1.7.35"), Chosen("v1.36.3 1.7.35 1")),
    // Operating systems.
    ("an update is there", |w| w.next("2"), Chosen("v1.36.3 2.2.9 1>2")),
    ("an update, older cluster", |w| w.next("2").api("v1.35.4"), Chosen("v1.35.4 1.7.35 1>2")),
    ("no update is wanted", |w| w.next("2").keep_os(), Chosen("v1.36.3 2.2.9 1")),
    ("an update was staged before", |w| w.staged("2"), Chosen("v1.36.3 2.2.9 1>2")),
    ("no update is wanted, but one was staged before", |w| w.staged("2").keep_os(), Chosen("v1.36.3 2.2.9 1+2")),
    (
        "no update is wanted, and one without addons was staged before",
        |w| w.staged("3").keep_os(),
        Chosen("v1.36.3 2.2.9 1+3"),
    ),
    (
        "no update is wanted, and one with a forged manifest was staged before",
        |w| w.staged("2").keep_os().changed("2"),
        Chosen("v1.36.3 2.2.9 1+2"),
    ),
    (
        "no update is wanted, and the running one's manifest is forged",
        |w| w.staged("2").keep_os().changed("1"),
        Refused("OS version 1"),
    ),
    ("only what runs is asked for", |w| w.staged("2").ask_no_engine(), Chosen("v1.36.3 2.2.9 1")),
    ("an update to what runs already", |w| w.next("1"), Chosen("v1.36.3 2.2.9 1")),
    ("an update whose name climbs", |w| w.next("../2"), Refused("\"../2\"")),
    ("an update without addons", |w| w.next("3"), Refused("OS version 3")),
    ("no bus", |w| w.no_bus(), Chosen("v1.36.3 2.2.9 1")),
    ("no bus, no update wanted", |w| w.no_bus().keep_os(), Chosen("v1.36.3 2.2.9 1")),
    ("an update that fails", |w| w.update_fails(), Chosen("v1.36.3 2.2.9 1")),
    ("an update that never ends", |w| w.update_hangs(), Refused("cannot update the operating system")),
    ("no os-release", |w| w.os_release(None), Refused("which operating system")),
    ("an os-release without a version", |w| w.os_release(Some("ID=debian\n")), Refused("no VERSION_ID")),
    (
        "an os-release that makes no sense",
        |w| w.os_release(Some("VERSION_ID=$(id)\n")),
        Refused("which operating system"),
    ),
    ("another operating system", |w| w.os_release(Some("VERSION_ID=2\n")), Chosen("v1.36.3 2.2.9 2")),
    ("a board by name", |w| w.os_release(Some("VERSION_ID=1\nCOREOS_BOARD=amd64-usr\n")), Chosen("v1.36.3 2.2.9 1")),
    (
        "a board without addons",
        |w| w.os_release(Some("VERSION_ID=1\nCOREOS_BOARD=arm64-usr\n")),
        Refused("it is not there"),
    ),
    (
        "a board that climbs",
        |w| w.os_release(Some("VERSION_ID=1\nCOREOS_BOARD=../x\n")),
        Refused("which operating system"),
    ),
    // The bucket.
    ("the bucket is down", |w| w.bucket(Bucket::Down), Refused("cannot follow the addon manifest for OS version 1")),
    ("the bucket is empty", |w| w.bucket(Bucket::Empty), Refused("it is not there")),
    ("the bucket is down, and so is the API", |w| w.api_down().bucket(Bucket::Down), Refused("OS version 1")),
    ("no .asc", |w| w.without("1/torcx_manifest.json.asc"), Refused("the OpenPGP signature (.asc) is missing")),
    (
        "no .minisig",
        |w| w.without("1/torcx_manifest.json.minisig"),
        Refused("the minisign signature (.minisig) is missing"),
    ),
    ("signatures of somebody else", |w| w.signed_by_a_stranger(), Refused("not trusted")),
    ("a manifest that was changed", |w| w.changed("1"), Refused("is not one over this data")),
    (
        "a signature that is none",
        |w| w.put("1/torcx_manifest.json.asc", b"x"),
        Refused("cannot read the OpenPGP signature"),
    ),
    (
        "no signature, and none wanted",
        |w| w.without("1/torcx_manifest.json.asc").no_verify(),
        Chosen("v1.36.3 2.2.9 1"),
    ),
    ("changed, and nobody looks", |w| w.changed("1").no_verify(), Chosen("v1.36.3 2.2.9 1")),
    ("no key is trusted", |w| w.no_keys(), Refused("no key is trusted")),
    (
        "a manifest for another board",
        |w| w.publish("1", manifest("arm64-usr", "1", 5)),
        Refused("for the board arm64-usr"),
    ),
    (
        "a manifest for another operating system",
        |w| w.publish("1", manifest("amd64-usr", "2", 5)),
        Refused("for OS version 2"),
    ),
    ("an older manifest", |w| w.seen("1", 6), Refused("this is a rollback")),
    ("the same manifest again", |w| w.seen("1", 5), Chosen("v1.36.3 2.2.9 1")),
    ("a newer manifest", |w| w.seen("1", 4), Chosen("v1.36.3 2.2.9 1")),
    (
        "an older manifest, and nobody looks at signatures",
        |w| w.seen("1", 6).no_verify(),
        Refused("this is a rollback"),
    ),
    (
        "a manifest without a version after one with it",
        |w| w.seen("1", 1).publish("1", unsigned()),
        Refused("may be a rollback"),
    ),
    ("a manifest without a version at first", |w| w.publish("1", unsigned()), Chosen("v1.36.3 2.2.9 1")),
    ("an expired manifest", |w| w.later(), Refused("expired")),
    ("a manifest that is none", |w| w.publish("1", b"{}".to_vec()), Refused("cannot use the manifest")),
    ("the next operating system's manifest is forged", |w| w.next("2").changed("2"), Refused("OS version 2")),
    (
        "the present operating system's manifest is forged, with an update",
        |w| w.next("2").changed("1"),
        Refused("OS version 1"),
    ),
    ("rollback for the next operating system only", |w| w.next("2").seen("2", 9), Refused("this is a rollback")),
    // Nothing of it.
    ("no addons are wanted", |w| w.skip(), Chosen("v1.36.3 - 1")),
    ("no addons are wanted, and there is no bucket", |w| w.skip().bucket(Bucket::Down), Chosen("v1.36.3 - 1")),
    ("no addons are wanted, with an update", |w| w.skip().next("2"), Chosen("v1.36.3 - 1>2")),
    (
        "no addons are wanted, and nobody knows the version",
        |w| w.skip().api_down().no_env(),
        Refused("nobody says which version"),
    ),
];

fn shown(choice: &Choice) -> String {
    let runtime = choice.setup.as_ref().map_or("-", |setup| setup.runtime.as_str());
    let next = match &choice.next_os {
        None => String::new(),
        Some(Upcoming::Booted(next)) => format!(">{next}"),
        Some(Upcoming::Left(next)) => format!("+{next}"),
    };
    format!("{} {runtime} {}{next}", choice.kubernetes, choice.os)
}

#[tokio::test]
async fn every_row_of_the_table_comes_out_as_it_must() {
    assert!(ROWS.len() >= 60, "{} rows", ROWS.len());
    for (name, change, want) in ROWS {
        let world = change(World::well());
        let mut explanation = Explanation::default();
        let chosen = world.choose(&mut explanation).await;
        match (want, &chosen) {
            (Chosen(want), Ok(choice)) => assert_eq!(shown(choice), *want, "{name}: {explanation}"),
            (Refused(word), Err(error)) => {
                let told = windlass_steps::report::chain(error).join(": ");
                assert!(told.contains(word), "{name}: {told}");
            }
            _ => panic!("{name}: {want:?} is not {chosen:?}: {explanation}"),
        }
    }
}

#[tokio::test]
async fn packages_are_for_both_operating_systems_and_what_was_followed_is_seen() {
    let choice = World::well().next("2").choose(&mut Explanation::default()).await.unwrap();
    let setup = choice.setup.unwrap();
    let directories: Vec<_> = setup.packages.iter().map(WantedPackage::directory).collect();
    let want = ["containerd-2.2.9-os2", "kubelet-1.36.3-os2", "containerd-2.2.9-os1", "kubelet-1.36.3-os1"];
    assert_eq!(directories, want);
    assert!(setup.packages.iter().all(|package| package.length == Some(7)));
    let kept = serde_json::to_string(&setup.seen).unwrap();
    assert_eq!(kept, r#"{"amd64-usr/1":5,"amd64-usr/2":5}"#);
}

/// Whatever boot comes next is one into the OS that was staged.
#[tokio::test]
async fn a_machine_that_was_to_keep_its_operating_system_gets_the_addons_of_the_staged_one_too() {
    let directories = async |world: World| {
        let choice = world.choose(&mut Explanation::default()).await.unwrap();
        choice.setup.unwrap().packages.iter().map(WantedPackage::directory).collect::<Vec<_>>()
    };
    let own = ["containerd-2.2.9-os1", "kubelet-1.36.3-os1"];
    let both = ["containerd-2.2.9-os1", "kubelet-1.36.3-os1", "containerd-2.2.9-os2", "kubelet-1.36.3-os2"];
    assert_eq!(directories(World::well().staged("2").keep_os()).await, both);
    assert_eq!(directories(World::well().staged("2").keep_os().changed("2")).await, own, "what is forged is not taken");
}

/// Whoever can write to the bucket could have locked the machine out for ever with a number.
#[tokio::test]
async fn a_manifest_that_nobody_had_verified_counted_as_seen() {
    let highest = || World::well().publish("1", manifest("amd64-usr", "1", u64::MAX));
    let seen = async |world: World| {
        let choice = world.choose(&mut Explanation::default()).await.unwrap();
        serde_json::to_string(&choice.setup.unwrap().seen).unwrap()
    };
    assert_eq!(seen(highest().no_verify()).await, "{}");
    assert_eq!(seen(highest().no_verify().seen("1", 4)).await, r#"{"amd64-usr/1":4}"#);
    assert_eq!(seen(highest()).await, format!(r#"{{"amd64-usr/1":{}}}"#, u64::MAX));
}

#[tokio::test]
async fn the_explanation_names_who_was_asked_in_order_and_why() {
    let mut explanation = Explanation::default();
    World::well().api_down().choose(&mut explanation).await.unwrap();
    let asked: Vec<_> = explanation.asked.iter().map(|asked| (asked.source.as_str(), asked.answer.is_some())).collect();
    let want = [
        ("the API", false),
        ("the installer's kubelet.env", true),
        ("the cluster's ConfigMap", false),
        ("the installer's runtime-mappings.yaml", true),
        ("/usr/lib/os-release", true),
        ("the update engine", true),
        ("http://bucket.test/addons/amd64-usr/1/torcx_manifest.json", true),
    ];
    assert_eq!(asked, want);
    let chosen: Vec<_> = explanation.chosen.iter().map(|chosen| chosen.what.as_str()).collect();
    assert_eq!(chosen, ["Kubernetes", "runtimes", "container runtime", "kubelet"]);
}

#[tokio::test]
async fn trust_is_final_and_silence_is_not() {
    let error = async |world: World| world.choose(&mut Explanation::default()).await.unwrap_err();
    assert!(error(World::well().changed("1")).await.is_final());
    assert!(error(World::well().seen("1", 9)).await.is_final());
    assert!(!error(World::well().bucket(Bucket::Down)).await.is_final());
    assert!(!error(World::well().bucket(Bucket::Empty)).await.is_final());
    assert!(!error(World::well().update_hangs()).await.is_final());
    assert_eq!(World::well().no_verify().knobs.verification, Verification::Skipped);
}
