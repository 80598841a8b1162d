//! Power goes at every stage of the flow and between its acts; the next boot completes what the last one began, with the
//! right runtime and nothing half done. Every machine was made with an older runtime, so that each stage has something to
//! do, and has data of that runtime, which must go.

use std::rc::Rc;
use std::time::{Duration, Instant};

use windlass_e2e::ground::{Config, Ground, Lone};

use crate::{Blow, LONG, STAY, comes_to_its_kubelet, comes_to_its_kubelet_on, quick, strike};

/// The stages of a master's flow, and how often the machine boots in all: power, and the runtime if that was not in place.
const STAGES: [(&str, usize); 10] = [
    ("learn-facts", 3),
    ("acknowledge-config", 3),
    ("set-kernel", 3),
    ("choose-versions", 3),
    ("stage-addons", 3),
    ("install-addons", 3),
    ("configure-runtime", 2),
    ("place-manifests", 2),
    ("open-gate", 2),
    ("reboot", 2),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_machine_that_loses_power_at_a_stage_completes_on_its_next_boot() {
    let ground = Ground::with_channel("beta").await;
    let blows = STAGES.map(|(stage, boots)| {
        let config = move |machine| quick(machine, &format!("{STAY} --held-at={stage}")).older();
        Blow::new(stage, stage, config, async move |machine| {
            machine.is_held_at(stage, LONG).await;
            machine.lose_power().await;
            is_complete(&machine, boots).await
        })
    });
    strike(&ground, blows.into()).await;
    ground.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_machine_that_loses_power_between_two_acts_completes_on_its_next_boot() {
    let ground = Ground::with_channel("beta").await;
    let held =
        |stage: &'static str| move |machine: Config| quick(machine, &format!("{STAY} --held-at={stage}")).older();
    let plain = |machine: Config| quick(machine, STAY).older();
    let blows = vec![
        Blow::new("in the middle of an archive", "archive", held("stage-addons"), async |machine| {
            machine.is_held_at("stage-addons", LONG).await;
            machine
                .sh("nft add table inet drill; nft add chain inet drill input '{ type filter hook input priority -300; }'; \
                     nft add rule inet drill input tcp sport 80 quota over 5 mbytes drop")
                .await;
            machine.let_go().await;
            machine.until("half of it is there", LONG, "test -s /var/lib/extensions/.#addons/*.tar.gz").await;
            machine.lose_power().await;
            is_complete(&machine, 3).await
        }),
        Blow::new("between noting and installing", "noted", held("choose-versions"), async |machine| {
            let busy = "mkdir /var/lib/extensions/containerd-2.2.9-os1; \
                        mount -t tmpfs none /var/lib/extensions/containerd-2.2.9-os1";
            stops_while_installing(&machine, busy).await;
            machine.sh("test -e /run/windlass/reboot-due; test -e /var/lib/extensions/containerd-2.2.8-os1").await;
            machine.lose_power().await;
            is_complete(&machine, 3).await
        }),
        Blow::new("between two renames", "renames", held("choose-versions"), async |machine| {
            let old = "/var/lib/extensions/containerd-2.2.8-os1";
            stops_while_installing(&machine, &format!("mount --bind {old} {old}")).await;
            machine.sh("test -e /var/lib/extensions/containerd-2.2.9-os1").await;
            machine.lose_power().await;
            is_complete(&machine, 3).await
        }),
        Blow::new("while files are written", "files", held("open-gate"), async |machine| {
            machine.is_held_at("open-gate", LONG).await;
            // What a write leaves that was cut off before its rename.
            machine
                .sh("for file in /etc/kubernetes/.kubelet.env /etc/kubernetes/manifests/.etcd.yaml \
                     /etc/containerd/.config.toml /etc/windlass/.machine.json /var/lib/windlass/.addons-seen.json \
                     /var/lib/windlass/records/.bootstrap.json; do echo half > $file.tmp-4321-0; done; sync")
                .await;
            machine.lose_power().await;
            is_complete(&machine, 2).await
        }),
        Blow::new(
            "while the runtime's data is cleaned",
            "cleaning",
            |m| stuck_cleaning(plain(m)),
            async |machine| {
                machine.until("cleaning does not end", LONG, CLEANING).await;
                machine
                    .sh("test -e /var/lib/windlass/import-images; grep -x 2.2.8 /var/lib/windlass/runtime-data")
                    .await;
                machine.sh("rm /etc/systemd/system/drill-stuck.service; sync").await;
                machine.lose_power().await;
                is_complete(&machine, 3).await
            },
        ),
        Blow::new("while images are imported", "importing", plain, async |machine| {
            machine.until("images are imported", LONG, "pgrep --full 'images import'").await;
            machine.lose_power_at_once().await;
            is_complete(&machine, 3).await
        }),
        Blow::new("seven times, at any moment", "any-moment", plain, async |machine| {
            for number in 0..7 {
                machine.until("it runs", LONG, "true").await;
                moment(number).await;
                machine.lose_power_at_once().await;
            }
            let boots = complete(&machine).await;
            format!("complete after {boots} boots")
        }),
    ];
    strike(&ground, blows).await;
    ground.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_machine_that_loses_power_during_an_update_comes_up_with_the_new_system_and_its_runtime() {
    let ground = Ground::with_channel("beta").await;
    // Once the update is staged any boot is one into the new system, with or without the addons for it.
    let stages = ["choose-versions", "stage-addons", "install-addons", "open-gate", "reboot"];
    let what = ["update: choose", "update: stage", "update: install", "update: open", "update: reboot"];
    let names = ["up-choose", "up-stage", "up-install", "up-open", "up-reboot"];
    let blows = stages.into_iter().zip(what).zip(names).map(|((stage, what), name)| {
        let config = move |machine| quick(machine, &format!("--upgrade-os=true --held-at={stage}")).older();
        Blow::new(what, name, config, async move |machine| {
            machine.is_held_at(stage, LONG).await;
            let boots = if stage == "choose-versions" { 3 } else { 2 };
            machine.lose_power().await;
            comes_to_its_kubelet_on(&machine, "2", boots).await;
            has_clean_data(&machine).await;
            format!("OS version 2, {boots} boots, the old runtime's data gone")
        })
    });
    strike(&ground, blows.collect()).await;
    ground.leave().await;
}

/// The kubelet is on the machine and not in `/usr` yet. A flow that runs again finds nothing to install, whichever way the one
/// before it ended.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_flow_that_ends_between_installing_and_merging_leaves_a_machine_that_merges_all_the_same() {
    let ground = Ground::with_channel("beta").await;
    let blows = vec![
        Blow::new("power lost between installing and merging", "unmerged", stuck_merging, async |machine| {
            stops_while_merging(&machine).await;
            machine.lose_power().await;
            merges_all_the_same(&machine, 2).await
        }),
        Blow::new("killed between installing and merging", "unmerged-too", stuck_merging, async |machine| {
            stops_while_merging(&machine).await;
            machine.sh(&format!("umount --lazy {SYSEXT}")).await;
            machine.let_go().await;
            merges_all_the_same(&machine, 1).await
        }),
    ];
    strike(&ground, blows).await;
    ground.leave().await;
}

/// Nothing would start the flow again, and a boot that is due keeps runtime and kubelet from starting.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_flow_that_is_killed_when_its_gate_is_open_leaves_a_machine_that_boots_all_the_same() {
    let ground = Ground::with_channel("beta").await;
    let config = |machine| quick(machine, &format!("{STAY} --held-at=reboot")).older();
    let killed = Blow::new("killed when the gate is open", "killed", config, async |machine: Rc<Lone<'_>>| {
        machine.is_held_at("reboot", LONG).await;
        machine.sh("test -e /etc/kubernetes/kubelet.env; test -e /run/windlass/reboot-due").await;
        machine.let_go().await;
        machine.kubelet_runs(LONG).await;
        machine.kubelet_never_started_before_its_gate().await;
        has_clean_data(&machine).await;
        assert_eq!(machine.boots().await, 2, "boots");
        "booted all the same".to_owned()
    });
    strike(&ground, vec![killed]).await;
    ground.leave().await;
}

const SYSEXT: &str = "/usr/bin/systemd-sysext";
/// What takes its place, and does not come to an end.
const STUCK: &str = "#!/bin/bash\ntouch /run/drill-merging\nexec sleep infinity\n";

/// A machine that has to fetch its kubelet, with something that can be put in the way of merging it.
fn stuck_merging(machine: Config) -> Config {
    let machine = quick(machine, &format!("{STAY} --held-at=choose-versions")).without_kubelet();
    machine.file("/opt/drill/stuck", STUCK, 0o755)
}

/// Waits until the kubelet is in its place and is about to be merged.
async fn stops_while_merging(machine: &Lone<'_>) {
    machine.is_held_at("choose-versions", LONG).await;
    machine.mark_data().await;
    machine.sh(&format!("mount --bind /opt/drill/stuck {SYSEXT}")).await;
    machine.let_go().await;
    machine.until("it merges", LONG, "test -e /run/drill-merging").await;
    machine.sh("test -e /var/lib/extensions/kubelet-1.36.3-os1; test ! -e /usr/bin/kubelet").await;
    machine.has_no_gate().await;
}

async fn merges_all_the_same(machine: &Lone<'_>, boots: usize) -> String {
    comes_to_its_kubelet(machine, boots).await;
    machine.has_marked_data().await;
    format!("a kubelet, {boots} boots, the runtime's data as it was")
}

const CLEANING: &str = "windlass-node report | grep -F 'cannot remove /var/lib/containerd'";

/// On the boot in which the data is cleaned, something of it cannot be removed.
fn stuck_cleaning(machine: Config) -> Config {
    let unit = "[Unit]\nDescription=Data that cannot be removed\nBefore=containerd.service k8s-node-bootstrap.service\n\
                ConditionPathExists=/etc/kubernetes/kubelet.env\n\n[Service]\nType=oneshot\n\
                ExecStart=/usr/bin/mkdir -p /var/lib/containerd/zz\n\
                ExecStart=/usr/bin/mount -t tmpfs none /var/lib/containerd/zz\n\n[Install]\nWantedBy=multi-user.target\n";
    machine.unit("drill-stuck.service", unit)
}

/// Puts something in the way of a rename, and waits until the flow has met it.
async fn stops_while_installing(machine: &Lone<'_>, busy: &str) {
    machine.is_held_at("choose-versions", LONG).await;
    machine.sh(busy).await;
    machine.let_go().await;
    machine.record_says("cannot install the addons", LONG).await;
    machine.has_ended_with(75, LONG).await;
    machine.has_no_gate().await;
}

async fn is_complete(machine: &Lone<'_>, boots: usize) -> String {
    let begun = Instant::now();
    comes_to_its_kubelet(machine, boots).await;
    has_clean_data(machine).await;
    format!("complete {:.1} s after the power was back, {boots} boots", begun.elapsed().as_secs_f64())
}

async fn complete(machine: &Lone<'_>) -> usize {
    machine.kubelet_runs(LONG).await;
    let boots = machine.boots().await;
    comes_to_its_kubelet(machine, boots).await;
    has_clean_data(machine).await;
    boots
}

/// What the older runtime had left is gone, and the images are there again.
async fn has_clean_data(machine: &Lone<'_>) {
    assert_eq!(machine.sh("ls /var/lib/containerd/left 2>/dev/null || echo gone").await.trim(), "gone");
    machine.runs_with_data_of(crate::RUNTIME).await;
}

/// Moments in the seconds after a boot, by the drill's seed.
async fn moment(number: u32) {
    let seed = std::env::args().find_map(|word| word.strip_prefix("seed=")?.parse::<u64>().ok()).unwrap_or(1);
    let drawn = seed.wrapping_add(u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    // Nothing is to happen meanwhile.
    let _over = tokio::time::timeout(Duration::from_millis(drawn % 8_000), std::future::pending::<()>()).await;
}
