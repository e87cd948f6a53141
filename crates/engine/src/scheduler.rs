//! Decides the tokens that go through the model in a step.
//!
//! Generating sequences always run. They share the step's budget evenly for their tokens, including
//! the tokens that a grammar forces. Prompts get the rest of the budget, first come, first served.
//! A long prompt leaves a part of the rest to short prompts behind it ([`LEFT`]), so that short
//! requests do not wait long.
//!
//! A prompt is cut only at multiples of the model's grain, so that its result does not depend on
//! the rest of the step. The first prompt always advances by a few tokens ([`LEAST`]), even if the
//! budget is used up, so that no prompt waits forever.

/// Minimum number of tokens for prompts in a step, unless the whole budget is smaller.
const LEAST: usize = 32;
/// Divisor of the prompt budget for the reserve: 4 reserves a quarter for short prompts behind a
/// long one.
const LEFT: usize = 4;

/// Tokens that a sequence has to feed to the model.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// The rest of a prompt of `len` tokens, from position `read`.
    Prompt { read: usize, len: usize },
    /// Number of output tokens that the model has not read.
    Generated(usize),
    /// Nothing: another sequence is reading the same prompt.
    Nothing,
}

impl Need {
    pub(crate) const fn is_generated(self) -> bool {
        matches!(self, Self::Generated(_))
    }

    /// Returns true for a prompt with more than `tokens` unread tokens.
    pub(crate) const fn is_prompt_over(self, tokens: usize) -> bool {
        matches!(self, Self::Prompt { read, len } if len - read > tokens)
    }
}

/// Returns the number of tokens that each sequence reads in a step of about `budget` tokens.
///
/// Generated tokens come first. Prompts share the rest of `for_prompts`, and read nothing if that
/// is 0.
pub(crate) fn tokens(needs: &[Need], budget: usize, for_prompts: usize, grain: usize) -> Vec<usize> {
    let share = share(needs, budget);
    let generated = |need: &Need| if let Need::Generated(tokens) = need { (*tokens).min(share) } else { 0 };
    if for_prompts == 0 {
        return needs.iter().map(generated).collect();
    }
    let left = for_prompts.saturating_sub(needs.iter().map(generated).sum());
    let mut left = left.max(LEAST.min(budget));
    let (mut is_first, mut is_held_up) = (true, false);
    let tokens = |(index, need): (usize, &Need)| {
        let Need::Prompt { read, len } = *need else { return generated(need) };
        let mut count = 0;
        if len - read <= left {
            count = len - read;
        } else if !is_held_up {
            is_held_up = true;
            let behind = short(&needs[index + 1..], left / LEFT);
            count = piece(read, len, left - behind, grain);
            if is_first && count == 0 {
                count = piece(read, len, grain, grain);
            }
            left = left.min(count + behind);
        }
        is_first = false;
        left = left.saturating_sub(count);
        count
    };
    needs.iter().enumerate().map(tokens).collect()
}

/// Returns the maximum number of tokens for each generating sequence. The shares use the whole
/// budget if the sequences have enough tokens.
fn share(needs: &[Need], budget: usize) -> usize {
    let generated = |need: &Need| if let Need::Generated(tokens) = need { Some(*tokens) } else { None };
    let mut wanted: Vec<usize> = needs.iter().filter_map(generated).collect();
    wanted.sort_unstable();
    let mut left = budget;
    for (index, &tokens) in wanted.iter().enumerate() {
        let share = left / (wanted.len() - index);
        if tokens > share {
            return share.max(1);
        }
        left -= tokens;
    }
    usize::MAX
}

/// Returns the total length of the prompts that fit into `limit` tokens completely, in order.
fn short(needs: &[Need], limit: usize) -> usize {
    let fitting = |sum: usize, need: &Need| match *need {
        Need::Prompt { read, len } if sum + len - read <= limit => sum + len - read,
        _ => sum,
    };
    needs.iter().fold(0, fitting)
}

/// Returns the length of a prompt's next piece, starting at `read`.
///
/// The piece has at most `limit` tokens, and ends at the end of the prompt or at a multiple of
/// `grain`.
pub(crate) fn piece(read: usize, len: usize, limit: usize, grain: usize) -> usize {
    if len - read <= limit {
        return len - read;
    }
    let end = (read + limit) / grain * grain;
    end.saturating_sub(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_cut_at_the_grain_only() {
        assert_eq!(piece(0, 100, 512, 256), 100);
        assert_eq!(piece(0, 1000, 600, 256), 512);
        assert_eq!(piece(512, 1000, 300, 256), 256);
        assert_eq!(piece(512, 1000, 255, 256), 0);
        assert_eq!(piece(300, 1000, 256, 256), 212);
        assert_eq!(piece(0, 1000, 7, 1), 7);
    }

    fn tokens(needs: &[Need], budget: usize, grain: usize) -> Vec<usize> {
        super::tokens(needs, budget, budget, grain)
    }

    #[test]
    fn prompts_get_the_budget_left_by_generation() {
        let prompt = Need::Prompt { read: 0, len: 1000 };
        assert_eq!(tokens(&[prompt, Need::Generated(1), prompt], 513, 256), [512, 1, 0]);
        assert_eq!(tokens(&[Need::Generated(400), prompt], 513, 100), [400, 100]);
        let short = Need::Prompt { read: 256, len: 300 };
        assert_eq!(tokens(&[short, Need::Nothing, prompt], 512, 256), [44, 0, 256]);
    }

    #[test]
    fn the_first_prompt_always_advances() {
        let prompt = Need::Prompt { read: 256, len: 1000 };
        assert_eq!(tokens(&[Need::Generated(512), prompt, prompt], 512, 256), [512, 256, 0]);
        assert_eq!(tokens(&[prompt, prompt], 1, 256), [256, 0]);
        assert_eq!(tokens(&[Need::Generated(510), prompt, prompt], 512, 1), [510, LEAST, 0]);
        assert_eq!(tokens(&[Need::Generated(1), prompt], 4, 1), [1, 4]);
    }

    #[test]
    fn forced_tokens_share_the_budget() {
        let (long, short) = (Need::Generated(9000), Need::Generated(3));
        assert_eq!(tokens(&[long], 512, 256), [512]);
        assert_eq!(tokens(&[long, short, long, Need::Nothing], 513, 256), [255, 3, 255, 0]);
        assert_eq!(tokens(&[long, short, short], 2, 256), [1, 1, 1]);
        let one = Need::Generated(1);
        assert_eq!(tokens(&[Need::Generated(300), one, one, one], 512, 1), [300, 1, 1, 1]);
        assert_eq!(tokens(&[Need::Generated(300), one, one], 200, 1), [198, 1, 1]);
    }

    #[test]
    fn short_prompts_need_not_wait_for_long_ones() {
        let long = Need::Prompt { read: 0, len: 1000 };
        let short = Need::Prompt { read: 90, len: 100 };
        assert_eq!(tokens(&[long, short], 300, 1), [290, 10]);
        assert_eq!(tokens(&[long, short], 300, 256), [256, 10]);
        assert_eq!(tokens(&[long, long, short, Need::Generated(2), short], 302, 1), [280, 0, 10, 2, 10]);
        // A quarter of the budget goes to the short prompts that fit completely.
        let quarter = Need::Prompt { read: 0, len: 70 };
        assert_eq!(tokens(&[long, quarter, short, short], 300, 1), [230, 70, 0, 0]);
        assert_eq!(tokens(&[long, Need::Prompt { read: 0, len: 76 }], 300, 1), [300, 0]);
        // After the first prompt is complete, the rest goes to the others.
        assert_eq!(tokens(&[short, long, short], 300, 1), [10, 280, 10]);
        assert_eq!(tokens(&[long, short], 20, 1), [20, 0]);
        // The reserve holds even if generating sequences or the step's time leave little.
        let shorter = Need::Prompt { read: 95, len: 100 };
        assert_eq!(tokens(&[Need::Generated(1), long, shorter], 32, 1), [1, 27, 5]);
        assert_eq!(super::tokens(&[Need::Generated(200), long, shorter], 512, 40, 1), [200, 27, 5]);
        assert_eq!(tokens(&[short, long], 3, 1), [3, 0]);
    }
}
