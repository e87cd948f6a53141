//! States of convolutions and recurrences, which a sequence has beside its keys and values.
//!
//! A state is that after the last token of a sequence. It cannot be cut back to an earlier token, so
//! a sequence keeps snapshots: copies of earlier states. To remove tokens, a sequence returns to the
//! last snapshot before them and computes the tokens in between again.
//!
//! States are copied on write. Snapshots and forks share them.
//!
//! Drafted tokens at the end of a sequence are not part of its state ([`Drafted`]), so they can be
//! removed at no cost.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::{COLUMNS, Pool, Slot};
use smallvec::SmallVec;

use super::convolution::{Columns, remember};
use super::drafted::{Drafted, HeadInput};
use crate::spec::{ConvolutionSpec, ModelSpec, RecurrenceSpec};

/// Number of tokens between snapshots. Prefixes of prompts are cached at multiples of this number.
const INTERVAL: usize = 64;

/// Memory layout of a model's states, and the pool from which sequences take memory.
#[derive(Clone, Debug)]
pub(super) struct StateMemory {
    layers: Arc<[LayerMemory]>,
    /// Number of elements of a state.
    len: usize,
    pool: Arc<Pool>,
}

/// Memory layout of one layer's state.
#[derive(Clone, Debug)]
struct LayerMemory {
    /// Inputs of the convolution for the last tokens. Shape: `[kernel - 1, channels]`.
    convolution: Range<usize>,
    /// Number of channels of the convolution. 0 without one.
    channels: usize,
    /// States of the heads. Shape: `[heads, blocks, rows, COLUMNS]`, with blocks of columns.
    recurrence: Range<usize>,
    /// Shape of the recurrence. `None` without one.
    shape: Option<RecurrenceSpec>,
}

/// Returns the number of blocks of columns of a head's state.
const fn blocks(shape: &RecurrenceSpec) -> usize {
    shape.columns.div_ceil(COLUMNS)
}

impl StateMemory {
    /// Creates the memory for a model. Returns `None` if the model has no states.
    pub(super) fn new(spec: &ModelSpec) -> Option<Self> {
        let mut len = 0;
        let mut take = |count: usize| {
            len += count;
            len - count..len
        };
        let inputs = |shape: ConvolutionSpec| (shape.kernel - 1) * shape.channels;
        let elements = |shape: RecurrenceSpec| shape.heads * blocks(&shape) * shape.rows * COLUMNS;
        let layers = spec.layers.iter().map(|layer| LayerMemory {
            convolution: take(layer.mixer.convolution().map_or(0, inputs)),
            channels: layer.mixer.convolution().map_or(0, |shape| shape.channels),
            recurrence: take(layer.mixer.recurrence().map_or(0, elements)),
            shape: layer.mixer.recurrence(),
        });
        let layers = layers.collect();
        spec.has_state().then(|| Self { layers, len, pool: Pool::new(len) })
    }

    /// Returns the size of a state in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.len * size_of::<f32>()
    }
}

/// Copy of the state after the first `position` tokens of a sequence.
#[derive(Clone, Debug)]
struct Snapshot {
    position: usize,
    state: Arc<Slot>,
}

/// State of a sequence, with snapshots of earlier states.
#[derive(Clone, Debug)]
pub(super) struct States {
    memory: StateMemory,
    /// State after the computed tokens that are not drafted. `None` before the first token.
    live: Option<Arc<Slot>>,
    /// Computed tokens after the state.
    drafted: Drafted,
    /// Number of tokens at the end of the current pass that are drafted.
    drafts: usize,
    /// Snapshots in the order of positions.
    snapshots: Vec<Snapshot>,
    /// True if the sequence makes snapshots.
    makes_snapshots: bool,
    /// Position at which the last forward pass began.
    start: usize,
    /// Snapshots that a forward pass is making: the number of tokens of the pass before each, and its
    /// memory.
    marks: Vec<(usize, Arc<Slot>)>,
}

/// State of one layer of a sequence.
pub(super) struct LayerState<'a> {
    /// Inputs of the convolution for the last tokens, oldest first. Shape: `[kernel - 1, channels]`.
    pub(super) convolution: &'a mut [f32],
    /// States of the heads. Shape: `[heads, blocks, rows]`.
    pub(super) recurrence: &'a mut [[f32; COLUMNS]],
    /// Tokens between the state and the pass. The pass writes them to the state.
    pub(super) drafted: &'a Drafted,
}

impl States {
    pub(super) const fn new(memory: StateMemory) -> Self {
        Self {
            memory,
            live: None,
            drafted: Drafted::new(),
            drafts: 0,
            snapshots: Vec::new(),
            makes_snapshots: true,
            start: 0,
            marks: Vec::new(),
        }
    }

    /// Returns the last position up to `len` that the sequence can return to.
    pub(super) fn restorable(&self, len: usize) -> usize {
        self.snapshots.iter().rfind(|snapshot| snapshot.position <= len).map_or(0, |last| last.position)
    }

    /// Gives back the memory for drafts that the sequence does not have.
    pub(super) fn shrink(&mut self) {
        self.drafted.shrink();
    }

    /// Removes the last `count` tokens if they are drafted. Returns false if they are not.
    pub(super) fn cut(&mut self, count: usize) -> bool {
        let Some(kept) = self.drafted.count().checked_sub(count) else { return false };
        self.drafted.truncate(kept);
        true
    }

    /// Returns to the snapshot at `position`, and drops later ones. `position` must be a result of
    /// [`States::restorable`].
    pub(super) fn restore(&mut self, position: usize) {
        self.drafted = Drafted::new();
        self.snapshots.retain(|snapshot| snapshot.position <= position);
        self.live = self.snapshots.last().filter(|_| position > 0).map(|last| Arc::clone(&last.state));
    }

    /// Keeps a snapshot of the state after all computed tokens. `position` is their number. Does
    /// nothing if the sequence makes no snapshots, or if there is not enough memory.
    pub(super) fn keep(&mut self, position: usize) {
        if self.makes_snapshots && self.write_drafted(self.drafted.count()).is_ok() {
            self.keep_live(position);
        }
    }

    /// Keeps a snapshot of the state, which is that after `position` tokens.
    fn keep_live(&mut self, position: usize) {
        let is_new = self.snapshots.last().is_none_or(|last| last.position < position);
        if let Some(live) = &self.live
            && is_new
            && self.makes_snapshots
        {
            self.snapshots.push(Snapshot { position, state: Arc::clone(live) });
        }
    }

    /// Writes the first `count` drafted tokens to the state.
    fn write_drafted(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        self.own_live()?;
        let memory = self.memory.clone();
        for (index, LayerMemory { channels, shape, .. }) in memory.layers.iter().enumerate() {
            let LayerState { convolution, recurrence, drafted } = self.layer(index);
            write_to_convolution(drafted, index, (*channels, count), convolution);
            let Some(shape) = shape else { continue };
            for (block, state) in recurrence.chunks_exact_mut(shape.rows).enumerate() {
                let head = (block / blocks(shape), block % blocks(shape) * COLUMNS);
                drafted.write((index, shape), head, count, state);
            }
        }
        self.drafted.remove_first(count);
        Ok(())
    }

    /// Makes the state writable.
    fn own_live(&mut self) -> io::Result<()> {
        match &mut self.live {
            Some(live) => {
                if Arc::get_mut(live).is_none() {
                    *live = Arc::new(live.copy()?);
                }
            }
            live => {
                let mut slot = self.memory.pool.take()?;
                slot.fill(0);
                *live = Some(Arc::new(slot));
            }
        }
        Ok(())
    }

    /// Makes no more snapshots, for a sequence that will not be cut.
    pub(super) const fn make_no_snapshots(&mut self) {
        self.makes_snapshots = false;
    }

    /// Prepares to compute `len` tokens from `position` on: takes memory for the state that will be
    /// written, and for snapshots. The last `drafts` of the tokens, at most [`MOST_DRAFTS`], are
    /// drafted.
    ///
    /// [`MOST_DRAFTS`]: super::drafted::MOST_DRAFTS
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn begin(&mut self, position: usize, len: usize, drafts: usize) -> io::Result<()> {
        let at_snapshot = position / INTERVAL * INTERVAL;
        let behind = position - self.drafted.count();
        if at_snapshot > behind {
            self.write_drafted(at_snapshot - behind)?;
            self.keep_live(at_snapshot);
        }
        self.own_live()?;
        (self.start, self.drafts) = (position, drafts);
        self.marks.clear();
        let first = (position / INTERVAL + 1) * INTERVAL;
        let end = if self.makes_snapshots { position + len - drafts } else { first };
        for mark in (first..end).step_by(INTERVAL) {
            self.marks.push((mark - position, Arc::new(self.memory.pool.take()?)));
        }
        Ok(())
    }

    /// Returns the number of first tokens of a range of [`States::ranges`] that are not drafted. `len`
    /// is the number of tokens of the pass.
    pub(super) fn undrafted(&self, range: &Range<usize>, len: usize) -> usize {
        range.len().min((len - self.drafts).saturating_sub(range.start))
    }

    /// Divides the `len` tokens of a pass at the snapshots that the pass makes.
    pub(super) fn ranges(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        // A pass over generated tokens has one range, which takes no memory.
        let ends: SmallVec<[usize; 4]> = self.marks.iter().map(|(offset, _)| *offset).chain([len]).collect();
        let mut start = 0;
        ends.into_iter().map(move |end| std::mem::replace(&mut start, end)..end)
    }

    /// Returns the state of a layer. [`States::begin`] must have been called.
    pub(super) fn layer(&mut self, index: usize) -> LayerState<'_> {
        let LayerMemory { convolution, recurrence, .. } = &self.memory.layers[index];
        let Some(live) = self.live.as_mut().and_then(Arc::get_mut) else {
            unreachable!("memory was taken for this sequence")
        };
        let floats = live.floats_mut();
        let (before, after) = floats.split_at_mut(recurrence.start);
        LayerState {
            convolution: &mut before[convolution.clone()],
            recurrence: after[..recurrence.len()].as_chunks_mut().0,
            drafted: &self.drafted,
        }
    }

    /// Sets the inputs of a layer's convolution for the drafted tokens of the pass. Must be called
    /// after earlier drafted tokens were written to the state of the convolution.
    pub(super) fn set_drafted_convolution(&mut self, index: usize, x: Columns<'_>, tokens: Range<usize>) {
        let channels = self.memory.layers[index].channels;
        self.drafted.set_convolution(index, tokens.map(|token| x.of(token, channels)));
    }

    /// Sets the inputs of a layer's recurrence for the drafted tokens of the pass: for each token, those of
    /// all heads.
    pub(super) fn set_drafted_recurrence<'h>(
        &mut self,
        index: usize,
        heads: impl Iterator<Item = HeadInput<'h>>,
    ) {
        self.drafted.set_recurrence(index, heads);
    }

    /// Copies the inputs of a layer's convolution to the snapshot after `offset` tokens of the pass.
    /// Does nothing if the pass makes no snapshot there.
    pub(super) fn mark_convolution(&mut self, index: usize, offset: usize) {
        self.mark(offset, self.memory.layers[index].convolution.clone());
    }

    /// Does the same as [`States::mark_convolution`] for the layer's recurrence.
    pub(super) fn mark_recurrence(&mut self, index: usize, offset: usize) {
        self.mark(offset, self.memory.layers[index].recurrence.clone());
    }

    fn mark(&mut self, offset: usize, part: Range<usize>) {
        let mark = self.marks.iter_mut().find(|(at, _)| *at == offset);
        if let Some((_, slot)) = mark
            && let Some(slot) = Arc::get_mut(slot)
            && let Some(live) = &self.live
        {
            slot[part.clone()].copy_from_slice(&live[part]);
        }
    }

    /// Ends a pass that has computed all tokens before `end` in all layers.
    pub(super) fn finish(&mut self, end: usize) {
        let start = self.start;
        let snapshots = self.marks.drain(..);
        self.snapshots.extend(snapshots.map(|(offset, state)| Snapshot { position: start + offset, state }));
        self.drafted.finish(self.drafts);
        let undrafted = end - self.drafts;
        if undrafted.is_multiple_of(INTERVAL) {
            self.keep_live(undrafted);
        }
    }

    /// Returns the number of states that the sequence holds.
    pub(super) const fn count(&self) -> usize {
        self.snapshots.len() + 1
    }

    /// Returns the snapshots with what each is worth: the number of tokens to be computed again for
    /// want of it, relative to the number of tokens after it. Sequences are mostly cut near their end.
    ///
    /// `len` is the number of tokens of the sequence. If `computed` is given, the state itself is
    /// included, which is that after this number of tokens.
    pub(super) fn worths(
        &self,
        len: usize,
        computed: Option<usize>,
    ) -> impl Iterator<Item = (f32, &Arc<Slot>)> {
        let worth = move |before: usize, at: usize, after: usize| {
            after.saturating_sub(before) as f32 / (len.saturating_sub(at) + INTERVAL) as f32
        };
        let snapshots = self.snapshots.iter().enumerate().map(move |(index, snapshot)| {
            let before = index.checked_sub(1).map_or(0, |before| self.snapshots[before].position);
            let after = self.snapshots.get(index + 1).map_or(len, |after| after.position);
            (worth(before, snapshot.position, after), &snapshot.state)
        });
        let last = self.snapshots.last().map_or(0, |last| last.position);
        let live = computed.and_then(|at| Some((worth(last, at, len), self.live.as_ref()?)));
        snapshots.chain(live)
    }

    /// Returns true if `state` is the state of the sequence.
    pub(super) fn is_live(&self, state: &Arc<Slot>) -> bool {
        self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, state))
    }

    /// Drops the snapshots whose state is `state`.
    pub(super) fn forget(&mut self, state: &Arc<Slot>) {
        self.snapshots.retain(|snapshot| !Arc::ptr_eq(&snapshot.state, state));
    }
}

/// Adds the first `count` drafted tokens to the inputs `last` of a layer's convolution, which has
/// `channels` channels.
pub(super) fn write_to_convolution(
    drafted: &Drafted,
    index: usize,
    (channels, count): (usize, usize),
    last: &mut [f32],
) {
    if count > 0 && channels > 0 {
        let rows = drafted.convolution(index);
        remember(Columns { rows, stride: channels, start: 0 }, (channels, count), last);
    }
}
