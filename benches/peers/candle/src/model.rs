//! candle's models behind the measured interface.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor};
use candle_transformers::models::{quantized_gemma3, quantized_llama};
use formwork_lm::{Batch, LanguageModel, Logits, ModelError, Run, SequenceId, Wanted};
use formwork_vocab::TokenId;

use crate::gguf;

/// One of candle's models, which has room for one sequence at a time.
pub struct Candle {
    weights: Weights,
    vocab_size: usize,
    context_len: usize,
    opened: u32,
    sequence: Option<Sequence>,
}

enum Weights {
    Llama(quantized_llama::ModelWeights),
    Gemma3(quantized_gemma3::ModelWeights),
}

struct Sequence {
    id: SequenceId,
    /// Number of tokens in the cache.
    len: usize,
    /// Tokens that are not in the cache yet. A prompt goes in as a whole, as in candle's own
    /// programs, because candle's Gemma does not accept a second piece.
    waiting: Vec<u32>,
}

impl Candle {
    /// Reads the weights of a GGUF file.
    pub fn open(path: &Path) -> Result<Self> {
        let (content, mut file) = gguf::read(path)?;
        let value = |key: &str| content.metadata.get(key).with_context(|| format!("the file has no {key}"));
        let architecture = value("general.architecture")?.to_string()?.clone();
        let trained = value(&format!("{architecture}.context_length"))?.to_u64()? as usize;
        let embedding = content.tensor_infos.get("token_embd.weight");
        let vocab_size = embedding.context("the file has no token_embd.weight")?.shape.dims2()?.0;
        let device = Device::Cpu;
        let (weights, longest) = match architecture.as_str() {
            "llama" => {
                let weights = quantized_llama::ModelWeights::from_gguf(content, &mut file, &device)?;
                (Weights::Llama(weights), quantized_llama::MAX_SEQ_LEN)
            }
            "gemma3" => {
                let weights = quantized_gemma3::ModelWeights::from_gguf(content, &mut file, &device)?;
                (Weights::Gemma3(weights), quantized_gemma3::MAX_SEQ_LEN)
            }
            other => bail!("`{other}` is not measured, only `llama` and `gemma3`"),
        };
        let context_len = trained.min(longest);
        Ok(Self { weights, vocab_size, context_len, opened: 0, sequence: None })
    }

    /// Appends a run to its sequence. Shape: `[rows][vocabulary]`.
    fn append(&mut self, run: &Run<'_>) -> Result<Vec<Vec<f32>>, ModelError> {
        let sequence = self.sequence.as_mut().filter(|sequence| sequence.id == run.sequence);
        let sequence = sequence.ok_or_else(|| ModelError::unknown_sequence(run.sequence))?;
        if let Some(token) = run.tokens.iter().find(|token| token.0 as usize >= self.vocab_size) {
            return Err(ModelError::token_outside(token.0, self.vocab_size));
        }
        sequence.waiting.extend(run.tokens.iter().map(|&TokenId(id)| id));
        let end = sequence.len + sequence.waiting.len();
        if end > self.context_len {
            return Err(ModelError::context_full(end, self.context_len));
        }
        match run.wanted {
            Wanted::Nothing => return Ok(Vec::new()),
            Wanted::All => (),
            _ => {
                return Err(ModelError::backend("candle computes one whole row only"));
            }
        }
        let row = self.weights.forward(&sequence.waiting, sequence.len).map_err(ModelError::backend)?;
        sequence.waiting.clear();
        sequence.len = end;
        Ok(vec![row])
    }
}

impl Weights {
    /// Returns the logits after the last token. Position 0 starts a new cache.
    fn forward(&mut self, tokens: &[u32], position: usize) -> candle_core::Result<Vec<f32>> {
        let device = Device::Cpu;
        device.with_context(|| {
            let input = Tensor::new(tokens, &device)?.unsqueeze(0)?;
            let logits = match self {
                Self::Llama(model) => model.forward(&input, position)?,
                Self::Gemma3(model) => model.forward(&input, position)?,
            };
            logits.flatten_all()?.to_vec1()
        })
    }
}

impl LanguageModel for Candle {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn context_len(&self) -> usize {
        self.context_len
    }

    fn open(&mut self) -> SequenceId {
        let id = SequenceId(self.opened);
        self.opened += 1;
        self.sequence = Some(Sequence { id, len: 0, waiting: Vec::new() });
        id
    }

    fn close(&mut self, sequence: SequenceId) {
        self.sequence.take_if(|open| open.id == sequence);
    }

    fn truncate(&mut self, _sequence: SequenceId, _len: usize) -> Result<(), ModelError> {
        Err(ModelError::backend("candle's caches only grow"))
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        batch.runs.iter().map(|run| self.append(run)).collect::<Result<_, _>>().map(Logits::new)
    }
}
