//! Memory of a pass that is kept for the next: what is large is not asked for again, and not cleared in between.

use super::head::Outlook;
use super::product::Rounded;

/// What a pass writes on its way, in a layer `[tokens, …]` each. Nothing of it is read before it is written.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// The residual stream.
    pub(super) residual: Vec<f32>,
    /// What enters a block, and what it gives.
    pub(super) normed: Vec<f32>,
    pub(super) result: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
    pub(super) attended: Vec<f32>,
    /// What heads come to in spans of positions.
    pub(super) parts: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) rounded: Rounded,
    pub(super) head: Outlook,
    /// Products with the head, of several tokens.
    pub(super) together: Vec<f32>,
    pub(super) logits: LogitRows,
}

/// Rows of logits that came back.
#[derive(Debug, Default)]
pub(super) struct LogitRows {
    spare: Vec<Vec<f32>>,
}

impl LogitRows {
    /// Rows that are kept: more than there are sequences by default.
    const MOST: usize = 32;

    /// A row of so many elements; what is in them does not count.
    pub(super) fn take(&mut self, len: usize) -> Vec<f32> {
        self.spare.pop().filter(|row| row.len() == len).unwrap_or_else(|| vec![0.0; len])
    }

    pub(super) fn give_back(&mut self, rows: impl Iterator<Item = Vec<f32>>) {
        let room = Self::MOST - self.spare.len();
        self.spare.extend(rows.take(room));
    }
}

/// The first `len` elements, of which there are so many afterwards; what is in them does not count.
pub(super) fn room<T: Clone + Default>(memory: &mut Vec<T>, len: usize) -> &mut [T] {
    if memory.len() < len {
        // What was there need not be kept.
        memory.clear();
        memory.resize(len, T::default());
    }
    &mut memory[..len]
}
