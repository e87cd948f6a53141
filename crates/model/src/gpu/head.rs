//! Rows of logits, which the head computes after the layers of a pass.

use formwork_gpu::layer::Best;
use formwork_gpu::product::Batch as GpuBatch;
use formwork_gpu::top::TopRow;
use formwork_gpu::{Buffer, GpuError};
use formwork_lm::{RunLogits, TopLogits, TopRequest, masked};
use formwork_vocab::{TokenId, TokenSet};

use super::Network;
use super::pass::Memory;
use super::plan::{HEAD_ROWS, HeadRows, Plan, Reduction, Shape, listed_stride};
use super::progress::Job;
use crate::ops::softcap;

/// Everything that the steps of a pass depend on. The rest is in buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key {
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
    reduction: Reduction,
}

impl Memory {
    /// Runs the steps of the layers, and then computes the logits of `jobs`.
    pub(super) fn rows(
        &mut self,
        network: &Network,
        shape: Shape,
        jobs: &[Job<'_>],
    ) -> Result<Vec<RunLogits>, GpuError> {
        let mut rows = vec![RunLogits::default(); jobs.len()];
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
            let given: Vec<_> = members.iter().map(|(index, set)| (&jobs[*index], *set)).collect();
            let computed = self.listed_rows(network, &mut layers, &given, &union)?;
            for ((index, _), row) in members.into_iter().zip(computed) {
                rows[index] = row;
            }
        }
        if let Some(shape) = layers {
            let steps = self.until_last_part(network, &shape)?;
            network.gpu.run(steps)?;
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
        if let Some(shape) = key.layers.as_ref().filter(|_| network.on_host.is_some()) {
            self.until_last_part(network, shape)?;
        }
        let record = |plan: &Plan| {
            let layers = key.layers.as_ref().and_then(|shape| plan.parts(gpu, shape).pop());
            let HeadShape { rows, tokens, listed, reduction } = key.head;
            let batch = GpuBatch { tokens, rows: listed, ..GpuBatch::default() };
            let steps = layers.into_iter().flat_map(|part| part.steps);
            let steps = steps.chain(plan.head(gpu, batch, rows, reduction));
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
    ) -> Result<Vec<RunLogits>, GpuError> {
        let head = &self.plan.head;
        let vocabulary = network.spec.vocabulary;
        let numbers: Vec<u32> = jobs.iter().map(|job| job.token as u32).collect();
        let tokens = jobs.len() as u32;
        network.gpu.write(&head.rows, 0, &numbers);
        network.gpu.write(&head.batch, 0, &[GpuBatch { tokens, ..GpuBatch::default() }]);
        // A cap can make different products equal.
        let is_capped = network.spec.logit_softcap.is_some();
        let is_largest = !is_capped && jobs.iter().all(|job| job.is_largest && job.set.is_none());
        let key = |layers, reduction| Key {
            layers,
            head: HeadShape { rows: HeadRows::All, tokens, listed: 0, reduction },
        };
        let (logits, best, parts) = (head.logits.clone(), head.best.clone(), head.parts);
        let mut layers = layers;
        if is_largest {
            let (count, key) = (jobs.len() * parts, key(layers.take(), Reduction::Largest));
            let found = self.run::<Best>(network, key, (best, count), count)?;
            let found: Option<Vec<_>> = found.chunks(parts).map(unique).collect();
            if let Some(found) = found {
                let row = |largest| network.sparse_row([largest]);
                return Ok(found.into_iter().map(row).collect());
            }
        } else if jobs.iter().any(|job| job.is_largest || network.can_reduce(job)) {
            return self.likeliest(network, key(layers, Reduction::Top), jobs);
        }
        let (count, key) = (jobs.len() * vocabulary, key(layers, Reduction::None));
        let values = self.run::<f32>(network, key, (logits, count), count)?;
        let rows = values.chunks(vocabulary).zip(jobs).map(|(row, job)| network.whole_row(row.to_vec(), job));
        Ok(rows.collect())
    }

    /// Computes the likeliest tokens of whole rows. Reads the rows for which they are not enough.
    fn likeliest(
        &mut self,
        network: &Network,
        key: Key,
        jobs: &[&Job<'_>],
    ) -> Result<Vec<RunLogits>, GpuError> {
        let vocabulary = network.spec.vocabulary;
        let top = &self.plan.head.top;
        for (row, job) in jobs.iter().enumerate() {
            let temperature = job.top.map_or(1.0, |request| request.temperature);
            top.write(&network.gpu, row, job.set.map(TokenSet::words), temperature);
        }
        let (result, stride) = (top.result().clone(), top.stride());
        let count = jobs.len() * stride;
        let words = self.run::<u32>(network, key, (result, count), count)?;
        let head = &self.plan.head;
        let reduced = words.chunks(stride).zip(jobs);
        let reduced: Vec<_> = reduced.map(|(words, job)| network.reduced(head.top.row(words), job)).collect();
        // All missing rows come in one piece, because a read waits for the device.
        let first = reduced.iter().position(Option::is_none).unwrap_or_default();
        let end = reduced.iter().rposition(Option::is_none).map_or(first, |last| last + 1);
        let values = if first < end {
            network.gpu.read::<f32>(&head.logits, first * vocabulary..end * vocabulary)?
        } else {
            Vec::new()
        };
        let row = |(index, (logits, job)): (usize, (Option<RunLogits>, &&Job<'_>))| {
            logits.unwrap_or_else(|| {
                let row = &values[(index - first) * vocabulary..][..vocabulary];
                network.whole_row(row.to_vec(), job)
            })
        };
        Ok(reduced.into_iter().zip(jobs).enumerate().map(row).collect())
    }

    /// Computes the logits of the tokens in `union` for tokens of the pass, after the layers if they are
    /// given. Returns a row for each token of the pass, with the logits of its set.
    fn listed_rows(
        &mut self,
        network: &Network,
        layers: &mut Option<Shape>,
        jobs: &[(&Job<'_>, &TokenSet)],
        union: &TokenSet,
    ) -> Result<Vec<RunLogits>, GpuError> {
        let (gpu, head) = (&network.gpu, &self.plan.head);
        let vocabulary = network.spec.vocabulary;
        let list: Vec<u32> =
            union.iter().map(|token| token.0).filter(|token| (*token as usize) < vocabulary).collect();
        if list.is_empty() {
            return Ok(jobs.iter().map(|_| network.sparse_row([])).collect());
        }
        gpu.write(&head.list, 0, &list);
        let numbers: Vec<u32> = jobs.iter().map(|(job, _)| job.token as u32).collect();
        gpu.write(&head.rows, 0, &numbers);
        let (tokens, count) = (jobs.len() as u32, list.len() as u32);
        gpu.write(&head.batch, 0, &[GpuBatch { tokens, rows: count, ..GpuBatch::default() }]);
        // Workgroups beyond the last row read no weights, and more passes have equal steps.
        let listed = count.next_power_of_two().max(64);
        let key = Key {
            layers: layers.take(),
            head: HeadShape { rows: HeadRows::Listed, tokens, listed, reduction: Reduction::None },
        };
        let stride = listed_stride(vocabulary);
        let before = (jobs.len() - 1) * stride;
        let size = (before + listed as usize).min(HEAD_ROWS * vocabulary);
        let values = self.run::<f32>(network, key, (head.logits.clone(), size), before + list.len())?;
        let rows = jobs.iter().zip(values.chunks(stride)).map(|((job, set), values)| {
            let values = list.iter().copied().zip(values.iter().copied());
            let tokens = values.filter(|(token, _)| set.contains(TokenId(*token)));
            let Some(request) = job.top else { return network.sparse_row(tokens) };
            let tokens: Vec<(u32, f32)> = tokens.collect();
            let is_valid = tokens.iter().all(|(_, logit)| *logit < f32::INFINITY);
            let finite = tokens.iter().copied().filter(|(_, logit)| logit.is_finite());
            let top = TopLogits { tokens: network.finished_all(finite), is_complete: true, rest: 0.0 };
            if is_valid && (request.is_enough)(&top) {
                RunLogits::Top(top)
            } else {
                network.sparse_row(tokens)
            }
        });
        Ok(rows.collect())
    }
}

impl Network {
    /// Returns a row with the given logits, before their cap. All others are `-inf`.
    fn sparse_row(&self, logits: impl IntoIterator<Item = (u32, f32)>) -> RunLogits {
        let mut row = vec![f32::NEG_INFINITY; self.spec.vocabulary];
        for (token, logit) in logits {
            row[token as usize] = self.finished(logit);
        }
        RunLogits::Rows(vec![row])
    }

    /// Caps and masks a row.
    fn whole_row(&self, mut row: Vec<f32>, job: &Job<'_>) -> RunLogits {
        if let Some(cap) = self.spec.logit_softcap {
            softcap(&mut row, cap);
        }
        RunLogits::Rows(vec![masked(row, job.set)])
    }

    /// Returns true if the weights of the likeliest tokens of a job are exact enough. A low temperature
    /// multiplies the error of capped logits.
    fn can_reduce(&self, job: &Job<'_>) -> bool {
        let least = self.spec.logit_softcap.map_or(0.0, |cap| cap / 30.0);
        job.top.is_some_and(|request| request.temperature >= least)
    }

    /// Returns tokens with their capped logits.
    fn finished_all(&self, logits: impl Iterator<Item = (u32, f32)>) -> Vec<(TokenId, f32)> {
        logits.map(|(token, logit)| (TokenId(token), self.finished(logit))).collect()
    }

    /// Returns the logits of a job by the likeliest tokens. `None` if they are not enough.
    fn reduced(&self, row: TopRow, job: &Job<'_>) -> Option<RunLogits> {
        if row.tokens.is_empty() {
            return None;
        }
        let tokens = self.finished_all(row.tokens.iter().copied());
        if let Some(TopRequest { is_enough, .. }) = job.top {
            if !self.can_reduce(job) {
                return None;
            }
            let considered = job.set.map_or(self.spec.vocabulary, TokenSet::count);
            let is_complete = tokens.len() == considered;
            let top = TopLogits { tokens, is_complete, rest: row.rest };
            return is_enough(&top).then_some(RunLogits::Top(top));
        }
        let logits = || tokens.iter().map(|(_, logit)| *logit);
        let largest = logits().fold(f32::NEG_INFINITY, f32::max);
        // A cap can make the logit of another token equal to the largest.
        let is_unique = self.spec.logit_softcap.is_none() || logits().any(|logit| logit < largest);
        (job.is_largest && is_unique).then(|| self.sparse_row(row.tokens))
    }
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
fn unique(parts: &[Best]) -> Option<(u32, f32)> {
    let most = parts.iter().map(|part| part.value).fold(f32::NEG_INFINITY, f32::max);
    let mut largest = parts.iter().filter(|part| part.value >= most);
    let found = largest.next()?;
    (found.equal == 1 && found.value.is_finite() && largest.next().is_none())
        .then_some((found.place, found.value))
}
