//! Attention of each token to all tokens of its text, or to those at most half a window away.
//!
//! Keys and values are those of the text itself, as rows of `f32`. A unit of work is a few tokens.

use std::cell::RefCell;
use std::ops::Range;

use formwork_kernels::{Team, dot_f32};

use crate::cpu::workspace::room;
use crate::ops::softmax;
use crate::spec::AttentionSpec;

/// Number of tokens in a unit of work.
const TOKENS: usize = 8;

thread_local! {
    static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Computes attention for the texts whose tokens are at `texts`. The queries include the factor of the
/// scores. Shapes: `[tokens, heads, head_dim]` for `queries` and `out`, and
/// `[tokens, kv_heads, head_dim]` for `keys` and `values`.
pub(in crate::cpu) fn attend_both_ways(
    team: &Team,
    shape: AttentionSpec,
    texts: &[Range<usize>],
    [queries, keys, values]: [&[f32]; 3],
    out: &mut [f32],
) {
    let len = shape.query_len();
    let text_of = |token: usize| {
        let index = texts.partition_point(|text| text.end <= token);
        texts.get(index).cloned().unwrap_or_default()
    };
    team.for_chunks(out, TOKENS * len, |chunk, out| {
        SCORES.with_borrow_mut(|scores| {
            for head in 0..shape.heads {
                let of_head = |row: usize, len: usize, head: usize| {
                    row * len + head * shape.head_dim..row * len + (head + 1) * shape.head_dim
                };
                let kv_head = head * shape.kv_heads / shape.heads;
                let key_len = shape.key_len();
                for (token, out) in (chunk * TOKENS..).zip(out.chunks_exact_mut(len)) {
                    let query = &queries[of_head(token, len, head)];
                    let seen = seen(token, text_of(token), shape.window);
                    let scores = room(scores, seen.len());
                    for (row, score) in seen.clone().zip(&mut *scores) {
                        *score = dot_f32(query, &keys[of_head(row, key_len, kv_head)]);
                    }
                    softmax(scores);
                    let out = &mut out[of_head(0, len, head)];
                    out.fill(0.0);
                    for (row, weight) in seen.zip(&*scores) {
                        let value = &values[of_head(row, key_len, kv_head)];
                        out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
                    }
                }
            }
        });
    });
}

/// Returns the tokens of `text` that `token` attends to.
fn seen(token: usize, text: Range<usize>, window: Option<usize>) -> Range<usize> {
    let Some(window) = window else { return text };
    let half = window / 2;
    token.saturating_sub(half).max(text.start)..(token + half + 1).min(text.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_symmetric_and_stay_inside_the_text() {
        assert_eq!(seen(12, 10..20, None), 10..20);
        assert_eq!(seen(12, 10..20, Some(8)), 10..17);
        assert_eq!(seen(15, 10..20, Some(4)), 13..18);
        assert_eq!(seen(19, 10..20, Some(5)), 17..20);
    }
}
