//! How many requests a lane puts into one statement. Groups that fail become smaller; groups that are
//! full grow as long as that makes each request cheaper, which it does where a statement costs much by
//! itself: a database that is far away, a disk that syncs slowly.

use std::time::Duration;

/// Where the size of groups begins, and what it comes back to.
const USUAL: usize = 64;

/// The most requests that one statement carries.
const MOST: usize = 512;

/// How long a statement may take without being thought too large: well within the time after which a
/// lane's statement is cut off.
const LONG: Duration = Duration::from_millis(60);

/// How many full groups make a figure.
const SAMPLE: u32 = 16;

/// How many full groups go by before growing is tried again where it did not help.
const REST: u32 = 2000;

/// By how much a request must become cheaper for larger groups to be worth it: neighbours wait longer
/// for them.
const GAIN: f64 = 0.85;

/// The size of a lane's groups.
#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    /// How many full groups were measured at this size, and how many seconds a request took in them.
    sample: u32,
    seconds: f64,
    /// A smaller size, and how many seconds a request took there.
    before: Option<(usize, f64)>,
    rest: u32,
    /// Whether somebody else has said how many.
    fixed: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { most: USUAL, sample: 0, seconds: 0.0, before: None, rest: 0, fixed: false }
    }
}

impl Pace {
    /// Groups of this size, whatever is measured.
    pub(super) fn fixed(most: usize) -> Self {
        Self { most, fixed: true, ..Self::default() }
    }

    /// The most requests that the next statement carries.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Takes note of a group that ran as one.
    pub(super) fn ran(&mut self, size: usize, took: Duration) {
        if self.fixed {
            return;
        }
        if took > LONG && size > 1 {
            self.set(size / 2);
        } else if self.most < USUAL {
            // Larger ones had failed; what they ran into may have passed. One alone does not tell.
            self.most += usize::from(size > 1 || self.most == 1);
        } else if size == self.most {
            self.measure(size, took);
        }
    }

    /// Takes note of a group that failed: a smaller one loses less.
    pub(super) fn failed(&mut self, size: usize) {
        self.set(size / 2);
    }

    fn set(&mut self, most: usize) {
        if self.fixed {
            return;
        }
        *self = Self { most: most.clamp(1, MOST), rest: REST, ..Self::default() };
    }

    fn measure(&mut self, size: usize, took: Duration) {
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        let requests = f64::from(u32::try_from(size).unwrap_or(u32::MAX));
        self.seconds += took.as_secs_f64() / requests;
        self.sample += 1;
        if self.sample < SAMPLE {
            return;
        }
        let each = self.seconds / f64::from(self.sample);
        (self.sample, self.seconds) = (0, 0.0);
        match self.before {
            Some((smaller, cost)) if each > cost * GAIN => {
                self.set(smaller);
            }
            _ if self.most >= MOST => self.rest = REST,
            _ => {
                self.before = Some((self.most, each));
                self.most = (self.most * 2).min(MOST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs full groups at this cost of a statement and of each request in it, in microseconds.
    fn after(groups: u32, statement: u64, request: u64) -> usize {
        let mut pace = Pace::default();
        for _ in 0..groups {
            let size = pace.most();
            pace.ran(size, Duration::from_micros(statement + request * size as u64));
        }
        pace.most()
    }

    #[test]
    fn groups_grow_where_the_statement_is_the_cost() {
        assert_eq!(after(15, 20_000, 10), USUAL);
        assert_eq!(after(100, 20_000, 10), MOST);
    }

    #[test]
    fn groups_stay_where_the_requests_are_the_cost() {
        assert_eq!(after(100, 100, 20), USUAL);
    }

    #[test]
    fn groups_that_take_long_become_smaller() {
        assert_eq!(after(1, 0, 2_000), USUAL / 2);
        assert!(after(100, 30_000, 200) < 200);
    }

    #[test]
    fn groups_that_fail_become_smaller_and_come_back() {
        let mut pace = Pace::default();
        for _ in 0..8 {
            pace.failed(pace.most());
        }
        assert_eq!(pace.most(), 1);
        for _ in 0..USUAL {
            pace.ran(pace.most(), Duration::from_micros(100));
        }
        assert_eq!(pace.most(), USUAL);
    }
}
