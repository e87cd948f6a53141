//! Native CPU decoder. It computes the forward pass of every architecture that a [`ModelSpec`] can
//! describe.
//!
//! Weights are packed for the kernels ([`Packed`]), and activations are rows of `f32`.
//!
//! The tokens of a batch are divided into pieces. A piece may contain tokens of several sequences,
//! and passes through each layer as a whole, so that its tokens share each read of the weights.
//!
//! The result of a token depends only on the tokens before it in its sequence. Results are
//! bit-identical alone and in a batch, for prompts and generated tokens, and for any division into
//! runs.
//!
//! The first token of a sequence is computed with higher precision than the others
//! ([`product::Rounding`]).

mod adapted;
mod attention;
#[cfg(feature = "gpu")]
mod blocks;
mod convolution;
mod draft_head;
mod drafted;
mod encoder;
mod feed_forward;
mod head;
mod kv;
mod latent;
mod layer;
mod product;
mod recurrence;
mod sequence;
mod state;
mod workspace;

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use formwork_kernels::{KvFormat, Operand, Slot, Team};
use formwork_lm::{
    Abilities, AdapterId, Batch, DraftRun, EncodedText, LanguageModel, Logits, ModelError, Role, Run,
    RunLogits, SequenceId, Wanted,
};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

#[cfg(feature = "gpu")]
pub(crate) use self::blocks::{BlockInput, BlockWorkspace, FeedForwards};
use self::draft_head::{Computed, DraftHead, HeadRun};
use self::drafted::MOST_DRAFTS;
use self::kv::KvMemory;
use self::layer::{Pass, Segment};
use self::sequence::Sequence;
use self::state::StateMemory;
use self::workspace::{Workspace, room};
use crate::adapter::{self, Adapter, AdapterFile};
use crate::backend::{Adapters, Backend};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::ops::scale;
use crate::rope::Rope;
use crate::spec::ModelSpec;
use crate::weights::{LayerWeights, Linear, Mixer, Packed, Weights};
use crate::{KvCacheType, OpenOptions};

/// Number of tokens in a piece.
const PIECE: usize = 256;
/// Maximum number of additional tokens in the last piece. A separate piece for a few tokens would
/// be slow, because all weights would have to be read again.
const MORE: usize = 32;

/// Default of [`OpenOptions::state_bytes`](crate::OpenOptions::state_bytes).
const STATE_BYTES: usize = 1 << 30;

/// Immutable part of a model, which all its decoders share.
#[derive(Debug)]
pub(crate) struct Network {
    spec: ModelSpec,
    weights: Weights<Packed>,
    rope: Rope,
    kv_memory: KvMemory,
    /// `None` if the model has no states.
    state_memory: Option<StateMemory>,
    /// Maximum size in bytes of the copies of states of a decoder.
    state_bytes: usize,
    /// The model's own head for drafts.
    draft_head: Option<Box<DraftHead>>,
    team: Arc<Team>,
}

impl Network {
    /// Packs the weights, and prepares to compute sequences of at most `context` tokens.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory for the weights.
    pub(crate) fn new(
        spec: ModelSpec,
        weights: Weights,
        (context, options): (usize, OpenOptions),
        team: Arc<Team>,
    ) -> io::Result<Self> {
        let rope = Rope::new(&spec, context);
        let kv_memory = KvMemory::new(&spec, kv_format(&spec, &weights, options.kv_cache));
        let weights = weights.pack()?;
        let state_memory = StateMemory::new(&spec);
        let state_bytes = options.state_bytes.unwrap_or(STATE_BYTES);
        let draft_head = None;
        let mut network =
            Self { spec, weights, rope, kv_memory, state_memory, state_bytes, draft_head, team };
        network.draft_head = DraftHead::take(&mut network, context).map(Box::new);
        Ok(network)
    }

    /// Sums all packed weights as integers, to measure the speed of reading them. Returns their
    /// size in bytes.
    fn sum_weights(&self) -> usize {
        const PIECE: usize = 1 << 18;
        let weights = self.weights.head.neighbours();
        let mut pieces: Vec<&[u8]> = weights.chunks(PIECE).collect();
        self.team.for_each(&mut pieces, |piece| {
            let words = piece.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            std::hint::black_box(words.fold(0, u64::wrapping_add));
        });
        weights.len()
    }
}

/// Returns the format in which keys and values are stored.
fn kv_format(spec: &ModelSpec, weights: &Weights, wanted: KvCacheType) -> KvFormat {
    // Keys and values that come from `f32` weights are computed in `f32`, and are then also stored in
    // `f32`.
    let is_f32 = |linear: &Linear| linear.weight.encoding().operand() == Operand::Floats;
    let is_exact = |layer: &LayerWeights| match &layer.mixer {
        Mixer::Latent(latent) => is_f32(&latent.latent),
        Mixer::Attention(attention) => [&attention.key, &attention.value].into_iter().flatten().all(is_f32),
        _ => true,
    };
    let mut shapes = spec.layers.iter().filter_map(|layer| layer.mixer.cached());
    if !shapes.all(|shape| KvFormat::I16.takes(shape.head_dim)) {
        return KvFormat::F32;
    }
    match wanted {
        KvCacheType::Q8 => KvFormat::I8,
        KvCacheType::Auto if weights.layers.iter().all(is_exact) => KvFormat::F32,
        KvCacheType::Auto => KvFormat::I16,
    }
}

/// Returns the size of the keys and values of a token, and of the state of a sequence, in bytes.
pub(crate) fn bytes_of_sequence(
    spec: &ModelSpec,
    weights: &Weights,
    kv_cache: KvCacheType,
) -> (usize, usize) {
    let kv_memory = KvMemory::new(spec, kv_format(spec, weights, kv_cache));
    let state = StateMemory::new(spec).map_or(0, |memory| memory.bytes());
    let of_head = draft_head::bytes_per_token(spec, weights, kv_cache);
    (kv_memory.bytes_per_position() + of_head, state)
}

impl Backend for Network {
    fn device_name(&self) -> String {
        "cpu".to_owned()
    }

    fn threads(&self) -> usize {
        self.team.threads()
    }

    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn bind(&self, file: &AdapterFile, base: &Checkpoint, scale: f32) -> Result<Adapter, Kind> {
        if self.spec.attends_both_ways() {
            return Err(Kind::AdapterEncoder);
        }
        adapter::bind(file, base, (&self.spec, &self.weights), scale)
    }

    fn decoder(self: Arc<Self>, context: usize, adapters: Adapters) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(self, context, adapters))
    }

    fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.residual_streams(tokens)
    }

    /// Returns `None` for a mixture of experts, because a token then reads only some of the
    /// weights.
    fn read_weights(&self) -> Option<usize> {
        (!self.spec.has_experts()).then(|| self.sum_weights())
    }
}

/// Decoder of a model, with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    adapters: Adapters,
    sequences: FxHashMap<SequenceId, Sequence>,
    next: u32,
    /// Number of forward passes so far.
    now: u64,
    /// Number of tokens that were computed again so far.
    replayed: u64,
    /// True if the head for drafts computes the tokens of new sequences.
    uses_draft_head: bool,
    workspace: Workspace,
}

impl Decoder {
    /// Creates a decoder without open sequences. A sequence can have at most `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize, adapters: Adapters) -> Self {
        Self {
            network,
            context,
            adapters,
            sequences: FxHashMap::default(),
            next: 0,
            now: 0,
            replayed: 0,
            uses_draft_head: true,
            workspace: Workspace::default(),
        }
    }

    /// Forgets the least useful copies of states until the others fit the limit. The states of
    /// sequences in use are no such copies.
    fn bound_states(&mut self) {
        let Some(memory) = &self.network.state_memory else { return };
        let most = self.network.state_bytes / memory.bytes().max(1);
        let count =
            |sequence: &Sequence| sequence.recurrent.as_ref().map_or(0, |recurrent| recurrent.states.count());
        // Sequences share states, so this is an upper limit of their number.
        if self.sequences.values().map(count).sum::<usize>() <= most {
            return;
        }
        loop {
            // A shared state is worth what it is worth to any of its sequences.
            let mut worths: FxHashMap<*const Slot, (f32, &Arc<Slot>)> = FxHashMap::default();
            for (worth, state) in self.sequences.values().flat_map(|sequence| sequence.worths(self.now)) {
                let known = worths.entry(Arc::as_ptr(state)).or_insert((worth, state));
                known.0 = known.0.max(worth);
            }
            if worths.len() <= most {
                return;
            }
            let least = worths.values().min_by(|a, b| a.0.total_cmp(&b.0));
            let Some(state) = least.map(|(_, state)| Arc::clone(state)) else { return };
            for sequence in self.sequences.values_mut() {
                sequence.forget(&state, self.now);
            }
        }
    }

    /// Refuses pieces of texts if tokens attend to later ones.
    fn check_causal(&self) -> Result<(), ModelError> {
        if self.network.spec.attends_both_ways() {
            return Err(ModelError::unsupported("reading a text in pieces"));
        }
        Ok(())
    }

    /// Appends the runs to their sequences, and computes the requested logits. `input` is the residual
    /// stream before the first layer for the tokens of all runs, or `None` for their embeddings.
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::forward`].
    fn compute(&mut self, batch: &Batch<'_>, input: Option<&[f32]>) -> Result<Logits, ModelError> {
        self.check_causal()?;
        self.check(batch)?;
        self.now += 1;
        let (mut rest, hidden) = (input, self.network.spec.hidden);
        let runs = batch.runs.iter().filter_map(|&run| {
            let mut sequence = self.sequences.remove(&run.sequence)?;
            sequence.used = self.now;
            let input = rest.as_mut().and_then(|rest| rest.split_off(..run.tokens.len() * hidden));
            Some(Progress { input, ..Progress::new(run, sequence) })
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        self.replayed += runs.iter().map(|run| (run.tokens.len() - run.run.tokens.len()) as u64).sum::<u64>();
        let (network, workspace) = (&*self.network, &mut self.workspace);
        network.advance(&mut runs, workspace)?;
        let logits = network.logits(&runs, workspace);
        self.sequences.extend(runs.into_iter().map(|progress| (progress.run.sequence, progress.sequence)));
        self.bound_states();
        Ok(Logits::new(logits))
    }

    /// Appends the tokens of a run to its sequence, and returns the hidden states after the last norm. `input`
    /// is that of [`Decoder::compute`].
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::hidden_states`].
    fn states_of(&mut self, run: Run<'_>, input: Option<&[f32]>) -> Result<Vec<f32>, ModelError> {
        self.check_causal()?;
        let sequence = run.sequence;
        let wanted = vec![None; run.tokens.len()];
        let run = Run { wanted: Wanted::Each(&wanted), ..run };
        self.check(&Batch { runs: vec![run] })?;
        let opened = self.sequences.remove(&sequence);
        let mut opened = opened.ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        self.now += 1;
        opened.used = self.now;
        opened.only_read();
        self.replayed += opened.to_replay().len() as u64;
        let mut runs = [Progress { input, ..Progress::new(run, opened) }];
        let (network, workspace) = (&*self.network, &mut self.workspace);
        network.advance(&mut runs, workspace)?;
        let [Progress { sequence: opened, x, .. }] = runs;
        self.sequences.insert(sequence, opened);
        self.bound_states();
        Ok(self.network.normed(&x))
    }

    fn check(&self, batch: &Batch<'_>) -> Result<(), ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Sequence::len);
        batch.check(len, self.network.spec.vocabulary, self.context)
    }
}

/// Run of a batch, with the state of its computation.
struct Progress<'a> {
    run: Run<'a>,
    sequence: Sequence,
    /// Tokens to compute: those of the run, and before them those to compute again.
    tokens: Cow<'a, [TokenId]>,
    /// Residual stream before the first layer for all tokens, or `None` for their embeddings. There are
    /// then no tokens to compute again.
    input: Option<&'a [f32]>,
    /// Number of tokens that have been computed.
    read: usize,
    /// Number of last tokens that are kept out of the states, because they may be removed.
    drafts: usize,
    /// Output of the last layer for the tokens whose logits are requested, as far as computed.
    /// Shape: `[rows, hidden]`.
    x: Vec<f32>,
}

impl<'a> Progress<'a> {
    fn new(run: Run<'a>, mut sequence: Sequence) -> Self {
        // Several rows after generated tokens check drafts. All tokens after the first row may go.
        let checked = if run.role == Role::Generated { run.wanted.count().saturating_sub(1) } else { 0 };
        let drafts = checked.min(MOST_DRAFTS);
        let replayed = sequence.to_replay();
        let tokens = if replayed.is_empty() {
            // A conversation goes on, or many drafts follow: the sequence may be cut here later.
            if run.role == Role::Prompt || checked > drafts {
                sequence.keep();
            }
            Cow::Borrowed(run.tokens)
        } else {
            Cow::Owned([replayed, run.tokens].concat())
        };
        sequence.append(run.tokens);
        Self { run, sequence, tokens, input: None, read: 0, drafts, x: Vec::new() }
    }

    /// Returns the number of tokens that have not been computed yet.
    fn left(&self) -> usize {
        self.tokens.len() - self.read
    }

    /// Returns the number of next tokens that a piece with room for `room` tokens takes. Drafts stay
    /// together.
    fn fitting(&self, room: usize) -> usize {
        let left = self.left();
        if left <= room { left } else { room.min(left - self.drafts) }
    }

    /// Returns the numbers of tokens with requested logits, and of drafts, among the next `len` tokens.
    /// Both are counted from the last of them.
    fn next(&self, len: usize) -> [usize; 2] {
        [self.run.wanted.count(), self.drafts].map(|count| count.saturating_sub(self.left() - len).min(len))
    }
}

/// Next tokens of a run, which are computed together with those of other runs.
#[derive(Clone, Default)]
struct Piece {
    /// Number of tokens of the sequence before the piece.
    start: usize,
    /// Range of the tokens to compute ([`Progress::tokens`]).
    tokens: Range<usize>,
    /// Number of last tokens whose logits are requested.
    wanted: usize,
    /// Number of last tokens whose output of the last layer is needed.
    output: usize,
}

impl Network {
    /// Creates a sequence without tokens, which will have no drafts of the model's own head.
    fn sequence(&self) -> Sequence {
        Sequence::new(self.kv_memory.clone(), self.state_memory.as_ref())
    }

    /// Computes all tokens of the runs, piece by piece, also in the head for drafts.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory for keys and values.
    fn advance(&self, runs: &mut [Progress<'_>], workspace: &mut Workspace) -> Result<(), ModelError> {
        loop {
            let left = runs.iter().map(Progress::left).sum();
            let mut room = if left <= PIECE + MORE { left } else { PIECE };
            let mut segments = Vec::new();
            let mut pieces = vec![Piece::default(); runs.len()];
            for (progress, piece) in runs.iter_mut().zip(&mut pieces) {
                let len = progress.fitting(room);
                if len > 0 {
                    room -= len;
                    let [wanted, drafts] = progress.next(len);
                    // The head needs the output for all tokens.
                    let output = if progress.sequence.head.is_some() { len } else { wanted };
                    let start = progress.sequence.cache.len();
                    *piece = Piece { start, tokens: progress.read..progress.read + len, wanted, output };
                    progress.read += len;
                    let tokens = &progress.tokens[piece.tokens.clone()];
                    let segment = self.segment(&mut progress.sequence, tokens, [output, drafts])?;
                    let (first, hidden) = (piece.tokens.start, self.spec.hidden);
                    let input = progress.input.map(|rows| &rows[first * hidden..][..len * hidden]);
                    segments.push(Segment { input, ..segment });
                }
            }
            if segments.is_empty() {
                return Ok(());
            }
            let hidden = self.spec.hidden;
            let mut x = self.pass(segments, workspace, &mut |_| {});
            let mut computed = Vec::new();
            for (progress, piece) in runs.iter_mut().zip(pieces) {
                let Piece { start, tokens, wanted, output } = piece;
                let Progress { sequence, tokens: all, x: of_run, .. } = progress;
                if tokens.is_empty() {
                    continue;
                }
                let rows = x.split_off(..output * hidden).unwrap_or_default();
                of_run.extend_from_slice(&rows[(output - wanted) * hidden..]);
                sequence.finish();
                if let Some(state) = &mut sequence.head {
                    let (tokens, vectors) = (&all[tokens], self.normed(rows));
                    computed.push(Computed { state, tokens, start, kept: wanted, vectors });
                }
            }
            if let Some(head) = self.draft_head.as_ref().filter(|_| !computed.is_empty()) {
                head.read(&mut computed, workspace)?;
            }
        }
    }

    /// Returns the next tokens of a sequence as a segment, with memory for their keys, values and
    /// states. `wanted` is the number of tokens, counted from the last, whose output is needed;
    /// `drafts` is the number of drafted ones among them.
    fn segment<'a>(
        &self,
        sequence: &'a mut Sequence,
        tokens: &'a [TokenId],
        [wanted, drafts]: [usize; 2],
    ) -> Result<Segment<'a>, ModelError> {
        sequence.reserve(tokens.len(), drafts).map_err(ModelError::backend)?;
        let Sequence { cache, recurrent, adapter, .. } = sequence;
        let rotations = self.rope.rotations(&self.team, cache.len()..cache.len() + tokens.len());
        let states = recurrent.as_mut().map(|recurrent| &mut recurrent.states);
        let adapter = adapter.as_deref();
        Ok(Segment { cache, states, adapter, tokens, input: None, rotations, wanted })
    }

    /// Appends tokens to sequences. Returns the output of the last layer for the tokens whose
    /// output is needed, segment by segment. Shape: `[tokens, hidden]`.
    ///
    /// `visit` is called with the residual stream, once before the first layer and once after each
    /// layer. After the last layer, the stream only contains the tokens whose output is needed.
    fn pass<'w, 's>(
        &'s self,
        segments: Vec<Segment<'s>>,
        workspace: &'w mut Workspace,
        visit: &mut dyn FnMut(&[f32]),
    ) -> &'w [f32] {
        let hidden = self.spec.hidden;
        let tokens: usize = segments.iter().map(|segment| segment.tokens.len()).sum();
        let mut residual = std::mem::take(&mut workspace.residual);
        let x = room(&mut residual, tokens * hidden);
        let mut rest = &mut *x;
        for segment in &segments {
            let x = rest.split_off_mut(..segment.tokens.len() * hidden).unwrap_or_default();
            match segment.input {
                Some(input) => x.copy_from_slice(input),
                None => {
                    for (token, x) in segment.tokens.iter().zip(x.chunks_exact_mut(hidden)) {
                        self.embed(*token, segment.adapter, x);
                    }
                }
            }
        }
        visit(x);
        let len = self.layers(segments, x, workspace, visit);
        workspace.residual = residual;
        &workspace.residual[..len]
    }

    /// Writes the embedding of a token to `x`.
    fn embed(&self, token: TokenId, adapter: Option<&Adapter>, x: &mut [f32]) {
        match &self.weights.embedding {
            Some(embedding) => embedding.dequantize(token.index()..token.index() + 1, x),
            None => self.weights.head.dequantize(token.index(), x),
        }
        if let Some(change) = adapter.and_then(Adapter::embedding) {
            change.add(token.index(), x);
        }
        scale(x, self.spec.embedding_scale);
    }

    /// Computes all layers for the residual stream `x` before the first one. Returns the number of its
    /// elements that contain the output. The other arguments are those of [`Network::pass`].
    fn layers<'s>(
        &'s self,
        mut segments: Vec<Segment<'s>>,
        mut x: &mut [f32],
        workspace: &mut Workspace,
        visit: &mut dyn FnMut(&[f32]),
    ) -> usize {
        let spec = &self.spec;
        let count = x.len() / spec.hidden;
        let mut pass = Pass::new(spec, &self.team, &segments, (0..count).collect());
        if let Some(inputs) = &self.weights.per_layer_inputs {
            pass.per_layer_inputs(inputs, &segments, x, workspace);
        }
        for layer in self.weights.layers.iter().enumerate() {
            let is_last = layer.0 + 1 == self.weights.layers.len();
            let has_unwanted = segments.iter().any(|segment| segment.wanted < segment.tokens.len());
            if is_last && has_unwanted {
                // Later tokens need only the keys, values and states of the skipped tokens.
                let mixes_later = pass.keys_and_states(layer, &mut segments, x, workspace);
                let tokens = wanted_tokens(&segments);
                x = leave_wanted(&mut segments, x, spec.hidden);
                if x.is_empty() {
                    break;
                }
                pass = Pass::new(spec, &self.team, &segments, tokens);
                if mixes_later {
                    pass.mix(layer, &mut segments, x, workspace);
                }
            } else {
                pass.mix(layer, &mut segments, x, workspace);
            }
            pass.feed(layer, x, workspace);
            visit(x);
        }
        for segment in &mut segments {
            segment.cache.advance(segment.tokens.len());
        }
        x.len()
    }

    /// Computes the residual stream of a text, before the first layer and after each layer. Shape
    /// of each element: `[tokens, hidden]`.
    fn residual_streams(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        ModelError::check_tokens(tokens, self.spec.vocabulary)?;
        let mut states = vec![Vec::new(); self.spec.layers.len() + 1];
        if self.spec.attends_both_ways() {
            let mut states_left = states.iter_mut();
            let mut visit = |x: &[f32]| states_left.next().into_iter().for_each(|state| state.extend(x));
            let text = EncodedText { tokens, second: None };
            self.encode(&[text], &mut Workspace::default(), &mut visit);
            return Ok(states);
        }
        let (mut sequence, mut workspace) = (self.sequence(), Workspace::default());
        sequence.only_read();
        for tokens in tokens.chunks(PIECE) {
            let mut states = states.iter_mut();
            let mut visit = |x: &[f32]| states.next().into_iter().for_each(|state| state.extend(x));
            self.pass(
                vec![self.segment(&mut sequence, tokens, [tokens.len(), 0])?],
                &mut workspace,
                &mut visit,
            );
            sequence.finish();
        }
        Ok(states)
    }
}

/// Returns the indices of the tokens whose output is needed.
fn wanted_tokens(segments: &[Segment<'_>]) -> Vec<usize> {
    let mut first = 0;
    let wanted = segments.iter().flat_map(|segment| {
        first += segment.tokens.len();
        first - segment.wanted..first
    });
    wanted.collect()
}

/// Removes the tokens whose output is not needed from `segments` and from the residual stream `x`.
/// Returns the remaining stream. The keys and values of the removed tokens must be in the caches.
fn leave_wanted<'x>(segments: &mut Vec<Segment<'_>>, x: &'x mut [f32], hidden: usize) -> &'x mut [f32] {
    let (mut read, mut written) = (0, 0);
    for segment in &mut *segments {
        let skipped = segment.skip_unwanted();
        let tokens = read + skipped..read + skipped + segment.tokens.len();
        read = tokens.end;
        x.copy_within(tokens.start * hidden..tokens.end * hidden, written * hidden);
        written += segment.tokens.len();
    }
    segments.retain(|segment| !segment.tokens.is_empty());
    &mut x[..written * hidden]
}

#[cfg(feature = "gpu")]
impl crate::gpu::LastLayers for Decoder {
    fn keep_computed(&mut self, sequence: SequenceId, len: usize) -> usize {
        self.sequences.get_mut(&sequence).map_or(0, |sequence| sequence.keep_computed(len))
    }

    fn finish(&mut self, batch: &Batch<'_>, input: &[f32]) -> Result<Logits, ModelError> {
        self.compute(batch, Some(input))
    }

    fn states(&mut self, run: Run<'_>, input: &[f32]) -> Result<Vec<f32>, ModelError> {
        self.states_of(run, Some(input))
    }
}

impl LanguageModel for Decoder {
    fn vocab_size(&self) -> usize {
        self.network.spec.vocabulary
    }

    fn context_len(&self) -> usize {
        self.context
    }

    fn architecture(&self) -> Option<&str> {
        Some(&self.network.spec.architecture)
    }

    fn open(&mut self) -> SequenceId {
        let id = SequenceId(self.next);
        self.next = self.next.wrapping_add(1);
        let head = self.network.draft_head.as_ref().filter(|_| self.uses_draft_head);
        let head = head.map(|head| head.state());
        self.sequences.insert(id, Sequence { used: self.now, head, ..self.network.sequence() });
        id
    }

    fn adapters(&self) -> &[String] {
        &self.adapters.names
    }

    fn open_with(&mut self, adapter: AdapterId) -> Result<SequenceId, ModelError> {
        let bound = self.adapters.bound.get(adapter.index()).cloned();
        let bound = bound.ok_or_else(|| ModelError::unknown_adapter(adapter, self.adapters.bound.len()))?;
        let id = self.open();
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.adapter = Some(bound);
        }
        Ok(id)
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let sequence =
            self.sequences.get_mut(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        sequence.truncate(len);
        Ok(())
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn truncates_cheaply(&self) -> bool {
        self.network.state_memory.is_none()
    }

    fn removes_drafts_cheaply(&self) -> bool {
        true
    }

    fn replayed_tokens(&self) -> u64 {
        self.replayed
    }

    fn is_batch_invariant(&self) -> bool {
        true
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let parent = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let fork = parent.fork(len);
        let id = self.open();
        self.sequences.insert(id, fork);
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        let of_head = self.network.draft_head.as_ref().map_or(0, |head| head.bytes_per_token());
        self.network.kv_memory.bytes_per_position() + of_head
    }

    fn has_draft_head(&self) -> bool {
        self.uses_draft_head && self.network.draft_head.is_some()
    }

    fn close_draft_head(&mut self) {
        self.uses_draft_head = false;
        self.sequences.values_mut().for_each(|sequence| sequence.head = None);
    }

    fn draft(&mut self, runs: &[DraftRun<'_>]) -> Result<Logits, ModelError> {
        let unsupported = || ModelError::unsupported("drafts by a head of the model");
        let head = self.network.draft_head.as_ref().ok_or_else(unsupported)?;
        for (index, run) in runs.iter().enumerate() {
            let sequence = self.sequences.get(&run.sequence);
            let sequence = sequence.ok_or_else(|| ModelError::unknown_sequence(run.sequence))?;
            if runs[..index].iter().any(|other| other.sequence == run.sequence) {
                return Err(ModelError::repeated_sequence(run.sequence));
            }
            if sequence.len() == 0 || run.tokens.is_empty() {
                return Err(ModelError::unsupported("drafts without tokens"));
            }
            ModelError::check_tokens(run.tokens, self.network.spec.vocabulary)?;
            let drafted = sequence.head.as_ref().ok_or_else(unsupported)?.drafted(sequence.len());
            let len = sequence.len() + drafted + run.tokens.len();
            if len > self.context {
                return Err(ModelError::context_full(len, self.context));
            }
        }
        let taken = runs.iter().filter_map(|run| {
            let sequence = self.sequences.get_mut(&run.sequence)?;
            Some((sequence.head.take()?, sequence.len()))
        });
        let mut taken: Vec<_> = taken.collect();
        let head_runs = taken.iter_mut().zip(runs).map(|((state, len), run)| {
            let (len, tokens, wanted) = (*len, run.tokens, run.wanted);
            HeadRun { state, len, tokens, wanted }
        });
        let rows = head.draft(&mut head_runs.collect::<Vec<_>>(), &mut self.workspace);
        for ((state, _), run) in taken.into_iter().zip(runs) {
            if let Some(sequence) = self.sequences.get_mut(&run.sequence) {
                sequence.head = Some(state);
            }
        }
        Ok(Logits::new(rows?.into_iter().map(|row| vec![row]).collect()))
    }

    fn abilities(&self) -> Abilities {
        self.network.spec.abilities.clone()
    }

    fn reads_whole_texts(&self) -> bool {
        self.network.spec.attends_both_ways()
    }

    fn encodes_together(&self) -> bool {
        true
    }

    fn encode(&mut self, texts: &[EncodedText<'_>]) -> Result<Vec<Vec<f32>>, ModelError> {
        let hidden = self.network.spec.hidden;
        for text in texts {
            ModelError::check_tokens(text.tokens, self.network.spec.vocabulary)?;
            if text.tokens.len() > self.context {
                return Err(ModelError::context_full(text.tokens.len(), self.context));
            }
        }
        if self.network.spec.attends_both_ways() {
            let (network, workspace) = (&*self.network, &mut self.workspace);
            let states = network.normed(&network.encode(texts, workspace, &mut |_| {}));
            let mut states = &*states;
            let own = |text: &EncodedText<'_>| {
                states.split_off(..text.tokens.len() * hidden).unwrap_or_default().to_vec()
            };
            return Ok(texts.iter().map(own).collect());
        }
        let wanted: Vec<Vec<_>> = texts.iter().map(|text| vec![None; text.tokens.len()]).collect();
        let runs = texts.iter().zip(&wanted).map(|(text, wanted)| {
            let (tokens, wanted) = (text.tokens, Wanted::Each(wanted));
            let run = Run { sequence: SequenceId(0), tokens, role: Role::Prompt, wanted };
            let mut sequence = self.network.sequence();
            sequence.only_read();
            Progress::new(run, sequence)
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        let (network, workspace) = (&*self.network, &mut self.workspace);
        network.advance(&mut runs, workspace)?;
        Ok(runs.iter().map(|run| network.normed(&run.x)).collect())
    }

    fn project(&self, pooled: Vec<f32>) -> Vec<f32> {
        self.network.weights.text_head.dense.iter().fold(pooled, |x, dense| dense.apply(&x))
    }

    fn score(&self, pooled: &[f32]) -> Result<f32, ModelError> {
        match &self.network.weights.text_head.ranking {
            Some(head) => Ok(head.score(pooled)),
            None => Err(ModelError::unsupported("scores of documents")),
        }
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        self.states_of(Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Nothing }, None)
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        self.compute(batch, None)
    }

    fn recycle(&mut self, logits: Logits) {
        let rows = logits.into_runs().map(|run| match run {
            RunLogits::Rows(rows) => rows,
            RunLogits::Top(_) => Vec::new(),
        });
        self.workspace.logits.give_back(rows.flatten());
    }
}
