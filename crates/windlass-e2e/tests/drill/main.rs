//! What a launch survives, on real machines, at a length that no build has time for: `cargo xtask drill launch`.

#![expect(clippy::print_stderr, reason = "what was measured is read in the drill's output")]

mod additions;
mod alone;
mod faults;
mod kills;
mod partition;
mod power;
mod push;
mod rolling;
mod unplanned;
mod versions;
mod worker;

use windlass_e2e::{Installation, Shape};

/// The shape of every cluster here: what `windlass up` makes.
const SHAPE: Shape = Shape { masters: 3, workers: 2 };

async fn prepared(name: &str) -> Installation {
    let cluster = Installation::new(name, SHAPE).await;
    cluster.windlass(&["prepare"]).await.ended(0);
    cluster
}

/// What `seed=N` among the words after the tests' names says.
fn seed() -> u64 {
    std::env::args().find_map(|word| word.strip_prefix("seed=")?.parse().ok()).unwrap_or(1)
}
