use std::fmt;

use serde::Serialize;

/// Average, percentiles and maximum of a set of times, in the unit of the input.
///
/// Percentiles use the nearest rank. For example, `p90` is the smallest time such that at least 90
/// % of all times are not larger.
///
/// ```
/// use formwork_benches::Distribution;
/// let times = Distribution::of((1..=1000).map(f64::from));
/// assert_eq!((times.count, times.p50, times.p99_9, times.max), (1000, 500.0, 999.0, 1000.0));
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "the names of the percentiles say it all")]
pub struct Distribution {
    /// Number of times. If zero, all other figures are zero, too.
    pub count: usize,
    pub avg: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    pub max: f64,
}

impl Distribution {
    /// Names of the figures that [`Distribution::figures`] returns.
    pub const NAMES: [&'static str; 9] = ["avg", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9", "max"];

    /// Computes the distribution of `times`.
    pub fn of(times: impl IntoIterator<Item = f64>) -> Self {
        let mut times: Vec<f64> = times.into_iter().collect();
        times.sort_unstable_by(f64::total_cmp);
        let Some(&max) = times.last() else { return Self::default() };
        let count = times.len();
        let per_mille = |share: usize| times[(count * share).div_ceil(1000) - 1];
        Self {
            count,
            avg: times.iter().sum::<f64>() / count as f64,
            p25: per_mille(250),
            p50: per_mille(500),
            p75: per_mille(750),
            p90: per_mille(900),
            p95: per_mille(950),
            p99: per_mille(990),
            p99_9: per_mille(999),
            max,
        }
    }

    /// Returns the average, the percentiles and the maximum, in the order of
    /// [`Distribution::NAMES`].
    pub const fn figures(&self) -> [f64; 9] {
        [self.avg, self.p25, self.p50, self.p75, self.p90, self.p95, self.p99, self.p99_9, self.max]
    }

    /// Returns the header line of a table whose rows are formatted by [`Distribution::row`].
    pub fn header() -> String {
        row("", &Self::NAMES.map(str::to_owned))
    }

    /// Formats the figures as a table row that starts with `label`.
    pub fn row(&self, label: &str) -> String {
        row(label, &self.figures().map(|figure| Figure(figure).to_string()))
    }

    /// Formats the figures divided by those of `other`, as a table row that starts with `label`.
    pub fn ratios(&self, label: &str, other: &Self) -> String {
        let mut cells = Self::NAMES.map(|_| "-".to_owned());
        for (cell, (ours, theirs)) in cells.iter_mut().zip(self.figures().into_iter().zip(other.figures())) {
            if theirs > 0.0 {
                *cell = format!("{:.3}", ours / theirs);
            }
        }
        row(label, &cells)
    }
}

fn row(label: &str, cells: &[String; 9]) -> String {
    let [avg, p25, p50, p75, p90, p95, p99, p99_9, max] = cells;
    format!("{label:<26}{avg:>9}{p25:>9}{p50:>9}{p75:>9}{p90:>9}{p95:>9}{p99:>9}{p99_9:>9}{max:>9}")
}

/// Displays a figure with about three significant digits.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            small if small < 10.0 => write!(f, "{small:.2}"),
            small if small < 100.0 => write!(f, "{small:.1}"),
            large => write!(f, "{large:.0}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times = Distribution::of([4.0, 1.0, 3.0, 2.0]);
        let expected = Distribution {
            count: 4,
            avg: 2.5,
            p25: 1.0,
            p50: 2.0,
            p75: 3.0,
            p90: 4.0,
            p95: 4.0,
            p99: 4.0,
            p99_9: 4.0,
            max: 4.0,
        };
        assert_eq!(times, expected);
    }

    #[test]
    fn no_times_are_all_zero() {
        assert_eq!(Distribution::of([]), Distribution::default());
    }

    #[test]
    fn rows_line_up() {
        let (fast, slow) = (Distribution::of([0.5, 20.0]), Distribution::of([1.0, 1234.5]));
        let lengths =
            [Distribution::header(), fast.row("fast"), slow.row("slow"), fast.ratios("ratio", &slow)]
                .map(|line| line.chars().count());
        assert_eq!(lengths, [lengths[0]; 4]);
    }
}
