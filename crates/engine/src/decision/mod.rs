//! Probabilities of texts: the share of each option of a question, under the model's own distribution or
//! that of a generation.
//!
//! A text can be spelt by many sequences of tokens, and its probability is the sum over all of them. The
//! sum has too many terms for long texts, so a best-first search visits the likeliest prefixes and
//! encloses the rest ([`Enclosure`]). Sums are `f64`, in an order that depends only on the question. If
//! the model is batch invariant, a question has the same bits alone, among others and from the cache.

mod enclosure;
mod job;
mod sampler_state;
mod search;
mod texts;
mod tracker;

use std::time::Instant;

use formwork_vocab::{TokenId, Vocabulary};

pub use enclosure::Enclosure;
pub(crate) use job::{DecisionJob, DecisionPass};
pub use sampler_state::SamplerState;
use texts::TextTrie;
pub use tracker::{ChoiceTracker, TrackedChoice};

use crate::DecisionError;

/// Questions whose prompts may share a prefix. The model reads the common prefix of all prompts once.
#[derive(Clone, Debug)]
pub struct DecisionRequest {
    /// The questions, at least one.
    pub questions: Vec<Question>,
    /// Limits on the search for each question.
    pub limits: SearchLimits,
    /// Deadline, after which the request fails.
    pub deadline: Option<Instant>,
    /// True if the request belongs to a generation. It is then accepted even if many requests wait, its turn
    /// comes soon, and options may exceed the context. The probability of such an option has an error.
    pub is_part: bool,
}

/// A prompt, and options whose probabilities as the answer are wanted.
#[derive(Clone, Debug)]
pub struct Question {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<TokenId>,
    /// Options. Each has one or more texts, and its probability is the sum of theirs. All texts of a
    /// question differ, and none is empty.
    pub options: Vec<Vec<String>>,
    /// Event that a text stands for.
    pub ending: Ending,
    /// Temperature of the shares to which the tolerance of the search applies. It divides the logarithms of
    /// the options' probabilities, and changes no bound in the result.
    pub temperature: f64,
    /// Options that the search visits before it ends.
    pub visited: Visited,
    /// State of a generation after the prompt. Probabilities are then those with which the generation
    /// chooses tokens, and the options must be all that its constraint allows next. `None` means the model's
    /// own distribution.
    pub sampler: Option<SamplerState>,
}

/// Options of a [`Question`] that the search visits in any case. The probability of any other option may
/// be 0 if it is less than the tolerance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Visited {
    /// As many as the tolerance needs.
    #[default]
    AsNeeded,
    /// At least the option with this index.
    Option(usize),
    /// All options.
    All,
}

/// Event that a text of a [`Question`] stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The answer is the text, followed by one of these tokens.
    Tokens(Vec<TokenId>),
    /// The answer begins with the text. No text may be the beginning of another one.
    Open,
}

/// Limits on the search over token sequences.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SearchLimits {
    /// The search ends if no option's share can differ by more than this.
    pub tolerance: f64,
    /// Maximum number of token prefixes that the model reads for a question after its prompt.
    pub nodes: usize,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { tolerance: 1e-4, nodes: 1024 }
    }
}

impl Question {
    /// Checks the options against a vocabulary.
    ///
    /// # Errors
    /// Returns an error if there is no option, a text is empty, no sequence of tokens spells it, or two
    /// texts are equal. Also returns an error if one text is the beginning of another one and the ending
    /// is [`Ending::Open`].
    pub fn check(&self, vocabulary: &Vocabulary) -> Result<(), DecisionError> {
        if let Some(option) = self.options.iter().position(|texts| texts.iter().any(String::is_empty)) {
            return Err(DecisionError::EmptyText { option });
        }
        if let Some(option) = self.options.iter().position(Vec::is_empty) {
            return Err(DecisionError::EmptyText { option });
        }
        let (texts, options) = self.texts();
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&text| texts[text]);
        if let Some(pair) = order.windows(2).find(|pair| texts[pair[0]] == texts[pair[1]]) {
            let option = options[pair[1]].max(options[pair[0]]) as usize;
            return Err(DecisionError::RepeatedText { option });
        }
        let trie = TextTrie::new(&texts);
        if let (Ending::Open, Some((shorter, longer))) = (&self.ending, trie.prefix_pair()) {
            let [option, longer] = [shorter, longer].map(|text| options[text as usize] as usize);
            return Err(DecisionError::PrefixText { option, longer });
        }
        match trie.unspellable(vocabulary.trie()) {
            Some(text) => Err(DecisionError::Unspellable { option: options[text as usize] as usize }),
            None => Ok(()),
        }
    }

    /// Returns all texts, and the option of each text.
    fn texts(&self) -> (Vec<&[u8]>, Vec<u32>) {
        let texts = self.options.iter().enumerate();
        let texts = texts.flat_map(|(option, texts)| texts.iter().map(move |text| (text, option)));
        texts.map(|(text, option)| (text.as_bytes(), option as u32)).unzip()
    }
}

/// The result of a [`DecisionRequest`].
#[derive(Clone, PartialEq, Debug)]
pub struct Decided {
    /// Bounds for each question, in the order of the request.
    pub enclosures: Vec<Enclosure>,
    /// Number of tokens that the model read or took from its cache: the common prefix once, and the rest of
    /// each prompt.
    pub prompt_tokens: usize,
    /// Number of tokens of the common prefix that were in the cache.
    pub cached_tokens: usize,
}
