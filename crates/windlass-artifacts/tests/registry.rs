//! A registry that leads from https to plain http, where anyone on the way could change what comes.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_artifacts::download::Limits;
use windlass_artifacts::release::{Arch, pull_image};
use windlass_steps::criterion::{Criterion, Observation, Reason};
use windlass_steps::host::{Mode, cmd, make_dir, run, run_blocking, write_file};
use windlass_steps::wait::Wait;

/// What the registry that is asked is called; it is there only for a pull that the test below started.
const HERE: &str = "registry-here";
/// A loopback address that windlass does not know as one, so that it speaks https.
const HOST: &str = "127.0.0.2";

/// Trusts the certificate that the test below names in its environment.
#[tokio::test]
#[ignore = "the pull that the test below starts"]
async fn stand_in_pull() {
    let Ok(address) = fs::read_to_string(HERE) else { return };
    let limits = Limits { size: 1 << 20, stall: Duration::from_secs(10) };
    let room = tempfile::tempdir().unwrap();
    let image = format!("{address}/app:1.0");
    let error = pull_image(&image, None, Arch::Amd64, room.path(), limits).await.unwrap_err();
    let because = windlass_steps::report::chain(&error).join(": ");
    assert!(error.is_trust() && because.contains("from https to http://"), "{because}");
}

/// A certificate for [`HOST`] and its key, in this directory.
fn certificate(dir: &Path) {
    let make = cmd("openssl").args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    let make = make.args(["-subj", "/CN=registry", "-addext", &format!("subjectAltName=IP:{HOST}"), "-days", "1"]);
    let make = make.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "tls.key", "-out", "tls.crt"]);
    run_blocking(make.current_dir(dir)).unwrap();
}

/// A server of plain http that counts who comes.
fn open_server(asked: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            asked.fetch_add(1, Ordering::SeqCst);
            // An answer to nobody in particular; whether it arrives does not matter.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
        }
    });
    base
}

#[tokio::test]
#[ignore = "needs openssl"]
async fn a_registry_that_leads_from_https_to_plain_http_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let elsewhere = open_server(asked.clone());
    certificate(dir.path());
    let manifests = dir.path().join("v2/app/manifests");
    make_dir(&manifests, Mode::PUBLIC_DIR).unwrap();
    // `s_server -HTTP` sends files as they are, the answer's head included.
    let redirect = format!("HTTP/1.1 302 X\r\nLocation: {elsewhere}/manifest\r\nContent-Length: 0\r\n\r\n");
    write_file(manifests.join("1.0"), redirect, Mode::PUBLIC).unwrap();
    let address = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap().to_string();
    write_file(dir.path().join(HERE), &address, Mode::PUBLIC).unwrap();
    let serve = cmd("openssl").args(["s_server", "-quiet", "-HTTP", "-key", "tls.key", "-cert", "tls.crt", "-accept"]);
    let serving = run(serve.arg(&address).current_dir(dir.path()));
    let pulling = async {
        let look = || async {
            Ok(match tokio::net::TcpStream::connect(&address).await {
                Ok(_) => Observation::Holds,
                Err(error) => Observation::NotYet(Reason::new(error.to_string())),
            })
        };
        let criterion = Criterion::new("the registry answers", look);
        let wait = Wait::stalled_for(Duration::from_secs(20)).poll_every(Duration::from_millis(50));
        wait.until(&[criterion], |_| Ok::<(), std::convert::Infallible>(())).await.unwrap();
        let arguments = ["--exact", "stand_in_pull", "--ignored", "--quiet"];
        let pull = cmd("/proc/self/exe").args(arguments).current_dir(dir.path());
        run(pull.env("SSL_CERT_FILE", dir.path().join("tls.crt"))).await.unwrap();
    };
    tokio::select! {
        () = pulling => {}
        ended = serving => panic!("the registry ended: {ended:?}"),
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the redirect was followed");
}
