//! Memory of a pass that is kept for the next: what is large is not asked for again, and not cleared in between.

use super::head::Outlook;
use super::product::Rounded;

/// What a layer writes on its way, `[tokens, …]` each. Nothing of it is read before it is written.
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
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) rounded: Rounded,
    pub(super) head: Outlook,
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
