use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

/// Number of bins of the top probability.
pub(super) const BINS: usize = 10;

/// Number of characters that a plot uses for probabilities from 0 to 1.
const WIDTH: usize = 40;

/// Share of right outcomes by the probability of the likeliest option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reliability {
    /// Ten bins of the same width, lowest first.
    pub bins: Vec<ReliabilityBin>,
}

/// Outcomes whose top probability lies in a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Lower end of the range, which is included.
    pub low: f64,
    /// Upper end of the range, which is excluded, except for 1.
    pub high: f64,
    /// Number of outcomes.
    pub count: usize,
    /// Mean top probability. `None` if there are no outcomes.
    pub mean_top: Option<f64>,
    /// Share of right outcomes. `None` if there are no outcomes.
    pub accuracy: Option<f64>,
}

/// Returns the index of the bin of a top probability.
pub(super) fn bin_of(top: f64) -> usize {
    // The conversion saturates, and maps NaN to 0.
    ((top * BINS as f64) as usize).min(BINS - 1)
}

impl Reliability {
    /// Sorts outcomes into bins.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut bins: [Vec<(f64, bool)>; BINS] = Default::default();
        for outcome in outcomes {
            let top = outcome.probabilities.get(outcome.best()).copied().unwrap_or_default();
            bins[bin_of(top)].push((top, outcome.is_right()));
        }
        let bin = |(index, mut outcomes): (usize, Vec<(f64, bool)>)| {
            // Sums do not depend on the order of outcomes.
            outcomes.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            let count = outcomes.len();
            let mean = |sum: f64| (count > 0).then(|| sum / count as f64).filter(|mean| mean.is_finite());
            ReliabilityBin {
                low: index as f64 / BINS as f64,
                high: (index + 1) as f64 / BINS as f64,
                count,
                mean_top: mean(outcomes.iter().map(|(top, _)| top).sum()),
                accuracy: mean(outcomes.iter().map(|(_, right)| f64::from(*right)).sum()),
            }
        };
        Self { bins: bins.into_iter().enumerate().map(bin).collect() }
    }

    /// Draws the bins as plain text with at most 80 columns.
    ///
    /// `#` fills up to the share of right outcomes, and `o` marks the mean top probability. A bin is well
    /// calibrated if its `o` is at the end of the `#`.
    pub fn plot(&self) -> String {
        let mut plot = format!("top      decisions    mean   right  0{:>WIDTH$}\n", 1);
        for bin in &self.bins {
            let shown = |value: Option<f64>| match value {
                Some(value) => format!("{value:.3}"),
                None => "-".to_owned(),
            };
            let (mean, right) = (shown(bin.mean_top), shown(bin.accuracy));
            let ReliabilityBin { low, high, count, .. } = bin;
            // Writing to a string cannot fail.
            let _ = writeln!(plot, "{low:.1}-{high:.1}  {count:>9}{mean:>8}{right:>8}  |{}|", bar(bin));
        }
        plot.push_str("#: share of right outcomes, o: mean top probability\n");
        plot
    }
}

fn bar(bin: &ReliabilityBin) -> String {
    let filled = bin.accuracy.map_or(0, |accuracy| (accuracy * WIDTH as f64).round() as usize);
    let mark = bin.mean_top.map(|top| ((top * WIDTH as f64) as usize).min(WIDTH - 1));
    let cell = |at: usize| match mark {
        Some(mark) if mark == at => 'o',
        _ if at < filled => '#',
        _ => ' ',
    };
    (0..WIDTH).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::samples::tops;
    use crate::decisions::{Metrics, Predictor};

    #[test]
    fn bins_count_outcomes_by_top_probability() {
        let outcomes = tops(&[(0.5, true), (0.59, false), (0.9, true), (1.0, true)]);
        let reliability = Reliability::of(&outcomes);
        let counts: Vec<_> = reliability.bins.iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [0, 0, 0, 0, 0, 2, 0, 0, 0, 2]);
        let bin = reliability.bins[5];
        assert_eq!((bin.low, bin.high, bin.accuracy), (0.5, 0.6, Some(0.5)));
        assert!((bin.mean_top.expect("a mean") - 0.545).abs() < 1e-12);
        assert_eq!((reliability.bins[0].mean_top, reliability.bins[0].accuracy), (None, None));
    }

    #[test]
    fn the_calibration_error_is_that_of_the_bins() {
        let list: Vec<_> = (0..50).map(|index| (0.5 + f64::from(index) / 100.0, index % 3 != 0)).collect();
        let outcomes = tops(&list);
        let gap = |bin: &ReliabilityBin| {
            Some(bin.count as f64 * (bin.accuracy? - bin.mean_top?).abs()).filter(|_| bin.count > 0)
        };
        let expected = Reliability::of(&outcomes).bins.iter().filter_map(gap).sum::<f64>() / 50.0;
        let found = Metrics::of(&outcomes, Predictor::Model).ece.expect("a value").value;
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn the_plot_is_plain_text_of_at_most_80_columns() {
        let plot = Reliability::of(&tops(&[(0.75, true), (0.75, false), (1.0, true)])).plot();
        assert!(plot.is_ascii() && plot.lines().all(|line| line.len() <= 80), "{plot}");
        let lines: Vec<_> = plot.lines().collect();
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[0], format!("top      decisions    mean   right  0{}1", " ".repeat(39)));
        let bar = format!("{}{}o{}", "#".repeat(20), " ".repeat(10), " ".repeat(9));
        assert_eq!(lines[8], format!("0.7-0.8          2   0.750   0.500  |{bar}|"));
        assert_eq!(lines[10], format!("0.9-1.0          1   1.000   1.000  |{}o|", "#".repeat(39)));
        assert_eq!(lines[1], format!("0.0-0.1          0       -       -  |{}|", " ".repeat(40)));
    }
}
