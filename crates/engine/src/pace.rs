//! Measured reading speed of the model.

use std::time::Duration;

/// Minimum number of tokens of a pass to measure. With fewer, reading the weights dominates the
/// time.
const MANY: usize = 32;

/// Running average of the time per prompt token, if measured.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pace {
    seconds: Option<f64>,
}

impl Pace {
    /// Records the time of a pass of `tokens` tokens. The latest pass has a weight of a quarter.
    pub(crate) fn note(&mut self, tokens: usize, time: Duration) {
        if tokens < MANY {
            return;
        }
        let seconds = time.as_secs_f64() / tokens as f64;
        self.seconds = Some(self.seconds.map_or(seconds, |known| known + (seconds - known) / 4.0));
    }

    /// Returns the number of tokens that the model reads in `time`, at least `MANY`. Unlimited
    /// before the first measurement.
    pub(crate) fn tokens(&self, time: Duration) -> usize {
        self.seconds.map_or(usize::MAX, |seconds| (time.as_secs_f64() / seconds) as usize).max(MANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_follows_measured_times() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::default();
        assert_eq!(pace.tokens(second), usize::MAX);
        pace.note(1, second);
        assert_eq!(pace.tokens(second), usize::MAX);
        pace.note(256, second);
        assert_eq!(pace.tokens(second), 256);
        pace.note(64, second);
        assert_eq!(pace.tokens(second), 146);
        (0..40).for_each(|_| pace.note(64, 8 * second));
        assert_eq!(pace.tokens(second), MANY);
        pace.note(64, Duration::ZERO);
        assert_eq!(Pace { seconds: Some(0.0) }.tokens(second), usize::MAX);
    }
}
