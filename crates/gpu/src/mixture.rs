//! Steps of mixtures of experts.
//!
//! The router's logits choose the experts of each token. The pairs of a token and one of its experts
//! are sorted by expert, and divided into tiles of pairs that share an expert's weights. All of this
//! happens on the device, so the host never waits for a choice.

use crate::kernel::Access::{Read, Uniform, Write};
use crate::layer::{BATCH, Bound, unsigned};
use crate::product::TILES;
use crate::source::{fill, float};
use crate::{Buffer, Gpu, GpuError};

/// Scores of the experts, computed from the router's logits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scores {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen experts.
    SoftmaxOverChosen,
    /// The logistic function of each logit.
    Sigmoid,
}

/// Groups of neighbouring experts. Only experts of the best groups are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    /// Number of groups, a divisor of the number of experts.
    pub count: usize,
    /// Number of groups of a token.
    pub used: usize,
    /// Number of best scores of a group whose sum is the score of the group: 1 or 2.
    pub best: usize,
}

/// Choice of the experts of a token.
pub struct Router<'a> {
    /// Number of experts.
    pub experts: usize,
    /// Number of experts of a token.
    pub used: usize,
    /// Computation of the scores.
    pub scores: Scores,
    /// Groups of experts.
    pub groups: Option<Groups>,
    /// If given, the weights are divided by their sum plus this number.
    pub normalised: Option<f32>,
    /// Factor of the weights.
    pub scale: f32,
    /// Added to the scores for the choice. Shape: `[experts]`.
    pub bias: Option<&'a Buffer>,
    /// Factors of the weights. Shape: `[experts]`.
    pub factors: Option<&'a Buffer>,
}

/// The chosen experts of the tokens of a pass.
#[derive(Clone)]
pub struct Choice {
    /// Number of experts.
    pub experts: usize,
    /// Number of experts of a token.
    pub used: usize,
    /// Maximum number of tokens.
    pub tokens: usize,
    /// Number and weight of each chosen expert. Shape: `[tokens, used, 2]`.
    chosen: Buffer,
    /// Tiles, and then the sorted pairs ([`Choice::first_pair`]).
    pub(crate) list: Buffer,
}

impl Choice {
    /// Creates the buffers for passes of at most `tokens` tokens.
    pub fn new(gpu: &Gpu, tokens: usize, (experts, used): (usize, usize)) -> Self {
        let pairs = (tokens * used) as u64;
        Self { experts, used, tokens, chosen: gpu.buffer(8 * pairs), list: gpu.buffer(4 * 4 * pairs) }
    }

    /// Creates the choice of all heads by each token: "expert" `h` of a token is head `h`. Products of
    /// [`Outputs::Experts`](crate::product::Outputs::Experts) then have a matrix for each head.
    ///
    /// # Errors
    /// Returns an error if the device has no memory.
    pub fn of_heads(gpu: &Gpu, tokens: usize, heads: usize) -> Result<Self, GpuError> {
        let one: Vec<[u32; 2]> = (0..heads as u32).map(|head| [head, 1f32.to_bits()]).collect();
        let chosen = gpu.upload(&one.repeat(tokens))?;
        Ok(Self { chosen, ..Self::new(gpu, tokens, (heads, heads)) })
    }

    /// Binds the sorting of the pairs by expert. The step has one workgroup.
    pub fn sort(&self, gpu: &Gpu, batch: &Buffer) -> Bound {
        let source = fill(
            include_str!("shaders/tiles.wgsl"),
            &[
                ("EXPERTS", unsigned(self.experts)),
                ("USED", unsigned(self.used)),
                ("PAIRS", unsigned(self.first_pair())),
            ],
        );
        let buffers = [(Uniform, batch), (Read, &self.chosen), (Write, &self.list)];
        Bound::new(gpu, &(BATCH.to_owned() + &source), 1, &buffers)
    }

    /// Returns the index of the first pair in the list. A pair is the number of a token times the number
    /// of experts of a token, plus the rank of the expert.
    pub(crate) const fn first_pair(&self) -> usize {
        // A tile has three numbers and at least one pair.
        3 * self.tokens * self.used
    }

    /// Returns the number of pairs of a tile in a pass of `tokens` tokens, which is about the number of
    /// tokens of an expert, and the maximum number of tiles.
    pub(crate) fn tiles(&self, tokens: u32) -> (u32, u32) {
        let (pairs, experts) = (tokens * self.used as u32, self.experts as u32);
        let load = pairs.div_ceil(experts);
        let tile = *TILES.iter().find(|tile| **tile >= load).unwrap_or(&TILES[TILES.len() - 1]);
        (tile, pairs.min(experts + pairs / tile))
    }
}

impl Router<'_> {
    /// Binds the choice of experts by `logits`, of shape `[tokens, experts]`. The first step has one
    /// workgroup a token, and the second has one workgroup.
    ///
    /// # Panics
    /// Panics if `choice` is for other numbers of experts.
    pub fn bind(&self, gpu: &Gpu, batch: &Buffer, logits: &Buffer, choice: &Choice) -> [Bound; 2] {
        assert_eq!((self.experts, self.used), (choice.experts, choice.used), "one mixture");
        let groups = self.groups.unwrap_or(Groups { count: 1, used: 1, best: 1 });
        let is = |scores| (self.scores == scores).to_string();
        let source = fill(
            include_str!("shaders/route.wgsl"),
            &[
                ("OVER_CHOSEN", is(Scores::SoftmaxOverChosen)),
                ("SOFTMAX", is(Scores::Softmax)),
                ("SIGMOID", is(Scores::Sigmoid)),
                ("NORMALISED", self.normalised.is_some().to_string()),
                ("ADDED", float(self.normalised.unwrap_or_default())),
                ("SCALE", float(self.scale)),
                ("BIAS", self.bias.is_some().to_string()),
                ("FACTORS", self.factors.is_some().to_string()),
                ("GROUP_COUNT", unsigned(groups.count)),
                ("BEST_OF_GROUP", unsigned(groups.best)),
                ("USED_GROUPS", unsigned(groups.used)),
                ("USED", unsigned(self.used)),
                ("EXPERTS", unsigned(self.experts)),
            ],
        );
        let buffers = [
            (Uniform, batch),
            (Read, logits),
            (Read, self.bias.unwrap_or(logits)),
            (Read, self.factors.unwrap_or(logits)),
            (Write, &choice.chosen),
        ];
        let route = Bound::new(gpu, &(BATCH.to_owned() + &source), 1, &buffers);
        [route, choice.sort(gpu, batch)]
    }
}

/// The sum of the outputs of a token's experts.
pub struct Mix<'a> {
    /// Width of an output.
    pub width: usize,
    /// The chosen experts and their outputs, of shape `[tokens, used, width]`. `None` if their sum is
    /// already in the result.
    pub routed: Option<(&'a Choice, &'a Buffer)>,
    /// Output of the shared expert, of shape `[tokens, width]`, and the logit of its factor.
    pub shared: Option<(&'a Buffer, Option<&'a Buffer>)>,
}

impl Mix<'_> {
    /// Binds the step. Its second dimension is the token. Rows of all buffers are padded to multiples of
    /// 32 elements.
    pub fn bind(&self, gpu: &Gpu, batch: &Buffer, out: &Buffer) -> Bound {
        let vectors = self.width.next_multiple_of(32) / 4;
        let (shared, gate) = self.shared.map_or((batch, None), |(shared, gate)| (shared, gate));
        let source = fill(
            include_str!("shaders/mix.wgsl"),
            &[
                ("ROUTED", self.routed.is_some().to_string()),
                ("SHARED", self.shared.is_some().to_string()),
                ("GATED", gate.is_some().to_string()),
                ("USED", unsigned(self.routed.map_or(1, |(choice, _)| choice.used))),
                ("VECTORS", unsigned(vectors)),
            ],
        );
        let buffers = [
            (Uniform, batch),
            (Read, self.routed.map_or(batch, |(choice, _)| &choice.chosen)),
            (Read, self.routed.map_or(batch, |(_, outputs)| outputs)),
            (Read, shared),
            (Read, gate.unwrap_or(batch)),
            (Write, out),
        ];
        Bound::new(gpu, &(BATCH.to_owned() + &source), vectors.div_ceil(64) as u32, &buffers)
    }
}
