//! Drafts that are computed: by a smaller model with the same vocabulary, or by the model's own head.
//!
//! Before each pass of the large model, the drafter continues the sequences by a few tokens. Each is the
//! likeliest token that the constraint allows. The large model checks all drafts of a sequence in one pass, so
//! wrong drafts cost time but change nothing.

mod head;
mod model;

use std::time::Duration;

use formwork_lm::LanguageModel;
use formwork_vocab::TokenId;

use self::model::DraftModel;
use crate::engine::contained;
use crate::error::GenerationError;
use crate::lookup::check_cost;
use crate::sequence::{Ahead, Sequence};

/// Weight of the latest pass in an average time.
const WEIGHT: f64 = 0.1;
/// Maximum number of unread tokens in a pass that is timed as one that drafts a token. The first pass
/// of a step reads the tokens that the large model has just chosen.
const FEW: usize = 4;
/// Cost of drafting a token before it has been measured, relative to a pass with one token.
const UNKNOWN: f32 = 0.2;
/// Factor of the measured cost in each step without drafts. A cost that allows no drafts is measured
/// again after some hundred steps.
const FADING: f64 = 0.998;

/// Computes drafts for the sequences of an engine.
pub(crate) struct Drafter {
    origin: Origin,
    costs: Costs,
    /// Number of tokens of the vocabulary.
    vocabulary: usize,
}

/// Origin of drafts.
enum Origin {
    /// A draft model.
    Model(DraftModel),
    /// The model's own head ([`LanguageModel::draft`]).
    Head,
}

/// Measured times of passes, in seconds.
#[derive(Default)]
struct Costs {
    /// Average time to draft a token.
    own: Average,
    /// Average time of the large model's passes with one token per sequence.
    large: Average,
}

/// Average of times, in which later ones count more.
#[derive(Clone, Copy, Default)]
struct Average(Option<f64>);

impl Average {
    fn note(&mut self, seconds: f64) {
        self.0 = Some(self.0.map_or(seconds, |known| known + WEIGHT * (seconds - known)));
    }
}

impl Costs {
    /// Returns the time to draft and to check a token, relative to the large model's time for one, if
    /// `sequences` sequences share a pass.
    fn of(&self, sequences: usize) -> f32 {
        let own = match (self.own.0, self.large.0) {
            (Some(own), Some(large)) if large > 0.0 => (own / large) as f32,
            _ => UNKNOWN,
        };
        check_cost(sequences) + own
    }

    /// Records a step without drafts.
    fn fade(&mut self) {
        self.own.0 = self.own.0.map(|known| known * FADING);
    }
}

impl Drafter {
    /// Creates the drafter of a draft model, for a large model with `vocabulary` tokens. `kept_bytes`
    /// limits the keys and values of texts whose sequences have ended.
    pub(crate) fn of_model(model: Box<dyn LanguageModel>, vocabulary: usize, kept_bytes: usize) -> Self {
        let vocabulary = vocabulary.min(model.vocab_size());
        let origin = Origin::Model(DraftModel::new(model, vocabulary, kept_bytes));
        Self { origin, costs: Costs::default(), vocabulary }
    }

    /// Creates the drafter of the model's own head. The model has `vocabulary` tokens.
    pub(crate) fn of_head(vocabulary: usize) -> Self {
        Self { origin: Origin::Head, costs: Costs::default(), vocabulary }
    }

    /// Records the time of a pass of the large model in which `sequences` sequences read `tokens`
    /// generated or drafted tokens.
    pub(crate) fn note_pass(&mut self, time: Duration, sequences: usize, tokens: usize) {
        let drafts = tokens.saturating_sub(sequences) as f32;
        let share = 1.0 / check_cost(1).mul_add(drafts, 1.0);
        self.costs.large.note(time.as_secs_f64() * f64::from(share));
    }

    /// Returns the time to draft and to check a token, relative to the large model's time for one, if
    /// `sequences` sequences share a pass.
    pub(crate) fn cost(&self, sequences: usize) -> f32 {
        self.costs.of(sequences)
    }

    /// Forgets the texts of a draft model whose sequences have ended.
    pub(crate) fn clear(&mut self, running: &[Sequence]) {
        if let Origin::Model(draft_model) = &mut self.origin {
            draft_model.clear(running);
        }
    }

    /// Drafts at most `most` tokens for each of the sequences that have no drafts. `model` is the large
    /// model.
    ///
    /// # Errors
    /// Returns an error if the draft model or the head fails. The drafter should not be used any more
    /// then.
    pub(crate) fn draft(
        &mut self,
        model: &mut dyn LanguageModel,
        sequences: &mut [Sequence],
        most: usize,
    ) -> Result<(), GenerationError> {
        match &mut self.origin {
            Origin::Model(draft_model) => draft_model.draft(&mut self.costs, sequences, most),
            Origin::Head => head::draft(model, &mut self.costs, self.vocabulary, sequences, most),
        }
    }
}

/// A sequence for which tokens are being drafted.
struct Drafting<'a> {
    sequence: &'a mut Sequence,
    ahead: Ahead,
    /// Tokens of the sequence and its drafts that the draft model or the head has not read.
    unread: Vec<TokenId>,
    /// Number of tokens still to draft.
    count: usize,
}

impl Drafting<'_> {
    /// Drafts the token with the largest logit in `row`, if it may follow. Otherwise ends the drafts.
    fn push_likeliest(&mut self, row: &[f32], vocabulary: usize) {
        let count = std::mem::take(&mut self.count);
        let Some(token) = likeliest(row, vocabulary) else { return };
        let Self { sequence, ahead, .. } = self;
        // A panic of the constraint is reported by the sequence's own work.
        if contained(|| Ok(sequence.push_draft(ahead, token))).unwrap_or(false) {
            self.unread.push(token);
            self.count = count - 1;
        }
    }
}

/// Returns the token with the largest finite logit among the first `vocabulary`.
fn likeliest(row: &[f32], vocabulary: usize) -> Option<TokenId> {
    let row = &row[..row.len().min(vocabulary)];
    let (index, logit) = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    logit.is_finite().then_some(TokenId(index as u32))
}
