//! The page in a real browser: what arrives in the document, and what it looks like.

use std::path::Path;
use std::time::Duration;

use windlass_steps::host::{CommandSpec, cmd, run};

use crate::fake::FakeApi;
use crate::http::{Dashboard, limits};

const LOOKS: [(&str, &[&str]); 3] = [
    ("light", &["--window-size=1280,2150", "--blink-settings=preferredColorScheme=1"]),
    ("dark", &["--window-size=1280,2150", "--blink-settings=preferredColorScheme=0"]),
    ("narrow", &["--window-size=500,1900", "--blink-settings=preferredColorScheme=1"]),
];

fn chromium(profile: &Path) -> CommandSpec {
    let calm = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ];
    let profile = format!("--user-data-dir={}", profile.display());
    cmd("chromium").args(calm).arg(profile).timeout(Duration::from_secs(60))
}

#[tokio::test]
#[ignore = "needs chromium"]
async fn a_browser_shows_the_cluster_and_runs_nothing() {
    let api = FakeApi::start().await;
    let dashboard = Dashboard::start(api.address, limits()).await;
    let url = format!("http://{}/", dashboard.address);
    let dir = tempfile::tempdir().unwrap();
    let dom = run(chromium(&dir.path().join("dom")).arg("--dump-dom").arg(&url)).await.unwrap();
    let dom = String::from_utf8(dom.stdout).unwrap();
    for name in ["master-1", "master-2", "master-3", "worker-1", "worker-2"] {
        assert!(dom.contains(&format!("<th scope=\"row\">{name}</th>")), "{name} is missing in {dom}");
    }
    assert!(!dom.contains("<img"), "a pod's name became an element");
    for (name, look) in LOOKS {
        // Left in target/tmp, for whoever wants to see it.
        let shot = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dashboard-{name}.png"));
        let picture = chromium(&dir.path().join(name)).args(look).arg(format!("--screenshot={}", shot.display()));
        run(picture.arg(&url)).await.unwrap();
        let png = std::fs::read(&shot).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 20_000, "{name}: {} bytes", png.len());
    }
}
