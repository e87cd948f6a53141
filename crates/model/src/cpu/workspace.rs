//! Memory that later forward passes reuse. Large buffers are neither allocated again nor cleared.

use formwork_kernels::COLUMNS;

use super::head::Outlook;
use super::product::Rounded;

/// Intermediate results of a forward pass. Each is written before it is read. The results within a
/// layer have the shape `[tokens, …]`.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    /// Residual stream. Shape: `[tokens, hidden]`.
    pub(super) residual: Vec<f32>,
    /// Input of a block after its norm. `result` is the output of the block.
    pub(super) normed: Vec<f32>,
    pub(super) result: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
    pub(super) attended: Vec<f32>,
    /// Partial results of attention: one for each query head and span of positions.
    pub(super) parts: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    /// Projections of the input of a convolution or recurrence, and the results of the convolution.
    pub(super) mixed: Vec<f32>,
    pub(super) convolved: Vec<f32>,
    /// Factors of the states of a recurrence, and the rates of the delta rule. Shape: `[tokens, heads]`.
    pub(super) decays: Vec<f32>,
    pub(super) rates: Vec<f32>,
    /// Results of a recurrence by blocks of columns.
    pub(super) blocks: Vec<[f32; COLUMNS]>,
    /// Additional inputs of all layers. Shape: `[tokens, layers, width]`.
    pub(super) per_layer_inputs: Vec<f32>,
    pub(super) rounded: Rounded,
    pub(super) head: Outlook,
    /// Products of several tokens with the head. Shape: `[tokens, vocabulary]`.
    pub(super) together: Vec<f32>,
    pub(super) logits: LogitRows,
}

/// Rows of logits that have been returned, and can be reused.
#[derive(Debug, Default)]
pub(super) struct LogitRows {
    spare: Vec<Vec<f32>>,
}

impl LogitRows {
    /// Maximum number of rows to keep. This number exceeds the engine's default number of parallel
    /// sequences.
    const MOST: usize = 32;

    /// Returns a row of `len` elements with arbitrary content. Reuses a row if possible.
    pub(super) fn take(&mut self, len: usize) -> Vec<f32> {
        self.spare.pop().filter(|row| row.len() == len).unwrap_or_else(|| vec![0.0; len])
    }

    pub(super) fn give_back(&mut self, rows: impl Iterator<Item = Vec<f32>>) {
        let room = Self::MOST - self.spare.len();
        self.spare.extend(rows.take(room));
    }
}

/// Returns the first `len` elements of `memory`, with arbitrary content. Extends `memory` if it is
/// shorter.
pub(super) fn room<T: Clone + Default>(memory: &mut Vec<T>, len: usize) -> &mut [T] {
    if memory.len() < len {
        // Clearing first avoids copying the old content.
        memory.clear();
        memory.resize(len, T::default());
    }
    &mut memory[..len]
}
