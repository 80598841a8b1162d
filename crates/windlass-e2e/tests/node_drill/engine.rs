//! No way to another operating system, though one is wanted: the machine keeps its own, and its kubelet starts.

use windlass_e2e::ground::{Config, Ground};

use crate::{Blow, comes_to_its_kubelet, quick, strike};

const UPDATE: &str = "--upgrade-os=true";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_machine_that_cannot_be_updated_keeps_its_system() {
    let ground = Ground::with_channel("beta").await;
    ground.break_channel().await;
    let without = |units: &'static [&str]| move |machine: Config| quick(machine, UPDATE).masked(units);
    let bus = ["dbus.service", "dbus.socket"].as_slice();
    let blows = vec![
        keeps_its_system("no D-Bus", "no-bus", without(bus), 1, "cannot reach the system bus"),
        // The boot that another runtime needs is asked for without a bus too.
        keeps_its_system("no D-Bus, another runtime", "no-bus-older", |m| without(bus)(m).older(), 2, "cannot reach"),
        keeps_its_system("no update engine", "no-engine", without(&["update-engine.service"]), 1, "cannot find"),
        keeps_its_system("a damaged update", "damaged", without(&[]), 1, "reports that the update failed"),
    ];
    strike(&ground, blows).await;
    ground.leave().await;
}

fn keeps_its_system<'a>(
    what: &'static str,
    name: &'static str,
    config: impl FnOnce(Config) -> Config + 'a,
    boots: usize,
    word: &'static str,
) -> Blow<'a> {
    Blow::new(what, name, config, async move |machine| {
        comes_to_its_kubelet(&machine, boots).await;
        let explained = machine.sh("windlass-node bootstrap --explain").await;
        let asked = explained.lines().find(|line| line.contains("the next operating system"));
        assert!(asked.is_some_and(|line| line.contains(word)), "{word}: {explained}");
        assert!(explained.contains("chose   operating system: 1"), "{explained}");
        format!("OS version 1 stays, {boots} boots")
    })
}
