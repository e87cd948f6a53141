use std::mem::MaybeUninit;
use std::sync::Arc;

use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};

use crate::bytes::FormworkSlice;
use crate::error::{FormworkError, FormworkStatus};
use crate::failure::Failure;
use crate::guard;

/// Kind of a token: ordinary text. A grammar sees the bytes of the token.
pub const FORMWORK_TOKEN_TEXT: u32 = 0;
/// Kind of a token: a single raw byte, for text that no other token covers. A grammar sees the byte.
pub const FORMWORK_TOKEN_BYTE: u32 = 1;
/// Kind of a token: a marker such as end-of-sequence, whose spelling is never text.
pub const FORMWORK_TOKEN_CONTROL: u32 = 2;
/// Kind of a token: an entry without a meaning, for example padding. It is never allowed.
pub const FORMWORK_TOKEN_UNUSED: u32 = 3;

const KINDS: [TokenKind; 4] = [TokenKind::Text, TokenKind::Byte, TokenKind::Control, TokenKind::Unused];

/// A token of a new vocabulary.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FormworkToken {
    /// Bytes that the token adds to the output. These are not the bytes of its spelling in a file: the
    /// token that a file spells `Ġcat` has the bytes ` cat`.
    pub bytes: FormworkSlice,
    /// Role of the token: one of `FORMWORK_TOKEN_…`.
    pub kind: u32,
}

/// All tokens of a model with their bytes. Shareable between threads.
pub struct FormworkVocabulary {
    pub(crate) vocabulary: Arc<Vocabulary>,
}

/// Creates a vocabulary. The index of a token in `tokens` is its id.
///
/// The tokens `ends` end an output, and become control tokens. The bytes are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_vocabulary_new(
    tokens: *const FormworkToken,
    token_count: usize,
    ends: *const u32,
    end_count: usize,
    vocabulary: Option<&mut MaybeUninit<Option<Box<FormworkVocabulary>>>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let result = guard::required(vocabulary, "vocabulary")?;
        // SAFETY: the caller passes an array of `token_count` tokens.
        let tokens = unsafe { guard::array(tokens, token_count, "tokens") }?;
        // SAFETY: the caller passes an array of `end_count` ids.
        let ends = unsafe { guard::array(ends, end_count, "ends") }?;
        check_total(tokens)?;
        let tokens = tokens.iter().enumerate().map(|(index, token)| {
            // SAFETY: the caller passes an array of bytes for each token.
            unsafe { read_token(token, index) }
        });
        let ends = ends.iter().map(|&id| TokenId(id)).collect();
        let vocabulary = Arc::new(Vocabulary::new(tokens.collect::<Result<_, _>>()?, ends)?);
        result.write(Some(Box::new(FormworkVocabulary { vocabulary })));
        Ok(())
    })
}

/// Returns an error if all bytes together exceed the offsets of a vocabulary, which have 32 bits.
fn check_total(tokens: &[FormworkToken]) -> Result<(), Failure> {
    let limit = u32::MAX as usize;
    let lengths = tokens.iter().map(|token| token.bytes.length);
    let given = lengths.fold(0, usize::saturating_add);
    if given > limit {
        return Err(Failure::TooLong { argument: "tokens".to_owned(), given, limit });
    }
    Ok(())
}

/// # Safety
/// The bytes of `token` must be valid for reads.
unsafe fn read_token(token: &FormworkToken, index: usize) -> Result<Token, Failure> {
    let place = format_args!("tokens[{index}].bytes");
    // SAFETY: the caller promises it.
    let bytes = unsafe { guard::array(token.bytes.data, token.bytes.length, place) }?;
    let Some(&kind) = KINDS.get(token.kind as usize) else {
        let argument = format!("tokens[{index}].kind");
        let expected = "one of FORMWORK_TOKEN_…";
        return Err(Failure::UnknownValue { argument, given: token.kind as usize, expected });
    };
    Ok(Token { bytes: bytes.to_vec(), kind })
}

/// Returns the number of tokens, or 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_vocabulary_len(vocabulary: Option<&FormworkVocabulary>) -> usize {
    vocabulary.map_or(0, |handle| handle.vocabulary.len())
}

/// Returns the number of 32-bit words of a mask: one bit for each token, rounded up to whole words.
/// Returns 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_vocabulary_mask_words(vocabulary: Option<&FormworkVocabulary>) -> usize {
    formwork_vocabulary_len(vocabulary).div_ceil(32)
}

/// Returns the kind of `token`, one of `FORMWORK_TOKEN_…`. Tokens outside of the vocabulary are
/// unused.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_vocabulary_kind(vocabulary: Option<&FormworkVocabulary>, token: u32) -> u32 {
    let kind = vocabulary.map_or(TokenKind::Unused, |handle| handle.vocabulary.kind(TokenId(token)));
    match kind {
        TokenKind::Text => FORMWORK_TOKEN_TEXT,
        TokenKind::Byte => FORMWORK_TOKEN_BYTE,
        TokenKind::Control => FORMWORK_TOKEN_CONTROL,
        TokenKind::Unused => FORMWORK_TOKEN_UNUSED,
    }
}

/// Returns true if `token` ends an output. Returns false for tokens outside of the vocabulary.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_vocabulary_is_end(vocabulary: Option<&FormworkVocabulary>, token: u32) -> bool {
    vocabulary.is_some_and(|handle| handle.vocabulary.is_end(TokenId(token)))
}

/// Gives the bytes of `token`, which live as long as the vocabulary. The bytes are empty for tokens
/// outside of the vocabulary, and do not end with NUL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_vocabulary_bytes(
    vocabulary: Option<&FormworkVocabulary>,
    token: u32,
    bytes: Option<&mut MaybeUninit<FormworkSlice>>,
    error: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
) -> FormworkStatus {
    guard::run(error, || {
        let handle = guard::required(vocabulary, "vocabulary")?;
        let result = guard::required(bytes, "bytes")?;
        let bytes = handle.vocabulary.bytes(TokenId(token));
        result.write(FormworkSlice { data: bytes.as_ptr(), length: bytes.len() });
        Ok(())
    })
}

/// Frees a vocabulary. Accepts NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_vocabulary_free(vocabulary: Option<Box<FormworkVocabulary>>) {
    guard::free(vocabulary);
}
