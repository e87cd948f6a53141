//! Calls of the C ABI with results of Rust.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use formwork_capi::{
    FORMWORK_TOKEN_CONTROL, FORMWORK_TOKEN_TEXT, FormworkBytes, FormworkConstraint, FormworkError,
    FormworkGrammar, FormworkMatcher, FormworkOptions, FormworkSlice, FormworkStatus, FormworkToken,
    FormworkTokens, FormworkVocabulary, formwork_bytes_free, formwork_constraint_free,
    formwork_constraint_new, formwork_error_column, formwork_error_excerpt, formwork_error_free,
    formwork_error_keyword, formwork_error_line, formwork_error_message, formwork_error_pointer,
    formwork_error_status, formwork_grammar_free, formwork_matcher_mask, formwork_matcher_new,
    formwork_tokens_free, formwork_vocabulary_free, formwork_vocabulary_mask_words, formwork_vocabulary_new,
};

pub(crate) type Slot<'a, T> = Option<&'a mut MaybeUninit<T>>;
pub(crate) type ErrorSlot<'a> = Slot<'a, Option<Box<FormworkError>>>;

/// Contents of a [`FormworkError`].
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) status: FormworkStatus,
    pub(crate) message: String,
    pub(crate) pointer: Option<String>,
    pub(crate) keyword: Option<String>,
    pub(crate) excerpt: Option<String>,
    pub(crate) place: (usize, usize),
}

/// Calls a function that has no output, and frees its error.
pub(crate) fn done(call: impl FnOnce(ErrorSlot<'_>) -> FormworkStatus) -> Result<(), Said> {
    let mut error = MaybeUninit::uninit();
    let status = call(Some(&mut error));
    // SAFETY: every function writes the error.
    let error = unsafe { error.assume_init() };
    assert_eq!(error.is_some(), status != FormworkStatus::Ok);
    match error {
        None => Ok(()),
        Some(error) => {
            let said = said(&error);
            assert_eq!(said.status, status);
            formwork_error_free(Some(error));
            Err(said)
        }
    }
}

/// Calls a function with an output.
pub(crate) fn get<T>(call: impl FnOnce(Slot<'_, T>, ErrorSlot<'_>) -> FormworkStatus) -> Result<T, Said> {
    let mut output = MaybeUninit::uninit();
    done(|error| call(Some(&mut output), error))?;
    // SAFETY: a function that succeeds writes its output.
    Ok(unsafe { output.assume_init() })
}

/// Calls a function that gives a handle.
pub(crate) fn handle<T>(
    call: impl FnOnce(Slot<'_, Option<Box<T>>>, ErrorSlot<'_>) -> FormworkStatus,
) -> Result<Box<T>, Said> {
    get(call).map(|handle| handle.expect("a handle"))
}

pub(crate) fn bytes(
    call: impl FnOnce(Slot<'_, FormworkBytes>, ErrorSlot<'_>) -> FormworkStatus,
) -> Result<Vec<u8>, Said> {
    let mut bytes = get(call)?;
    // SAFETY: the library returns `length` bytes and a NUL.
    let found = unsafe { std::slice::from_raw_parts(bytes.data, bytes.length + 1) }.to_vec();
    // SAFETY: the bytes come from the library.
    unsafe { formwork_bytes_free(Some(&mut bytes)) };
    assert!(bytes.data.is_null() && bytes.length == 0);
    // SAFETY: freed bytes are NULL.
    unsafe { formwork_bytes_free(Some(&mut bytes)) };
    let (&last, found) = found.split_last().expect("a NUL");
    assert_eq!(last, 0);
    Ok(found.to_vec())
}

pub(crate) fn tokens(
    call: impl FnOnce(Slot<'_, FormworkTokens>, ErrorSlot<'_>) -> FormworkStatus,
) -> Result<Vec<u32>, Said> {
    let mut tokens = get(call)?;
    let found = match tokens.length {
        0 => Vec::new(),
        // SAFETY: the library returns `length` tokens.
        length => unsafe { std::slice::from_raw_parts(tokens.data, length) }.to_vec(),
    };
    // SAFETY: the tokens come from the library.
    unsafe { formwork_tokens_free(Some(&mut tokens)) };
    assert!(tokens.data.is_null());
    Ok(found)
}

fn said(error: &FormworkError) -> Said {
    let text = |start: *const c_char| {
        // SAFETY: the library returns NULL or a text with a NUL.
        (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_str().expect("UTF-8").to_owned())
    };
    Said {
        status: formwork_error_status(Some(error)),
        message: text(formwork_error_message(Some(error))).expect("a message"),
        pointer: text(formwork_error_pointer(Some(error))),
        keyword: text(formwork_error_keyword(Some(error))),
        excerpt: text(formwork_error_excerpt(Some(error))),
        place: (formwork_error_line(Some(error)), formwork_error_column(Some(error))),
    }
}

/// A function that compiles a text.
pub(crate) type Compile = unsafe extern "C" fn(
    *const c_char,
    usize,
    *const FormworkOptions,
    Slot<'_, Option<Box<FormworkGrammar>>>,
    ErrorSlot<'_>,
) -> FormworkStatus;

pub(crate) fn compile_with(
    compile: Compile,
    text: &[u8],
    options: Option<&FormworkOptions>,
) -> Result<Box<FormworkGrammar>, Said> {
    let options = options.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the text and the options are alive.
    handle(|grammar, error| unsafe { compile(text.as_ptr().cast(), text.len(), options, grammar, error) })
}

pub(crate) fn compile(compile: Compile, text: &str) -> Result<Box<FormworkGrammar>, Said> {
    compile_with(compile, text.as_bytes(), None)
}

pub(crate) fn slice(bytes: &[u8]) -> FormworkSlice {
    FormworkSlice { data: bytes.as_ptr(), length: bytes.len() }
}

pub(crate) fn token(bytes: &[u8]) -> FormworkToken {
    FormworkToken { bytes: slice(bytes), kind: FORMWORK_TOKEN_TEXT }
}

pub(crate) fn vocabulary(tokens: &[FormworkToken], ends: &[u32]) -> Result<Box<FormworkVocabulary>, Said> {
    // SAFETY: the arrays are alive.
    handle(|vocabulary, error| unsafe {
        let (tokens, ends) = ((tokens.as_ptr(), tokens.len()), (ends.as_ptr(), ends.len()));
        formwork_vocabulary_new(tokens.0, tokens.1, ends.0, ends.1, vocabulary, error)
    })
}

/// One token for each byte, and the end token 256.
pub(crate) fn byte_vocabulary() -> Box<FormworkVocabulary> {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut tokens: Vec<FormworkToken> = bytes.chunks(1).map(token).collect();
    tokens.push(FormworkToken { bytes: slice(b"</s>"), kind: FORMWORK_TOKEN_CONTROL });
    vocabulary(&tokens, &[256]).expect("a vocabulary")
}

/// Binds a grammar to a vocabulary, and frees both.
pub(crate) fn constraint(
    grammar: Box<FormworkGrammar>,
    vocabulary: Box<FormworkVocabulary>,
) -> Box<FormworkConstraint> {
    let constraint = handle(|constraint, error| {
        formwork_constraint_new(Some(&grammar), Some(&vocabulary), constraint, error)
    });
    formwork_grammar_free(Some(grammar));
    formwork_vocabulary_free(Some(vocabulary));
    constraint.expect("a constraint")
}

/// Returns a matcher over [`byte_vocabulary`], after everything that it depends on is freed.
pub(crate) fn matcher(grammar: Box<FormworkGrammar>) -> Box<FormworkMatcher> {
    let constraint = constraint(grammar, byte_vocabulary());
    let matcher = handle(|matcher, error| formwork_matcher_new(Some(&constraint), matcher, error));
    formwork_constraint_free(Some(constraint));
    matcher.expect("a matcher")
}

/// Returns the allowed tokens.
pub(crate) fn mask(matcher: &mut FormworkMatcher, len: u32) -> Vec<u32> {
    let mut words = vec![u32::MAX; (len as usize).div_ceil(32) + 2];
    // SAFETY: the buffer is alive.
    let allowed = get(|allowed, error| unsafe {
        formwork_matcher_mask(Some(matcher), words.as_mut_ptr(), words.len(), allowed, error)
    });
    let tokens: Vec<u32> =
        (0..words.len() as u32 * 32).filter(|t| words[*t as usize / 32] >> (t % 32) & 1 == 1).collect();
    assert_eq!(allowed, Ok(tokens.len()));
    tokens
}

/// Checks the number of words of a mask.
pub(crate) fn mask_words(vocabulary: &FormworkVocabulary) -> usize {
    formwork_vocabulary_mask_words(Some(vocabulary))
}
