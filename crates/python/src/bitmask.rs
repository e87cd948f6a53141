//! Masks in memory that Python owns, such as a `NumPy` array or a tensor.

use std::num::NonZeroUsize;

use formwork_grammar::Matcher;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::matcher::PyMatcher;

/// A row of a bitmask: 32-bit words in memory of the caller.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    address: usize,
    words: usize,
}

impl Row {
    pub(crate) const fn new(address: usize, words: usize) -> Self {
        Self { address, words }
    }

    /// Writes the mask at the position of `matcher`. Returns true if the mask forbids a token.
    ///
    /// `within` is the number of tokens within which the output must be able to close. Words behind the
    /// vocabulary become 0.
    #[allow(unsafe_code, reason = "the memory belongs to a Python object")]
    pub(crate) fn fill(self, matcher: &mut Matcher, within: Option<usize>) -> bool {
        let mask;
        let shared;
        let set = if let Some(within) = within {
            mask = matcher.mask_within(within);
            &mask
        } else {
            shared = matcher.mask();
            &*shared
        };
        let row = self.address as *mut u32;
        let (whole, rest) = (set.universe() / 32, set.universe() % 32);
        let mut forbids = false;
        let words = set.words().iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
        for (index, word) in words.chain(std::iter::repeat(0)).take(self.words).enumerate() {
            forbids |= match index {
                _ if index < whole => word != u32::MAX,
                _ if index == whole => word != (1 << rest) - 1,
                _ => false,
            };
            // SAFETY: the Python code passes the address and the length of a writable, contiguous row of
            // 32-bit integers, which it keeps alive during the call.
            unsafe { row.add(index).write_unaligned(word) };
        }
        forbids
    }
}

/// A matcher with the row for its mask.
struct Job<'m> {
    matcher: &'m mut Matcher,
    row: Row,
    within: Option<usize>,
    forbids: bool,
}

/// Writes the masks of several matchers, in threads and without the interpreter.
///
/// addresses: the memory of each mask, of `words` 32-bit words.
/// within: for each matcher, the number of tokens within which the output must be able to close.
/// threads: number of threads, or 0 for one per core.
#[pyfunction]
#[pyo3(signature = (matchers, addresses, words, within = None, threads = 0))]
pub(crate) fn fill_batch(
    py: Python<'_>,
    matchers: Vec<Bound<'_, PyMatcher>>,
    addresses: Vec<usize>,
    words: usize,
    within: Option<Vec<Option<usize>>>,
    threads: usize,
) -> PyResult<Vec<bool>> {
    let count = matchers.len();
    let within = within.unwrap_or_else(|| vec![None; count]);
    if addresses.len() != count || within.len() != count {
        return Err(PyValueError::new_err("one address and one limit are needed for each matcher"));
    }
    let borrowed = matchers.iter().map(|matcher| matcher.try_borrow_mut().map_err(PyErr::from));
    let mut borrowed = borrowed.collect::<PyResult<Vec<_>>>()?;
    let mut jobs: Vec<Job<'_>> = borrowed
        .iter_mut()
        .zip(addresses.into_iter().zip(within))
        .map(|(matcher, (address, within))| Job {
            matcher: &mut matcher.inner,
            row: Row::new(address, words),
            within,
            forbids: false,
        })
        .collect();
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = if threads == 0 { cores() } else { threads }.min(count);
    py.detach(|| fill_all(&mut jobs, threads));
    Ok(jobs.iter().map(|job| job.forbids).collect())
}

/// Fills all rows with up to `threads` threads, including the caller's.
fn fill_all(jobs: &mut [Job<'_>], threads: usize) {
    let fill = |jobs: &mut [Job<'_>]| {
        for job in jobs {
            job.forbids = job.row.fill(job.matcher, job.within);
        }
    };
    // Starting threads costs more than a few masks.
    if threads < 2 || jobs.len() < 2 * threads {
        return fill(jobs);
    }
    std::thread::scope(|scope| {
        let mut parts = jobs.chunks_mut(jobs.len().div_ceil(threads));
        let own = parts.next();
        for part in parts {
            scope.spawn(move || fill(part));
        }
        own.map(fill);
    });
}
