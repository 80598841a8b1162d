//! Which builds run at the same time. A pure choice over weights: a big one has the machine to itself, small ones share
//! it two by two, and memory is never promised twice.

use crate::pins::Release;

const GIB: u64 = 1 << 30;

/// What the machine can give to builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// How many small builds may run at once.
    pub slots: usize,
    /// Bytes of memory for all of them.
    pub memory: u64,
}

impl Capacity {
    /// This machine as it is now: one slot per core, and the memory that the kernel calls available.
    pub fn of_this_host() -> Self {
        let slots = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let meminfo = windlass_steps::host::read_file("/proc/meminfo", 1 << 16).unwrap_or_default();
        // Without an answer builds run one by one, which always works.
        let memory = available(&String::from_utf8_lossy(&meminfo)).unwrap_or(0);
        Capacity { slots, memory }
    }
}

/// What one build takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    slots: usize,
    memory: u64,
}

impl Weight {
    /// The compiler keeps both cores busy on anything large; running a second build beside it only takes memory.
    pub(super) fn of(release: &Release) -> Self {
        match release.component.as_str() {
            "kubernetes" => Weight { slots: usize::MAX, memory: 6 * GIB },
            "terraform-provider-aws" => Weight { slots: usize::MAX, memory: 5 * GIB },
            _ => Weight { slots: 1, memory: 2 * GIB },
        }
    }

    /// The order in which builds should start: the longest first, so that it does not end up alone at the end.
    pub(super) fn rank(&self) -> std::cmp::Reverse<(usize, u64)> {
        std::cmp::Reverse((self.slots, self.memory))
    }
}

/// The next build to start beside those that run: the first that fits. When nothing runs, the first in any case.
pub(super) fn next(waiting: &[Weight], running: &[Weight], capacity: Capacity) -> Option<usize> {
    if running.is_empty() {
        return (!waiting.is_empty()).then_some(0);
    }
    let taken = |weight: &Weight| weight.slots.min(capacity.slots);
    let slots = capacity.slots.saturating_sub(running.iter().map(taken).sum());
    let memory = capacity.memory.saturating_sub(running.iter().map(|weight| weight.memory).sum());
    waiting.iter().position(|weight| taken(weight) <= slots && slots > 0 && weight.memory <= memory)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Weight = Weight { slots: 1, memory: 2 * GIB };
    const BIG: Weight = Weight { slots: usize::MAX, memory: 6 * GIB };

    #[test]
    fn a_big_build_runs_alone_and_small_ones_two_by_two() {
        let host = Capacity { slots: 2, memory: 20 * GIB };
        let tight = Capacity { slots: 2, memory: 3 * GIB };
        let none = Capacity { slots: 1, memory: 0 };
        let cases = [
            (vec![], vec![], host, None),
            (vec![BIG, SMALL], vec![], host, Some(0)),
            (vec![SMALL], vec![BIG], host, None),
            (vec![SMALL, SMALL], vec![SMALL], host, Some(0)),
            (vec![BIG, SMALL], vec![SMALL], host, Some(1)),
            (vec![SMALL], vec![SMALL, SMALL], host, None),
            (vec![SMALL], vec![SMALL], tight, None),
            (vec![BIG], vec![], none, Some(0)),
            (vec![SMALL], vec![SMALL], none, None),
        ];
        for (waiting, running, capacity, want) in cases {
            assert_eq!(next(&waiting, &running, capacity), want, "{waiting:?} beside {running:?} in {capacity:?}");
        }
    }

    #[test]
    fn available_memory_is_read_from_the_kernels_words() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
        for bad in ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 99999999999999999999 kB"] {
            assert_eq!(available(bad), None, "{bad}");
        }
        assert!(Capacity::of_this_host().slots > 0);
    }

    proptest! {
        #[test]
        fn every_build_gets_its_turn_and_nothing_is_promised_twice(
            kinds in proptest::collection::vec(any::<bool>(), 0..12),
            slots in 1_usize..5,
            gib in 0_u64..24,
            ends in proptest::collection::vec(0_usize..4, 64),
        ) {
            let capacity = Capacity { slots, memory: gib * GIB };
            let mut waiting: Vec<Weight> = kinds.iter().map(|big| if *big { BIG } else { SMALL }).collect();
            let (mut running, mut done) = (Vec::new(), 0);
            for end in ends {
                while let Some(n) = next(&waiting, &running, capacity) {
                    running.push(waiting.remove(n));
                    let memory: u64 = running.iter().map(|w| w.memory).sum();
                    let used: usize = running.iter().map(|w| w.slots.min(slots)).sum();
                    prop_assert!(running.len() == 1 || (memory <= capacity.memory && used <= slots));
                }
                if running.is_empty() {
                    break;
                }
                running.remove(end % running.len());
                done += 1;
            }
            prop_assert_eq!(done, kinds.len());
        }
    }
}
