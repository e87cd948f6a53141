use std::ptr;

/// A borrowed array of bytes, as an argument.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FormworkSlice {
    /// The first byte. May be NULL if `length` is 0.
    pub data: *const u8,
    /// Number of bytes.
    pub length: usize,
}

/// Bytes that belong to the caller, who frees them with `formwork_bytes_free`.
#[repr(C)]
pub struct FormworkBytes {
    /// The first byte. A NUL that `length` does not count follows the last byte.
    pub data: *mut u8,
    /// Number of bytes.
    pub length: usize,
}

/// Tokens that belong to the caller, who frees them with `formwork_tokens_free`.
#[repr(C)]
pub struct FormworkTokens {
    /// The first token. NULL if there are no tokens.
    pub data: *mut u32,
    /// Number of tokens.
    pub length: usize,
}

impl From<Vec<u8>> for FormworkBytes {
    fn from(mut bytes: Vec<u8>) -> Self {
        let length = bytes.len();
        bytes.push(0);
        Self { data: Box::into_raw(bytes.into_boxed_slice()).cast(), length }
    }
}

impl From<Vec<u32>> for FormworkTokens {
    fn from(tokens: Vec<u32>) -> Self {
        if tokens.is_empty() {
            return Self { data: ptr::null_mut(), length: 0 };
        }
        let length = tokens.len();
        Self { data: Box::into_raw(tokens.into_boxed_slice()).cast(), length }
    }
}

/// Frees bytes that the library returned, and sets the struct to NULL and 0. Accepts NULL, and a
/// struct that was freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_bytes_free(bytes: Option<&mut FormworkBytes>) {
    let Some(bytes) = bytes.filter(|bytes| !bytes.data.is_null()) else { return };
    let whole = ptr::slice_from_raw_parts_mut(bytes.data, bytes.length + 1);
    // SAFETY: the struct comes from the library, so `data` is a box of `length` bytes and a NUL. The
    // struct is cleared, so the box is freed once.
    drop(unsafe { Box::from_raw(whole) });
    *bytes = FormworkBytes { data: ptr::null_mut(), length: 0 };
}

/// Frees tokens that the library returned, and sets the struct to NULL and 0. Accepts NULL, and a
/// struct that was freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn formwork_tokens_free(tokens: Option<&mut FormworkTokens>) {
    let Some(tokens) = tokens.filter(|tokens| !tokens.data.is_null()) else { return };
    let whole = ptr::slice_from_raw_parts_mut(tokens.data, tokens.length);
    // SAFETY: the struct comes from the library, so `data` is a box of `length` tokens. The struct is
    // cleared, so the box is freed once.
    drop(unsafe { Box::from_raw(whole) });
    *tokens = FormworkTokens { data: ptr::null_mut(), length: 0 };
}
