//! A model whose layers are on several devices: GPUs, and the CPU after them. The residual stream goes
//! from one device to the next through the memory of the host.

use std::sync::Arc;

use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Role, Run, RunLogits, SequenceId, Wanted};
use formwork_vocab::TokenId;
use rustc_hash::FxHashMap;

use super::Network;
use super::decoder::Decoder;
use crate::Device;
use crate::backend::{Adapters, Backend};
use crate::cpu;
use crate::spec::ModelSpec;

/// Maximum number of tokens of a run that go through all devices at once.
const CHUNK: usize = 512;

/// The last layers of a model, with the output head.
pub(crate) trait LastLayers: LanguageModel {
    /// Keeps the first `len` tokens of a sequence as far as they are computed, and removes all others. Returns
    /// the number of remaining tokens.
    fn keep_computed(&mut self, sequence: SequenceId, len: usize) -> usize;

    /// Appends every run to its sequence, and computes the requested logits. `input` is the residual
    /// stream before the first of the layers. Shape: `[tokens, hidden]`.
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::forward`].
    fn finish(&mut self, batch: &Batch<'_>, input: &[f32]) -> Result<Logits, ModelError>;

    /// Does the same as [`LastLayers::finish`] for one run, and returns its hidden states after the last norm.
    ///
    /// # Errors
    /// Returns an error in the cases of [`LanguageModel::forward`].
    fn states(&mut self, run: Run<'_>, input: &[f32]) -> Result<Vec<f32>, ModelError>;
}

/// Immutable state shared by all decoders of a model.
pub(super) struct Pipeline {
    /// Specification of the whole model.
    pub(super) spec: ModelSpec,
    /// First layers.
    pub(super) first: Vec<Arc<Network>>,
    /// Last layers.
    pub(super) last: Last,
}

/// Device of the last layers.
pub(super) enum Last {
    Gpu(Arc<Network>),
    Cpu(Arc<cpu::Network>),
}

impl Backend for Pipeline {
    fn device_name(&self) -> String {
        let of = |network: &Arc<Network>| {
            let (device, layers) = (Device::Gpu(network.number), network.spec.layers.len());
            match &network.on_host {
                None => format!("{device} ({layers} layers)"),
                Some(blocks) => {
                    format!("{device} ({layers} layers, experts of {} on the CPU)", blocks.count())
                }
            }
        };
        let last = match &self.last {
            Last::Gpu(network) => of(network),
            Last::Cpu(network) => {
                let layers = network.spec().map_or(0, |spec| spec.layers.len());
                format!("cpu ({layers} layers)")
            }
        };
        self.first.iter().map(of).chain([last]).collect::<Vec<_>>().join(", ")
    }

    fn threads(&self) -> usize {
        let last = match &self.last {
            Last::Gpu(network) => network.threads(),
            Last::Cpu(network) => network.threads(),
        };
        self.first.iter().map(|network| network.threads()).fold(last, usize::max)
    }

    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn decoder(self: Arc<Self>, context: usize, _: Adapters) -> Box<dyn LanguageModel> {
        let gpu = |network: &Arc<Network>| Decoder::new(Arc::clone(network), context);
        let last: Box<dyn LastLayers> = match &self.last {
            Last::Gpu(network) => Box::new(gpu(network)),
            Last::Cpu(network) => {
                Box::new(cpu::Decoder::new(Arc::clone(network), context, Adapters::default()))
            }
        };
        let first = self.first.iter().map(gpu).collect();
        let sequences = FxHashMap::default();
        Box::new(PipelineDecoder { network: self, context, first, last, sequences, replayed: 0 })
    }

    fn hidden_states(&self, _: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        Err(ModelError::unsupported("hidden states of layers on several devices"))
    }
}

/// Decoder of a model, with its open sequences. All devices have the same sequences.
struct PipelineDecoder {
    network: Arc<Pipeline>,
    context: usize,
    first: Vec<Decoder>,
    last: Box<dyn LastLayers>,
    /// Tokens of each sequence, to compute again what a device has removed.
    sequences: FxHashMap<SequenceId, Vec<(TokenId, Role)>>,
    /// Number of tokens that were computed again so far.
    replayed: u64,
}

/// A run while its tokens are computed.
struct Progress<'a> {
    run: Run<'a>,
    /// Tokens to compute: those of the run, and before them those to compute again.
    tokens: Vec<(TokenId, Role)>,
    read: usize,
}

impl Progress<'_> {
    /// Returns the number of next tokens that go through all devices at once. They have the same role.
    /// The last ones include all tokens with requested logits.
    fn fitting(&self) -> usize {
        let rest = &self.tokens[self.read..];
        let Some((_, role)) = rest.first() else { return 0 };
        let equal = rest.iter().take_while(|(_, other)| other == role).count();
        let wanted = self.run.wanted.count();
        let is_end = equal == rest.len();
        if equal <= CHUNK || is_end && equal - CHUNK < wanted { equal } else { CHUNK }
    }
}

impl PipelineDecoder {
    /// Calls `each` with the decoder of each device.
    fn each(&mut self, mut each: impl FnMut(&mut dyn LastLayers)) {
        self.first.iter_mut().for_each(|decoder| each(decoder));
        each(&mut *self.last);
    }

    /// Returns the number of first tokens of a sequence that all devices have computed. Removes the others
    /// from the devices.
    fn computed(&mut self, sequence: SequenceId, len: usize) -> usize {
        let mut computed = len;
        loop {
            let before = computed;
            self.each(|decoder| computed = decoder.keep_computed(sequence, computed));
            if computed == before {
                return computed;
            }
        }
    }

    /// Computes the layers of all devices except the last. Returns the residual stream after them.
    fn first_layers(&mut self, batch: &Batch<'_>) -> Result<Vec<f32>, ModelError> {
        let mut stream: Option<Vec<f32>> = None;
        for decoder in &mut self.first {
            stream = Some(decoder.residual_after(batch, stream.as_deref())?);
        }
        Ok(stream.unwrap_or_default())
    }

    /// Prepares the runs: adds their tokens to the sequences, and those to compute again to the runs.
    fn prepare<'a>(&mut self, batch: &Batch<'a>) -> Result<Vec<Progress<'a>>, ModelError> {
        let len = |sequence| self.sequences.get(&sequence).map(Vec::len);
        batch.check(len, self.network.spec.vocabulary, self.context)?;
        let mut runs = Vec::new();
        for &run in &batch.runs {
            let len = self.sequences.get(&run.sequence).map_or(0, Vec::len);
            let computed = self.computed(run.sequence, len);
            let Some(tokens) = self.sequences.get_mut(&run.sequence) else { continue };
            self.replayed += (len - computed) as u64;
            tokens.extend(run.tokens.iter().map(|token| (*token, run.role)));
            runs.push(Progress { run, tokens: tokens[computed..].to_vec(), read: 0 });
        }
        Ok(runs)
    }

    fn compute(&mut self, runs: &mut [Progress<'_>]) -> Result<Logits, ModelError> {
        let mut logits = vec![RunLogits::default(); runs.len()];
        loop {
            let lens: Vec<usize> = runs.iter().map(Progress::fitting).collect();
            if lens.iter().all(|len| *len == 0) {
                return Ok(logits.into_iter().collect());
            }
            let pieces: Vec<Vec<TokenId>> = runs
                .iter()
                .zip(&lens)
                .map(|(run, len)| run.tokens[run.read..][..*len].iter().map(|(token, _)| *token).collect())
                .collect();
            let mut indices = Vec::new();
            let mut batch = Batch::default();
            for (index, (run, tokens)) in runs.iter().zip(&pieces).enumerate() {
                let Some((_, role)) = run.tokens.get(run.read).filter(|_| !tokens.is_empty()) else {
                    continue;
                };
                let is_end = run.read + tokens.len() == run.tokens.len();
                let wanted = if is_end { run.run.wanted } else { Wanted::Nothing };
                indices.push(index);
                batch.runs.push(Run { sequence: run.run.sequence, tokens, role: *role, wanted });
            }
            let stream = self.first_layers(&batch)?;
            for (index, computed) in indices.into_iter().zip(self.last.finish(&batch, &stream)?.into_runs()) {
                logits[index] = computed;
            }
            for (run, len) in runs.iter_mut().zip(lens) {
                run.read += len;
            }
        }
    }
}

impl LanguageModel for PipelineDecoder {
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
        let mut id = SequenceId(0);
        // All devices count alike.
        self.each(|decoder| id = decoder.open());
        self.sequences.insert(id, Vec::new());
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.each(|decoder| decoder.close(sequence));
        self.sequences.remove(&sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        let tokens = self.sequences.get_mut(&sequence);
        tokens.ok_or_else(|| ModelError::unknown_sequence(sequence))?.truncate(len);
        self.computed(sequence, len);
        Ok(())
    }

    fn can_fork(&self) -> bool {
        true
    }

    fn truncates_cheaply(&self) -> bool {
        !self.network.spec.has_state()
    }

    fn is_batch_invariant(&self) -> bool {
        self.first.iter().all(LanguageModel::is_batch_invariant) && self.last.is_batch_invariant()
    }

    fn fork(&mut self, sequence: SequenceId, len: usize) -> Result<SequenceId, ModelError> {
        let tokens = self.sequences.get(&sequence).ok_or_else(|| ModelError::unknown_sequence(sequence))?;
        let tokens = tokens[..len.min(tokens.len())].to_vec();
        let mut forks = Vec::new();
        self.each(|decoder| forks.push(decoder.fork(sequence, len)));
        // All devices count alike, also if one of them fails.
        let id = forks.iter().find_map(|fork| fork.as_ref().ok().copied());
        match forks.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(forks) if forks.iter().all(|fork| Some(*fork) == id) => {
                let fork = forks[0];
                self.sequences.insert(fork, tokens);
                Ok(fork)
            }
            Ok(_) => Err(ModelError::unsupported("a fork of a sequence that failed")),
            Err(error) => {
                if let Some(id) = id {
                    self.each(|decoder| decoder.close(id));
                }
                Err(error)
            }
        }
    }

    fn kv_bytes_per_token(&self) -> usize {
        self.first.iter().map(LanguageModel::kv_bytes_per_token).sum::<usize>()
            + self.last.kv_bytes_per_token()
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        let mut runs = self.prepare(batch)?;
        self.compute(&mut runs)
    }

    fn hidden_states(&mut self, sequence: SequenceId, tokens: &[TokenId]) -> Result<Vec<f32>, ModelError> {
        let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Nothing };
        let mut states = Vec::new();
        for mut progress in self.prepare(&Batch { runs: vec![run] })? {
            let replayed = progress.tokens.len() - tokens.len();
            while progress.fitting() > 0 {
                let piece = &progress.tokens[progress.read..][..progress.fitting()];
                let role = piece[0].1;
                let tokens: Vec<TokenId> = piece.iter().map(|(token, _)| *token).collect();
                let run = Run { sequence, tokens: &tokens, role, wanted: Wanted::Nothing };
                let stream = self.first_layers(&Batch { runs: vec![run] })?;
                states.extend(self.last.states(run, &stream)?);
                progress.read += tokens.len();
            }
            states.drain(..replayed * self.network.spec.hidden);
        }
        Ok(states)
    }

    fn replayed_tokens(&self) -> u64 {
        self.replayed
    }

    fn recycle(&mut self, logits: Logits) {
        self.last.recycle(logits);
    }
}
