use serde::{Deserialize, Serialize};

/// How many of how many.
///
/// ```
/// use formwork_protocol::eval::Rate;
/// let rate = Rate { ok: 5, of: 10 };
/// let (low, high) = rate.interval().expect("of some");
/// assert_eq!((rate.share(), (low * 1e4).round(), (high * 1e4).round()), (Some(0.5), 2366.0, 7634.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// So many were right.
    pub ok: usize,
    /// Of so many.
    pub of: usize,
}

/// The 97.5% quantile of the normal distribution: 95% lie between it and its negative.
const Z: f64 = 1.959_963_984_540_054;

impl Rate {
    /// With one more.
    pub const fn add(&mut self, ok: bool) {
        self.ok += ok as usize;
        self.of += 1;
    }

    /// With those of `other`.
    pub const fn merge(&mut self, other: Self) {
        self.ok += other.ok;
        self.of += other.of;
    }

    /// The share of those that were right; `None` of none.
    pub fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.ok as f64 / self.of as f64)
    }

    /// Wilson's score interval of 95% confidence (E. B. Wilson, 1927); `None` of none. It stays between 0 and 1, and says
    /// something of 10 out of 10, too: 0.72 to 1.
    pub fn interval(self) -> Option<(f64, f64)> {
        let share = self.share()?;
        let (count, square) = (self.of as f64, Z * Z);
        let centre = share + square / (2.0 * count);
        let half = Z * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
        let scale = 1.0 + square / count;
        // At the ends these are 0 and 1 but for rounding.
        let low = if self.ok == 0 { 0.0 } else { (centre - half) / scale };
        let high = if self.ok == self.of { 1.0 } else { (centre + half) / scale };
        Some((low, high))
    }
}

/// How long things took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: f64,
    /// 19 of 20 took no longer.
    pub p95: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Of these times; all 0 of none.
    pub fn of(times: &[f64]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { p50: percentile(&sorted, 50), p95: percentile(&sorted, 95), max: percentile(&sorted, 100) }
    }
}

/// By nearest rank: the least that `percent` of them do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_other_programs() {
        // statsmodels.stats.proportion.proportion_confint(ok, of, method="wilson")
        for (ok, of, low, high) in [
            (0, 10, 0.0, 0.277_532_799_862_889_3),
            (5, 10, 0.236_593_090_512_564_4, 0.763_406_909_487_435_6),
            (10, 10, 0.722_467_200_137_110_7, 1.0),
            (1, 1, 0.206_549_314_377_237_45, 1.0),
            // Those of R. G. Newcombe, Statistics in Medicine 17 (1998), to four digits.
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
    fn percentiles_are_times_that_were_seen() {
        let times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Latency::of(&times), Latency { p50: 10.0, p95: 19.0, max: 20.0 });
        assert_eq!(Latency::of(&[7.0]), Latency { p50: 7.0, p95: 7.0, max: 7.0 });
        assert_eq!(Latency::of(&[]), Latency::default());
    }
}
