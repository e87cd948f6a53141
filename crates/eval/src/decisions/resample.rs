//! Bootstrap over states (B. Efron, 1979). Questions about one state are not independent, so whole
//! states are drawn.

use crate::settings::mix;

/// Number of resamples.
pub(super) const RESAMPLES: usize = 1000;

/// Draws resamples, always the same ones for a number of states.
pub(super) struct Resampler {
    bits: u64,
}

impl Resampler {
    pub(super) const fn new() -> Self {
        Self { bits: 0 }
    }

    /// Draws as many states as there are, with replacement. Sets how often each was drawn.
    pub(super) fn draw(&mut self, drawn: &mut [u32]) {
        drawn.fill(0);
        for _ in 0..drawn.len() {
            self.bits = self.bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
            // The high half of the product is below the length.
            let state = (u128::from(mix(self.bits)) * drawn.len() as u128) >> 64;
            drawn[state as usize] += 1;
        }
    }
}

/// Returns the 95% percentile interval of a statistic, extended to contain its value on the sample.
///
/// `resampled` has the values of the resamples in which the statistic is defined. Returns `None` if
/// these are less than 80%: a statistic that only one state defines is undefined in a third of them.
pub(super) fn interval(mut resampled: Vec<f64>, value: f64) -> Option<(f64, f64)> {
    if resampled.len() * 5 < RESAMPLES * 4 {
        return None;
    }
    resampled.sort_by(f64::total_cmp);
    let rank = |per_mille: usize| resampled[(resampled.len() * per_mille).div_ceil(1000).max(1) - 1];
    Some((rank(25).min(value), rank(975).max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_stable_and_even() {
        let (mut one, mut other, mut totals) = ([0; 7], [0; 7], [0; 7]);
        let (mut first, mut second) = (Resampler::new(), Resampler::new());
        for _ in 0..RESAMPLES {
            first.draw(&mut one);
            second.draw(&mut other);
            assert_eq!((one, one.iter().sum::<u32>()), (other, 7));
            totals.iter_mut().zip(one).for_each(|(total, drawn)| *total += drawn);
        }
        // Each total has mean 1000 and standard deviation 29.
        assert!(totals.iter().all(|total| (880..=1120).contains(total)), "{totals:?}");
        first.draw(&mut []);
    }

    #[test]
    fn intervals_are_percentiles_around_the_value() {
        let values = || (1..=1000).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval(values(), 500.0), Some((25.0, 975.0)));
        assert_eq!(interval(values(), 3.0), Some((3.0, 975.0)));
        assert_eq!(interval(vec![1.0; 799], 1.0), None);
        assert_eq!(interval(vec![1.0; 800], 1.0), Some((1.0, 1.0)));
    }
}
