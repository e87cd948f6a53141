//! The border to C: results, panics, and the caller's arrays.

use std::any::Any;
use std::fmt::Display;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::thread;

use crate::error::{FormworkError, FormworkStatus};
use crate::failure::Failure;

/// Stack of the thread that compiles a grammar, in bytes.
///
/// Nested schemas are compiled by recursion, and 1,000 levels overflow 512 KiB. Secondary threads have no
/// more than that on macOS.
const STACK: usize = 16 << 20;

/// Runs the body of a function, catches its panics, and writes the error to `slot`.
pub(crate) fn run(
    slot: Option<&mut MaybeUninit<Option<Box<FormworkError>>>>,
    body: impl FnOnce() -> Result<(), Failure>,
) -> FormworkStatus {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(&*payload)));
    let error = result.err().map(|failure| Box::new(FormworkError::from(failure)));
    let status = crate::formwork_error_status(error.as_deref());
    if let Some(slot) = slot {
        slot.write(error);
    }
    status
}

/// Frees a handle, and catches panics.
pub(crate) fn free<T>(handle: Option<Box<T>>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
}

/// Runs `work` on a thread with enough stack for the deepest sources.
pub(crate) fn with_stack<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("formwork-compile".to_owned()).stack_size(STACK);
        let thread = builder.spawn_scoped(scope, work).map_err(Failure::Thread)?;
        thread.join().unwrap_or_else(|payload| Err(panicked(&*payload)))
    })
}

fn panicked(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Failure::Panic { message: text.unwrap_or("a panic without a message").to_owned() }
}

/// Returns the referenced argument, or an error if it is NULL.
pub(crate) fn required<T>(argument: Option<T>, name: impl Display) -> Result<T, Failure> {
    argument.ok_or_else(|| Failure::Null { argument: name.to_string() })
}

/// Returns the array of `length` elements at `data`.
///
/// # Safety
/// `data` must be valid for reads of `length` elements for the lifetime `'a`, unless it is NULL.
pub(crate) unsafe fn array<'a, T>(
    data: *const T,
    length: usize,
    name: impl Display,
) -> Result<&'a [T], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    check_array(data, length, name)?;
    // SAFETY: the pointer is aligned and not NULL, the size is within the limit, and the caller promises
    // the rest.
    Ok(unsafe { slice::from_raw_parts(data, length) })
}

/// Returns the array of `length` elements at `data`, which may be uninitialised, for writing.
///
/// # Safety
/// `data` must be valid for writes of `length` elements for the lifetime `'a`, unless it is NULL. No
/// other reference may lead to the elements.
pub(crate) unsafe fn output<'a, T>(
    data: *mut T,
    length: usize,
    name: impl Display,
) -> Result<&'a mut [MaybeUninit<T>], Failure> {
    if length == 0 {
        return Ok(&mut []);
    }
    check_array(data, length, name)?;
    // SAFETY: the pointer is aligned and not NULL, the size is within the limit, and the caller promises
    // the rest.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), length) })
}

fn check_array<T>(data: *const T, length: usize, name: impl Display) -> Result<(), Failure> {
    let argument = || name.to_string();
    let limit = isize::MAX as usize;
    let size = length.saturating_mul(size_of::<T>());
    if data.is_null() {
        Err(Failure::Null { argument: argument() })
    } else if !data.is_aligned() {
        Err(Failure::Misaligned { argument: argument(), align: align_of::<T>() })
    } else if size > limit {
        Err(Failure::TooLong { argument: argument(), given: size, limit })
    } else {
        Ok(())
    }
}

/// Returns the text of `length` bytes at `data`.
///
/// # Safety
/// As for [`array`].
pub(crate) unsafe fn text<'a>(
    data: *const u8,
    length: usize,
    name: impl Display + Copy,
) -> Result<&'a str, Failure> {
    // SAFETY: the caller makes the same promise.
    let bytes = unsafe { array(data, length, name) }?;
    str::from_utf8(bytes)
        .map_err(|error| Failure::NotUtf8 { argument: name.to_string(), offset: error.valid_up_to() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{formwork_error_free, formwork_error_message};

    #[test]
    fn panics_become_errors() {
        let mut error = MaybeUninit::uninit();
        assert_eq!(run(Some(&mut error), || panic!("number {}", 7)), FormworkStatus::Internal);
        // SAFETY: `run` writes the error.
        let error = unsafe { error.assume_init() };
        // SAFETY: the message is a C string that lives as long as the error.
        let message = unsafe { std::ffi::CStr::from_ptr(formwork_error_message(error.as_deref())) };
        assert_eq!(message.to_str(), Ok("internal error: number 7"));
        formwork_error_free(error);
        let result = with_stack::<()>(|| panic!("seven"));
        assert!(matches!(result, Err(Failure::Panic { message }) if message == "seven"));
    }

    #[test]
    fn handles_can_move_and_be_shared() {
        const fn shared<T: Send + Sync>() {}
        const fn moved<T: Send>() {}
        shared::<FormworkError>();
        shared::<crate::FormworkVocabulary>();
        shared::<crate::FormworkTokenizer>();
        shared::<crate::FormworkGrammar>();
        shared::<crate::FormworkConstraint>();
        moved::<crate::FormworkMatcher>();
    }
}
