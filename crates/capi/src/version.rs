use std::ffi::{CStr, c_char};

/// The version as a C string.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no NUL"),
};

/// Returns the version of the library, for example "0.1.0". The text lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_version() -> *const c_char {
    VERSION.as_ptr()
}
