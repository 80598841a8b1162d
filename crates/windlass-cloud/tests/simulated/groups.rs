//! A thousand machines.

use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use windlass_cloud::process::{Identity, Signal};
use windlass_cloud_api::GroupSpec;

use crate::support::{Daemon, label, machine, soon};

#[ignore = "starts a thousand processes"]
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_of_a_thousand_that_die_are_back_within_ten_seconds() {
    let seed = 20_261_116;
    let daemon = Daemon::start().await;
    let cluster = daemon.cluster("many").await;
    let group = label("crowd");
    let spec = GroupSpec { count: 1000, template: machine() };
    let started = Instant::now();
    daemon.client.put_group(&cluster, &group, &spec).await.unwrap();
    let full = async || daemon.client.group(&cluster, &group).await.unwrap().current == 1000;
    soon("a thousand machines run", full).await;
    println!("1,000 machines ran after {:.1} s", started.elapsed().as_secs_f64());

    let mut runs = daemon.stubs();
    assert_eq!(runs.len(), 1000);
    runs.shuffle(&mut rand::rngs::StdRng::seed_from_u64(seed));
    let victims: Vec<Identity> =
        runs[..100].iter().map(|run| Identity::read(&run.join("runner.json")).unwrap().unwrap()).collect();
    let killed = Instant::now();
    for victim in &victims {
        victim.open().unwrap().unwrap().signal(Signal::KILL).unwrap();
    }
    let mut most = 0;
    let mut glance = tokio::time::interval(Duration::from_millis(50));
    loop {
        most = most.max(daemon.stubs().len());
        let alive = victims.iter().any(|victim| victim.is_alive().unwrap());
        if !alive && daemon.client.group(&cluster, &group).await.unwrap().current == 1000 {
            break;
        }
        assert!(killed.elapsed() < Duration::from_secs(60), "the group does not recover");
        glance.tick().await;
    }
    let took = killed.elapsed();
    println!("100 of them were replaced after {:.1} s (seed {seed}), at most {most} ran", took.as_secs_f64());
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(most <= 1100, "{most} machines ran at once");
    assert_eq!(daemon.stubs().len(), 1000);
    let receipt = daemon.client.destroy(&cluster).await.unwrap();
    assert!(receipt.is_clean(), "{:?}", receipt.left);
    assert_eq!(daemon.stubs(), Vec::<std::path::PathBuf>::new());
}

#[ignore = "starts processes"]
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_template_is_rolled_out_and_a_smaller_count_shrinks_the_group() {
    let daemon = Daemon::start().await;
    let (cluster, group) = (daemon.cluster("roll").await, label("pool"));
    let of = async || daemon.client.group(&cluster, &group).await.unwrap();
    daemon.client.put_group(&cluster, &group, &GroupSpec { count: 5, template: machine() }).await.unwrap();
    soon("five machines run", async || of().await.current == 5).await;
    let before = of().await.members;
    let template = windlass_cloud_api::MachineSpec { role: "worker".into(), ..machine() };
    daemon.client.put_group(&cluster, &group, &GroupSpec { count: 5, template: template.clone() }).await.unwrap();
    let rolled = async || {
        let now = of().await;
        assert!(now.members.len() <= 6, "{:?}", now.members);
        now.current == 5 && now.members.iter().all(|member| !before.contains(member))
    };
    soon("all five are new", rolled).await;
    daemon.client.put_group(&cluster, &group, &GroupSpec { count: 2, template }).await.unwrap();
    soon("two are left", async || of().await.members.len() == 2).await;
    daemon.client.delete_group(&cluster, &group).await.unwrap();
    soon("the group is gone", async || daemon.client.group(&cluster, &group).await.is_err()).await;
    assert!(daemon.client.machines(&cluster).await.unwrap().is_empty());
    assert!(daemon.client.destroy(&cluster).await.unwrap().is_clean());
}
