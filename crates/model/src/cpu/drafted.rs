//! Inputs of drafted tokens.
//!
//! A state cannot be cut, and most passes remove some of the drafts that they check. So a pass writes
//! no drafts to the state of a sequence. The sequence keeps what they would write, and the next pass
//! writes the remaining ones.

use formwork_kernels::{COLUMNS, Recurrence, Vectors, advance};

use crate::spec::RecurrenceSpec;

/// Maximum number of drafted tokens. Earlier tokens of a pass are written to the state.
pub(super) const MOST_DRAFTS: usize = 32;

/// Inputs of the drafted tokens at the end of a sequence, for all layers.
#[derive(Debug)]
pub(super) struct Drafted {
    /// Number of tokens.
    count: usize,
    /// Has an element for each layer up to the last one with a state.
    layers: Vec<LayerInputs>,
}

/// Inputs of drafted tokens in one layer.
#[derive(Clone, Debug, Default)]
struct LayerInputs {
    /// Inputs of the convolution. Shape: `[tokens, channels]`.
    convolution: Vec<f32>,
    /// Key, value, decay and rate of each token in each head. Shape:
    /// `[tokens, heads, rows + columns + 2]`.
    recurrence: Vec<f32>,
}

impl Clone for Drafted {
    fn clone(&self) -> Self {
        let layers = if self.count == 0 { Vec::new() } else { self.layers.clone() };
        Self { count: self.count, layers }
    }
}

impl Drafted {
    pub(super) const fn new() -> Self {
        Self { count: 0, layers: Vec::new() }
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Ends a pass that has set the inputs of `count` tokens in all layers.
    pub(super) fn finish(&mut self, count: usize) {
        self.count = count;
        if count == 0 {
            self.inputs().for_each(Vec::clear);
        }
    }

    /// Keeps the first `count` tokens.
    pub(super) fn truncate(&mut self, count: usize) {
        let before = std::mem::replace(&mut self.count, count);
        self.inputs().for_each(|inputs| inputs.truncate(inputs.len() / before * count));
    }

    /// Gives back the memory beyond that of the tokens.
    pub(super) fn shrink(&mut self) {
        self.inputs().for_each(Vec::shrink_to_fit);
    }

    /// Removes the first `count` tokens.
    pub(super) fn remove_first(&mut self, count: usize) {
        let before = self.count;
        self.inputs().for_each(|inputs| drop(inputs.drain(..inputs.len() / before * count)));
        self.count -= count;
    }

    fn inputs(&mut self) -> impl Iterator<Item = &mut Vec<f32>> {
        self.layers.iter_mut().flat_map(|layer| [&mut layer.convolution, &mut layer.recurrence])
    }

    /// Returns the inputs of a layer's convolution. Shape: `[tokens, channels]`.
    pub(super) fn convolution(&self, layer: usize) -> &[f32] {
        self.layers.get(layer).map_or(&[], |inputs| &inputs.convolution)
    }

    /// Sets the inputs of a layer's convolution.
    pub(super) fn set_convolution<'r>(&mut self, layer: usize, rows: impl Iterator<Item = &'r [f32]>) {
        let inputs = &mut self.layer(layer).convolution;
        inputs.clear();
        rows.for_each(|row| inputs.extend_from_slice(row));
    }

    /// Adds the tokens to columns of a head's state: those from `column` on.
    pub(super) fn write(
        &self,
        (layer, shape): (usize, &RecurrenceSpec),
        (head, column): (usize, usize),
        count: usize,
        state: &mut [[f32; COLUMNS]],
    ) {
        if count == 0 {
            return;
        }
        let inputs = &self.layers[layer].recurrence;
        let RecurrenceSpec { heads, rows, columns, is_delta_rule } = *shape;
        let len = rows + columns + 2;
        let vectors = |offset, elements| Vectors::new(&inputs[head * len + offset..], heads * len, elements);
        let keys = vectors(0, rows);
        let run = Recurrence {
            keys,
            // The results are not used.
            queries: keys,
            values: vectors(rows, columns),
            decays: vectors(rows + columns, 1),
            rates: is_delta_rule.then(|| vectors(rows + columns + 1, 1)),
        };
        let mut results = [[0.0; COLUMNS]; MOST_DRAFTS];
        advance(&run, column, state, &mut results[..count]);
    }

    /// Sets the inputs of a layer's recurrence: for each token, the inputs of all heads.
    pub(super) fn set_recurrence<'r>(&mut self, layer: usize, heads: impl Iterator<Item = HeadInput<'r>>) {
        let inputs = &mut self.layer(layer).recurrence;
        inputs.clear();
        for HeadInput { key, value, decay, rate } in heads {
            inputs.extend_from_slice(key);
            inputs.extend_from_slice(value);
            inputs.extend([decay, rate]);
        }
    }

    fn layer(&mut self, index: usize) -> &mut LayerInputs {
        if self.layers.len() <= index {
            self.layers.resize_with(index + 1, LayerInputs::default);
        }
        &mut self.layers[index]
    }
}

/// Input of a recurrence: what a token writes to the state of a head.
pub(super) struct HeadInput<'a> {
    pub(super) key: &'a [f32],
    pub(super) value: &'a [f32],
    pub(super) decay: f32,
    /// Any number for a recurrence without the delta rule.
    pub(super) rate: f32,
}
