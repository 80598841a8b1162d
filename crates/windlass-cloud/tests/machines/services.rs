//! A balancer end to end, and objects as machines get them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use windlass_cloud_api::{BalancerSpec, Check, ForwardSpec, ObjectKey, TargetState};

use crate::cloud::{CONFIG, Cloud, Cluster, LONG, fetch, label, until};
use crate::processes;

/// Who answers a new connection.
async fn heard(port: u16) -> Result<String, String> {
    let answer = async {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let mut said = String::new();
        stream.read_to_string(&mut said).await?;
        Ok::<String, std::io::Error>(said.trim().to_owned())
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), answer).await.map_err(|_| "no answer".to_owned())?;
    answer.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_dead_service_gets_no_connection_and_objects_open_only_to_whom_they_should() {
    let cloud = Cloud::start().await;
    let cluster = cloud.cluster("services", "10.90.0.0/24").await;
    cluster.machine("m0", Some(CONFIG)).await;
    cluster.machine("m1", Some(CONFIG)).await;
    cluster.running("m0").await;
    cluster.running("m1").await;
    balanced(&cluster).await;
    objects(&cluster).await;
    cluster.destroy().await;
}

async fn balanced(cluster: &Cluster<'_>) {
    let (client, name) = (&cluster.cloud.client, &cluster.name);
    let targets = vec![label("m0"), label("m1")];
    let spec = BalancerSpec { address: None, ports: vec![7000], targets, check: Check::Tcp };
    let balancer = client.put_balancer(name, &label("front"), &spec).await.unwrap();
    let door = ForwardSpec { port: None, address: balancer.address, to: 7000 };
    let port = client.put_forward(name, &label("front"), &door).await.unwrap().port;
    until("both machines answer", LONG, async || match (heard(port).await?, heard(port).await?) {
        (one, other) if one != other && !one.is_empty() && !other.is_empty() => Ok(()),
        pair => Err(format!("{pair:?}")),
    })
    .await;

    for one in processes::called(name.as_str(), "m0", "socat") {
        kill(Pid::from_raw(one.pid), Signal::SIGKILL).unwrap();
    }
    let died = Instant::now();
    let mut last_wrong = Duration::ZERO;
    let mut right = 0;
    while died.elapsed() < Duration::from_secs(2) {
        let asked = died.elapsed();
        match heard(port).await {
            Ok(said) if said == "m1" => right += 1,
            _ => last_wrong = asked,
        }
    }
    eprintln!("after a service died, the last connection that did not reach another came {last_wrong:?} later");
    assert!(last_wrong < Duration::from_millis(500), "{last_wrong:?}");
    assert!(right > 20, "{right} connections reached the other machine");
    let seen = client.balancer(name, &label("front")).await.unwrap().targets;
    let state = |machine: &str| seen.iter().find(|target| target.machine == label(machine)).map(|target| target.state);
    assert_eq!((state("m0"), state("m1")), (Some(TargetState::Down), Some(TargetState::Up)), "{seen:?}");

    cluster.sh("m0", "systemctl restart says").await;
    until("it gets connections again", LONG, async || match heard(port).await?.as_str() {
        "m0" => Ok(()),
        said => Err(said.to_owned()),
    })
    .await;
}

async fn objects(cluster: &Cluster<'_>) {
    let (client, name) = (&cluster.cloud.client, &cluster.name);
    let (private, public) = (ObjectKey::parse("a/private").unwrap(), ObjectKey::parse("public/a").unwrap());
    client.put_object(name, &private, b"private bytes".to_vec()).await.unwrap();
    client.put_object(name, &public, b"public bytes".to_vec()).await.unwrap();
    let url = client.object_url(name, &private, 600).await.unwrap().url;
    let short = client.object_url(name, &private, 1).await.unwrap().url;
    let get = async |url: &str| {
        let (server, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        cluster.sh("m0", &fetch(server, &format!("/{path}"))).await
    };
    let answer = get(&url).await;
    assert!(answer.contains("200 OK") && answer.ends_with("private bytes"), "{answer}");
    until("the short URL opens nothing any more", LONG, async || match get(&short).await {
        answer if answer.contains("403 Forbidden") => Ok(()),
        answer => Err(answer),
    })
    .await;
    let (unsigned, _) = url.split_once('?').unwrap();
    assert!(get(unsigned).await.contains("403 Forbidden"));
    let answer = get(&unsigned.replace("a/private", "public/a")).await;
    assert!(answer.contains("200 OK") && answer.ends_with("public bytes"), "{answer}");

    let proof = client.delete_object(name, &private).await.unwrap();
    assert!(proof.digest.is_some() && proof.key_gone && proof.bytes_gone, "{proof:?}");
    assert!(get(&url).await.contains("404 Not Found"));
    assert_eq!(client.objects(name).await.unwrap().len(), 1);
}
