//! How often strangers may ask. The limits are generous, because behind a balancer or a router a whole fleet may come
//! from one address; they are there so that a loop gone wild does not keep the machines that boot from their configs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// How many addresses are told apart at once.
const SOURCES: usize = 4096;
const OVERALL: Rate = Rate { burst: 8000.0, per_second: 2000.0 };
const SOURCE: Rate = Rate { burst: 4000.0, per_second: 1000.0 };

#[derive(Debug, Clone, Copy)]
struct Rate {
    burst: f64,
    per_second: f64,
}

/// Who has asked how often.
#[derive(Debug)]
pub struct RateLimit {
    overall: Bucket,
    sources: HashMap<IpAddr, Bucket>,
}

impl RateLimit {
    /// Nobody has asked yet; times are those of a monotonic clock.
    pub fn new(now: Duration) -> Self {
        RateLimit { overall: Bucket::full(OVERALL, now), sources: HashMap::new() }
    }

    /// Whether one more request from there may be answered.
    pub fn allows(&mut self, source: IpAddr, now: Duration) -> bool {
        if self.sources.len() >= SOURCES && !self.sources.contains_key(&source) {
            self.sources.retain(|_, bucket| !bucket.is_full(SOURCE, now));
            if self.sources.len() >= SOURCES {
                return false;
            }
        }
        let bucket = self.sources.entry(source).or_insert_with(|| Bucket::full(SOURCE, now));
        bucket.take(SOURCE, now) && self.overall.take(OVERALL, now)
    }
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Duration,
}

impl Bucket {
    fn full(rate: Rate, now: Duration) -> Self {
        Bucket { left: rate.burst, at: now }
    }

    fn refill(&mut self, rate: Rate, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.left = (self.left + passed * rate.per_second).min(rate.burst);
        self.at = now;
    }

    fn is_full(&mut self, rate: Rate, now: Duration) -> bool {
        self.refill(rate, now);
        self.left >= rate.burst
    }

    fn take(&mut self, rate: Rate, now: Duration) -> bool {
        self.refill(rate, now);
        let has = self.left >= 1.0;
        if has {
            self.left -= 1.0;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from(number).into()
    }

    #[test]
    fn a_thousand_at_once_pass_and_a_loop_does_not() {
        let mut limit = RateLimit::new(Duration::ZERO);
        let passed = (0..10_000).filter(|_| limit.allows(address(1), Duration::ZERO)).count();
        assert_eq!(passed, 4000);
        assert!(limit.allows(address(2), Duration::ZERO));
        assert!(!limit.allows(address(1), Duration::ZERO));
        assert!(limit.allows(address(1), Duration::from_secs(1)));
        let passed = (0..100_000).filter(|n| limit.allows(address(10 + n % 100), Duration::from_secs(1))).count();
        assert!((1000..=8000).contains(&passed), "{passed}");
    }

    #[test]
    fn the_table_of_sources_has_a_bound() {
        let mut limit = RateLimit::new(Duration::ZERO);
        let allowed = (0..10_000).filter(|n| limit.allows(address(*n), Duration::ZERO)).count();
        assert_eq!(allowed, SOURCES);
        assert_eq!(limit.sources.len(), SOURCES);
        assert!(limit.allows(address(20_000), Duration::from_secs(60)));
        assert_eq!(limit.sources.len(), 1);
    }
}
