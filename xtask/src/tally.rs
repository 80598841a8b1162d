//! Counting tests by what cargo prints: one `test result:` line for each test binary and each crate's doc tests.

use std::fmt;
use std::ops::AddAssign;

/// How many tests ran, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many `test result:` lines there were.
    pub results: u64,
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were skipped, such as those of rings 2 and 3.
    pub ignored: u64,
}

impl Tally {
    /// Counts everything in the output of `cargo test`.
    pub fn of(output: &str) -> Self {
        let mut tally = Self::default();
        output.lines().filter_map(result).for_each(|one| tally += one);
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.results += other.results;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// The closing line that the build reads.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// `test result: ok. 16 passed; 0 failed; 0 ignored; 0 measured; …`
fn result(line: &str) -> Option<Tally> {
    let (_, counts) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
    let mut tally = Tally { results: 1, ..Tally::default() };
    for count in counts.split(';') {
        let Some((number, word)) = count.trim().split_once(' ') else { continue };
        let field = match word {
            "passed" => &mut tally.passed,
            "failed" => &mut tally.failed,
            "ignored" => &mut tally.ignored,
            _ => continue,
        };
        *field = number.parse().ok()?;
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_line_counts_and_nothing_else() {
        let output = "
running 16 tests
test host::tests::a_check ... ok
test result: ok. 16 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.08s

test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.20s
a test that prints: test result: ok. 99 passed; 0 failed
test result: nonsense
";
        assert_eq!(Tally::of(output), Tally { results: 2, passed: 19, failed: 1, ignored: 2 });
        assert_eq!(Tally::of(""), Tally::default());
    }

    #[test]
    fn the_closing_line_is_plain() {
        let tally = Tally { results: 3, passed: 212, failed: 0, ignored: 7 };
        assert_eq!(tally.to_string(), "212 passed, 0 failed");
    }
}
