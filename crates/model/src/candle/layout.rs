//! Positions, slots and masks of the tokens in a pass, as tensors that all layers share. A slot is
//! the place of a position in the pool of keys and values.

use candle_core::{Device, Result, Tensor};
use formwork_kernels::Team;
use formwork_vocab::TokenId;

use crate::paged::Table;
use crate::rope::Rope;
use crate::spec::{AttentionSpec, ModelSpec};

/// The tokens of one sequence that a forward pass computes.
pub(super) struct Segment<'a> {
    pub(super) tokens: &'a [TokenId],
    /// The sequence's table of slots. It has room for the tokens.
    pub(super) table: &'a Table,
}

/// Positions, slots and masks of a pass. The tokens of the segments follow one another.
pub(super) struct Layout {
    /// Number of segments, one per sequence.
    pub(super) segments: usize,
    /// Number of tokens of the longest segment. The queries of shorter segments are padded to this
    /// length.
    pub(super) longest: usize,
    /// Indices for padding the queries to `longest` and for removing the padding. `None` if all
    /// segments have the same length.
    pub(super) padding: Option<Padding>,
    /// Slots to which keys and values are written, for each distinct shape `(kv_heads, head_dim)` of
    /// the layers. Shape of a tensor: `[kv_heads, tokens, head_dim]`.
    written: Vec<((usize, usize), Tensor)>,
    /// Cosines and sines for each set of rotary frequencies. Shape of each tensor:
    /// `[tokens, pairs]`.
    pub(super) rotations: Vec<(Tensor, Tensor)>,
    /// Factor of the queries of each token, if it depends on the position. Shape: `[1, tokens, 1]`.
    pub(super) temperatures: Option<Tensor>,
    /// For each distinct attention window of the layers, the positions to attend to. A window of
    /// `None` contains all positions up to the token.
    views: Vec<(Option<usize>, View)>,
}

pub(super) struct Padding {
    /// For each query after padding, the index of the token whose query is copied. Shape:
    /// `[segments * longest]`.
    pub(super) padded: Tensor,
    /// For each token, the index of its query after padding. Shape: `[tokens]`.
    pub(super) unpadded: Tensor,
}

/// The positions that the tokens of a pass attend to, in layers with a given window.
pub(super) struct View {
    /// Number of positions per segment. Shorter segments are padded, so it is the same for every
    /// segment.
    pub(super) len: usize,
    /// Slot of each position. Shape: `[segments * len]`.
    pub(super) slots: Tensor,
    /// Mask to add to the scores. Shape: `[1, segments, 1, longest, len]`.
    ///
    /// The mask is 0 for positions that a token attends to and `-inf` for all others. `None` if
    /// every token attends to all positions.
    pub(super) mask: Option<Tensor>,
}

impl Layout {
    pub(super) fn new(
        spec: &ModelSpec,
        rope: &Rope,
        segments: &[Segment<'_>],
        device: &Device,
    ) -> Result<Self> {
        let positions = segments.iter().flat_map(Segment::positions);
        let temperatures = spec.temperature.map(|temperature| {
            let factors: Vec<f32> = positions.clone().map(|position| temperature.at(position)).collect();
            let count = factors.len();
            Tensor::from_vec(factors, (1, count, 1), device)
        });
        let slots = segments.iter().flat_map(|segment| segment.positions().map(|at| segment.table.slot(at)));
        let slots: Vec<u32> = slots.collect();
        let tokens = slots.len();
        let slots = Tensor::from_vec(slots, (1, tokens, 1), device)?;
        let mut written: Vec<((usize, usize), Tensor)> = Vec::new();
        for (_, &AttentionSpec { kv_heads, head_dim, .. }) in spec.attentions() {
            if !written.iter().any(|(shape, _)| *shape == (kv_heads, head_dim)) {
                let slots = slots.broadcast_as((kv_heads, tokens, head_dim))?.contiguous()?;
                written.push(((kv_heads, head_dim), slots));
            }
        }
        let rotations = rope.rotations(&Team::alone(), positions).into_iter().map(|rotation| {
            let tensor = |values| Tensor::from_vec(values, (tokens, rotation.pairs), device);
            Ok((tensor(rotation.cos)?, tensor(rotation.sin)?))
        });
        let rotations = rotations.collect::<Result<_>>()?;
        let longest = segments.iter().map(|segment| segment.tokens.len()).max().unwrap_or_default();
        let mut views = Vec::new();
        for (_, &AttentionSpec { window, .. }) in spec.attentions() {
            if !views.iter().any(|(known, _)| *known == window) {
                views.push((window, View::new(segments, longest, window, device)?));
            }
        }
        let padding = Padding::new(segments, longest, device)?;
        Ok(Self {
            segments: segments.len(),
            longest,
            padding,
            written,
            rotations,
            temperatures: temperatures.transpose()?,
            views,
        })
    }

    /// Returns the slots to which the keys and values of a layer are written.
    pub(super) fn written(&self, shape: AttentionSpec) -> &Tensor {
        let slots = self.written.iter().find(|(of, _)| *of == (shape.kv_heads, shape.head_dim));
        &slots.expect("each layer's shape was gone through").1
    }

    /// Returns the view for layers with the window `window`.
    pub(super) fn view(&self, window: Option<usize>) -> &View {
        let view = self.views.iter().find(|(of, _)| *of == window);
        &view.expect("each layer's window was gone through").1
    }
}

impl Segment<'_> {
    fn positions(&self) -> std::ops::Range<usize> {
        self.table.len()..self.table.len() + self.tokens.len()
    }
}

impl Padding {
    fn new(segments: &[Segment<'_>], longest: usize, device: &Device) -> Result<Option<Self>> {
        if segments.iter().all(|segment| segment.tokens.len() == longest) {
            return Ok(None);
        }
        let (mut padded, mut unpadded) = (Vec::new(), Vec::new());
        let mut first = 0;
        for (index, segment) in segments.iter().enumerate() {
            let len = segment.tokens.len() as u32;
            padded.extend((0..longest as u32).map(|token| first + token.min(len - 1)));
            unpadded.extend((0..len).map(|token| (index * longest) as u32 + token));
            first += len;
        }
        Ok(Some(Self { padded: Tensor::new(padded, device)?, unpadded: Tensor::new(unpadded, device)? }))
    }
}

impl View {
    fn new(segments: &[Segment<'_>], longest: usize, window: Option<usize>, device: &Device) -> Result<Self> {
        // The first token of a segment attends to the earliest position.
        let seen = |segment: &Segment<'_>| {
            let positions = segment.positions();
            first_seen(positions.start, window)..positions.end
        };
        let len = segments.iter().map(|segment| seen(segment).len()).max().unwrap_or_default();
        let mut slots = Vec::with_capacity(segments.len() * len);
        let mut mask = Vec::with_capacity(segments.len() * longest * len);
        for segment in segments {
            let (seen, positions) = (seen(segment), segment.positions());
            // Padding positions are masked, so any initialised slot can stand for them.
            let slot = |index: usize| segment.table.slot(seen.start + index.min(seen.len() - 1));
            slots.extend((0..len).map(slot));
            for token in 0..longest {
                let at = positions.start + token.min(positions.len() - 1);
                let first = first_seen(at, window);
                let bias = |index: usize| {
                    let is_seen = (first..=at).contains(&(seen.start + index));
                    if is_seen { 0.0 } else { f32::NEG_INFINITY }
                };
                mask.extend((0..len).map(bias));
            }
        }
        let mask = if mask.iter().all(|bias| *bias == 0.0) {
            None
        } else {
            Some(Tensor::from_vec(mask, (1, segments.len(), 1, longest, len), device)?)
        };
        Ok(Self { len, slots: Tensor::new(slots, device)?, mask })
    }
}

/// Returns the first position that the token at `position` attends to. A `window` is the number of
/// positions that a token attends to.
fn first_seen(position: usize, window: Option<usize>) -> usize {
    window.map_or(0, |window| (position + 1).saturating_sub(window))
}
