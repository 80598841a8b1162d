//! The local cloud's balancer beside Debian's HAProxy: the same targets, the same client, two threads and health checks
//! for each, in many short turns within one run. Two turns that follow each other are compared, and the median of those
//! ratios is judged, so that what else the machine does falls on both alike.

mod load;
mod proxy;

use std::time::Duration;

use load::Backends;
use proxy::{Kind, Proxy};

use super::Finding;
use crate::report::Failure;

pub use proxy::serve;

const ROUNDS: usize = 15;
const TURN: Duration = Duration::from_millis(500);
const BULK_CONNECTIONS: usize = 4;
const SHORT_WORKERS: usize = 16;
const KEPT_CONNECTIONS: usize = 32;
const LEAST_THROUGHPUT: f64 = 0.7;
const MOST_LATENCY: f64 = 1.5;

/// What was measured of one balancer, turn by turn.
#[derive(Clone, Debug, Default, PartialEq)]
struct Figures {
    /// Bytes per second.
    bulk: Vec<f64>,
    /// Connections per second.
    short: Vec<f64>,
    /// The 99th percentile in microseconds.
    p99: Vec<f64>,
}

/// Measures both, and judges ours by theirs.
pub fn measure() -> Result<Vec<Finding>, Failure> {
    let trouble = || Failure::new("cannot compare the balancers", "look at the cause");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let compared = runtime.map_err(|error| trouble().because(error))?.block_on(compare());
    let (ours, theirs) = compared.map_err(|error| trouble().because(error))?;
    Ok(judge(&ours, &theirs))
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
            figures.bulk.push(load::bulk(proxy.address, BULK_CONNECTIONS, TURN).await?.rate());
        }
        for (proxy, figures) in &mut turns {
            figures.short.push(load::short(proxy.address, SHORT_WORKERS, TURN).await?.rate());
        }
        for (proxy, figures) in &mut turns {
            let mut latencies = load::kept(proxy.address, KEPT_CONNECTIONS, TURN).await?;
            figures.p99.push(f64::from(percentile(&mut latencies, 99)));
        }
    }
    Ok((of_ours, of_theirs))
}

fn judge(ours: &Figures, theirs: &Figures) -> Vec<Finding> {
    let mib = f64::from(1 << 20);
    let (bulk, short) = (ratio(&ours.bulk, &theirs.bulk), ratio(&ours.short, &theirs.short));
    let p99 = ratio(&ours.p99, &theirs.p99);
    let finding = |what: &str, unit: &str, ours: f64, theirs: f64, ratio: f64, limit: String, kept: bool| Finding {
        measured: format!("{what} {ours:.0} {unit}, HAProxy {theirs:.0} {unit}, median ratio {ratio:.2}"),
        limit,
        kept,
    };
    let least = || format!("at least {LEAST_THROUGHPUT}");
    let of = |values: &[f64]| median(values.to_vec());
    vec![
        finding("bulk", "MiB/s", of(&ours.bulk) / mib, of(&theirs.bulk) / mib, bulk, least(), bulk >= LEAST_THROUGHPUT),
        finding(
            "short connections",
            "/s",
            of(&ours.short),
            of(&theirs.short),
            short,
            least(),
            short >= LEAST_THROUGHPUT,
        ),
        finding(
            "p99 on kept connections",
            "us",
            of(&ours.p99),
            of(&theirs.p99),
            p99,
            format!("at most {MOST_LATENCY}"),
            p99 <= MOST_LATENCY,
        ),
    ]
}

/// The median of the ratios of turns that followed each other.
fn ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
}

/// Not a number if there are none, and so never within a limit.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
    fn one_bad_turn_does_not_decide() {
        assert!((ratio(&[50.0, 1.0, 90.0], &[100.0; 3]) - 0.5).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn ours_may_be_slower_by_the_promised_ratio_and_no_more() {
        let figures = |bulk, short, p99| Figures { bulk: vec![bulk], short: vec![short], p99: vec![p99] };
        let cases = [
            ((70.0, 70.0, 150.0), [true, true, true]),
            ((69.0, 70.0, 150.0), [false, true, true]),
            ((70.0, 69.0, 150.0), [true, false, true]),
            ((70.0, 70.0, 151.0), [true, true, false]),
        ];
        let theirs = figures(100.0, 100.0, 100.0);
        for ((bulk, short, p99), want) in cases {
            let findings = judge(&figures(bulk, short, p99), &theirs);
            assert_eq!(findings.iter().map(|finding| finding.kept).collect::<Vec<_>>(), want);
        }
        let nothing = judge(&Figures::default(), &theirs);
        assert!(nothing.iter().all(|finding| !finding.kept), "{nothing:?}");
    }
}
