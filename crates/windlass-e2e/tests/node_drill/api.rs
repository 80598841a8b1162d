//! An API that does not answer, or that says no: the machine takes the installer's word, after 20 s in the first case and
//! at once in the second.

use std::ops::Range;

use windlass_e2e::ground::{Config, Ground, OnApi};

use crate::{Blow, STAY, comes_to_its_kubelet, strike};

/// Two questions, each of which waits 20 s for whoever is not there; a busy host adds to it.
const PATIENT: Range<f64> = 38.0..75.0;
const AT_ONCE: Range<f64> = 0.0..15.0;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root, systemd-nspawn and the fetched artifacts"]
async fn a_machine_without_an_api_takes_the_installers_word() {
    let ground = Ground::with_channel("stable").await;
    let (certificate, key) =
        (ground.of_stranger("assets/pki/apiserver.crt"), ground.of_stranger("assets/pki/apiserver.key"));
    let at = |who| move |machine: Config| machine.arguments(STAY).on_api(who);
    let blows = vec![
        falls_back("the API is down", "down", |machine| machine.arguments(STAY).with_token(), PATIENT, "no answer"),
        falls_back("the API's machine refuses", "refused", at(OnApi::Nobody), PATIENT, "refused"),
        falls_back("the API says 404", "absent", at(OnApi::Says(404)), AT_ONCE, "404"),
        falls_back("the API says 403", "forbidden", at(OnApi::Says(403)), AT_ONCE, "403"),
        falls_back("the API says 401 and nothing else", "unknown", at(OnApi::Says(401)), PATIENT, "401"),
        falls_back(
            "a stranger is where the API should be",
            "impostor",
            at(OnApi::Impostor(&certificate, &key)),
            AT_ONCE,
            "certificate",
        ),
    ];
    strike(&ground, blows).await;
    ground.leave().await;
}

fn falls_back<'a>(
    what: &'static str,
    name: &'static str,
    config: impl FnOnce(Config) -> Config + 'a,
    choosing: Range<f64>,
    word: &'static str,
) -> Blow<'a> {
    Blow::new(what, name, config, async move |machine| {
        comes_to_its_kubelet(&machine, 1).await;
        let took = machine.seconds_of("choose-versions").await;
        assert!(choosing.contains(&took), "{what}: it chose for {took} s");
        let explained = machine.sh("windlass-node bootstrap --explain").await;
        let chosen = "chose   Kubernetes: v1.36.3, the installer says so and the API gave no answer";
        let asked = explained.lines().find(|line| line.contains("the cluster's version: the API"));
        assert!(asked.is_some_and(|line| line.contains(word)), "{word}: {explained}");
        assert!(explained.contains(chosen), "{explained}");
        format!("the installer's word, chosen in {took:.1} s")
    })
}
