use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::Arc;

use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer, Vocabulary};

use crate::bytes::{FormworkBytes, FormworkTokens};
use crate::error::{FormworkError, FormworkStatus};
use crate::failure::Failure;
use crate::guard;
use crate::vocabulary::FormworkVocabulary;

/// Flag for encoding: the spellings of control tokens, such as `<|im_start|>`, become these tokens.
pub const FORMWORK_ENCODE_SPECIAL: u32 = 1;
/// Flag for encoding: the beginning-of-sequence token comes first, if the model has one.
pub const FORMWORK_ENCODE_BOS: u32 = 2;
/// Flag for encoding: the text continues other text, so that no leading space is added.
pub const FORMWORK_ENCODE_CONTINUATION: u32 = 4;

/// Flag for decoding: control tokens are spelt out. Without it, they add no bytes.
pub const FORMWORK_DECODE_SPECIAL: u32 = 1;
/// Flag for decoding: the tokens are a whole text, so that an added leading space is removed.
pub const FORMWORK_DECODE_WHOLE: u32 = 2;

/// Converts text to tokens and back. Shareable between threads.
pub struct FormworkTokenizer {
    pub(crate) tokenizer: Tokenizer,
}

/// Creates a tokenizer from the contents of a Hugging Face `tokenizer.json`.
///
/// Tokens that end an output are recognised by their names, for example `<|im_end|>` and `</s>`. The
/// tokens `ends` end an output too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_tokenizer_from_json(
    json: *const u8,
    length: usize,
    ends: *const u32,
    end_count: usize,
    tokenizer: Option<&mut MaybeUninit<Option<Box<FormworkTokenizer>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(tokenizer, "tokenizer")?;
        // SAFETY: the caller passes an array of `length` bytes.
        let json = unsafe { guard::array(json, length, "json") }?;
        // SAFETY: the caller passes an array of `end_count` ids.
        let ends = unsafe { guard::array(ends, end_count, "ends") }?;
        let ends: Vec<TokenId> = ends.iter().map(|&id| TokenId(id)).collect();
        let tokenizer = guard::with_stack(|| Ok(Tokenizer::from_json(json)?.with_ends(&ends)?))?;
        result.write(Some(Box::new(FormworkTokenizer { tokenizer })));
        Ok(())
    })
}

/// Gives the vocabulary of a tokenizer, as a handle of its own. The tokens are shared, not copied.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_tokenizer_vocabulary(
    tokenizer: Option<&FormworkTokenizer>,
    vocabulary: Option<&mut MaybeUninit<Option<Box<FormworkVocabulary>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(tokenizer, "tokenizer")?;
        let result = guard::required(vocabulary, "vocabulary")?;
        let vocabulary = Arc::clone(handle.tokenizer.vocabulary());
        result.write(Some(Box::new(FormworkVocabulary { vocabulary })));
        Ok(())
    })
}

/// Returns true if a prompt for the model must start with the beginning-of-sequence token. Returns
/// false for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_tokenizer_adds_bos(tokenizer: Option<&FormworkTokenizer>) -> bool {
    tokenizer.is_some_and(|handle| handle.tokenizer.add_bos())
}

/// Encodes a text of at most 8 MiB. `flags` combines `FORMWORK_ENCODE_…`, and is 0 for ordinary text.
///
/// The caller frees `tokens` with `formwork_tokens_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_tokenizer_encode(
    tokenizer: Option<&FormworkTokenizer>,
    text: *const c_char,
    length: usize,
    flags: u32,
    tokens: Option<&mut MaybeUninit<FormworkTokens>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let tokenizer = &guard::required(tokenizer, "tokenizer")?.tokenizer;
        let result = guard::required(tokens, "tokens")?;
        // SAFETY: the caller passes a text of `length` bytes.
        let text = unsafe { guard::text(text.cast(), length, "text") }?;
        let ids = encode(tokenizer, text, flags)?;
        result.write(ids.iter().map(|id| id.0).collect::<Vec<u32>>().into());
        Ok(())
    })
}

fn encode(tokenizer: &Tokenizer, text: &str, flags: u32) -> Result<Vec<TokenId>, Failure> {
    let has = |flag| flags & flag != 0;
    let (special, bos) = (has(FORMWORK_ENCODE_SPECIAL), has(FORMWORK_ENCODE_BOS));
    let continues = has(FORMWORK_ENCODE_CONTINUATION);
    let known = FORMWORK_ENCODE_SPECIAL | FORMWORK_ENCODE_BOS | FORMWORK_ENCODE_CONTINUATION;
    let expected = "a combination of FORMWORK_ENCODE_…, without BOS for a continuation";
    if flags & !known != 0 || (bos && continues) {
        return Err(Failure::UnknownValue { argument: "flags".to_owned(), given: flags as usize, expected });
    }
    Ok(match (continues, special) {
        (true, true) => tokenizer.encode_continuation(text)?,
        (true, false) => tokenizer.encode_fragment(text)?,
        (false, special) => tokenizer.encode(text, EncodeOptions { special, bos })?,
    })
}

/// Decodes tokens to bytes. `flags` combines `FORMWORK_DECODE_…`, and is 0 for a piece of an output.
///
/// The bytes can end inside a character, if its other bytes are in the next token. The caller frees
/// `bytes` with `formwork_bytes_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_tokenizer_decode(
    tokenizer: Option<&FormworkTokenizer>,
    tokens: *const u32,
    token_count: usize,
    flags: u32,
    bytes: Option<&mut MaybeUninit<FormworkBytes>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let tokenizer = &guard::required(tokenizer, "tokenizer")?.tokenizer;
        let result = guard::required(bytes, "bytes")?;
        // SAFETY: the caller passes an array of `token_count` ids.
        let tokens = unsafe { guard::array(tokens, token_count, "tokens") }?;
        let ids = tokens.iter().map(|&id| checked(tokenizer.vocabulary(), id));
        let ids: Vec<TokenId> = ids.collect::<Result<_, _>>()?;
        let special = flags & FORMWORK_DECODE_SPECIAL != 0;
        let bytes = match flags & !FORMWORK_DECODE_SPECIAL {
            0 if special => tokenizer.decode_special(&ids),
            0 => tokenizer.decode(&ids),
            FORMWORK_DECODE_WHOLE => tokenizer.decode_text(&ids, special),
            _ => {
                let (argument, given) = ("flags".to_owned(), flags as usize);
                let expected = "a combination of FORMWORK_DECODE_…";
                return Err(Failure::UnknownValue { argument, given, expected });
            }
        };
        result.write(bytes.into());
        Ok(())
    })
}

/// Returns the id of a token, or an error if the token is outside of the vocabulary.
fn checked(vocabulary: &Vocabulary, id: u32) -> Result<TokenId, Failure> {
    let limit = vocabulary.len();
    if id as usize >= limit {
        return Err(Failure::TokenOutside { given: id, limit });
    }
    Ok(TokenId(id))
}

/// Frees a tokenizer. Accepts NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_tokenizer_free(tokenizer: Option<Box<FormworkTokenizer>>) {
    guard::free(tokenizer);
}
