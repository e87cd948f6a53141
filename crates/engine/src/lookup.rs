//! Drafts from the text itself: outputs often repeat parts of the prompt or of earlier output.
//!
//! If the last few tokens occurred before, the tokens that followed them are likely to follow again
//! (Saxena, "Prompt Lookup Decoding", 2023). A draft is cheap for the model to check, because the
//! weights are read once for all of its tokens.

use formwork_vocab::TokenId;

/// Longest and shortest number of last tokens to search for; longer matches are tried first.
const LONGEST: usize = 4;
const SHORTEST: usize = 2;
/// Assumed cost of one drafted token, relative to the time of a pass with one token. The value fits
/// CPUs, where reading the weights dominates such a pass. Only drafting as a whole has been
/// measured, not this constant.
const COST: f32 = 0.15;

/// Earlier occurrence of the last tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Precedent {
    /// Number of last tokens that match.
    common: usize,
    /// Index of the token after the earlier occurrence.
    at: usize,
}

impl Precedent {
    /// Returns the latest occurrence of the longest match.
    pub(crate) fn find(tokens: &[TokenId]) -> Option<Self> {
        let lengths = (SHORTEST..=LONGEST.min(tokens.len().saturating_sub(1))).rev();
        lengths.into_iter().find_map(|common| {
            let last = &tokens[tokens.len() - common..];
            let earlier = &tokens[..tokens.len() - 1];
            let at = earlier.windows(common).rposition(|window| window == last)?;
            Some(Self { common, at: at + common })
        })
    }

    /// Returns the `count` tokens that followed. Repeats them from the start if they reach the end
    /// of the text.
    pub(crate) fn draft(self, tokens: &[TokenId], count: usize) -> Vec<TokenId> {
        tokens[self.at..].iter().copied().cycle().take(count).collect()
    }
}

/// Weight of the latest draft in a success rate.
const WEIGHT: f32 = 0.2;

/// Returns the relative cost of checking a drafted token in a pass that `sequences` sequences share.
pub(crate) const fn check_cost(sequences: usize) -> f32 {
    COST * sequences as f32
}

/// Returns the number of drafts, at most `most`, with which a token of the output takes the least time,
/// and the speed relative to that without drafts. `chance` is the probability that a draft is right,
/// and `cost` its time relative to a pass with one token.
fn fastest(chance: f32, cost: f32, most: usize) -> (usize, f32) {
    let mut best = (0, 1.0);
    let (mut expected, mut all_right) = (1.0, 1.0);
    for len in 1..=most {
        all_right *= chance;
        expected += all_right;
        let speed = expected / cost.mul_add(len as f32, 1.0);
        if speed > best.1 {
            best = (len, speed);
        }
    }
    best
}

/// Estimated probability that a computed draft is right if all drafts before it are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Rate(f32);

impl Default for Rate {
    fn default() -> Self {
        Self(Self::START)
    }
}

impl Rate {
    /// Rate of a new sequence, towards which a rate that allows no draft recovers.
    const START: f32 = 0.7;

    /// Returns the number of tokens to draft, at most `most`, so that a token of the output takes the
    /// least time. `cost` is the time to draft and to check a token, relative to a pass with one token.
    ///
    /// The method needs `&mut self` because a rate that allows no draft recovers a little.
    pub(crate) fn count(&mut self, cost: f32, most: usize) -> usize {
        let (best, _) = fastest(self.0, cost, most);
        if best == 0 {
            self.0 += 0.02 * (Self::START - self.0).max(0.0);
        }
        best
    }

    /// Returns the expected speed with the best number of drafts, relative to the speed without drafts.
    pub(crate) fn speed(self, cost: f32, most: usize) -> f32 {
        fastest(self.0, cost, most).1
    }

    /// Updates the rate: the first `right` of `drafted` tokens were right.
    pub(crate) fn learn(&mut self, drafted: usize, right: usize) {
        for index in 0..drafted.min(right + 1) {
            self.0 += WEIGHT * (if index < right { 1.0 } else { 0.0 } - self.0);
        }
    }
}

/// Success rates of past drafts, which determine the length of the next draft.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Record {
    /// Estimated probability that a drafted token is right if all drafts before it are, indexed by
    /// `common - SHORTEST`.
    chances: [f32; LONGEST - SHORTEST + 1],
}

impl Default for Record {
    fn default() -> Self {
        Self { chances: [0.5, 0.6, 0.7] }
    }
}

impl Record {
    /// Returns the number of tokens to draft, at most `most`.
    ///
    /// A token is worth drafting if its probability of being accepted is at least its cost. The
    /// cost grows with the number of `sequences` in the pass, because reading the weights then
    /// takes a smaller part of the time. The method needs `&mut self` because a rate that allows no
    /// draft recovers a little.
    pub(crate) fn count(&mut self, precedent: Precedent, sequences: usize, most: usize) -> usize {
        let chance = &mut self.chances[precedent.common - SHORTEST];
        let cost = check_cost(sequences);
        let count = (1..=most).take_while(|&len| chance.powi(len as i32) >= cost).count();
        if count == 0 {
            // Lets a rate that failed recover, so that drafting is tried again after a while.
            *chance += 0.02 * (0.5 - *chance).max(0.0);
        }
        count
    }

    /// Returns the expected speed with the best number of drafts, relative to the speed without drafts.
    pub(crate) fn speed(&self, precedent: Precedent, sequences: usize, most: usize) -> f32 {
        fastest(self.chances[precedent.common - SHORTEST], check_cost(sequences), most).1
    }

    /// Updates the success rate: the first `right` of `drafted` tokens were right.
    pub(crate) fn learn(&mut self, precedent: Precedent, drafted: usize, right: usize) {
        let chance = &mut self.chances[precedent.common - SHORTEST];
        for index in 0..drafted.min(right + 1) {
            let was = if index < right { 1.0 } else { 0.0 };
            *chance += WEIGHT * (was - *chance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafted(text: &str, most: usize) -> String {
        let tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(byte.into())).collect();
        let draft = Precedent::find(&tokens).map(|precedent| precedent.draft(&tokens, most));
        draft.into_iter().flatten().map(|token| token.0 as u8 as char).collect()
    }

    #[test]
    fn drafts_the_last_continuation() {
        assert_eq!(drafted("the cat and the", 5), " cat ");
        assert_eq!(drafted("ab1 ab2 ab", 2), "2 ");
        // A longer match wins over a nearer one.
        assert_eq!(drafted("xyzab1 ab2 xyzab", 1), "1");
        assert_eq!(drafted("aaaa", 4), "aaaa");
        assert_eq!(drafted("abab", 3), "aba");
        assert_eq!(drafted("abcdef", 9), "");
        assert_eq!(drafted("a", 9), "");
        assert_eq!(drafted("", 9), "");
        assert_eq!(drafted("the cat and the", 0), "");
    }

    #[test]
    fn draft_models_are_asked_for_what_pays() {
        let count = |chance: f32, cost: f32| Rate(chance).count(cost, 8);
        assert_eq!([count(0.9, 0.05), count(0.9, 0.5), count(0.5, 0.3), count(0.3, 0.4)], [8, 3, 1, 0]);
        let mut rate = Rate::default();
        while rate.count(0.5, 8) > 0 {
            rate.learn(1, 0);
        }
        let failed = rate;
        let waited = (0..1000).find(|_| rate.count(0.5, 8) > 0).unwrap();
        assert!(failed.0 < rate.0 && (10..200).contains(&waited), "{failed:?}, {waited}");
        (0..30).for_each(|_| rate.learn(4, 4));
        assert_eq!(rate.count(0.1, 8), 8);
    }

    #[test]
    fn draft_length_follows_acceptance() {
        let precedent = Precedent { common: 3, at: 0 };
        let mut record = Record::default();
        assert!((1..8).contains(&record.count(precedent, 1, 8)));
        (0..20).for_each(|_| record.learn(precedent, 8, 8));
        assert_eq!((record.count(precedent, 1, 8), record.count(precedent, 1, 3)), (8, 3));
        // With many other sequences in the pass, a drafted token costs as much as any other token.
        assert_eq!(record.count(precedent, 8, 8), 0);
        (0..20).for_each(|_| record.learn(precedent, 8, 0));
        assert_eq!(record.count(precedent, 1, 8), 0);
        // Matches with more common tokens have their own success rate.
        assert!(record.count(Precedent { common: 4, at: 0 }, 1, 8) > 1);
        let waits = (0..100).take_while(|_| record.count(precedent, 1, 8) == 0).count();
        assert!((5..50).contains(&waits), "{waits}");
    }
}
