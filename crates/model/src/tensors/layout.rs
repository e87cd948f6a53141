//! Where the tokens of a pass are and what they see, as tensors that all layers share.

use candle_core::{Device, Result, Tensor};
use formwork_kernels::Team;
use formwork_vocab::TokenId;

use super::pool::Table;
use crate::rope::Rope;
use crate::spec::ModelSpec;

/// A sequence's part of a pass: some tokens that come next in it.
pub(super) struct Segment<'a> {
    pub(super) tokens: &'a [TokenId],
    /// With room for the tokens.
    pub(super) table: &'a Table,
}

/// Tokens of several sequences, segment after segment.
pub(super) struct Layout {
    /// How many sequences.
    pub(super) segments: usize,
    /// Tokens of the longest segment; the queries of all are brought to that length.
    pub(super) longest: usize,
    /// Which tokens to take for that, and which of those to take back; `None` where all segments are equally long.
    pub(super) padding: Option<Padding>,
    /// Where keys and values go, `[kv_heads, tokens, head_dim]`.
    pub(super) written: Tensor,
    /// Cosines and sines for each set of frequencies, `[tokens, pairs]`.
    pub(super) rotations: Vec<(Tensor, Tensor)>,
    /// What is seen through the windows of the layers: each of them once.
    views: Vec<(Option<usize>, View)>,
}

pub(super) struct Padding {
    /// `[segments * longest]`
    pub(super) padded: Tensor,
    /// `[tokens]`
    pub(super) unpadded: Tensor,
}

/// The positions that the tokens of a pass see.
pub(super) struct View {
    /// How many, the same for every segment.
    pub(super) len: usize,
    /// `[segments * len]`
    pub(super) slots: Tensor,
    /// What is added to the scores, `[1, segments, 1, longest, len]`: 0, or -inf for what a token does not see. `None`
    /// where all see all.
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
        let slots = segments.iter().flat_map(|segment| segment.positions().map(|at| segment.table.slot(at)));
        let slots: Vec<u32> = slots.collect();
        let tokens = slots.len();
        let shape = (spec.kv_heads, tokens, spec.head_dim);
        let written = Tensor::from_vec(slots, (1, tokens, 1), device)?.broadcast_as(shape)?.contiguous()?;
        let rotations = rope.rotations(&Team::alone(), positions).into_iter().map(|rotation| {
            let tensor = |values| Tensor::from_vec(values, (tokens, rotation.pairs), device);
            Ok((tensor(rotation.cos)?, tensor(rotation.sin)?))
        });
        let rotations = rotations.collect::<Result<_>>()?;
        let longest = segments.iter().map(|segment| segment.tokens.len()).max().unwrap_or_default();
        let mut views = Vec::new();
        for layer in &spec.layers {
            if !views.iter().any(|(window, _)| *window == layer.window) {
                views.push((layer.window, View::new(segments, longest, layer.window, device)?));
            }
        }
        let padding = Padding::new(segments, longest, device)?;
        Ok(Self { segments: segments.len(), longest, padding, written, rotations, views })
    }

    /// What is seen through a window of this length.
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
        // The first token of a segment sees back the farthest.
        let seen = |segment: &Segment<'_>| {
            let positions = segment.positions();
            first_seen(positions.start, window)..positions.end
        };
        let len = segments.iter().map(|segment| seen(segment).len()).max().unwrap_or_default();
        let mut slots = Vec::with_capacity(segments.len() * len);
        let mut mask = Vec::with_capacity(segments.len() * longest * len);
        for segment in segments {
            let (seen, positions) = (seen(segment), segment.positions());
            // What is not there is not seen either, so any slot with numbers in it will do.
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

/// The first position that one sees through a window.
fn first_seen(position: usize, window: Option<usize>) -> usize {
    window.map_or(0, |window| (position + 1).saturating_sub(window))
}
