//! Real machines: systemd-nspawn on the bases that `windlass artifacts fetch` made, with the real Ignition.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

mod artifact;
mod fixture;
mod host;
mod metadata;

use std::time::Duration;

use fixture::{Fixture, User};
use windlass_cloud::machine::{Command, Ended, Lifecycle, Limits, On, Phase, slot};

const CONFIG: &str = r#"{
  "ignition": {"version": "3.4.0"},
  "storage": {"files": [
    {"path": "/etc/written-by-ignition", "mode": 384, "contents": {"source": "data:,hello%0A"}},
    {"path": "/var/lib/written-by-ignition", "mode": 420, "contents": {"source": "data:,var%0A"}}
  ]},
  "systemd": {"units": [{"name": "written.service", "enabled": true, "contents":
    "[Unit]\nDescription=Written by Ignition\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo started >> /var/lib/starts'\n[Install]\nWantedBy=multi-user.target\n"}]}
}"#;

async fn text(on: &On, words: &[&str]) -> String {
    let done = on.exec(Command::new(words.iter().copied())).await.unwrap();
    assert_eq!(done.code, 0, "{words:?}: {}", done.stderr);
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and fetched artifacts"]
async fn a_machine_boots_with_what_ignition_wrote_and_keeps_its_disk() {
    let limits = Limits { memory: Some(512 << 20), millicpus: Some(1500) };
    let fixture = Fixture::new("boots", User::Data(CONFIG), limits).await;
    let on = fixture.start().await;
    fixture.until_running(&on).await;
    assert_eq!(text(&on, &["cat", "/etc/written-by-ignition", "/var/lib/written-by-ignition"]).await, "hello\nvar");
    assert_eq!(text(&on, &["systemctl", "is-active", "written.service"]).await, "active");
    assert_eq!(text(&on, &["hostname"]).await, "boots");
    assert_eq!(text(&on, &["cat", "/etc/resolv.conf"]).await.lines().next(), Some("nameserver 10.99.0.1"));
    fixture.shows_its_memory_limit(&on, 512 << 20).await;
    assert!(!text(&on, &["cat", "/etc/machine-id"]).await.is_empty());
    let make_groups = "set -e; for name in cpu memory pids; do tree=/sys/fs/cgroup/$name; \
                       [ ! -d $tree ] || { mkdir $tree/own; rmdir $tree/own; }; done";
    text(&on, &["sh", "-c", make_groups]).await;
    let console = String::from_utf8_lossy(&on.console(1 << 20).unwrap()).into_owned();
    assert!(console.contains("Multi-User"), "{console}");

    let failing = on.exec(Command::new(["sh", "-c", "cat; echo oops >&2; exit 3"]).with_stdin("in")).await.unwrap();
    assert_eq!((failing.code, failing.stdout.as_slice(), failing.stderr.as_str()), (3, b"in".as_slice(), "oops\n"));
    let slow = Command { timeout: Duration::from_millis(300), ..Command::new(["sleep", "60"]) };
    assert!(on.exec(slow).await.is_err());

    // An update is staged at once and takes effect at the reboot.
    assert_eq!(text(&on, &["sh", "-c", ". /etc/os-release; echo $VERSION_ID"]).await, "1");
    fixture.updates_through_the_bus(&on).await;
    assert_eq!(text(&on, &["sh", "-c", ". /etc/os-release; echo $VERSION_ID"]).await, "1");
    assert_eq!(slot::staged(&fixture.description.directory).unwrap().unwrap().version, "2");
    text(&on, &["sh", "-c", "echo mine > /etc/mine; echo mine > /var/mine"]).await;
    on.exec(Command::new(["systemctl", "reboot"])).await.unwrap();
    fixture.until_booted(&on, 2).await;
    fixture.until_running(&on).await;
    assert_eq!(text(&on, &["sh", "-c", ". /etc/os-release; echo $VERSION_ID"]).await, "2");
    assert_eq!(text(&on, &["cat", "/etc/mine", "/var/mine"]).await, "mine\nmine");
    assert_eq!(text(&on, &["wc", "-l", "/var/lib/starts"]).await, "2 /var/lib/starts");

    // Found again by what it wrote down, and stopped.
    let Lifecycle::On(found) = Lifecycle::of(&fixture.description).unwrap() else { panic!("it runs") };
    let off = found.stop(Duration::from_secs(60)).await.unwrap();
    assert!(matches!(off.ended, Some(Ended::Exited { code: 0, .. })), "{:?}", off.ended);
    drop(on);
    fixture.remove(off).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and fetched artifacts"]
async fn a_power_cut_keeps_the_disk_and_leaves_nothing_running() {
    let fixture = Fixture::new("power", User::None, Limits::default()).await;
    let on = fixture.start().await;
    fixture.until_running(&on).await;
    let running_and_stopped = "setsid sleep 1000 >/dev/null 2>&1 & setsid sh -c 'kill -STOP $$' >/dev/null 2>&1 &";
    text(&on, &["sh", "-c", &format!("echo mine > /etc/mine; {running_and_stopped}")]).await;
    let off = on.power_cut().await.unwrap();
    assert!(matches!(off.ended, Some(Ended::Killed { signal: 9, .. })), "{:?}", off.ended);
    let on = off.start().await.unwrap();
    fixture.until_running(&on).await;
    assert_eq!(text(&on, &["cat", "/etc/mine"]).await, "mine");
    on.reboot().await.unwrap();
    fixture.until_booted(&on, 2).await;
    fixture.until_running(&on).await;
    assert_eq!(text(&on, &["cat", "/etc/mine"]).await, "mine");
    let off = on.stop(Duration::from_millis(1)).await.unwrap();
    assert!(matches!(off.ended, Some(Ended::Killed { .. })), "it had no time to stop: {:?}", off.ended);
    fixture.remove(off).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and fetched artifacts"]
async fn a_runner_that_is_killed_at_any_moment_can_be_started_again() {
    let fixture = Fixture::new("killed", User::Data(CONFIG), Limits::default()).await;
    let mut on = fixture.start().await;
    // From the first step of the root to a machine that runs; the moments drift with the load of the host.
    for moment in [0, 30, 90, 200, 500, 1200, 2500].map(Duration::from_millis) {
        fixture.pass(moment).await;
        fixture.kill_runner(&on);
        let off = on.ended().await.unwrap();
        assert!(matches!(off.ended, Some(Ended::Lost)), "{:?} after {moment:?}", off.ended);
        on = off.start().await.unwrap();
    }
    fixture.until_running(&on).await;
    assert_eq!(text(&on, &["cat", "/etc/written-by-ignition"]).await, "hello");
    let off = on.power_cut().await.unwrap();
    fixture.remove(off).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and fetched artifacts"]
async fn ignition_waits_says_why_and_starts_over_when_it_is_cut_off() {
    let fixture = Fixture::new("waits", User::Later(CONFIG), Limits::default()).await;
    let on = fixture.start().await;
    fixture.until_phase(&on, Phase::Igniting).await;
    let reason = fixture.until_ignition_says(&on, "Unavailable").await;
    assert_eq!(reason, "GET http://169.254.169.254/1.0/user-data: Service Unavailable");
    let off = on.power_cut().await.unwrap();
    fixture.metadata.serve_user_data();
    let on = off.start().await.unwrap();
    fixture.until_running(&on).await;
    assert_eq!(text(&on, &["cat", "/etc/written-by-ignition"]).await, "hello");
    fixture.metadata.refuse_user_data();
    let off = on.stop(Duration::from_secs(60)).await.unwrap();
    let on = off.start().await.unwrap();
    fixture.until_running(&on).await;
    let off = on.stop(Duration::from_secs(60)).await.unwrap();
    fixture.remove(off).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and fetched artifacts"]
async fn a_config_that_ignition_refuses_ends_the_machine_with_the_reason() {
    let fixture = Fixture::new("refused", User::Data("not a config"), Limits::default()).await;
    let off = fixture.start().await.ended().await.unwrap();
    let Some(Ended::Failed { reason, .. }) = &off.ended else { panic!("{:?}", off.ended) };
    assert!(reason.contains("Ignition failed"), "{reason}");
    fixture.remove(off).await;
}
