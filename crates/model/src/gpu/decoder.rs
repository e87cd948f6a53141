//! A decoder with its open sequences.

use std::sync::Arc;

use formwork_gpu::layer::{Best, Item, PROMPT_SPAN, SPAN};
use formwork_gpu::product::Batch as GpuBatch;
use formwork_gpu::{Buffer, GpuError, Recorded};
use formwork_kernels::Team;
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, SequenceId, Wanted, masked};
use formwork_vocab::{TokenId, TokenSet};
use rustc_hash::FxHashMap;

use super::Network;
use super::plan::{HEAD_ROWS, HeadRows, Kind, PIECE, Plan, Shape};
use super::pool::Pool;
use crate::backend::StepTime;
use crate::ops::{scale, softcap};
use crate::paged::{BLOCK, Table};

/// Maximum number of generated tokens in a pass.
const GENERATED_PIECE: usize = 64;

/// A row is computed as a list of tokens if it has at most this share of the vocabulary.
const LISTED: usize = 4;

/// Decoder of a model.
pub(super) struct Decoder {
    network: Arc<Network>,
    context: usize,
    /// Memory of the device. `None` before the first pass.
    memory: Option<Memory>,
    sequences: FxHashMap<SequenceId, Table>,
    next: u32,
}

struct Memory {
    pool: Pool,
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

/// The tokens of one sequence that a pass computes.
struct Segment<'a> {
    tokens: &'a [TokenId],
    table: &'a Table,
}

/// A row of logits to compute in a pass.
struct Job<'a> {
    /// Index of the token in the pass.
    token: usize,
    /// Index of the run.
    run: usize,
    set: Option<&'a TokenSet>,
    is_largest: bool,
}

impl<'a> Job<'a> {
    /// Returns the set of tokens if it has at most `limit` tokens.
    fn listed(&self, limit: usize) -> Option<&'a TokenSet> {
        self.set.filter(|set| set.count() <= limit)
    }
}

/// A run of a batch while its tokens are computed, pass by pass.
struct Progress<'a> {
    run: Run<'a>,
    table: Table,
    wanted: Vec<Option<&'a TokenSet>>,
    /// Number of tokens that were computed.
    read: usize,
    rows: Vec<Vec<f32>>,
    /// Hidden states of all tokens, if they are wanted.
    states: Vec<f32>,
}

impl<'a> Progress<'a> {
    fn new(run: Run<'a>, table: Table) -> Self {
        Self { run, table, wanted: run.wanted.rows(), read: 0, rows: Vec::new(), states: Vec::new() }
    }

    const fn left(&self) -> usize {
        self.run.tokens.len() - self.read
    }

    /// Returns the jobs of the next `len` tokens. The first of them is token `first` of the pass.
    fn jobs(&self, run: usize, first: usize, len: usize) -> impl Iterator<Item = Job<'a>> {
        // Index of the first token with a row.
        let begin = self.run.tokens.len() - self.wanted.len();
        let is_largest = matches!(self.run.wanted, Wanted::Largest(_));
        (self.read..self.read + len).filter(move |token| *token >= begin).map(move |token| Job {
            token: first + token - self.read,
            run,
            set: self.wanted[token - begin],
            is_largest,
        })
    }
}

/// Tokens of a pass.
#[derive(Default)]
struct Piece {
    /// Number of tokens of each run.
    lens: Vec<usize>,
    is_tiled: bool,
    is_precise: bool,
}

impl Decoder {
    pub(super) fn new(network: Arc<Network>, context: usize) -> Self {
        Self { network, context, memory: None, sequences: FxHashMap::default(), next: 0 }
    }

    /// Computes all tokens of `batch`. With `wants_states`, keeps their hidden states.
    fn compute<'a>(
        &mut self,
        batch: &Batch<'a>,
        wants_states: bool,
    ) -> Result<Vec<Progress<'a>>, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Table::len);
        batch.check(len, self.network.spec.vocabulary, self.context)?;
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(Memory::new(&self.network, self.context).map_err(ModelError::backend)?),
        };
        let runs = batch.runs.iter().filter_map(|&run| {
            let table = self.sequences.remove(&run.sequence)?;
            Some(Progress::new(run, table))
        });
        let mut runs: Vec<Progress<'_>> = runs.collect();
        let result = memory.advance(&self.network, &mut runs, wants_states);
        let tables = runs.iter_mut().map(|run| (run.run.sequence, std::mem::take(&mut run.table)));
        self.sequences.extend(tables);
        result.map_err(ModelError::backend)?;
        Ok(runs)
    }
}

impl Memory {
    pub(super) fn new(network: &Network, context: usize) -> Result<Self, GpuError> {
        let pool = Pool::new(&network.gpu, &network.spec, network.kv)?;
        let plan = Plan::new(network, &pool, context)?;
        Ok(Self { pool, plan, ahead: None })
    }

    fn advance(
        &mut self,
        network: &Network,
        runs: &mut [Progress<'_>],
        wants_states: bool,
    ) -> Result<(), GpuError> {
        while runs.iter().any(|run| run.left() > 0) {
            let piece = self.next_piece(runs);
            for (run, &len) in runs.iter_mut().zip(&piece.lens).filter(|(_, len)| **len > 0) {
                run.table.reserve(&mut self.pool, len)?;
            }
            if self.pool.take_change() {
                self.plan.rebind(network, &self.pool);
                self.ahead = None;
            }
            let mut segments = Vec::new();
            let mut jobs = Vec::new();
            let mut first = 0;
            for (index, (run, &len)) in runs.iter().zip(&piece.lens).enumerate() {
                if len > 0 {
                    segments.push(Segment {
                        tokens: &run.run.tokens[run.read..run.read + len],
                        table: &run.table,
                    });
                    if !wants_states {
                        jobs.extend(run.jobs(index, first, len));
                    }
                    first += len;
                }
            }
            let shape = self.prepare(network, &segments, &piece);
            drop(segments);
            if wants_states {
                let hidden = network.spec.hidden;
                let width = hidden.next_multiple_of(32);
                let (normed, states) = self.plan.normed(shape.tokens);
                let steps = self.plan.sections(&network.gpu, &shape).concat();
                let steps = steps.into_iter().chain([normed]);
                let states = network.gpu.run_and_read::<f32>(steps, states, shape.tokens * width)?;
                let mut rows = states.chunks_exact(width).map(|row| &row[..hidden]);
                for (run, len) in runs.iter_mut().zip(&piece.lens) {
                    rows.by_ref().take(*len).for_each(|row| run.states.extend(row));
                }
            } else {
                let rows = self.rows(network, shape, &jobs)?;
                for (job, row) in jobs.iter().zip(rows) {
                    runs[job.run].rows.push(row);
                }
            }
            for (run, len) in runs.iter_mut().zip(piece.lens) {
                run.read += len;
                run.table.advance(len);
            }
        }
        Ok(())
    }

    /// Chooses the tokens of the next pass: first tokens of sequences, which are computed with
    /// unrounded activations; otherwise tokens of one prompt; otherwise generated tokens.
    fn next_piece(&self, runs: &[Progress<'_>]) -> Piece {
        let mut lens = vec![0; runs.len()];
        let is_first = |run: &Progress<'_>| run.left() > 0 && run.table.len() == 0;
        if runs.iter().any(is_first) {
            let mut room = PIECE;
            for (len, _) in lens.iter_mut().zip(runs).filter(|(_, run)| is_first(run)) {
                *len = room.min(1);
                room -= *len;
            }
            return Piece { lens, is_tiled: false, is_precise: true };
        }
        let is_prompt = |run: &Progress<'_>| run.left() > 0 && run.run.role == Role::Prompt;
        if let Some(index) = runs.iter().position(is_prompt) {
            lens[index] = runs[index].left().min(PIECE);
            return Piece { lens, is_tiled: true, is_precise: false };
        }
        let mut room = GENERATED_PIECE;
        let (mut rows, mut blocks) = (self.plan.workspace.rows, self.plan.workspace.blocks);
        for (len, run) in lens.iter_mut().zip(runs) {
            let end = run.table.len() + run.left();
            let spans = end.div_ceil(SPAN);
            let fitting = run.left().min(room).min(rows / spans.max(1));
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
        let all = segments.iter().flat_map(|segment| segment.tokens);
        for (token, row) in all.zip(embedded.chunks_exact_mut(width)) {
            let row = &mut row[..spec.hidden];
            network.embedding.dequantize(token.index()..token.index() + 1, row);
            scale(row, spec.embedding_scale);
        }
        gpu.write(&space.residual, 0, &embedded);
        let positions = || {
            segments.iter().flat_map(|segment| {
                let first = segment.table.len();
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
            table.extend(segment.table.blocks());
            let first = segment.table.len();
            for position in first..first + segment.tokens.len() {
                let factor = spec.temperature.map_or(1.0, |temperature| temperature.at(position));
                slots.push([segment.table.slot(position), factor.to_bits()]);
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
        Shape { tokens, items: counts, is_tiled: piece.is_tiled, is_precise: piece.is_precise }
    }

    /// Runs the steps of the layers, and then computes the rows of logits of `jobs`.
    fn rows(&mut self, network: &Network, shape: Shape, jobs: &[Job<'_>]) -> Result<Vec<Vec<f32>>, GpuError> {
        let mut rows = vec![Vec::new(); jobs.len()];
        let limit = network.spec.vocabulary / LISTED;
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
        for (index, job) in jobs.iter().enumerate() {
            if let Some(set) = job.listed(limit) {
                rows[index] = self.listed_row(network, &mut layers, job, set)?;
            }
        }
        if let Some(shape) = layers {
            network.gpu.run(self.plan.sections(&network.gpu, &shape).concat())?;
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
            let layers = key.layers.as_ref().map(|shape| plan.sections(gpu, shape));
            let HeadShape { rows, tokens, listed, is_largest } = key.head;
            let batch = GpuBatch { tokens, rows: listed, ..GpuBatch::default() };
            let steps = layers.into_iter().flatten().flatten();
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

    /// Computes the logits of the tokens in `set`, after the layers if they are given.
    fn listed_row(
        &mut self,
        network: &Network,
        layers: &mut Option<Shape>,
        job: &Job<'_>,
        set: &TokenSet,
    ) -> Result<Vec<f32>, GpuError> {
        let (gpu, head) = (&network.gpu, &self.plan.head);
        let mut row = vec![f32::NEG_INFINITY; network.spec.vocabulary];
        let tokens: Vec<u32> =
            set.iter().map(|token| token.0).filter(|token| (*token as usize) < row.len()).collect();
        if tokens.is_empty() {
            return Ok(row);
        }
        gpu.write(&head.list, 0, &tokens);
        gpu.write(&head.rows, 0, &[job.token as u32]);
        let rows = tokens.len() as u32;
        gpu.write(&head.batch, 0, &[GpuBatch { tokens: 1, rows, ..GpuBatch::default() }]);
        // Workgroups beyond the last row read no weights, and more passes have equal steps.
        let listed = rows.next_power_of_two().max(64);
        let key = Key {
            layers: layers.take(),
            head: HeadShape { rows: HeadRows::Listed, tokens: 1, listed, is_largest: false },
        };
        let result = (head.logits.clone(), listed.min(network.spec.vocabulary as u32) as usize);
        let values = self.run::<f32>(network, key, result, tokens.len())?;
        for (token, value) in tokens.into_iter().zip(values) {
            row[token as usize] = network.finished(value);
        }
        Ok(row)
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
        let mut table = Table::default();
        let mut rest = tokens;
        while !rest.is_empty() {
            let len = if table.len() == 0 { 1 } else { rest.len().min(PIECE) };
            table.reserve(&mut self.pool, len)?;
            if self.pool.take_change() {
                self.plan.rebind(network, &self.pool);
            }
            let is_first = table.len() == 0;
            let piece = Piece { lens: vec![len], is_tiled: !is_first, is_precise: is_first };
            let shape = self.prepare(network, &[Segment { tokens: &rest[..len], table: &table }], &piece);
            for (section, state) in self.plan.sections(gpu, &shape).into_iter().zip(&mut states) {
                let stream = gpu.run_and_read::<f32>(section, &self.plan.workspace.residual, len * width)?;
                stream.chunks_exact(width).for_each(|row| state.extend(&row[..hidden]));
            }
            table.advance(len);
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
        let mut table = Table::default();
        table.reserve(&mut self.pool, position + tokens)?;
        if self.pool.take_change() {
            self.plan.rebind(network, &self.pool);
        }
        table.advance(position);
        let text = vec![TokenId(0); tokens];
        let piece = Piece { lens: vec![tokens], is_tiled: tokens > GENERATED_PIECE, is_precise: false };
        let shape = self.prepare(network, &[Segment { tokens: &text, table: &table }], &piece);
        let mut groups = self.plan.groups(gpu, &shape);
        gpu.write(&self.plan.head.rows, 0, &[0u32]);
        let batch = GpuBatch { tokens: 1, ..GpuBatch::default() };
        gpu.write(&self.plan.head.batch, 0, &[batch]);
        groups.push(("head", self.plan.head(gpu, batch, HeadRows::All, true)));
        groups.push(("all layers", self.plan.sections(gpu, &shape).concat()));
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
        let first = segment.table.len();
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

/// Returns the place and the value of the largest logit, or `None` if several are equal or it is not
/// finite.
fn unique(parts: &[Best]) -> Option<(usize, f32)> {
    let most = parts.iter().map(|part| part.value).fold(f32::NEG_INFINITY, f32::max);
    let mut largest = parts.iter().filter(|part| part.value >= most);
    let found = largest.next()?;
    (found.equal == 1 && found.value.is_finite() && largest.next().is_none())
        .then_some((found.place as usize, found.value))
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

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let table = self.sequences.get_mut(&sequence);
        table.ok_or_else(|| ModelError::unknown_sequence(sequence))?.truncate(len);
        Ok(())
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn is_batch_invariant(&self) -> bool {
        self.network.is_invariant
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let table = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let fork = table.fork(len);
        let id = self.open();
        self.sequences.insert(id, fork);
        Ok(id)
    }

    fn kv_bytes_per_token(&self) -> usize {
        let lens = self.network.spec.attentions().map(|(_, shape)| shape.key_len());
        2 * self.network.kv.bytes() * lens.sum::<usize>()
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Nothing };
        let runs = self.compute(&Batch { runs: vec![run] }, true)?;
        Ok(runs.into_iter().flat_map(|run| run.states).collect())
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        let runs = self.compute(batch, false)?;
        Ok(Logits::new(runs.into_iter().map(|run| run.rows).collect()))
    }
}

/// Computes the residual stream of `tokens` with memory of its own.
pub(super) fn residual_streams(network: &Network, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, GpuError> {
    Memory::new(network, tokens.len())?.residual_streams(network, tokens)
}
