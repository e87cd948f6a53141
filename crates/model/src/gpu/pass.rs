//! Passes of a decoder: their tokens, their memory, and the inputs of their steps.

use formwork_gpu::attention::{Item, PROMPT_SPAN, SPAN};
use formwork_gpu::product::Batch as GpuBatch;
use formwork_gpu::{GpuError, Recorded, Step, recurrent};
use formwork_kernels::Team;
use formwork_lm::{ModelError, Role};
use formwork_vocab::TokenId;

use super::Network;
use super::head::Key;
use super::plan::{End, HeadRows, Kind, Memories, PIECE, Part, Plan, Reduction, Shape};
use super::pool::Pool;
use super::progress::{Piece, Progress, Segment};
use super::sequence::Sequence;
use super::states::StatePool;
use crate::backend::StepTime;
use crate::cpu::{BlockInput, BlockWorkspace};
use crate::ops::scale;
use crate::paged::BLOCK;

/// Maximum number of generated tokens in a pass.
const GENERATED_PIECE: usize = 64;

/// Results of the tokens of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Results {
    /// The requested rows of logits.
    Logits,
    /// The hidden states of all tokens, after the last norm.
    States,
    /// The residual stream of all tokens, after the last layer.
    Stream,
}

/// Memory of a decoder on the device, and the steps that use it.
pub(super) struct Memory {
    pool: Pool,
    pub(super) states: StatePool,
    pub(super) plan: Plan,
    /// Steps that were recorded while the device ran others, for a pass like the last one.
    pub(super) ahead: Option<(Key, Recorded)>,
    host: BlockWorkspace,
}

impl Memory {
    pub(super) fn new(network: &Network, context: usize) -> Result<Self, GpuError> {
        let pool = Pool::new(&network.gpu, &network.spec, network.kv, network.reserved)?;
        let states = StatePool::new(&network.gpu, &network.spec)?;
        let plan = Plan::new(network, Memories { pool: &pool, states: &states }, context)?;
        Ok(Self { pool, states, plan, ahead: None, host: BlockWorkspace::default() })
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

    pub(super) fn advance(
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
                    runs[job.run].add(row);
                }
            } else {
                let hidden = network.spec.hidden;
                let width = hidden.next_multiple_of(32);
                let mut steps = self.until_last_part(network, &shape)?;
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

    /// Runs all steps of the layers up to the last part, and the blocks that the CPU computes among them.
    /// Returns the steps of the last part.
    pub(super) fn until_last_part(
        &mut self,
        network: &Network,
        shape: &Shape,
    ) -> Result<Vec<Step>, GpuError> {
        let mut steps = Vec::new();
        for part in self.plan.parts(&network.gpu, shape) {
            match part.end {
                End::HostBlock(layer) => self.host_block(network, shape, (part.steps, layer))?,
                End::Stream => steps = part.steps,
            }
        }
        Ok(steps)
    }

    /// Runs `steps`, after which the CPU computes the feed-forward block of `layer`.
    fn host_block(
        &mut self,
        network: &Network,
        shape: &Shape,
        (steps, layer): (Vec<Step>, usize),
    ) -> Result<(), GpuError> {
        let Network { gpu, spec, on_host: Some(blocks), .. } = network else { return Ok(()) };
        let space = &self.plan.workspace;
        let (hidden, width) = (spec.hidden, spec.hidden.next_multiple_of(32));
        let count = shape.tokens * width;
        let rows = |padded: Vec<f32>| -> Vec<f32> {
            padded.chunks_exact(width).flat_map(|row| &row[..hidden]).copied().collect()
        };
        let normed = rows(gpu.run_and_read(steps, &space.x.floats, count)?);
        let reads_stream = blocks.reads_stream(layer);
        let stream = if reads_stream { rows(gpu.read(&space.residual, 0..count)?) } else { Vec::new() };
        let input = BlockInput { normed: &normed, stream: &stream, is_first: shape.is_precise };
        let output = blocks.compute(spec, layer, input, &mut self.host);
        let mut padded = vec![0.0; count];
        for (to, from) in padded.chunks_exact_mut(width).zip(output.chunks_exact(hidden)) {
            to[..hidden].copy_from_slice(from);
        }
        gpu.write(&space.y, 0, &padded);
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
            let mut states = states.iter_mut();
            for Part { steps, end } in self.plan.sections(gpu, &shape) {
                if let End::HostBlock(layer) = end {
                    self.host_block(network, &shape, (steps, layer))?;
                } else if let Some(state) = states.next() {
                    let stream =
                        gpu.run_and_read::<f32>(steps, &self.plan.workspace.residual, len * width)?;
                    stream.chunks_exact(width).for_each(|row| state.extend(&row[..hidden]));
                }
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
        groups.push(("head", self.plan.head(gpu, batch, HeadRows::All, Reduction::Largest)));
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

/// Computes the residual stream of `tokens` with memory of its own.
pub(super) fn residual_streams(network: &Network, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, GpuError> {
    Memory::new(network, tokens.len())?.residual_streams(network, tokens)
}
