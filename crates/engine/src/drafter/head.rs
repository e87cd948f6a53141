//! Drafts of the model's own head.

use std::time::Instant;

use formwork_lm::{DraftRun, LanguageModel};

use super::{Costs, Drafting, FEW};
use crate::error::{GenerationError, GenerationKind};
use crate::sequence::Sequence;

/// Drafts at most `most` tokens for each of the sequences that have no drafts. `vocabulary` is the
/// number of tokens of the vocabulary.
///
/// # Errors
/// Returns an error if the head fails.
pub(super) fn draft(
    model: &mut dyn LanguageModel,
    costs: &mut Costs,
    vocabulary: usize,
    sequences: &mut [Sequence],
    most: usize,
) -> Result<(), GenerationError> {
    let generating = sequences.iter().filter(|sequence| sequence.need().is_generated()).count();
    let cost = costs.of(generating);
    let mut all = Vec::new();
    for sequence in sequences {
        let room = model.context_len().saturating_sub(sequence.tokens().len());
        let count = sequence.plan_drafts(cost, most).min(room);
        // The head computes unread tokens one after the other, like drafts.
        let unread = sequence.unread();
        if count > 0 && unread.len() <= FEW {
            let unread = unread.to_vec();
            all.push(Drafting { ahead: sequence.look_ahead(), sequence, unread, count });
        }
    }
    if all.is_empty() {
        costs.fade();
    }
    while !all.is_empty() {
        let started = Instant::now();
        let runs = all.iter().map(|drafting| DraftRun {
            sequence: drafting.sequence.id,
            tokens: &drafting.unread,
            wanted: drafting.ahead.mask(),
        });
        let runs: Vec<_> = runs.collect();
        let logits = model.draft(&runs).map_err(GenerationKind::model)?;
        if runs.iter().all(|run| run.tokens.len() == 1) {
            costs.own.note(started.elapsed().as_secs_f64());
        }
        for (index, drafting) in all.iter_mut().enumerate() {
            drafting.unread.clear();
            drafting.push_likeliest(logits.row(index), vocabulary);
        }
        model.recycle(logits);
        all.retain(|drafting| drafting.count > 0);
    }
    Ok(())
}
