//! The choice points of one generation, as questions about its tokens.

use std::sync::Arc;

use formwork_grammar::{ChoicePoint, ChoiceReader};
use formwork_vocab::{TokenId, Tokenizer};

use super::{Ending, Question, SamplerState, Visited};
use crate::DecisionError;

/// Follows the output of a generation, and turns its choice points into questions.
///
/// A question's prompt ends at the last token boundary at or before the texts of the options, and the bytes
/// in between belong to all options. Probabilities are given the text before the choice. What comes later
/// does not count.
///
/// Created by [`EngineHandle::tracker`](crate::EngineHandle::tracker).
pub struct ChoiceTracker {
    tokenizer: Arc<Tokenizer>,
    reader: ChoiceReader,
    prompt: Vec<TokenId>,
    /// Tokens of the output.
    tokens: Vec<TokenId>,
    /// Text of the tokens.
    text: Vec<u8>,
    /// For each token, the offset in `text` after it.
    ends: Vec<usize>,
    /// Number of bytes of the text that were shown.
    shown: usize,
    /// Length of the content that the prompt has already.
    begun: usize,
    /// Offset in `text` of the content of the output, once it is known.
    content_at: Option<usize>,
    /// State before the first token.
    first: SamplerState,
    /// State after this number of tokens.
    reached: (usize, SamplerState),
}

/// A choice point with its questions.
#[derive(Clone, Debug)]
pub struct TrackedChoice {
    /// The choice point. Offsets are those in the content of the output.
    pub point: ChoicePoint,
    /// The question under the model's own distribution.
    pub question: Question,
    /// The same question under the distribution of the generation.
    pub sampled: Question,
}

impl ChoiceTracker {
    pub(crate) fn new(
        reader: ChoiceReader,
        prompt: Vec<TokenId>,
        sampler: SamplerState,
        tokenizer: Arc<Tokenizer>,
    ) -> Self {
        Self {
            tokenizer,
            reader,
            prompt,
            tokens: Vec::new(),
            text: Vec::new(),
            ends: Vec::new(),
            shown: 0,
            begun: 0,
            content_at: None,
            reached: (0, sampler.clone()),
            first: sampler,
        }
    }

    /// Reads content that the prompt has already. Choices that begin in it are not the generation's.
    pub fn begin(&mut self, content: &str) {
        self.reader.push(content.as_bytes());
        self.begun += content.len();
    }

    /// Reads the next token of the output.
    pub fn token(&mut self, token: TokenId) {
        let vocabulary = self.tokenizer.vocabulary();
        if vocabulary.kind(token).is_text() {
            self.text.extend_from_slice(vocabulary.bytes(token));
        }
        self.tokens.push(token);
        self.ends.push(self.text.len());
    }

    /// Reads the next text of the output, whose tokens were read before.
    pub fn show(&mut self, text: &str) {
        self.shown += text.len();
    }

    /// Reads the next content, a part of the text that was shown before. The output may have other text
    /// before its content. Returns the choices that are decided.
    pub fn content(&mut self, content: &str) -> Vec<ChoicePoint> {
        if self.content_at.is_none() && !content.is_empty() {
            let shown = &self.text[..self.shown.min(self.text.len())];
            let last = shown.len().checked_sub(content.len());
            let mut offsets = last.into_iter().flat_map(|last| (0..=last).rev());
            self.content_at = offsets.find(|&at| shown[at..].starts_with(content.as_bytes()));
        }
        self.reader.push(content.as_bytes())
    }

    /// Returns true if the output has more choices than are looked for.
    pub fn is_cut(&self) -> bool {
        self.reader.is_cut()
    }

    /// Returns the choices that the end of the content decides.
    pub fn finish(&mut self) -> Vec<ChoicePoint> {
        self.reader.finish()
    }

    /// Returns the questions of a choice point. Returns `None` if it begins in content that the prompt has.
    ///
    /// # Errors
    /// Returns an error if the vocabulary cannot spell an option.
    pub fn questions(&mut self, point: ChoicePoint) -> Result<Option<TrackedChoice>, DecisionError> {
        let Some(choice) = self.choice(point) else { return Ok(None) };
        choice.question.check(self.tokenizer.vocabulary())?;
        Ok(Some(choice))
    }

    fn choice(&mut self, mut point: ChoicePoint) -> Option<TrackedChoice> {
        point.start = point.start.checked_sub(self.begun)?;
        point.end -= self.begun;
        let at = self.content_at? + point.start;
        let mut count = self.ends.partition_point(|&end| end <= at);
        let between = loop {
            let from = if count == 0 { 0 } else { self.ends[count - 1] };
            // A token may end within a character.
            if let Ok(between) = str::from_utf8(self.text.get(from..at)?) {
                break between.to_owned();
            }
            count = count.checked_sub(1)?;
        };
        let texts = |texts: &[String]| texts.iter().map(|text| format!("{between}{text}")).collect();
        let ends = self.tokenizer.vocabulary().ends();
        let question = Question {
            prompt: [&self.prompt, &self.tokens[..count]].concat(),
            options: point.options.iter().map(|option| texts(&option.texts)).collect(),
            ending: if point.to_end { Ending::Tokens(ends.to_vec()) } else { Ending::Open },
            temperature: 1.0,
            visited: Visited::Option(point.chosen),
            sampler: None,
        };
        let sampled = Question { sampler: Some(self.sampler_after(count)?), ..question.clone() };
        Some(TrackedChoice { point, question, sampled })
    }

    /// Returns the state after `count` tokens.
    fn sampler_after(&mut self, count: usize) -> Option<SamplerState> {
        if count < self.reached.0 {
            self.reached = (0, self.first.clone());
        }
        let (reached, sampler) = &mut self.reached;
        for &token in &self.tokens[*reached..count] {
            if !sampler.push(token) {
                return None;
            }
        }
        *reached = count;
        Some(sampler.clone())
    }
}
