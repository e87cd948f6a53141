//! Drafts from the text itself: outputs often repeat stretches of the prompt, or of what they have said.
//!
//! Where the last few tokens came before, what followed them there is likely to follow again (Saxena, "Prompt Lookup
//! Decoding", 2023). A draft costs the model little to check, since the weights are read once for all of its tokens.

use formwork_vocab::TokenId;

/// How many of the last tokens are looked for, first and last.
const LONGEST: usize = 4;
const SHORTEST: usize = 2;
/// What a drafted token is taken to add to the time of a pass with one token, by which it pays or does not. Chosen for CPUs, whose
/// time with one token goes to reading weights; drafts as a whole were measured, not this.
const COST: f32 = 0.15;

/// Where the last tokens came before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Precedent {
    /// How many of them.
    common: usize,
    /// What followed there.
    at: usize,
}

impl Precedent {
    /// The last such place, with as many tokens in common as there can be.
    pub(crate) fn find(tokens: &[TokenId]) -> Option<Self> {
        let lengths = (SHORTEST..=LONGEST.min(tokens.len().saturating_sub(1))).rev();
        lengths.into_iter().find_map(|common| {
            let last = &tokens[tokens.len() - common..];
            let earlier = &tokens[..tokens.len() - 1];
            let at = earlier.windows(common).rposition(|window| window == last)?;
            Some(Self { common, at: at + common })
        })
    }

    /// The `count` tokens that followed: over and over, where that reaches to the end.
    pub(crate) fn draft(self, tokens: &[TokenId], count: usize) -> Vec<TokenId> {
        tokens[self.at..].iter().copied().cycle().take(count).collect()
    }
}

/// How drafts have done so far, which tells how long they had better be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Record {
    /// How likely a token is to be right where those before it are, by how many tokens a precedent had in common.
    chances: [f32; LONGEST - SHORTEST + 1],
}

impl Default for Record {
    fn default() -> Self {
        Self { chances: [0.5, 0.6, 0.7] }
    }
}

impl Record {
    /// How many tokens to draft, at most `most`: as long as one more is likely enough to be right for what it costs beside
    /// `sequences` that go through the model together. The more there are, the less of the time is for reading weights.
    pub(crate) fn count(&mut self, precedent: Precedent, sequences: usize, most: usize) -> usize {
        let chance = &mut self.chances[precedent.common - SHORTEST];
        let cost = COST * sequences as f32;
        let count = (1..=most).take_while(|&len| chance.powi(len as i32) >= cost).count();
        if count == 0 {
            // What has failed is tried again after a while.
            *chance += 0.02 * (0.5 - *chance).max(0.0);
        }
        count
    }

    /// Of `drafted` tokens, the first `right` were.
    pub(crate) fn learn(&mut self, precedent: Precedent, drafted: usize, right: usize) {
        const WEIGHT: f32 = 0.2;
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
    fn a_draft_is_what_came_last_time() {
        assert_eq!(drafted("the cat and the", 5), " cat ");
        assert_eq!(drafted("ab1 ab2 ab", 2), "2 ");
        // More tokens in common count for more than being nearer.
        assert_eq!(drafted("xyzab1 ab2 xyzab", 1), "1");
        assert_eq!(drafted("aaaa", 4), "aaaa");
        assert_eq!(drafted("abab", 3), "aba");
        assert_eq!(drafted("abcdef", 9), "");
        assert_eq!(drafted("a", 9), "");
        assert_eq!(drafted("", 9), "");
        assert_eq!(drafted("the cat and the", 0), "");
    }

    #[test]
    fn drafts_are_as_long_as_they_do_well() {
        let precedent = Precedent { common: 3, at: 0 };
        let mut record = Record::default();
        assert!((1..8).contains(&record.count(precedent, 1, 8)));
        (0..20).for_each(|_| record.learn(precedent, 8, 8));
        assert_eq!((record.count(precedent, 1, 8), record.count(precedent, 1, 3)), (8, 3));
        // Beside many others a drafted token costs as much as any.
        assert_eq!(record.count(precedent, 8, 8), 0);
        (0..20).for_each(|_| record.learn(precedent, 8, 0));
        assert_eq!(record.count(precedent, 1, 8), 0);
        // Those with more in common have their own record.
        assert!(record.count(Precedent { common: 4, at: 0 }, 1, 8) > 1);
        let waits = (0..100).take_while(|_| record.count(precedent, 1, 8) == 0).count();
        assert!((5..50).contains(&waits), "{waits}");
    }
}
