use serde::{Deserialize, Serialize};

/// Number of successes among a number of cases.
///
/// ```
/// use formwork_eval::Rate;
/// let rate = Rate { ok: 5, of: 10 };
/// let (low, high) = rate.interval().expect("of some");
/// assert_eq!((rate.share(), (low * 1e4).round(), (high * 1e4).round()), (Some(0.5), 2366.0, 7634.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Number of successes.
    pub ok: usize,
    /// Number of cases, successful or not.
    pub of: usize,
}

/// 97.5% quantile of the normal distribution: 95% of the values lie between `-Z` and `Z`.
const Z: f64 = 1.959_963_984_540_054;

impl Rate {
    /// Counts one more case, which is a success if `ok` is true.
    pub const fn add(&mut self, ok: bool) {
        self.ok += ok as usize;
        self.of += 1;
    }

    /// Adds the counts of `other`.
    pub const fn merge(&mut self, other: Self) {
        self.ok += other.ok;
        self.of += other.of;
    }

    /// Returns the share of successes, from 0 to 1. Returns `None` if there are no cases.
    pub fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.ok as f64 / self.of as f64)
    }

    /// Returns the Wilson score interval for the share of successes, at 95% confidence (E. B.
    /// Wilson, 1927). Returns `None` if there are no cases.
    ///
    /// The interval lies within 0 and 1. It is informative even for extreme shares: for 10
    /// successes among 10 cases, it is 0.72 to 1.
    pub fn interval(self) -> Option<(f64, f64)> {
        let share = self.share()?;
        let (count, square) = (self.of as f64, Z * Z);
        let centre = share + square / (2.0 * count);
        let half = Z * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
        let scale = 1.0 + square / count;
        // The exact ends are 0 and 1; the formula would only add rounding errors.
        let low = if self.ok == 0 { 0.0 } else { (centre - half) / scale };
        let high = if self.ok == self.of { 1.0 } else { (centre + half) / scale };
        Some((low, high))
    }
}

/// Percentiles of durations, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

impl Latency {
    /// Computes the percentiles of `times`. All are 0 if `times` is empty.
    pub fn of(times: &[f64]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { p50: percentile(&sorted, 50), p95: percentile(&sorted, 95), max: percentile(&sorted, 100) }
    }
}

/// Returns a percentile by the nearest-rank method: the smallest value such that at least `percent`
/// percent of the values are not greater.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_other_programs() {
        // Computed by statsmodels.stats.proportion.proportion_confint(ok, of, method="wilson").
        for (ok, of, low, high) in [
            (0, 10, 0.0, 0.277_532_799_862_889_3),
            (5, 10, 0.236_593_090_512_564_4, 0.763_406_909_487_435_6),
            (10, 10, 0.722_467_200_137_110_7, 1.0),
            (1, 1, 0.206_549_314_377_237_45, 1.0),
            // From R. G. Newcombe, Statistics in Medicine 17 (1998), to four digits.
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let (found_low, found_high) = Rate { ok, of }.interval().expect("of some");
            assert!(
                (found_low - low).abs() < 5e-5 && (found_high - high).abs() < 5e-5,
                "{ok} of {of}: {found_low} {found_high}"
            );
        }
        assert_eq!((Rate::default().share(), Rate::default().interval()), (None, None));
    }

    #[test]
    fn percentiles_are_observed_times() {
        let times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Latency::of(&times), Latency { p50: 10.0, p95: 19.0, max: 20.0 });
        assert_eq!(Latency::of(&[7.0]), Latency { p50: 7.0, p95: 7.0, max: 7.0 });
        assert_eq!(Latency::of(&[]), Latency::default());
    }
}
