//! How fast the model reads.

use std::time::Duration;

/// Tokens of a pass that tells it. Of fewer, most of the time goes to reading the weights.
const MANY: usize = 32;

/// The time that a token of a prompt takes, as far as it was seen.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pace {
    seconds: Option<f64>,
}

impl Pace {
    /// Takes note of a pass of so many tokens. What was seen last counts for a quarter.
    pub(crate) fn note(&mut self, tokens: usize, time: Duration) {
        if tokens < MANY {
            return;
        }
        let seconds = time.as_secs_f64() / tokens as f64;
        self.seconds = Some(self.seconds.map_or(seconds, |known| known + (seconds - known) / 4.0));
    }

    /// How many tokens are read in `time`, no fewer than can tell the pace; any number where nothing was seen.
    pub(crate) fn tokens(&self, time: Duration) -> usize {
        self.seconds.map_or(usize::MAX, |seconds| (time.as_secs_f64() / seconds) as usize).max(MANY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_what_was_seen() {
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
