//! Mutable views of output matrices, which can be split into disjoint parts.

#![allow(unsafe_code, reason = "parts of a matrix that are written at the same time are disjoint")]

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

/// A mutable view of a `[tokens, rows]` matrix of outputs. The view can be split by rows or by
/// tokens into views that are written at the same time.
///
/// ```
/// use formwork_kernels::MatrixMut;
///
/// let mut floats = [0.0; 6];
/// let mut rest = MatrixMut::new(&mut floats, 3);
/// let mut first = rest.split_off(1);
/// first.token(1)[0] = 1.0;
/// rest.token(1)[1] = 2.0;
/// assert_eq!([0.0, 0.0, 0.0, 1.0, 0.0, 2.0], floats);
/// ```
pub struct MatrixMut<'a> {
    /// Points to the first row of the first token.
    first: *mut f32,
    /// Distance between two tokens, in elements.
    stride: usize,
    tokens: usize,
    rows: usize,
    floats: PhantomData<&'a mut [f32]>,
}

// SAFETY: the view is equivalent to one `&mut [f32]` per token, and `&mut [f32]` is `Send`.
unsafe impl Send for MatrixMut<'_> {}
// SAFETY: the safe methods give no access to elements through a shared reference.
unsafe impl Sync for MatrixMut<'_> {}

impl<'a> MatrixMut<'a> {
    /// Creates a view of `floats` with `rows` outputs per token.
    ///
    /// # Panics
    /// Panics if `rows` is 0, or if the length of `floats` is not a multiple of `rows`.
    pub fn new(floats: &'a mut [f32], rows: usize) -> Self {
        assert!(floats.len().is_multiple_of(rows), "the length must be a multiple of {rows} rows");
        Self {
            first: floats.as_mut_ptr(),
            stride: rows,
            tokens: floats.len() / rows,
            rows,
            floats: PhantomData,
        }
    }

    /// Returns the number of tokens.
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns the number of outputs per token.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the outputs of token `token`, one element per row.
    ///
    /// # Panics
    /// Panics if `token` is not less than [`MatrixMut::tokens`].
    #[inline]
    pub fn token(&mut self, token: usize) -> &mut [f32] {
        assert!(token < self.tokens, "token {token} is out of range ({} tokens)", self.tokens);
        // SAFETY: the token is in range, as asserted above, so its `rows` elements lie in the
        // matrix. Only this view refers to them, and the result borrows the view mutably.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(token * self.stride), self.rows) }
    }

    /// Returns a view of the tokens in the range `tokens`, with all rows.
    ///
    /// # Panics
    /// Panics if the range is not within the view.
    #[inline]
    pub fn of(&mut self, tokens: Range<usize>) -> MatrixMut<'_> {
        assert!(
            tokens.start <= tokens.end && tokens.end <= self.tokens,
            "tokens {tokens:?} are out of range ({} tokens)",
            self.tokens
        );
        let first = self.first.wrapping_add(tokens.start * self.stride);
        MatrixMut { first, tokens: tokens.len(), ..*self }
    }

    /// Splits off and returns the first `rows` rows. The view keeps the others.
    ///
    /// # Panics
    /// Panics if the view has fewer rows.
    #[must_use]
    pub fn split_off(&mut self, rows: usize) -> Self {
        assert!(rows <= self.rows, "{rows} rows exceed the {} rows of the matrix", self.rows);
        let first = Self { rows, ..*self };
        self.first = self.first.wrapping_add(rows);
        self.rows -= rows;
        first
    }

    /// Returns a view of rows `first..first + len`, or up to the last row if the view has fewer
    /// rows.
    ///
    /// # Safety
    /// `first` must be at most [`MatrixMut::rows`]. While the result is alive, nothing else may
    /// access the same rows.
    pub(crate) unsafe fn rows_from(&self, first: usize, len: usize) -> MatrixMut<'_> {
        MatrixMut { first: self.first.wrapping_add(first), rows: len.min(self.rows - first), ..*self }
    }

    /// Splits the view into two: the first `tokens` tokens, and the other tokens.
    ///
    /// # Panics
    /// Panics if the view has fewer tokens.
    #[must_use]
    pub fn split_at_token(mut self, tokens: usize) -> (Self, Self) {
        let MatrixMut { first, tokens: rest, .. } = self.of(tokens..self.tokens);
        (Self { tokens, ..self }, Self { first, tokens: rest, ..self })
    }

    /// Returns an iterator over the tokens. Each element is the outputs of one token, one per row.
    pub fn into_tokens(self) -> impl Iterator<Item = &'a mut [f32]> {
        let Self { first, stride, rows, .. } = self;
        // SAFETY: all tokens are in range, so their `rows` elements lie in the matrix. The view is
        // consumed, and each token is returned once.
        (0..self.tokens)
            .map(move |token| unsafe { std::slice::from_raw_parts_mut(first.add(token * stride), rows) })
    }
}

impl fmt::Debug for MatrixMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatrixMut").field("tokens", &self.tokens).field("rows", &self.rows).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_all_there_is() {
        let mut floats = [0.0; 3 * 7];
        let mut right = MatrixMut::new(&mut floats, 7);
        let left = right.split_off(4);
        let (above, below) = left.split_at_token(1);
        let (all, none) = right.split_at_token(3);
        assert_eq!((none.tokens(), none.rows()), (0, 3));
        for (value, part) in [(1.0, above), (2.0, below), (3.0, all)] {
            for out in part.into_tokens() {
                for out in out {
                    *out += value;
                }
            }
        }
        let row = |value: f32| [value, value, value, value, 3.0, 3.0, 3.0];
        assert_eq!(floats.as_chunks::<7>().0, [row(1.0), row(2.0), row(2.0)]);
        let mut outputs = MatrixMut::new(&mut floats, 7);
        outputs.of(1..3).token(0).fill(5.0);
        assert_eq!(outputs.of(3..3).tokens(), 0);
        assert_eq!(floats[7..14], [5.0; 7]);
    }

    #[test]
    #[should_panic(expected = "the length must be a multiple of 2 rows")]
    fn rejects_a_length_that_is_no_multiple_of_the_rows() {
        let _ = MatrixMut::new(&mut [0.0; 3], 2);
    }
}
