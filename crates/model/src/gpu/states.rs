//! States of convolutions and recurrences, in the memory of the device.
//!
//! A state is that after the last token of a sequence. It cannot be cut back to an earlier token, so
//! a sequence keeps snapshots: copies of earlier states. To remove tokens, a sequence returns to the
//! last snapshot before them and computes the tokens in between again.
//!
//! A state is a slot of a pool. A pass reads one slot and writes another if sequences or snapshots share
//! the first, so nothing is copied.

use std::sync::Arc;

use formwork_gpu::recurrent::{Convolution, Segment};
use formwork_gpu::{Buffer, Gpu, GpuError};

use crate::paged::{Block, Blocks};
use crate::spec::{LayerSpec, ModelSpec};

/// Number of tokens between snapshots.
pub(super) const INTERVAL: usize = 256;

/// Number of slots in a new pool.
const FIRST: usize = 4;

/// A state in use.
pub(super) type Slot = Arc<Block>;

/// Slots for the states of all sequences. Each layer has two buffers, which are empty if the layer has no
/// such state.
///
/// Shape of the first, for convolutions: `[slots, kernel - 1, channels]`. Shape of the second, for
/// recurrences: `[slots, heads, rows / 4, columns, 4]`.
pub(super) struct StatePool {
    gpu: Gpu,
    slots: Blocks,
    pub(super) layers: Vec<[Buffer; 2]>,
    /// Sizes of a layer's states in bytes.
    sizes: Vec<[u64; 2]>,
    /// True if the buffers were replaced since the last call of [`StatePool::take_change`].
    has_grown: bool,
}

impl StatePool {
    pub(super) fn new(gpu: &Gpu, spec: &ModelSpec) -> Result<Self, GpuError> {
        let sizes: Vec<[u64; 2]> = spec.layers.iter().map(layer_state_bytes).collect();
        let layers = Self::allocate(gpu, &sizes, FIRST)?;
        Ok(Self { gpu: gpu.clone(), slots: Blocks::new(FIRST), layers, sizes, has_grown: false })
    }

    /// Returns the size of a state in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        self.sizes.iter().flatten().sum::<u64>() as usize
    }

    fn allocate(gpu: &Gpu, sizes: &[[u64; 2]], count: usize) -> Result<Vec<[Buffer; 2]>, GpuError> {
        let limit = gpu.limits().binding;
        let buffer = |size: u64| {
            let bytes = size * count as u64;
            if bytes > limit {
                return Err(GpuError::Binding { what: "states", bytes, limit });
            }
            Ok(gpu.buffer(bytes))
        };
        let layers = sizes.iter().map(|[inputs, states]| Ok([buffer(*inputs)?, buffer(*states)?]));
        let layers = layers.collect::<Result<_, _>>()?;
        gpu.check()?;
        Ok(layers)
    }

    /// Reports whether the buffers were replaced since the last call.
    pub(super) const fn take_change(&mut self) -> bool {
        std::mem::replace(&mut self.has_grown, false)
    }

    fn take(&mut self) -> Result<Slot, GpuError> {
        loop {
            if let Some(slot) = self.slots.take() {
                return Ok(Arc::new(slot));
            }
            self.grow()?;
        }
    }

    fn grow(&mut self) -> Result<(), GpuError> {
        let count = self.slots.count();
        let allocate = |new| Self::allocate(&self.gpu, &self.sizes, new).map(|layers| (layers, new));
        // A smaller growth may fit where a larger one does not.
        let (layers, new_count) = allocate(count + count / 2).or_else(|_| allocate(count + 1))?;
        for ((old, new), sizes) in self.layers.iter().zip(&layers).zip(&self.sizes) {
            for ((old, new), size) in old.iter().zip(new).zip(sizes).filter(|(_, size)| **size > 0) {
                self.gpu.copy((old, 0), (new, 0), size * count as u64);
            }
        }
        self.layers = layers;
        self.has_grown = true;
        self.slots.grow_to(new_count);
        self.gpu.check()
    }
}

/// Returns the sizes of a layer's states of a convolution and of a recurrence, in bytes.
pub(super) fn layer_state_bytes(layer: &LayerSpec) -> [u64; 2] {
    let inputs = layer.mixer.convolution();
    let inputs = inputs.map_or(0, |shape| Convolution::state_len(shape.channels, shape.kernel));
    let states = layer.mixer.recurrence();
    let states = states.map_or(0, |shape| shape.heads * shape.rows * shape.columns);
    [inputs, states].map(|len| (4 * len) as u64)
}

/// State of a sequence, with snapshots of earlier states.
#[derive(Clone, Default)]
pub(super) struct States {
    /// State after the computed tokens. `None` before the first token.
    live: Option<Slot>,
    /// Snapshots in the order of their positions: the numbers of tokens before them.
    snapshots: Vec<(usize, Slot)>,
}

impl States {
    /// Returns the slots of the state before and after the next tokens. Takes a new slot if the state is
    /// shared. The first part of the result is the old slot, which must not be written before the tokens
    /// are computed.
    pub(super) fn begin(&mut self, pool: &mut StatePool) -> Result<(Option<Slot>, [u32; 2]), GpuError> {
        let before = self.live.as_ref().map_or(Segment::NOWHERE, |live| live.index());
        if let Some(live) = &self.live
            && Arc::strong_count(live) == 1
        {
            return Ok((None, [before; 2]));
        }
        let after = pool.take()?;
        let index = after.index();
        Ok((self.live.replace(after), [before, index]))
    }

    /// Keeps a snapshot of the state, which is that after `position` tokens.
    pub(super) fn keep(&mut self, position: usize) {
        let is_new = self.snapshots.last().is_none_or(|(last, _)| *last < position);
        if let Some(live) = self.live.as_ref().filter(|_| is_new) {
            self.snapshots.push((position, Arc::clone(live)));
        }
    }

    /// Drops the oldest snapshots until at most `most` remain.
    pub(super) fn bound(&mut self, most: usize) {
        let surplus = self.snapshots.len().saturating_sub(most);
        self.snapshots.drain(..surplus);
    }

    /// Returns the last position up to `len` that the sequence can return to.
    pub(super) fn restorable(&self, len: usize) -> usize {
        self.snapshots.iter().rfind(|(position, _)| *position <= len).map_or(0, |(position, _)| *position)
    }

    /// Returns to the snapshot at `position`, and drops later ones. `position` must be a result of
    /// [`States::restorable`].
    pub(super) fn restore(&mut self, position: usize) {
        self.snapshots.retain(|(at, _)| *at <= position);
        self.live = self.snapshots.last().filter(|_| position > 0).map(|(_, slot)| Arc::clone(slot));
    }

    /// Returns the number of slots that the sequence holds.
    pub(super) const fn count(&self) -> usize {
        self.snapshots.len() + 1
    }

    /// Returns the snapshots with their worth: the number of tokens that would be computed again without the
    /// snapshot, relative to the number of tokens after it. Sequences are mostly cut near their end.
    ///
    /// `len` is the number of tokens. If `computed` is given, the state itself is included, which is that
    /// after this number of tokens.
    pub(super) fn worths(&self, len: usize, computed: Option<usize>) -> impl Iterator<Item = (f32, &Slot)> {
        let worth = move |before: usize, at: usize, after: usize| {
            after.saturating_sub(before) as f32 / (len.saturating_sub(at) + INTERVAL) as f32
        };
        let before = std::iter::once(0).chain(self.snapshots.iter().map(|(position, _)| *position));
        let after = self.snapshots.iter().skip(1).map(|(position, _)| *position).chain([len]);
        let snapshots = self.snapshots.iter().zip(before).zip(after);
        let snapshots =
            snapshots.map(move |(((position, slot), before), after)| (worth(before, *position, after), slot));
        let last = self.snapshots.last().map_or(0, |(last, _)| *last);
        let live = computed.and_then(|at| Some((worth(last, at, len), self.live.as_ref()?)));
        snapshots.chain(live)
    }

    /// Reports whether `slot` is the state of the sequence.
    pub(super) fn is_live(&self, slot: &Slot) -> bool {
        self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, slot))
    }

    /// Drops the snapshots whose state is `slot`.
    pub(super) fn forget(&mut self, slot: &Slot) {
        self.snapshots.retain(|(_, known)| !Arc::ptr_eq(known, slot));
    }
}
