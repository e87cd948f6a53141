//! Memory that is reused by later forward passes. Large buffers are neither allocated nor cleared
//! again.

use super::head::Outlook;
use super::product::Rounded;

/// Intermediate results of a pass. Those of a layer have the shape `[tokens, …]`. All are written
/// before they are read.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// The residual stream.
    pub(super) residual: Vec<f32>,
    /// Input of a block after its norm. The next field is the block's output.
    pub(super) normed: Vec<f32>,
    pub(super) result: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
    pub(super) attended: Vec<f32>,
    /// Partial results of attention heads in spans of positions.
    pub(super) parts: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) rounded: Rounded,
    pub(super) head: Outlook,
    /// Products of several tokens with the head.
    pub(super) together: Vec<f32>,
    pub(super) logits: LogitRows,
}

/// Rows of logits that were returned for reuse.
#[derive(Debug, Default)]
pub(super) struct LogitRows {
    spare: Vec<Vec<f32>>,
}

impl LogitRows {
    /// Maximum number of rows to keep. This is more than the engine's default number of parallel
    /// sequences.
    const MOST: usize = 32;

    /// Returns a row of `len` elements with arbitrary content.
    pub(super) fn take(&mut self, len: usize) -> Vec<f32> {
        self.spare.pop().filter(|row| row.len() == len).unwrap_or_else(|| vec![0.0; len])
    }

    pub(super) fn give_back(&mut self, rows: impl Iterator<Item = Vec<f32>>) {
        let room = Self::MOST - self.spare.len();
        self.spare.extend(rows.take(room));
    }
}

/// Returns the first `len` elements of `memory`, with arbitrary content. Enlarges `memory` if
/// necessary.
pub(super) fn room<T: Clone + Default>(memory: &mut Vec<T>, len: usize) -> &mut [T] {
    if memory.len() < len {
        // Clearing first avoids copying the old content.
        memory.clear();
        memory.resize(len, T::default());
    }
    &mut memory[..len]
}
