//! The real fetch, killed three times while it builds and three times while it makes the machine base; then it completes,
//! nothing in the cache is bad, and nothing else is left. Then the other Kubernetes version is fetched too, which no test
//! has the time for, and every program of both says which version it is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_spec::KubeVersion;
use windlass_steps::host::{CommandSpec, Commands as _, Host, cmd};

use super::{Chance, End, Ground, Moment, kill_at};
use crate::report::{Failure, say};
use crate::session::{Session, seconds};

/// The test that asks every program for its version.
const VERSIONS: &str = "versions::every_program_is_of_the_version_that_is_pinned";
/// How many kills in each half.
const KILLS: usize = 3;
/// Within this time of its start a fetch is building, whatever the machine.
const BUILDING: Duration = Duration::from_secs(40);
/// What the base is made of, in the order of the fetch, and how long each surely takes.
const MAKING: [(&str, Duration); 4] = [
    ("root 12", Duration::from_secs(40)),
    ("base-1 ", Duration::from_secs(1)),
    ("base-2 ", Duration::from_secs(1)),
    ("preload ", Duration::from_secs(3)),
];
/// After such a line a part has begun; JSON, because programs read it.
const STARTED: &str = r#""kind":"started""#;
const ARTIFACT: &str = r#""artifact":""#;

pub(super) fn run(session: &mut Session, ground: &Ground, chance: &mut Chance) -> Result<(), Failure> {
    session.stage("build", |s| s.run(s.cargo(&["build", "-p", "windlass", "-p", "windlass-node"])))?;
    let windlass = session.built().join("debug/windlass");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new("cannot start a drill", "look at the cause").because(error))?;
    for (number, moment) in moments(chance).iter().enumerate() {
        session.stage(&format!("kill {}", number + 1), |_| runtime.block_on(strike(&windlass, ground, moment)))?;
    }
    for version in KubeVersion::ALL {
        let what = format!("the run that completes, for Kubernetes {version}");
        session.stage(&what, |_| runtime.block_on(complete(&windlass, ground, version)))?;
    }
    KubeVersion::ALL.into_iter().try_for_each(|version| say_versions(session, ground, version))
}

/// Every program that was built says itself that it is of the pinned version; the test is that of `cargo xtask test`.
fn say_versions(session: &mut Session, ground: &Ground, version: KubeVersion) -> Result<(), Failure> {
    let (cache, before) = (ground.cache(), session.tally.passed);
    // A word that is no option names a test to the harness; the test takes its version from the one that names none.
    let asked = format!("kubernetes={version}");
    let arguments = ["-p", "windlass", "--test", "artifacts", "--", "--ignored", "--exact", VERSIONS, &asked];
    let env = [("WINDLASS_TEST_CACHE", cache.as_os_str())];
    session.stage(&format!("the programs of Kubernetes {version}"), |s| s.run_tests(&arguments, &env))?;
    match session.tally.passed > before {
        true => Ok(()),
        false => Err(Failure::new("no test ran", "see what the test is called now")),
    }
}

/// When the blows fall, in an order in which each is possible: what was made stays made.
fn moments(chance: &mut Chance) -> Vec<Moment> {
    let mut moments = Vec::new();
    for _ in 0..KILLS {
        moments.push(Moment { after: STARTED.to_owned(), delay: chance.below(BUILDING) });
    }
    // The root takes longest and is killed in any case.
    let mut parts = vec![0];
    parts.extend((1..KILLS).map(|_| chance.below(Duration::from_millis(MAKING.len() as u64)).as_millis() as usize));
    parts.sort_unstable();
    for (part, limit) in parts.into_iter().map(|part| MAKING[part]) {
        moments.push(Moment { after: format!("{ARTIFACT}{part}"), delay: chance.below(limit) });
    }
    moments
}

async fn strike(windlass: &Path, ground: &Ground, moment: &Moment) -> Result<(), Failure> {
    say(format_args!("    kill -9, {} after {:?}", seconds(moment.delay), moment.after));
    let started = Instant::now();
    match kill_at(fetch(windlass, ground), moment).await {
        End::Killed => say(format_args!("    killed after {}", seconds(started.elapsed()))),
        End::Early(ended) => {
            let missed = Failure::new("the run ended before its moment came", "look at the cause, or repeat the drill");
            return Err(match ended {
                Err(error) => missed.because(error),
                Ok(_) => missed,
            });
        }
    }
    let quiet = Instant::now();
    ground.is_quiet().await?;
    say(format_args!("    no process and no mount {} later", seconds(quiet.elapsed())));
    verify(windlass, ground).await
}

async fn complete(windlass: &Path, ground: &Ground, version: KubeVersion) -> Result<(), Failure> {
    let failed = || Failure::new("the fetch does not complete after the kills", "look at the cause");
    let command = fetch(windlass, ground).args(["--kubernetes-version", version.as_str()]);
    let started = Instant::now();
    say(format_args!("    {command}"));
    Host.run(command).await.map_err(|error| failed().because(error))?;
    say(format_args!("    complete in {}", seconds(started.elapsed())));
    verify(windlass, ground).await?;
    ground.is_quiet().await?;
    // Downloads that can be taken up again are meant to stay.
    ground.is_empty_but_for(&ground.cache().join("tmp"), &["partial"])?;
    ground.is_empty_but_for(&ground.temp(), &[])
}

/// Every entry, hashed in full.
async fn verify(windlass: &Path, ground: &Ground) -> Result<(), Failure> {
    let list = artifacts(windlass, ground, &["list", "--verify"]);
    let failed = || Failure::new("the cache has a bad entry", "look at the cause; the cache is still there");
    let output = Host.run(list).await.map_err(|error| failed().because(error))?;
    let text = output.text().map_err(|error| failed().because(error))?;
    let entries: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|error| failed().because(error))?;
    say(format_args!("    {} entries, all good", entries.len()));
    Ok(())
}

fn fetch(windlass: &Path, ground: &Ground) -> CommandSpec {
    artifacts(windlass, ground, &["fetch", "--source", "source"])
}

fn artifacts(windlass: &Path, ground: &Ground, words: &[&str]) -> CommandSpec {
    let cache: PathBuf = ground.cache();
    ground.command(cmd(windlass).arg("artifacts").args(words).args(["-o", "json", "--cache"]).arg(cache))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drill_kills_three_times_while_building_and_three_while_making() {
        for seed in 0..200 {
            let moments = moments(&mut Chance(seed));
            let (building, making) = moments.split_at(KILLS);
            assert!(building.iter().all(|moment| moment.after == STARTED && moment.delay < BUILDING));
            let order: Vec<usize> = making
                .iter()
                .map(|moment| MAKING.iter().position(|(part, _)| moment.after.ends_with(part)).unwrap())
                .collect();
            assert_eq!((order.len(), order[0], order.is_sorted()), (KILLS, 0, true));
        }
    }
}
