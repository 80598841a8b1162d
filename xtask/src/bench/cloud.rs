//! The local cloud's balancer beside Debian's HAProxy: the same targets, the same client, two threads and health checks
//! for each, in turns within one run, so that a busy machine slows both.

mod load;
mod proxy;

use std::time::Duration;

use load::{Backends, Sample};
use proxy::{Kind, Proxy};

use super::Finding;
use crate::report::Failure;

pub use proxy::serve;

/// Many short turns: what else the machine does then falls on both alike.
const ROUNDS: usize = 10;
const TURN: Duration = Duration::from_millis(500);
const BULK_CONNECTIONS: usize = 4;
const SHORT_WORKERS: usize = 16;
const KEPT_CONNECTIONS: usize = 32;
const LEAST_THROUGHPUT: f64 = 0.7;
const MOST_LATENCY: f64 = 1.5;

/// Everything that was measured of one balancer.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    bulk: Sample,
    short: Sample,
    /// In microseconds.
    latencies: Vec<u32>,
}

/// Measures both, and judges ours by theirs.
pub fn measure() -> Result<Vec<Finding>, Failure> {
    let trouble = || Failure::new("cannot compare the balancers", "look at the cause");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let compared = runtime.map_err(|error| trouble().because(error))?.block_on(compare());
    let (ours, theirs) = compared.map_err(|error| trouble().because(error))?;
    Ok(judge(ours, theirs))
}

async fn compare() -> Result<(Figures, Figures), Box<dyn std::error::Error + Send + Sync>> {
    let backends = Backends::start(2).await?;
    let ours = Proxy::start(Kind::Ours, &backends.addresses).await?;
    let theirs = Proxy::start(Kind::HaProxy, &backends.addresses).await?;
    let (mut of_ours, mut of_theirs) = (Figures::default(), Figures::default());
    for round in 0..ROUNDS {
        let mut turns = [(&ours, &mut of_ours), (&theirs, &mut of_theirs)];
        if round % 2 == 1 {
            turns.reverse();
        }
        for (proxy, figures) in &mut turns {
            figures.bulk += load::bulk(proxy.address, BULK_CONNECTIONS, TURN).await?;
        }
        for (proxy, figures) in &mut turns {
            figures.short += load::short(proxy.address, SHORT_WORKERS, TURN).await?;
        }
        for (proxy, figures) in &mut turns {
            figures.latencies.extend(load::kept(proxy.address, KEPT_CONNECTIONS, TURN).await?);
        }
    }
    Ok((of_ours, of_theirs))
}

fn judge(mut ours: Figures, mut theirs: Figures) -> Vec<Finding> {
    let mib = |sample: &Sample| sample.rate() / f64::from(1 << 20);
    let (bulk, short) = (ours.bulk.rate() / theirs.bulk.rate(), ours.short.rate() / theirs.short.rate());
    let (our_p99, their_p99) = (percentile(&mut ours.latencies, 99), percentile(&mut theirs.latencies, 99));
    let p99 = f64::from(our_p99) / f64::from(their_p99);
    let at_least = format!("ratio at least {LEAST_THROUGHPUT}");
    vec![
        Finding {
            measured: format!(
                "bulk {:.0} MiB/s, HAProxy {:.0} MiB/s, ratio {bulk:.2}",
                mib(&ours.bulk),
                mib(&theirs.bulk)
            ),
            limit: at_least.clone(),
            kept: bulk >= LEAST_THROUGHPUT,
        },
        Finding {
            measured: format!(
                "short connections {:.0}/s, HAProxy {:.0}/s, ratio {short:.2}",
                ours.short.rate(),
                theirs.short.rate()
            ),
            limit: at_least,
            kept: short >= LEAST_THROUGHPUT,
        },
        Finding {
            measured: format!(
                "p99 of {} requests on {KEPT_CONNECTIONS} kept connections {our_p99} us, HAProxy {their_p99} us, \
                 ratio {p99:.2}",
                ours.latencies.len()
            ),
            limit: format!("ratio at most {MOST_LATENCY}"),
            kept: p99 <= MOST_LATENCY,
        },
    ]
}

/// The value that so many of a hundred do not exceed; none of none is the worst there is.
fn percentile(values: &mut [u32], percent: usize) -> u32 {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100);
    rank.checked_sub(1).and_then(|at| values.get(at)).copied().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let cases: [(&[u32], usize, u32); 5] =
            [(&[7], 99, 7), (&[2, 1], 50, 1), (&[1, 2, 3, 4], 75, 3), (&[4, 3, 2, 1], 99, 4), (&[], 99, u32::MAX)];
        for (values, percent, want) in cases {
            assert_eq!(percentile(&mut values.to_vec(), percent), want, "{values:?}");
        }
    }

    #[test]
    fn ours_may_be_slower_by_the_promised_ratio_and_no_more() {
        let figures = |bulk, short, latency| Figures {
            bulk: Sample { count: bulk, took: Duration::from_secs(1) },
            short: Sample { count: short, took: Duration::from_secs(1) },
            latencies: vec![latency],
        };
        let cases = [
            ((70, 70, 150), [true, true, true]),
            ((69, 70, 150), [false, true, true]),
            ((70, 69, 150), [true, false, true]),
            ((70, 70, 151), [true, true, false]),
        ];
        for ((bulk, short, latency), want) in cases {
            let findings = judge(figures(bulk, short, latency), figures(100, 100, 100));
            assert_eq!(findings.iter().map(|finding| finding.kept).collect::<Vec<_>>(), want);
        }
        let nothing = judge(Figures::default(), figures(100, 100, 100));
        assert!(nothing.iter().all(|finding| !finding.kept), "{nothing:?}");
    }
}
