//! A disk that is full while addons are staged: no kubelet, told, and with room the machine goes on by itself.

use windlass_e2e::ground::Ground;

use crate::{Blow, LONG, STAY, comes_to_its_kubelet, quick, strike};

/// A disk of its own for what the machine keeps; the runtime's data stays where it is, because of its size.
const SMALL: &str = "mkdir /run/disk; mount -t tmpfs -o size=1g none /run/disk; \
                     cd /var/lib; for each in *; do test $each = containerd || cp -a $each /run/disk/; done; \
                     mkdir /run/disk/containerd; mount --bind /var/lib/containerd /run/disk/containerd; \
                     mount --rbind /run/disk /var/lib";
const FILL: &str = "fallocate --length $(($(stat -f -c '%a * %S' /var/lib) - @LEFT@)) /var/lib/filler";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_full_disk_keeps_the_gate_closed_until_there_is_room() {
    let ground = Ground::with_channel("stable").await;
    let blows = vec![
        full("a disk with no room", "full", 0),
        full("a disk with room for half an archive", "half", 20 << 20),
        full("a disk with room for the archive alone", "archive", 50 << 20),
    ];
    strike(&ground, blows).await;
    ground.leave().await;
}

fn full<'a>(what: &'static str, name: &'static str, left: u64) -> Blow<'a> {
    let config = |machine| quick(machine, &format!("{STAY} --held-at=choose-versions")).without_kubelet();
    Blow::new(what, name, config, async move |machine| {
        machine.is_held_at("choose-versions", LONG).await;
        machine.sh(SMALL).await;
        machine.sh(&FILL.replace("@LEFT@", &left.to_string())).await;
        machine.let_go().await;
        machine.record_says("No space left on device", LONG).await;
        machine.has_ended_with(75, LONG).await;
        machine.has_no_gate().await;
        assert_eq!(machine.ends_with(78).await, 0, "it is not for good");
        machine.sh("rm /var/lib/filler").await;
        comes_to_its_kubelet(&machine, 1).await;
        "no kubelet; with room, a kubelet".to_owned()
    })
}
