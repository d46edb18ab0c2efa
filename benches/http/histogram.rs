//! Latencies in buckets that are never wider than 1/64 of their value.

/// Each power of two is cut into this many buckets.
const STEPS: u32 = 6;
/// Values from 2^40 ns (18 minutes) on share the last bucket.
const BUCKETS: usize = 36 << STEPS;

/// A histogram of nanoseconds.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: Vec<u32>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }

    pub(crate) fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max_ms(&self) -> f64 {
        millis(self.max)
    }

    /// The latency that `per_mille` of 1000 requests did not exceed.
    pub(crate) fn quantile_ms(&self, per_mille: u64) -> f64 {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, &n) in self.buckets.iter().enumerate() {
            seen += u64::from(n);
            if seen >= rank {
                return millis(upper(index).min(self.max));
            }
        }
        self.max_ms()
    }
}

fn bucket(nanos: u64) -> usize {
    let exponent = (nanos | 1).ilog2().max(STEPS) - STEPS;
    let index = (u64::from(exponent) << STEPS) + (nanos >> exponent);
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

/// The highest value that falls into the bucket.
fn upper(index: usize) -> u64 {
    let index = index as u64;
    let exponent = (index >> STEPS).saturating_sub(1);
    ((index - (exponent << STEPS) + 1) << exponent) - 1
}

#[expect(clippy::cast_precision_loss, reason = "a latency has far fewer than 52 bits")]
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Run at every start, as a bench target without a harness has no unit tests.
pub(crate) fn self_check() {
    for nanos in (0..200).chain([1_000, 65_535, 65_536, 1_234_567, 9_876_543_210]) {
        let top = upper(bucket(nanos));
        assert!(top >= nanos && top - nanos <= nanos >> STEPS, "bucket of {nanos} ends at {top}");
        assert!(bucket(top + 1) == bucket(nanos) + 1, "bucket after {nanos}");
    }
    let mut histogram = Histogram::new();
    (1..=1000).for_each(|n| histogram.record(n * 1_000_000));
    assert!((histogram.quantile_ms(500) - 500.0).abs() < 8.0, "median");
    assert!((histogram.quantile_ms(990) - 990.0).abs() < 16.0, "p99");
}
