//! Drafts from the text itself: outputs often repeat stretches of the prompt, or of what they have said.
//!
//! Where the last few tokens came before, what followed them there is likely to follow again (Saxena, "Prompt Lookup
//! Decoding", 2023). A draft costs the model little to check, since the weights are read once for all of its tokens.

use formwork_vocab::TokenId;

/// How many of the last tokens are looked for, first and last.
const LONGEST: usize = 4;
const SHORTEST: usize = 2;

/// The `most` tokens that followed the last ones where they last came before: over and over, where that reaches to the end. None
/// where they never came.
pub(crate) fn draft(tokens: &[TokenId], most: usize) -> Vec<TokenId> {
    for len in (SHORTEST..=LONGEST.min(tokens.len().saturating_sub(1))).rev() {
        let last = &tokens[tokens.len() - len..];
        let earlier = &tokens[..tokens.len() - 1];
        if let Some(at) = earlier.windows(len).rposition(|window| window == last) {
            return tokens[at + len..].iter().copied().cycle().take(most).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drafted(text: &str, most: usize) -> String {
        let tokens: Vec<TokenId> = text.bytes().map(|byte| TokenId(byte.into())).collect();
        draft(&tokens, most).into_iter().map(|token| token.0 as u8 as char).collect()
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
}
