//! Runs of a batch while they are computed, pass by pass.

use std::borrow::Cow;

use formwork_lm::{Role, Run, RunLogits, TopRequest, Wanted};
use formwork_vocab::{TokenId, TokenSet};

use super::sequence::Sequence;
use super::states::INTERVAL;

/// The tokens of one sequence that a pass computes.
pub(super) struct Segment<'a> {
    pub(super) tokens: &'a [TokenId],
    pub(super) sequence: &'a Sequence,
    /// Residual stream before the first layer, of shape `[tokens, hidden]`. `None` for the embeddings of
    /// the tokens.
    pub(super) input: Option<&'a [f32]>,
    /// Slots of the states before and after the tokens. `None` if the model has no states.
    pub(super) states: Option<[u32; 2]>,
}

/// A row of logits to compute in a pass.
pub(super) struct Job<'a> {
    /// Index of the token in the pass.
    pub(super) token: usize,
    /// Index of the run.
    pub(super) run: usize,
    pub(super) set: Option<&'a TokenSet>,
    pub(super) is_largest: bool,
    /// Request for the likeliest tokens.
    pub(super) top: Option<TopRequest<'a>>,
}

impl<'a> Job<'a> {
    /// Returns the set of tokens if it has at most `limit` tokens.
    pub(super) fn listed(&self, limit: usize) -> Option<&'a TokenSet> {
        self.set.filter(|set| set.count() <= limit)
    }
}

/// A run of a batch, with the state of its computation.
pub(super) struct Progress<'a> {
    pub(super) run: Run<'a>,
    pub(super) sequence: Sequence,
    /// Tokens to compute: those of the run, and before them those to compute again.
    tokens: Cow<'a, [TokenId]>,
    /// Residual stream before the first layer for all tokens, or `None` for their embeddings.
    input: Option<&'a [f32]>,
    /// Roles of the tokens to compute again.
    replayed: Vec<Role>,
    wanted: Vec<Option<&'a TokenSet>>,
    /// Number of tokens that were computed.
    pub(super) read: usize,
    pub(super) logits: RunLogits,
    /// Hidden states of all computed tokens, if they are wanted.
    pub(super) states: Vec<f32>,
}

/// Number of tokens of each run in a pass, and their kernels.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) lens: Vec<usize>,
    pub(super) is_tiled: bool,
    pub(super) is_precise: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(run: Run<'a>, mut sequence: Sequence, input: Option<&'a [f32]>) -> Self {
        let (again, replayed): (Vec<TokenId>, Vec<Role>) = sequence.to_replay().iter().copied().unzip();
        let tokens = if again.is_empty() {
            // A conversation goes on, or drafts follow: the sequence may be cut here later.
            if run.role == Role::Prompt || run.wanted.count() > 1 {
                sequence.keep();
            }
            Cow::Borrowed(run.tokens)
        } else {
            Cow::Owned([&again, run.tokens].concat())
        };
        sequence.append(run.tokens, run.role);
        let wanted = run.wanted.rows();
        let (logits, states) = (RunLogits::default(), Vec::new());
        Self { run, sequence, tokens, input, replayed, wanted, read: 0, logits, states }
    }

    pub(super) fn left(&self) -> usize {
        self.tokens.len() - self.read
    }

    /// Returns the number of tokens that are computed again.
    pub(super) const fn replayed(&self) -> usize {
        self.replayed.len()
    }

    /// Returns the next `len` tokens, and their rows of the input.
    pub(super) fn next(&self, len: usize) -> (&[TokenId], Option<&[f32]>) {
        let width = self.input.map_or(0, |input| input.len() / self.tokens.len());
        let input = self.input.map(|input| &input[self.read * width..(self.read + len) * width]);
        (&self.tokens[self.read..self.read + len], input)
    }

    /// Returns the role of the next token.
    pub(super) fn role(&self) -> Role {
        self.replayed.get(self.read).copied().unwrap_or(self.run.role)
    }

    /// Returns the number of next tokens that a pass with room for `room` tokens takes. They have the
    /// same role, and end where a snapshot of the state is kept.
    pub(super) fn fitting(&self, room: usize) -> usize {
        let role = self.role();
        let replayed = &self.replayed[self.read.min(self.replayed.len())..];
        let equal = match replayed.iter().position(|other| *other != role) {
            Some(count) => count,
            None if self.run.role == role => self.left(),
            None => replayed.len(),
        };
        let to_snapshot = match self.sequence.recurrent {
            Some(_) => INTERVAL - self.sequence.table.len() % INTERVAL,
            None => usize::MAX,
        };
        equal.min(room).min(to_snapshot)
    }

    /// Returns the jobs of the next `len` tokens. The first of them is token `first` of the pass.
    pub(super) fn jobs(&self, run: usize, first: usize, len: usize) -> impl Iterator<Item = Job<'a>> {
        // Index of the first token with a row.
        let begin = self.tokens.len() - self.wanted.len();
        let is_largest = matches!(self.run.wanted, Wanted::Largest(_));
        let top = match self.run.wanted {
            Wanted::Top(request) => Some(request),
            _ => None,
        };
        (self.read..self.read + len).filter(move |token| *token >= begin).map(move |token| Job {
            token: first + token - self.read,
            run,
            set: self.wanted[token - begin],
            is_largest,
            top,
        })
    }

    /// Adds the logits of a job.
    pub(super) fn add(&mut self, logits: RunLogits) {
        match (&mut self.logits, logits) {
            (RunLogits::Rows(rows), RunLogits::Rows(more)) => rows.extend(more),
            (all, logits) => *all = logits,
        }
    }

    /// Ends a pass that has computed the next `len` tokens. The sequence keeps at most `snapshots` copies of
    /// its states.
    pub(super) fn advance(&mut self, len: usize, snapshots: usize) {
        self.read += len;
        self.sequence.table.advance(len);
        if len > 0 && self.sequence.table.len().is_multiple_of(INTERVAL) {
            self.sequence.keep();
            if let Some(recurrent) = &mut self.sequence.recurrent {
                recurrent.states.bound(snapshots);
            }
        }
    }
}
