//! The decoder on candle's tensors, for GPUs, and on the CPU as a reference.
//!
//! The decoder computes a [`ModelSpec`] like the native CPU decoder, but in larger steps. The
//! tokens of several sequences go through the layers together, including attention. The keys and
//! values of all sequences are in one [`Pool`].
//!
//! Activations and scores are `f32`. On a GPU, keys and values are stored as `f16`, and matrices
//! keep their type if candle computes with it ([`Precision`]). The results of a run may differ by
//! rounding if other runs are in the batch.

mod device;
mod layout;
mod models;
mod pass;
mod pool;
mod weights;

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops::rms_norm;
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted, masked};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use self::device::name;
pub(crate) use self::device::{TensorDevice, device};
use self::layout::{Layout, Segment};
use self::pass::{Pass, scaled, softcapped};
use self::pool::Pool;
use self::weights::Weights;
use crate::backend::{Adapters, Backend};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::paged::Table;
use crate::rope::Rope;
use crate::spec::{AttentionSpec, ModelSpec};
use crate::weights::{self as host, Matrix};

/// Maximum number of prompt tokens in a pass.
const PROMPT_PIECE: usize = 256;
/// Maximum number of generated tokens in a pass.
const GENERATED_PIECE: usize = 64;
/// Maximum ratio of the longest to the shortest sequence in a pass. All sequences are padded to the
/// longest.
const LENGTHS: usize = 4;
/// Maximum number of attention scores in a pass, and of elements of the keys that it gathers. This
/// is 256 MiB of `f32`, and far below the range of 32-bit indices.
const MOST_ELEMENTS: usize = 1 << 26;

/// Types in which weights, keys and values are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Precision {
    /// Weights, keys and values are all stored in `f32`.
    Full,
    /// Matrices keep the type of the file if candle computes with it. Keys and values are stored in
    /// `f16`.
    Stored,
}

/// Copies the weights of a model to `device`, which was requested as `wanted`.
pub(crate) fn open(
    spec: ModelSpec,
    weights: &host::Weights,
    context: usize,
    (wanted, device): (crate::Device, TensorDevice),
) -> std::result::Result<Arc<dyn Backend>, Kind> {
    if spec.is_native_only() {
        return Err(Kind::NativeOnly { architecture: spec.architecture });
    }
    let network = Network::new(spec, weights, context, device);
    Ok(Arc::new(network.map_err(|error| Kind::device(wanted, error))?))
}

/// Checks that candle has a model for the checkpoint's architecture. Otherwise returns the error
/// `unknown`, with candle's architectures added to its list.
pub(crate) fn check_model(checkpoint: &Checkpoint, unknown: Kind) -> std::result::Result<(), Kind> {
    models::Network::check(checkpoint, unknown)
}

/// Opens one of candle's own models. Also returns the number of positions that the model was
/// trained for.
pub(crate) fn open_model(
    checkpoint: &Checkpoint,
    device: Option<TensorDevice>,
) -> std::result::Result<(Arc<dyn Backend>, usize), Kind> {
    let network = models::Network::open(checkpoint, device.unwrap_or(TensorDevice::Cpu))?;
    let context = network.context();
    Ok((Arc::new(network), context))
}

/// Immutable state shared by all decoders of a model.
pub(crate) struct Network {
    spec: ModelSpec,
    /// The embedding, in host memory, because a pass needs only the rows of its tokens.
    embedding: Matrix,
    weights: Weights,
    rope: Rope,
    device: Device,
    precision: Precision,
}

impl Network {
    /// Copies the weights to the device and prepares computation for sequences of at most `context`
    /// tokens.
    ///
    /// On the CPU, where this decoder is the reference, everything is in full precision.
    pub(crate) fn new(
        spec: ModelSpec,
        weights: &host::Weights,
        context: usize,
        device: Device,
    ) -> Result<Self> {
        let precision = if device.is_cpu() { Precision::Full } else { Precision::Stored };
        Self::with_precision(spec, weights, context, device, precision)
    }

    fn with_precision(
        spec: ModelSpec,
        weights: &host::Weights,
        context: usize,
        device: Device,
        precision: Precision,
    ) -> Result<Self> {
        let rope = Rope::new(&spec, context);
        let embedding = weights.embedding.as_ref().unwrap_or(&weights.head).clone();
        let weights = Weights::upload(weights, &device, precision)?;
        Ok(Self { spec, embedding, weights, rope, device, precision })
    }

    fn pool(&self) -> Result<Pool> {
        Pool::new(&self.spec, self.kv_type(), &self.device)
    }

    /// Returns the type in which keys and values are stored.
    const fn kv_type(&self) -> DType {
        match self.precision {
            Precision::Full => DType::F32,
            Precision::Stored => DType::F16,
        }
    }

    /// Runs a forward pass: appends the tokens of `segments` to their sequences. Returns the
    /// residual stream after the last layer, of shape `[tokens, hidden]`.
    ///
    /// `visit` receives the residual stream before the first layer and after each layer.
    fn pass(
        &self,
        pool: &mut Pool,
        segments: &[Segment<'_>],
        visit: &mut dyn FnMut(&Tensor) -> Result<()>,
    ) -> Result<Tensor> {
        let hidden = self.spec.hidden;
        let tokens = segments.iter().flat_map(|segment| segment.tokens);
        let mut embedded = vec![0.0; tokens.clone().count() * hidden];
        for (token, row) in tokens.zip(embedded.chunks_exact_mut(hidden)) {
            self.embedding.dequantize(token.index()..token.index() + 1, row);
        }
        let shape = (embedded.len() / hidden, hidden);
        let mut x = scaled(Tensor::from_vec(embedded, shape, &self.device)?, self.spec.embedding_scale)?;
        visit(&x)?;
        let layout = Layout::new(&self.spec, &self.rope, segments, &self.device)?;
        let mut pass = Pass { spec: &self.spec, layout, pool };
        for (index, layer) in self.weights.layers.iter().enumerate() {
            x = pass.layer(index, layer, &x)?;
            visit(&x)?;
        }
        Ok(x)
    }

    /// Applies the final norm to the residual stream. The result is the input of the head.
    fn normed(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.weights.output_norm, self.spec.norm_epsilon)
    }

    /// Applies the final norm and the output head to the residual stream `x`. Returns the logits of
    /// each row.
    fn logits(&self, x: &Tensor) -> Result<Vec<Vec<f32>>> {
        let logits = scaled(self.weights.head.forward(&self.normed(x)?)?, self.spec.logit_scale)?;
        softcapped(logits, self.spec.logit_softcap)?.to_vec2()
    }

    /// Computes the residual stream of `tokens` before the first layer and after each layer. Shape
    /// of each element: `[tokens, hidden]`.
    fn residual_streams(&self, tokens: &[TokenId]) -> std::result::Result<Vec<Vec<f32>>, ModelError> {
        ModelError::check_tokens(tokens, self.spec.vocabulary)?;
        let mut states = vec![Vec::new(); self.spec.layers.len() + 1];
        let mut compute = || {
            let (mut pool, mut table) = (self.pool()?, Table::default());
            for tokens in tokens.chunks(PROMPT_PIECE) {
                table.reserve(&mut pool, tokens.len())?;
                let mut states = states.iter_mut();
                let mut visit = |x: &Tensor| {
                    let x = x.flatten_all()?.to_vec1::<f32>()?;
                    states.next().into_iter().for_each(|state| state.extend(&x));
                    Ok(())
                };
                self.pass(&mut pool, &[Segment { tokens, table: &table }], &mut visit)?;
                table.advance(tokens.len());
            }
            Ok::<(), candle_core::Error>(())
        };
        compute().map_err(ModelError::backend)?;
        Ok(states)
    }
}

impl Backend for Network {
    fn device_name(&self) -> String {
        name(&self.device, "reference")
    }

    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn decoder(self: Arc<Self>, context: usize, _: Adapters) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(self, context))
    }

    fn hidden_states(&self, tokens: &[TokenId]) -> std::result::Result<Vec<Vec<f32>>, ModelError> {
        self.residual_streams(tokens)
    }
}

/// A decoder with its open sequences.
pub(crate) struct Decoder {
    network: Arc<Network>,
    context: usize,
    /// Keys and values of all sequences. `None` before the first forward pass.
    pool: Option<Pool>,
    sequences: FxHashMap<SequenceId, Table>,
    next: u32,
}

impl Decoder {
    /// Creates a decoder without sequences. Each sequence can hold `context` tokens.
    pub(crate) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, pool: None, sequences: FxHashMap::default(), next: 0 }
    }
}

/// A run of a batch while its tokens are computed, pass by pass.
struct Progress<'a> {
    run: Run<'a>,
    table: Table,
    /// Tokens that are not computed yet.
    rest: &'a [TokenId],
    /// Residual stream of the tokens whose logits are requested, in parts from several passes.
    /// Shape of each part: `[tokens, hidden]`.
    x: Vec<Tensor>,
}

impl<'a> Progress<'a> {
    const fn new(run: Run<'a>, table: Table) -> Self {
        Self { run, table, rest: run.tokens, x: Vec::new() }
    }

    /// Appends the rows of `x` whose logits are requested to `self.x`. The last pass computed `len`
    /// tokens of this run, which are the rows `end - len..end` of `x`.
    fn keep(&mut self, x: &Tensor, end: usize, len: usize) -> Result<()> {
        let rows = self.run.wanted.count().saturating_sub(self.rest.len()).min(len);
        if rows > 0 {
            self.x.push(x.narrow(0, end - rows, rows)?);
        }
        Ok(())
    }
}

/// Returns, for each run, the number of tokens to compute in the next pass. If a prompt has tokens
/// left, the pass computes only this prompt.
fn next_piece(spec: &ModelSpec, runs: &[Progress<'_>]) -> Vec<usize> {
    let shapes = || spec.attentions().map(|(_, shape)| shape);
    let heads = shapes().map(|shape| shape.heads).max().unwrap_or(1);
    let query_len = shapes().map(AttentionSpec::query_len).max().unwrap_or(1);
    let mut lens = vec![0; runs.len()];
    let prompt = runs.iter().position(|run| run.run.role == Role::Prompt && !run.rest.is_empty());
    if let Some(index) = prompt {
        let run = &runs[index];
        let position = run.table.len();
        let few = MOST_ELEMENTS / (heads * (position + PROMPT_PIECE));
        lens[index] = run.rest.len().min(PROMPT_PIECE - position % PROMPT_PIECE).min(few.max(1));
        return lens;
    }
    let waiting = || runs.iter().filter(|run| !run.rest.is_empty());
    let shortest = waiting().map(|run| run.table.len()).min().unwrap_or_default();
    let longest = (LENGTHS * shortest).max(PROMPT_PIECE);
    let mut room = GENERATED_PIECE;
    let mut segments = (MOST_ELEMENTS / (query_len * (longest + GENERATED_PIECE))).max(1);
    for (len, run) in lens.iter_mut().zip(runs) {
        if run.table.len() <= longest && segments > 0 {
            *len = run.rest.len().min(room);
            room -= *len;
            segments -= usize::from(*len > 0);
        }
    }
    lens
}

/// Computes all tokens of the runs.
fn advance(network: &Network, pool: &mut Pool, runs: &mut [Progress<'_>]) -> Result<()> {
    while runs.iter().any(|run| !run.rest.is_empty()) {
        let lens = next_piece(&network.spec, runs);
        let mut segments = Vec::new();
        for (run, &len) in runs.iter_mut().zip(&lens).filter(|(_, len)| **len > 0) {
            run.table.reserve(pool, len)?;
            segments.push(Segment { tokens: &run.rest[..len], table: &run.table });
        }
        let x = network.pass(pool, &segments, &mut |_| Ok(()))?;
        drop(segments);
        let mut end = 0;
        for (run, &len) in runs.iter_mut().zip(&lens).filter(|(_, len)| **len > 0) {
            end += len;
            run.rest = &run.rest[len..];
            run.keep(&x, end, len)?;
            run.table.advance(len);
        }
    }
    Ok(())
}

/// Computes the logits that the runs request, as `[run][row][token]`.
fn rows(network: &Network, runs: &[Progress<'_>]) -> Result<Vec<Vec<Vec<f32>>>> {
    let x: Vec<&Tensor> = runs.iter().flat_map(|run| &run.x).collect();
    if x.is_empty() {
        return Ok(vec![Vec::new(); runs.len()]);
    }
    let mut rows = network.logits(&Tensor::cat(&x, 0)?)?.into_iter();
    let of_run = |run: &Progress<'_>| {
        let wanted = run.run.wanted.rows().into_iter();
        wanted.zip(rows.by_ref()).map(|(wanted, row)| masked(row, wanted)).collect()
    };
    Ok(runs.iter().map(of_run).collect())
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
        self.sequences.insert(id, Table::default());
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> std::result::Result<(), ModelError> {
        let table = self.sequences.get_mut(&sequence);
        table.ok_or_else(|| ModelError::unknown_sequence(sequence))?.truncate(len);
        Ok(())
    }

    fn prompt_grain(&self) -> usize {
        PROMPT_PIECE
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> std::result::Result<SequenceId, ModelError> {
        let table = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let fork = table.fork(len);
        let id = self.open();
        self.sequences.insert(id, fork);
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        let lens = self.network.spec.attentions().map(|(_, shape)| shape.key_len());
        2 * self.network.kv_type().size_in_bytes() * lens.sum::<usize>()
    }

    fn hidden_states(
        &mut self,
        sequence: SequenceId,
        tokens: &[TokenId],
    ) -> std::result::Result<Vec<f32>, ModelError> {
        let wanted = vec![None; tokens.len()];
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Each(&wanted) };
        let batch = Batch { runs: vec![run] };
        self.compute(&batch, |network, runs| {
            let x: Vec<&Tensor> = runs.iter().flat_map(|run| &run.x).collect();
            network.normed(&Tensor::cat(&x, 0)?)?.flatten_all()?.to_vec1()
        })
    }

    fn forward(&mut self, batch: &Batch<'_>) -> std::result::Result<Logits, ModelError> {
        self.compute(batch, rows).map(Logits::new)
    }
}

impl Decoder {
    /// Computes all tokens of `batch`, then returns the result of `finish`.
    fn compute<'a, T>(
        &mut self,
        batch: &Batch<'a>,
        finish: impl FnOnce(&Network, &[Progress<'a>]) -> Result<T>,
    ) -> std::result::Result<T, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Table::len);
        batch.check(len, self.network.spec.vocabulary, self.context)?;
        let pool = match &mut self.pool {
            Some(pool) => pool,
            none => none.insert(self.network.pool().map_err(ModelError::backend)?),
        };
        let runs = batch.runs.iter().filter_map(|&run| {
            let table = self.sequences.remove(&run.sequence)?;
            Some(Progress::new(run, table))
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        let result = advance(&self.network, pool, &mut runs).and_then(|()| finish(&self.network, &runs));
        self.sequences.extend(runs.into_iter().map(|progress| (progress.run.sequence, progress.table)));
        result.map_err(ModelError::backend)
    }
}

#[cfg(test)]
mod tests {
    use super::device::tested;
    use super::*;
    use crate::checkpoint::Checkpoint;
    use crate::synthetic::Synthetic;

    /// Compares the storage formats of GPUs with `f32` on the CPU. These are quantised matrices,
    /// 16-bit floats, and keys and values in `f16`.
    #[test]
    fn stored_weights_approximate_full_precision() {
        let folder = tempfile::tempdir().unwrap();
        // Some CUDA kernels multiply weight offsets by sums of unrounded activations. Rounding
        // errors then do not cancel, and products are up to twice as far from the exact ones.
        let bound = if tested().is_cuda() { 0.07 } else { 0.03 };
        let mut failed = Vec::new();
        for small in Synthetic::small() {
            let checkpoint = Checkpoint::open(small.write(folder.path()).unwrap()).unwrap();
            let sides = [(Device::Cpu, Precision::Full), (tested(), Precision::Stored)];
            let rows = sides.map(|(device, precision)| {
                let spec = ModelSpec::of(&checkpoint).unwrap();
                let weights = host::Weights::bind(&checkpoint, &spec, None, host::Purpose::Compute).unwrap();
                let network = Network::with_precision(spec, &weights, 2000, device, precision);
                let mut decoder = Decoder::new(Arc::new(network.unwrap()), 2000);
                let texts =
                    [700, 40, 1].map(|len| (0..len).map(|t| TokenId(t * 37 % 300)).collect::<Vec<_>>());
                let mut rows = Vec::new();
                for role in [Role::Prompt, Role::Generated] {
                    let sequences: Vec<_> = texts.iter().map(|_| decoder.open()).collect();
                    let runs = sequences.iter().zip(&texts).map(|(&sequence, tokens)| Run {
                        sequence,
                        tokens,
                        role,
                        wanted: Wanted::All,
                    });
                    let logits = decoder.forward(&Batch { runs: runs.collect() }).unwrap();
                    rows.extend((0..texts.len()).flat_map(|index| logits.row(index).to_vec()));
                }
                rows
            });
            let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
            let error = norm(&mut rows[0].iter().zip(&rows[1]).map(|(full, stored)| full - stored));
            let size = norm(&mut rows[0].iter().copied());
            eprintln!("{small}: {:.1e}", error / size);
            if error.is_nan() || error >= bound * size {
                failed.push(format!("{small}: {error} of {size}"));
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    fn a_pool_reuses_released_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let small = Synthetic::small().next().unwrap();
        let checkpoint = Checkpoint::open(small.write(folder.path()).unwrap()).unwrap();
        let spec = ModelSpec::of(&checkpoint).unwrap();
        let mut pool = Pool::new(&spec, DType::F32, &tested()).unwrap();
        let before = pool.free_blocks();
        let mut tables = [0; 5].map(|_| Table::default());
        for _ in 0..3 {
            for (index, table) in tables.iter_mut().enumerate() {
                table.reserve(&mut pool, 300 * index).unwrap();
                table.advance(300 * index);
            }
        }
        let mut slots: Vec<u32> =
            tables.iter().flat_map(|table| (0..table.len()).map(|at| table.slot(at))).collect();
        let count = slots.len();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), count, "no slot is given twice");
        // A fork shares all blocks except the one that it writes to.
        let free = pool.free_blocks();
        let mut fork = tables[1].fork(100);
        assert_eq!(pool.free_blocks(), free);
        fork.reserve(&mut pool, 1).unwrap();
        assert_eq!((fork.slot(0), pool.free_blocks()), (tables[1].slot(0), free - 1));
        assert_ne!(fork.slot(100), tables[1].slot(100));
        drop(fork);
        assert_eq!(pool.free_blocks(), free);
        for table in &mut tables {
            table.truncate(0);
        }
        // The pool has doubled four times: 141 blocks were taken, and it started with 16.
        assert_eq!(pool.free_blocks(), 16 * before);
    }
}
