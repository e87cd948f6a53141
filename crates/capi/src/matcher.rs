use std::mem::MaybeUninit;

use formwork_grammar::{Constraint, Matcher};
use formwork_vocab::{TokenId, TokenSet};
use serde_json::json;

use crate::bytes::{FormworkBytes, FormworkTokens};
use crate::constraint::FormworkConstraint;
use crate::error::{FormworkError, FormworkStatus};
use crate::failure::Failure;
use crate::guard;
use crate::tokenizer::FormworkTokenizer;

/// Follows one output, token by token. Must be used by one thread at a time.
pub struct FormworkMatcher {
    matcher: Matcher,
    /// Number of tokens in the vocabulary.
    universe: usize,
}

impl FormworkMatcher {
    fn new(constraint: &Constraint) -> Self {
        Self { matcher: constraint.matcher(), universe: constraint.vocabulary().len() }
    }
}

/// Creates a matcher at the start of an output.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_new(
    constraint: Option<&FormworkConstraint>,
    matcher: Option<&mut MaybeUninit<Option<Box<FormworkMatcher>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(constraint, "constraint")?;
        let result = guard::required(matcher, "matcher")?;
        result.write(Some(Box::new(FormworkMatcher::new(&handle.constraint))));
        Ok(())
    })
}

/// Creates a copy of a matcher at the same position. The two are independent.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_clone(
    matcher: Option<&FormworkMatcher>,
    copy: Option<&mut MaybeUninit<Option<Box<FormworkMatcher>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let FormworkMatcher { matcher, universe } = guard::required(matcher, "matcher")?;
        let result = guard::required(copy, "copy")?;
        result.write(Some(Box::new(FormworkMatcher { matcher: matcher.clone(), universe: *universe })));
        Ok(())
    })
}

/// Returns the number of committed tokens, or 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_len(matcher: Option<&FormworkMatcher>) -> usize {
    matcher.map_or(0, |handle| handle.matcher.len())
}

/// Writes the mask of the tokens that may come next: bit `t % 32` of `words[t / 32]` is 1 if token `t`
/// is allowed. Bit 0 is the lowest bit.
///
/// End tokens are allowed if and only if the output may end. The buffer needs
/// `formwork_vocabulary_mask_words` words, and further words become 0. `allowed` receives the number of
/// allowed tokens, and may be NULL. No token is allowed after an end token.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_matcher_mask(
    matcher: Option<&mut FormworkMatcher>,
    words: *mut u32,
    word_count: usize,
    allowed: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        // SAFETY: the caller passes a buffer of `word_count` words.
        let words = unsafe { buffer(words, word_count, handle.universe) }?;
        write_mask(&handle.matcher.mask(), words, allowed);
        Ok(())
    })
}

/// Writes the mask of the tokens that may come next and after which the output can be complete within
/// `remaining` tokens, including the token itself. End tokens do not count towards `remaining`.
///
/// The mask is empty if the output cannot be complete in time; `formwork_matcher_closing_tokens` gives
/// a number that suffices. The work is bounded, so the mask may lack some tokens.
/// `formwork_matcher_allows_within` decides a single token. The buffer is that of
/// `formwork_matcher_mask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_matcher_mask_within(
    matcher: Option<&mut FormworkMatcher>,
    remaining: usize,
    words: *mut u32,
    word_count: usize,
    allowed: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        // SAFETY: the caller passes a buffer of `word_count` words.
        let words = unsafe { buffer(words, word_count, handle.universe) }?;
        write_mask(&handle.matcher.mask_within(remaining), words, allowed);
        Ok(())
    })
}

/// Returns the caller's buffer for a mask over `universe` tokens.
///
/// # Safety
/// `words` must be valid for writes of `word_count` words, unless it is NULL.
unsafe fn buffer<'a>(
    words: *mut u32,
    word_count: usize,
    universe: usize,
) -> Result<&'a mut [MaybeUninit<u32>], Failure> {
    // SAFETY: the caller promises it.
    let words = unsafe { guard::output(words, word_count, "words") }?;
    let needed = universe.div_ceil(32);
    if words.len() < needed {
        return Err(Failure::ShortBuffer { given: words.len(), needed });
    }
    Ok(words)
}

fn write_mask(set: &TokenSet, words: &mut [MaybeUninit<u32>], allowed: Option<&mut MaybeUninit<usize>>) {
    let halves = set.words().iter().flat_map(|&word| [word as u32, (word >> 32) as u32]);
    for (word, half) in words.iter_mut().zip(halves.chain(std::iter::repeat(0))) {
        word.write(half);
    }
    if let Some(allowed) = allowed {
        allowed.write(set.count());
    }
}

/// Decides whether `token` may come next, and the output can then be complete within `remaining`
/// tokens, including `token`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_allows_within(
    matcher: Option<&mut FormworkMatcher>,
    token: u32,
    remaining: usize,
    allowed: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        let result = guard::required(allowed, "allowed")?;
        result.write(handle.matcher.allows_within(TokenId(token), remaining));
        Ok(())
    })
}

/// Appends a token. If the grammar does not allow it, the function returns
/// `FORMWORK_STATUS_NOT_ALLOWED`, and the matcher is unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_commit(
    matcher: Option<&mut FormworkMatcher>,
    token: u32,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || Ok(guard::required(matcher, "matcher")?.matcher.commit(TokenId(token))?))
}

/// Removes the last `count` tokens, or all of them if there are fewer.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_rollback(
    matcher: Option<&mut FormworkMatcher>,
    count: usize,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        guard::required(matcher, "matcher")?.matcher.rollback(count);
        Ok(())
    })
}

/// Decides whether the output may end here.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_accepting(
    matcher: Option<&mut FormworkMatcher>,
    accepting: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        guard::required(accepting, "accepting")?.write(handle.matcher.accepting());
        Ok(())
    })
}

/// Decides whether the output is finished: it may end here, and nothing else can follow.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_complete(
    matcher: Option<&mut FormworkMatcher>,
    complete: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        guard::required(complete, "complete")?.write(handle.matcher.complete());
        Ok(())
    })
}

/// Gives a number of tokens that suffices to complete the output from here, without the end token.
///
/// The bound can be kept: unless it is 0, there is an allowed token after which it is smaller. The
/// function fails with `FORMWORK_STATUS_NO_COMPLETION` if the vocabulary cannot spell any completion.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_closing_tokens(
    matcher: Option<&mut FormworkMatcher>,
    tokens: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        let result = guard::required(tokens, "tokens")?;
        result.write(handle.matcher.closing_tokens().ok_or(Failure::NoCompletion)?);
        Ok(())
    })
}

/// Gives the bytes with which every completion starts, at most 512. They can be appended without
/// running the model.
///
/// The caller frees `bytes` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_forced_bytes(
    matcher: Option<&mut FormworkMatcher>,
    bytes: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        let result = guard::required(bytes, "bytes")?;
        result.write(handle.matcher.forced_bytes().into());
        Ok(())
    })
}

/// Gives the tokens with which the tokenizer spells the forced bytes, up to the first token that the
/// model should choose. Each of them is allowed after the tokens before it.
///
/// The tokenizer must have the vocabulary of the matcher. The caller frees `tokens` with
/// `formwork_tokens_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_forced_tokens(
    matcher: Option<&mut FormworkMatcher>,
    tokenizer: Option<&FormworkTokenizer>,
    tokens: Option<&mut MaybeUninit<FormworkTokens>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        let tokenizer = &guard::required(tokenizer, "tokenizer")?.tokenizer;
        let result = guard::required(tokens, "tokens")?;
        let (given, expected) = (tokenizer.vocabulary().len(), handle.universe);
        if given != expected {
            return Err(Failure::OtherVocabulary { given, expected });
        }
        let tokens = handle.matcher.forced_tokens(tokenizer);
        result.write(tokens.iter().map(|token| token.0).collect::<Vec<u32>>().into());
        Ok(())
    })
}

/// Explains to a person what may come next, as UTF-8 JSON. For a boolean:
///
/// `{"expected":["`false`","`true`"],"bytes":"`f` or `t`","tokens":2,"may_end":false}`
///
/// `expected` describes each continuation inside JSON of a schema, and is empty elsewhere. `bytes`
/// lists the bytes that may come next. The caller frees `json` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_explain(
    matcher: Option<&mut FormworkMatcher>,
    json: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(matcher, "matcher")?;
        let result = guard::required(json, "json")?;
        let explanation = handle.matcher.explain();
        let text = json!({
            "expected": explanation.expected,
            "bytes": explanation.bytes.to_string(),
            "tokens": explanation.tokens,
            "may_end": explanation.may_end,
        });
        result.write(text.to_string().into_bytes().into());
        Ok(())
    })
}

/// Frees a matcher. Accepts NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_matcher_free(matcher: Option<Box<FormworkMatcher>>) {
    guard::free(matcher);
}
