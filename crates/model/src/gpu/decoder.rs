//! A decoder with its open sequences.

use std::sync::Arc;

use formwork_gpu::layer::{Best, Item, PROMPT_SPAN, SPAN};
use formwork_gpu::product::Batch as GpuBatch;
use formwork_gpu::{Buffer, GpuError, Recorded, recurrent};
use formwork_kernels::Team;
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted, masked};
use formwork_vocab::{TokenId, TokenSet};
use rustc_hash::FxHashMap;

use super::Network;
use super::pipeline::LastLayers;
use super::plan::{HEAD_ROWS, HeadRows, Kind, Memories, PIECE, Plan, Shape, listed_stride};
use super::pool::{Pool, own_key_len};
use super::progress::{Job, Piece, Progress, Segment};
use super::sequence::Sequence;
use super::states::{Slot, StatePool};
use crate::backend::StepTime;
use crate::ops::{scale, softcap};
use crate::paged::BLOCK;

/// Maximum number of generated tokens in a pass.
const GENERATED_PIECE: usize = 64;

/// Results of the tokens of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Results {
    /// The requested rows of logits.
    Logits,
    /// The hidden states of all tokens, after the last norm.
    States,
    /// The residual stream of all tokens, after the last layer.
    Stream,
}

/// Decoder of a model.
pub(super) struct Decoder {
    network: Arc<Network>,
    context: usize,
    /// Memory of the device. `None` before the first pass.
    memory: Option<Memory>,
    sequences: FxHashMap<SequenceId, Sequence>,
    next: u32,
    /// Number of calls so far.
    now: u64,
    /// Number of tokens that were computed again so far.
    replayed: u64,
}

struct Memory {
    pool: Pool,
    states: StatePool,
    plan: Plan,
    /// Steps that were recorded while the device ran others, for a pass like the last one.
    ahead: Option<(Key, Recorded)>,
}

/// Everything that the steps of a pass depend on. The rest is in buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Key {
    /// The layers. `None` for a head alone.
    layers: Option<Shape>,
    head: HeadShape,
}

/// The part of a [`Key`] that belongs to the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HeadShape {
    rows: HeadRows,
    /// Number of tokens.
    tokens: u32,
    /// Upper limit of the number of listed rows.
    listed: u32,
    is_largest: bool,
}

impl Decoder {
    pub(super) fn new(network: Arc<Network>, context: usize) -> Self {
        let sequences = FxHashMap::default();
        Self { network, context, memory: None, sequences, next: 0, now: 0, replayed: 0 }
    }

    /// Computes all tokens of `batch`. `input` is the residual stream before the first layer for the tokens
    /// of all runs, or `None` for their embeddings.
    fn compute<'a>(
        &mut self,
        batch: &Batch<'a>,
        input: Option<&'a [f32]>,
        results: Results,
    ) -> Result<Vec<Progress<'a>>, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Sequence::len);
        batch.check(len, self.network.spec.vocabulary, self.context)?;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(Memory::new(&self.network, self.context).map_err(ModelError::backend)?),
        };
        self.now += 1;
        let (mut rest, hidden) = (input, self.network.spec.hidden);
        let runs = batch.runs.iter().filter_map(|&run| {
            let mut sequence = self.sequences.remove(&run.sequence)?;
            sequence.used = self.now;
            let input = rest.as_mut().and_then(|rest| rest.split_off(..run.tokens.len() * hidden));
            Some(Progress::new(run, sequence, input))
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        self.replayed += runs.iter().map(|run| run.replayed() as u64).sum::<u64>();
        let result = memory.advance(&self.network, &mut runs, results);
        let sequences = runs.iter_mut().map(|run| (run.run.sequence, std::mem::take(&mut run.sequence)));
        self.sequences.extend(sequences);
        result.map_err(ModelError::backend)?;
        self.bound_states();
        Ok(runs)
    }

    /// Appends every run to its sequence, and returns the residual stream after the last layer. `input` is
    /// the stream before the first layer, or `None` for the embeddings of the tokens. Shape of both:
    /// `[tokens, hidden]`.
    pub(super) fn residual_after(
        &mut self,
        batch: &Batch<'_>,
        input: Option<&[f32]>,
    ) -> Result<Vec<f32>, ModelError> {
        let runs = self.compute(batch, input, Results::Stream)?;
        Ok(runs.into_iter().flat_map(|run| run.states).collect())
    }

    /// Forgets the least useful copies of states until the others fit the limit. The states of
    /// sequences in use are no such copies.
    fn bound_states(&mut self) {
        let Some(memory) = self.memory.as_ref().filter(|_| self.network.spec.has_state()) else { return };
        let most = self.network.state_bytes / memory.states.state_bytes().max(1);
        // Sequences share states, so this is an upper limit of their number.
        if self.sequences.values().map(Sequence::states).sum::<usize>() <= most {
            return;
        }
        loop {
            // A shared state is worth what it is worth to any of its sequences.
            let mut worths: FxHashMap<u32, (f32, &Slot)> = FxHashMap::default();
            for (worth, state) in self.sequences.values().flat_map(|sequence| sequence.worths(self.now)) {
                let known = worths.entry(state.index()).or_insert((worth, state));
                known.0 = known.0.max(worth);
            }
            if worths.len() <= most {
                return;
            }
            let least = worths.values().min_by(|a, b| a.0.total_cmp(&b.0));
            let Some(state) = least.map(|(_, state)| Slot::clone(state)) else { return };
            for sequence in self.sequences.values_mut() {
                sequence.forget(&state, self.now);
            }
        }
    }
}

impl Memory {
    pub(super) fn new(network: &Network, context: usize) -> Result<Self, GpuError> {
        let pool = Pool::new(&network.gpu, &network.spec, network.kv, network.reserved)?;
        let states = StatePool::new(&network.gpu, &network.spec)?;
        let plan = Plan::new(network, Memories { pool: &pool, states: &states }, context)?;
        Ok(Self { pool, states, plan, ahead: None })
    }

    /// Takes memory for the next tokens of sequences: their numbers are in `lens`. Returns the slots of the
    /// states before and after these tokens.
    fn reserve<'s>(
        &mut self,
        network: &Network,
        sequences: impl Iterator<Item = (&'s mut Sequence, usize)>,
    ) -> Result<Vec<Option<[u32; 2]>>, GpuError> {
        // A state that the pass reads is held until all others of the pass have their slots.
        let mut read = Vec::new();
        let mut slots = Vec::new();
        for (sequence, len) in sequences {
            if len == 0 {
                slots.push(None);
                continue;
            }
            sequence.table.reserve(&mut self.pool, len)?;
            let states = sequence.recurrent.as_mut().map(|recurrent| {
                let (before, slots) = recurrent.states.begin(&mut self.states)?;
                read.push(before);
                Ok::<_, GpuError>(slots)
            });
            slots.push(states.transpose()?);
        }
        if self.pool.take_change() | self.states.take_change() {
            let memories = Memories { pool: &self.pool, states: &self.states };
            self.plan.rebind(network, memories);
            self.ahead = None;
        }
        Ok(slots)
    }

    fn advance(
        &mut self,
        network: &Network,
        runs: &mut [Progress<'_>],
        results: Results,
    ) -> Result<(), GpuError> {
        let snapshots = (network.state_bytes / self.states.state_bytes().max(1)).max(1);
        while runs.iter().any(|run| run.left() > 0) {
            let piece = self.next_piece(runs);
            let sequences = runs.iter_mut().zip(&piece.lens).map(|(run, len)| (&mut run.sequence, *len));
            let slots = self.reserve(network, sequences)?;
            let mut segments = Vec::new();
            let mut jobs = Vec::new();
            let mut first = 0;
            for (index, (run, &len)) in runs.iter().zip(&piece.lens).enumerate() {
                if len > 0 {
                    let ((tokens, input), states) = (run.next(len), slots[index]);
                    segments.push(Segment { tokens, sequence: &run.sequence, input, states });
                    if results == Results::Logits {
                        jobs.extend(run.jobs(index, first, len));
                    }
                    first += len;
                }
            }
            let shape = self.prepare(network, &segments, &piece);
            drop(segments);
            if results == Results::Logits {
                let rows = self.rows(network, shape, &jobs)?;
                for (job, row) in jobs.iter().zip(rows) {
                    runs[job.run].rows.push(row);
                }
            } else {
                let hidden = network.spec.hidden;
                let width = hidden.next_multiple_of(32);
                let mut steps = self.plan.all(&network.gpu, &shape);
                let states = if results == Results::States {
                    let (normed, states) = self.plan.normed(shape.tokens);
                    steps.push(normed);
                    states
                } else {
                    &self.plan.workspace.residual
                };
                let states = network.gpu.run_and_read::<f32>(steps, states, shape.tokens * width)?;
                let mut rows = states.chunks_exact(width).map(|row| &row[..hidden]);
                for (run, len) in runs.iter_mut().zip(&piece.lens) {
                    rows.by_ref().take(*len).for_each(|row| run.states.extend(row));
                }
            }
            for (run, len) in runs.iter_mut().zip(piece.lens) {
                run.advance(len, snapshots);
            }
        }
        Ok(())
    }

    /// Chooses the tokens of the next pass: first tokens of sequences, which are computed with
    /// unrounded activations; otherwise tokens of one prompt; otherwise generated tokens.
    fn next_piece(&self, runs: &[Progress<'_>]) -> Piece {
        let mut lens = vec![0; runs.len()];
        let is_first = |run: &Progress<'_>| run.left() > 0 && run.sequence.table.len() == 0;
        if runs.iter().any(is_first) {
            let mut room = PIECE;
            for (len, _) in lens.iter_mut().zip(runs).filter(|(_, run)| is_first(run)) {
                *len = room.min(1);
                room -= *len;
            }
            return Piece { lens, is_tiled: false, is_precise: true };
        }
        let is_prompt = |run: &Progress<'_>| run.left() > 0 && run.role() == Role::Prompt;
        if let Some(index) = runs.iter().position(is_prompt) {
            lens[index] = runs[index].fitting(PIECE);
            return Piece { lens, is_tiled: true, is_precise: false };
        }
        let mut room = GENERATED_PIECE;
        let (mut rows, mut blocks) = (self.plan.workspace.rows, self.plan.workspace.blocks);
        for (len, run) in lens.iter_mut().zip(runs) {
            let end = run.sequence.table.len() + run.left();
            let spans = end.div_ceil(SPAN);
            let fitting = if run.left() > 0 { run.fitting(room).min(rows / spans.max(1)) } else { 0 };
            if fitting == 0 || end.div_ceil(BLOCK) > blocks {
                continue;
            }
            (*len, room) = (fitting, room - fitting);
            rows -= fitting * spans;
            blocks -= end.div_ceil(BLOCK);
        }
        Piece { lens, is_tiled: false, is_precise: false }
    }

    /// Writes the inputs of a pass to the device.
    fn prepare(&self, network: &Network, segments: &[Segment<'_>], piece: &Piece) -> Shape {
        let (gpu, spec, space) = (&network.gpu, &network.spec, &self.plan.workspace);
        let width = spec.hidden.next_multiple_of(32);
        let tokens: usize = segments.iter().map(|segment| segment.tokens.len()).sum();
        let mut embedded = vec![0.0; tokens * width];
        let mut rows = embedded.chunks_exact_mut(width).map(|row| &mut row[..spec.hidden]);
        for segment in segments {
            for (index, (token, row)) in segment.tokens.iter().zip(&mut rows).enumerate() {
                if let Some(input) = segment.input {
                    row.copy_from_slice(&input[index * spec.hidden..][..spec.hidden]);
                } else {
                    network.embedding.dequantize(token.index()..token.index() + 1, row);
                    scale(row, spec.embedding_scale);
                }
            }
        }
        gpu.write(&space.residual, 0, &embedded);
        if let (Some(embedding), Some(inputs)) = (&network.layer_embedding, &space.layer_inputs) {
            let all = embedding.columns;
            let factor = ((all / spec.layers.len()) as f32).sqrt();
            let mut rows = vec![0.0; tokens * all];
            let tokens = segments.iter().flat_map(|segment| segment.tokens);
            for (token, row) in tokens.zip(rows.chunks_exact_mut(all)) {
                embedding.dequantize(token.index()..token.index() + 1, row);
                scale(row, factor);
            }
            gpu.write(&inputs.embedded, 0, &rows);
        }
        let positions = || {
            segments.iter().flat_map(|segment| {
                let first = segment.sequence.table.len();
                first..first + segment.tokens.len()
            })
        };
        let rotations = network.rope.rotations(&Team::alone(), positions());
        for (rotation, first) in rotations.iter().zip(&self.plan.sets) {
            let rows =
                rotation.cos.chunks_exact(rotation.pairs).zip(rotation.sin.chunks_exact(rotation.pairs));
            let values: Vec<f32> = rows.flat_map(|(cos, sin)| cos.iter().chain(sin)).copied().collect();
            gpu.write(&space.rotations, 4 * *first as u64, &values);
        }
        let mut slots: Vec<[u32; 2]> = Vec::with_capacity(tokens);
        let mut table: Vec<u32> = Vec::new();
        let mut tables = Vec::with_capacity(segments.len());
        for segment in segments {
            tables.push(table.len() as u32);
            table.extend(segment.sequence.table.blocks());
            let first = segment.sequence.table.len();
            for position in first..first + segment.tokens.len() {
                let factor = spec.temperature.map_or(1.0, |temperature| temperature.at(position));
                slots.push([segment.sequence.table.slot(position), factor.to_bits()]);
            }
        }
        gpu.write(&space.slots, 0, &slots);
        gpu.write(&space.table, 0, &table);
        let mut counts = Vec::new();
        for (kind, (items, parts)) in self.plan.kinds.iter().zip(&space.items) {
            let (all, rows) = work(segments, &tables, *kind, piece.is_tiled);
            gpu.write(items, 0, &all);
            gpu.write(parts, 0, &rows);
            counts.push(all.len());
        }
        gpu.write(&space.batch, 0, &[GpuBatch { tokens: tokens as u32, ..GpuBatch::default() }]);
        if spec.has_state() {
            let mut first = 0;
            let states = segments.iter().map(|segment| {
                let count = segment.tokens.len() as u32;
                let [before, after] = segment.states.unwrap_or([recurrent::Segment::NOWHERE, 0]);
                first += count;
                recurrent::Segment { first: first - count, count, before, after }
            });
            gpu.write(&space.segments, 0, &states.collect::<Vec<_>>());
        }
        let Piece { is_tiled, is_precise, .. } = *piece;
        Shape { tokens, segments: segments.len(), items: counts, is_tiled, is_precise }
    }

    /// Runs the steps of the layers, and then computes the rows of logits of `jobs`.
    fn rows(&mut self, network: &Network, shape: Shape, jobs: &[Job<'_>]) -> Result<Vec<Vec<f32>>, GpuError> {
        let mut rows = vec![Vec::new(); jobs.len()];
        let limit = listed_stride(network.spec.vocabulary);
        let mut layers = Some(shape);
        let whole: Vec<usize> =
            (0..jobs.len()).filter(|&index| jobs[index].listed(limit).is_none()).collect();
        for group in whole.chunks(HEAD_ROWS) {
            let given: Vec<&Job<'_>> = group.iter().map(|&index| &jobs[index]).collect();
            let computed = self.whole_rows(network, layers.take(), &given)?;
            for (&index, row) in group.iter().zip(computed) {
                rows[index] = row;
            }
        }
        let listed = jobs.iter().enumerate().filter_map(|(index, job)| Some((index, job.listed(limit)?)));
        for Group { members, union } in groups(listed, network.spec.vocabulary, limit) {
            let given: Vec<_> = members.iter().map(|(index, set)| (jobs[*index].token, *set)).collect();
            let computed = self.listed_rows(network, &mut layers, &given, &union)?;
            for ((index, _), row) in members.into_iter().zip(computed) {
                rows[index] = row;
            }
        }
        if let Some(shape) = layers {
            network.gpu.run(self.plan.all(&network.gpu, &shape))?;
        }
        Ok(rows)
    }

    /// Runs the layers, if they are given, and the head, and returns the first `count` elements of
    /// `result`. While the device works, records the same steps again: the next token needs them.
    fn run<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &mut self,
        network: &Network,
        key: Key,
        (result, size): (Buffer, usize),
        count: usize,
    ) -> Result<Vec<T>, GpuError> {
        let gpu = &network.gpu;
        let record = |plan: &Plan| {
            let layers = key.layers.as_ref().map(|shape| plan.all(gpu, shape));
            let HeadShape { rows, tokens, listed, is_largest } = key.head;
            let batch = GpuBatch { tokens, rows: listed, ..GpuBatch::default() };
            let steps = layers.into_iter().flatten();
            let steps = steps.chain(plan.head(gpu, batch, rows, is_largest));
            gpu.record_and_read(steps, &result, (size * size_of::<T>()) as u64)
        };
        let recorded = match self.ahead.take_if(|(known, _)| *known == key) {
            Some((_, recorded)) => recorded,
            None => record(&self.plan),
        };
        let submitted = gpu.submit(recorded)?;
        if key.layers.as_ref().is_some_and(|shape| !shape.is_tiled && !shape.is_precise) {
            let recorded = record(&self.plan);
            self.ahead = Some((key, recorded));
        }
        submitted.wait(count)
    }

    /// Computes whole rows, and masks them.
    fn whole_rows(
        &mut self,
        network: &Network,
        layers: Option<Shape>,
        jobs: &[&Job<'_>],
    ) -> Result<Vec<Vec<f32>>, GpuError> {
        let head = &self.plan.head;
        let vocabulary = network.spec.vocabulary;
        let numbers: Vec<u32> = jobs.iter().map(|job| job.token as u32).collect();
        let tokens = jobs.len() as u32;
        network.gpu.write(&head.rows, 0, &numbers);
        network.gpu.write(&head.batch, 0, &[GpuBatch { tokens, ..GpuBatch::default() }]);
        // A cap can make different products equal.
        let is_capped = network.spec.logit_softcap.is_some();
        let is_largest = !is_capped && jobs.iter().all(|job| job.is_largest && job.set.is_none());
        let key = |layers, is_largest| Key {
            layers,
            head: HeadShape { rows: HeadRows::All, tokens, listed: 0, is_largest },
        };
        let (logits, best, parts) = (head.logits.clone(), head.best.clone(), head.parts);
        let mut layers = layers;
        if is_largest {
            let count = jobs.len() * parts;
            let found = self.run::<Best>(network, key(layers.take(), true), (best, count), count)?;
            let found: Option<Vec<_>> = found.chunks(parts).map(unique).collect();
            if let Some(found) = found {
                let row = |(place, value)| {
                    let mut row = vec![f32::NEG_INFINITY; vocabulary];
                    row[place] = network.finished(value);
                    row
                };
                return Ok(found.into_iter().map(row).collect());
            }
        }
        let count = jobs.len() * vocabulary;
        let values = self.run::<f32>(network, key(layers, false), (logits, count), count)?;
        let rows = values.chunks(vocabulary).zip(jobs).map(|(row, job)| {
            let mut row = row.to_vec();
            if let Some(cap) = network.spec.logit_softcap {
                softcap(&mut row, cap);
            }
            masked(row, job.set)
        });
        Ok(rows.collect())
    }

    /// Computes the logits of the tokens in `union` for tokens of the pass, after the layers if they are
    /// given. Returns a row for each token of the pass, with the logits of its set.
    fn listed_rows(
        &mut self,
        network: &Network,
        layers: &mut Option<Shape>,
        jobs: &[(usize, &TokenSet)],
        union: &TokenSet,
    ) -> Result<Vec<Vec<f32>>, GpuError> {
        let (gpu, head) = (&network.gpu, &self.plan.head);
        let vocabulary = network.spec.vocabulary;
        let mut rows = vec![vec![f32::NEG_INFINITY; vocabulary]; jobs.len()];
        let list: Vec<u32> =
            union.iter().map(|token| token.0).filter(|token| (*token as usize) < vocabulary).collect();
        if list.is_empty() {
            return Ok(rows);
        }
        gpu.write(&head.list, 0, &list);
        let numbers: Vec<u32> = jobs.iter().map(|(token, _)| *token as u32).collect();
        gpu.write(&head.rows, 0, &numbers);
        let (tokens, count) = (jobs.len() as u32, list.len() as u32);
        gpu.write(&head.batch, 0, &[GpuBatch { tokens, rows: count, ..GpuBatch::default() }]);
        // Workgroups beyond the last row read no weights, and more passes have equal steps.
        let listed = count.next_power_of_two().max(64);
        let key = Key {
            layers: layers.take(),
            head: HeadShape { rows: HeadRows::Listed, tokens, listed, is_largest: false },
        };
        let stride = listed_stride(vocabulary);
        let before = (jobs.len() - 1) * stride;
        let size = (before + listed as usize).min(HEAD_ROWS * vocabulary);
        let values = self.run::<f32>(network, key, (head.logits.clone(), size), before + list.len())?;
        for ((row, (_, set)), values) in rows.iter_mut().zip(jobs).zip(values.chunks(stride)) {
            for (token, value) in list.iter().zip(values).filter(|(token, _)| set.contains(TokenId(**token)))
            {
                row[*token as usize] = network.finished(*value);
            }
        }
        Ok(rows)
    }

    /// Computes the residual stream before the first layer and after each layer.
    pub(super) fn residual_streams(
        &mut self,
        network: &Network,
        tokens: &[TokenId],
    ) -> Result<Vec<Vec<f32>>, GpuError> {
        let (gpu, hidden) = (&network.gpu, network.spec.hidden);
        let width = hidden.next_multiple_of(32);
        let mut states = vec![Vec::new(); network.spec.layers.len() + 1];
        let mut sequence = Sequence::new(network.spec.has_state());
        let mut rest = tokens;
        while !rest.is_empty() {
            let is_first = sequence.table.len() == 0;
            let len = if is_first { 1 } else { rest.len().min(PIECE) };
            let slots = self.reserve(network, [(&mut sequence, len)].into_iter())?[0];
            let piece = Piece { lens: vec![len], is_tiled: !is_first, is_precise: is_first };
            let segment = Segment { tokens: &rest[..len], sequence: &sequence, input: None, states: slots };
            let shape = self.prepare(network, &[segment], &piece);
            for (section, state) in self.plan.sections(gpu, &shape).into_iter().zip(&mut states) {
                let stream = gpu.run_and_read::<f32>(section, &self.plan.workspace.residual, len * width)?;
                stream.chunks_exact(width).for_each(|row| state.extend(&row[..hidden]));
            }
            sequence.table.advance(len);
            rest = &rest[len..];
        }
        Ok(states)
    }
}

impl Memory {
    /// Measures the steps of a pass of `tokens` tokens after `position` others. Returns the number of
    /// steps and the seconds of each group of them, and of the head.
    pub(super) fn times(
        &mut self,
        network: &Network,
        (tokens, position): (usize, usize),
    ) -> Result<Vec<StepTime>, GpuError> {
        const REPEATS: usize = 5;
        let gpu = &network.gpu;
        let mut sequence = Sequence::new(network.spec.has_state());
        let states = self.reserve(network, [(&mut sequence, position + tokens)].into_iter())?[0];
        sequence.table.advance(position);
        let text = vec![TokenId(0); tokens];
        let piece = Piece { lens: vec![tokens], is_tiled: tokens > GENERATED_PIECE, is_precise: false };
        let segment = Segment { tokens: &text, sequence: &sequence, input: None, states };
        let shape = self.prepare(network, &[segment], &piece);
        let mut groups = self.plan.groups(gpu, &shape);
        gpu.write(&self.plan.head.rows, 0, &[0u32]);
        let batch = GpuBatch { tokens: 1, ..GpuBatch::default() };
        gpu.write(&self.plan.head.batch, 0, &[batch]);
        groups.push(("head", self.plan.head(gpu, batch, HeadRows::All, true)));
        groups.push(("all layers", self.plan.all(gpu, &shape)));
        let mut times = Vec::new();
        for (name, steps) in groups {
            let mut seconds = Vec::new();
            for _ in 0..REPEATS {
                seconds.extend(gpu.time(steps.iter().cloned())?);
            }
            seconds.sort_by(f64::total_cmp);
            let seconds = seconds.get(REPEATS / 2).copied().unwrap_or(f64::NAN);
            times.push(StepTime { name, steps: steps.len(), seconds });
        }
        Ok(times)
    }
}

/// Measures the steps of a pass, as [`Memory::times`] does, with memory of its own.
pub(super) fn times(network: &Network, tokens: usize, position: usize) -> Result<Vec<StepTime>, ModelError> {
    let (end, limit) = (position.saturating_add(tokens), network.spec.context);
    if end > limit {
        return Err(ModelError::context_full(end, limit));
    }
    let mut memory = Memory::new(network, end).map_err(ModelError::backend)?;
    let rows = if tokens > GENERATED_PIECE { tokens } else { tokens * end.div_ceil(SPAN) };
    if tokens > PIECE || rows > memory.plan.workspace.rows {
        return Err(ModelError::unsupported("the measurement of so many tokens in one pass"));
    }
    memory.times(network, (tokens, position)).map_err(ModelError::backend)
}

/// Returns the work of attention for a kind of layers: its items, and the first row and the number
/// of rows of each token.
fn work(segments: &[Segment<'_>], tables: &[u32], kind: Kind, is_tiled: bool) -> (Vec<Item>, Vec<[u32; 2]>) {
    let (mut items, mut parts) = (Vec::new(), Vec::new());
    let (mut token, mut row) = (0, 0);
    for (segment, &table) in segments.iter().zip(tables) {
        let first = segment.sequence.table.len();
        let positions = first..first + segment.tokens.len();
        let step = if is_tiled { kind.tokens } else { 1 };
        for position in positions.clone().step_by(step) {
            let count = step.min(positions.end - position);
            let end = position + count;
            let seen = kind.window.map_or(0, |window| (position + 1).saturating_sub(window));
            // Spans begin at multiples of their length, so that all passes join the same ones.
            let span = if is_tiled { PROMPT_SPAN } else { SPAN };
            let begin = seen / span * span;
            let item = |begin: usize, end: usize, row: u32| Item {
                token,
                count: count as u32,
                position: position as u32,
                table,
                begin: begin as u32,
                end: end as u32,
                row,
                unused: 0,
            };
            if is_tiled {
                items.push(item(begin, end, row));
                parts.extend((row..row + count as u32).map(|row| [row, 1]));
                row += count as u32;
            } else {
                let spans = (begin..end).step_by(SPAN);
                parts.push([row, spans.len() as u32]);
                for begin in spans {
                    items.push(item(begin, end.min(begin + SPAN), row));
                    row += 1;
                }
            }
            token += count as u32;
        }
    }
    (items, parts)
}

/// Rows that the head computes together, for the tokens that any of them needs.
struct Group<'a> {
    /// Index of each job, and the tokens that it needs.
    members: Vec<(usize, &'a TokenSet)>,
    union: TokenSet,
}

/// Joins jobs while they are few, and need at most `limit` tokens together.
fn groups<'a>(
    jobs: impl Iterator<Item = (usize, &'a TokenSet)>,
    vocabulary: usize,
    limit: usize,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for job in jobs {
        let empty = TokenSet::empty(vocabulary);
        let joined = |union: &TokenSet| {
            let mut union = union.clone();
            union.extend(job.1);
            union
        };
        let last = groups.last_mut().filter(|group| group.members.len() < HEAD_ROWS);
        let fitting = last.and_then(|group| {
            let union = joined(&group.union);
            (union.count() <= limit).then_some((group, union))
        });
        match fitting {
            Some((group, union)) => {
                group.members.push(job);
                group.union = union;
            }
            None => groups.push(Group { members: vec![job], union: joined(&empty) }),
        }
    }
    groups
}

/// Returns the place and the value of the largest logit, or `None` if several are equal or it is not
/// finite.
fn unique(parts: &[Best]) -> Option<(usize, f32)> {
    let most = parts.iter().map(|part| part.value).fold(f32::NEG_INFINITY, f32::max);
    let mut largest = parts.iter().filter(|part| part.value >= most);
    let found = largest.next()?;
    (found.equal == 1 && found.value.is_finite() && largest.next().is_none())
        .then_some((found.place as usize, found.value))
}

impl LastLayers for Decoder {
    fn keep_computed(&mut self, sequence: SequenceId, len: usize) -> usize {
        self.sequences.get_mut(&sequence).map_or(0, |sequence| sequence.keep_computed(len))
    }

    fn finish(&mut self, batch: &Batch<'_>, input: &[f32]) -> Result<Logits, ModelError> {
        let runs = self.compute(batch, Some(input), Results::Logits)?;
        Ok(Logits::new(runs.into_iter().map(|run| run.rows).collect()))
    }

    fn states(&mut self, run: Run<'_>, input: &[f32]) -> Result<Vec<f32>, ModelError> {
        let runs = self.compute(&Batch { runs: vec![run] }, Some(input), Results::States)?;
        Ok(runs.into_iter().flat_map(|run| run.states).collect())
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
        let sequence = Sequence::new(self.network.spec.has_state());
        self.sequences.insert(id, Sequence { used: self.now, ..sequence });
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let table = self.sequences.get_mut(&sequence);
        table.ok_or_else(|| ModelError::unknown_sequence(sequence))?.truncate(len);
        Ok(())
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn truncates_cheaply(&self) -> bool {
        !self.network.spec.has_state()
    }

    fn replayed_tokens(&self) -> u64 {
        self.replayed
    }

    fn is_batch_invariant(&self) -> bool {
        self.network.is_invariant
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let parent = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let fork = parent.fork(len);
        let id = self.open();
        self.sequences.insert(id, fork);
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        let lens = self.network.spec.layers.iter().map(own_key_len);
        2 * self.network.kv.bytes() * lens.sum::<usize>()
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Nothing };
        let runs = self.compute(&Batch { runs: vec![run] }, None, Results::States)?;
        let hidden = self.network.spec.hidden;
        let states = runs.into_iter().flat_map(|run| {
            let skipped = run.replayed() * hidden;
            run.states.into_iter().skip(skipped)
        });
        Ok(states.collect())
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        let runs = self.compute(batch, None, Results::Logits)?;
        Ok(Logits::new(runs.into_iter().map(|run| run.rows).collect()))
    }
}

/// Computes the residual stream of `tokens` with memory of its own.
pub(super) fn residual_streams(network: &Network, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, GpuError> {
    Memory::new(network, tokens.len())?.residual_streams(network, tokens)
}
