//! Questions as prompts.

use formwork_lm::{ChatInput, ChatTemplate, Message};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer, VocabError};
use serde_json::{Map, Value};

use super::combine::{DecisionAnswer, OptionBounds, combine, combine_independent, divide};
use super::encode::{PromptHead, Spellings, add_user_text};
use super::wording::Wording;
use super::{AskError, Asking, DecisionKind, DecisionQuestion, Orders};
use crate::{ChatFormat, Thoughts, render};

/// Asks questions of one model.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// Format of the model's answers.
    pub format: &'a ChatFormat,
    /// Chat template of the model.
    pub template: &'a dyn ChatTemplate,
    /// Tokenizer of the model.
    pub tokenizer: &'a Tokenizer,
}

/// A prompt and the texts of its answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedPrompt {
    /// Tokens of the prompt.
    pub tokens: Vec<TokenId>,
    /// Texts that stand for each option, in the order in which the prompt lists the options.
    pub answers: Vec<Vec<String>>,
    /// Tokens that end an answer. Empty if an answer may continue after an option.
    pub ends: Vec<TokenId>,
    /// End of the thought that follows the prompt, if one was asked for.
    pub thought: Option<ThoughtEnd>,
}

/// End of a thought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThoughtEnd {
    /// Text that ends the thought.
    pub close: String,
    /// Tokens of this text and of the text between a thought and the answer.
    pub tokens: Vec<TokenId>,
}

impl AskedPrompt {
    /// Adds a thought to the prompt, and its end. `output` is what the model wrote, with or without the end.
    /// Returns the text of the thought and its number of tokens. Does nothing without a [`ThoughtEnd`].
    ///
    /// # Errors
    /// Returns an error if the text of the thought cannot be encoded.
    pub fn think(
        &mut self,
        output: &[TokenId],
        tokenizer: &Tokenizer,
    ) -> Result<Option<(String, usize)>, VocabError> {
        let Some(ThoughtEnd { close, tokens: end }) = self.thought.take() else { return Ok(None) };
        let vocabulary = tokenizer.vocabulary();
        let text: Vec<u8> = output.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect();
        // The limit may cut off the end too.
        let begun = || (0..close.len()).rev().find(|&len| text.ends_with(&close.as_bytes()[..len]));
        let len = find(&text, close.as_bytes());
        let len = len.unwrap_or_else(|| text.len() - begun().unwrap_or_default());
        let mut at = 0;
        let whole = output.iter().take_while(|&&token| {
            let next = at + vocabulary.bytes(token).len();
            let is_within = next <= len;
            at = if is_within { next } else { at };
            is_within
        });
        let mut thought: Vec<TokenId> = whole.copied().collect();
        // The end may begin within a token.
        thought.extend(tokenizer.encode_fragment(&String::from_utf8_lossy(&text[at..len]))?);
        let count = thought.len();
        self.tokens.extend(thought);
        self.tokens.extend(end);
        Ok(Some((String::from_utf8_lossy(&text[..len]).into_owned(), count)))
    }
}

impl ThoughtEnd {
    /// Returns true if the thought in the output of a model has ended.
    pub fn is_in(&self, output: &[TokenId], tokenizer: &Tokenizer) -> bool {
        let vocabulary = tokenizer.vocabulary();
        let Some(&last) = output.last() else { return false };
        // Only the last token can have completed the end.
        let most = self.close.len() + vocabulary.bytes(last).len();
        let mut tail: Vec<u8> = Vec::new();
        for &token in output.iter().rev() {
            if tail.len() >= most {
                break;
            }
            tail.splice(0..0, vocabulary.bytes(token).iter().copied());
        }
        find(&tail, self.close.as_bytes()).is_some()
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len().max(1)).position(|window| window == wanted)
}

/// The prompts of a question.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Prompts about the conversation.
    pub prompts: Vec<AskedPrompt>,
    /// The same prompts without the conversation, whose probabilities calibrate the others. Empty without
    /// such a calibration.
    pub content_free: Vec<AskedPrompt>,
    /// Options of each prompt, by their index in the question.
    orders: Vec<Vec<usize>>,
    options: usize,
    is_independent: bool,
    /// Temperature of the answer.
    pub temperature: f64,
}

impl Asker<'_> {
    /// Returns the prompts of a question about a conversation. Messages have OpenAI's wire format. `head`
    /// keeps the tokens before a question for further questions about the same conversation.
    ///
    /// # Errors
    /// Returns an error if the question cannot be asked in this way, the template fails, or the text cannot
    /// be encoded.
    pub fn ask(
        &self,
        messages: &[Message],
        question: &DecisionQuestion,
        asking: &Asking,
        head: &mut PromptHead,
    ) -> Result<Asked, AskError> {
        let (wordings, orders) = wordings(question, asking)?;
        let options = question.options();
        let prompts = self.prompts(messages, &wordings, asking, head)?;
        let content_free = if asking.calibration.content_free {
            self.prompts(&[Message::new("user", "N/A")], &wordings, asking, &mut PromptHead::default())?
        } else {
            Vec::new()
        };
        let is_independent = asking.independent && matches!(question.kind, DecisionKind::Choice(_));
        let temperature = asking.calibration.temperature(options);
        Ok(Asked { prompts, content_free, orders, options, is_independent, temperature })
    }

    fn prompts(
        &self,
        messages: &[Message],
        wordings: &[Wording],
        asking: &Asking,
        head: &mut PromptHead,
    ) -> Result<Vec<AskedPrompt>, AskError> {
        let ends = if asking.open_end { Vec::new() } else { self.tokenizer.vocabulary().ends().to_vec() };
        if ends.is_empty() && !asking.open_end {
            return Err(AskError::NoEnds);
        }
        let thought = asking.reasoning.map(|_| self.thought_end()).transpose()?;
        let prompt = |wording: &Wording| {
            let tokens = self.prompt(messages, &wording.text, asking.reasoning.is_some(), head)?;
            let mut answers = wording.answers.clone();
            if self.tokenizer.has_space_prefix() {
                // Such models write a space before the first word of an answer.
                for texts in &mut answers {
                    texts.extend(texts.iter().map(|text| format!(" {text}")).collect::<Vec<_>>());
                }
            }
            Ok(AskedPrompt { tokens, answers, ends: ends.clone(), thought: thought.clone() })
        };
        wordings.iter().map(prompt).collect()
    }

    /// Returns the end of a thought.
    fn thought_end(&self) -> Result<ThoughtEnd, AskError> {
        let close = self.format.thoughts_close().ok_or(AskError::NoThoughts)?;
        let end = format!("{close}{}", self.format.content_after_thoughts());
        let tokens = self.tokenizer.encode(&end, EncodeOptions { special: true, bos: false })?;
        Ok(ThoughtEnd { close, tokens })
    }

    /// Returns the tokens of a prompt that ends where the model's answer begins, or its thought if `thinks`
    /// is true.
    fn prompt(
        &self,
        messages: &[Message],
        question: &str,
        thinks: bool,
        head: &mut PromptHead,
    ) -> Result<Vec<TokenId>, AskError> {
        let switch = [("enable_thinking".to_owned(), Value::Bool(thinks))];
        let mut input = ChatInput { messages: messages.to_vec(), ..ChatInput::default() };
        input.messages.iter_mut().for_each(plain_arguments);
        let mut question = vec![Message::new("user", question)];
        let spellings = Spellings::replace(&mut input.messages, &mut question, self.tokenizer.vocabulary());
        let [question] = &question[..] else { return Ok(Vec::new()) };
        add_user_text(&mut input, &spellings.begun(question.text()));
        let input = self.format.input(&input.messages, &[], Map::from_iter(switch));
        let text = render(self.template, &input)?;
        let mut text = self.format.without_begun_thoughts(text, &input);
        let open = match (thinks, self.format.thoughts(&text)) {
            (false, _) => self.format.content_open(&text),
            (true, Thoughts::Begun) => String::new(),
            (true, Thoughts::Possible) => self.format.thoughts_open().ok_or(AskError::NoThoughts)?,
            (true, _) => return Err(AskError::NoThoughts),
        };
        text.push_str(&open);
        Ok(spellings.encode(self.tokenizer, &text, head)?)
    }
}

/// Writes the arguments of calls without escapes, so that the spellings of control tokens in them are seen.
fn plain_arguments(message: &mut Message) {
    let Some(Value::Array(calls)) = message.fields.get_mut("tool_calls") else { return };
    for call in calls {
        if let Some(Value::String(arguments)) = call.pointer_mut("/function/arguments")
            && arguments.contains('\\')
            && let Ok(value) = serde_json::from_str::<Value>(arguments)
        {
            *arguments = value.to_string();
        }
    }
}

/// Returns the number of prompts of a question.
pub fn prompt_count(question: &DecisionQuestion, asking: &Asking) -> usize {
    let options = question.options();
    match (&question.kind, asking.orders) {
        (DecisionKind::Choice(_), Orders::One) if asking.independent => options,
        (DecisionKind::Choice(_), _) if asking.independent => 2 * options,
        (DecisionKind::Score(_), _) | (_, Orders::One) => 1,
        (_, Orders::Two) => options.min(2),
        (_, Orders::Cyclic) => options,
    }
}

/// Returns the wordings of a question, and the order of the options in each.
fn wordings(
    question: &DecisionQuestion,
    asking: &Asking,
) -> Result<(Vec<Wording>, Vec<Vec<usize>>), AskError> {
    if let (true, DecisionKind::Choice(options)) = (asking.independent, &question.kind) {
        // The orders are those of yes and no.
        let reversals: &[bool] = if asking.orders == Orders::One { &[false] } else { &[false, true] };
        let asked = options.iter().enumerate().flat_map(|(index, option)| {
            reversals.iter().map(move |&is_reversed| (question.whether(option, is_reversed), vec![index]))
        });
        return Ok(asked.unzip());
    }
    let form = question.form(asking.answers)?;
    let given: Vec<usize> = (0..question.options()).collect();
    let is_ordered = matches!(question.kind, DecisionKind::Score(_));
    let orders = match asking.orders {
        _ if is_ordered || given.len() == 1 => vec![given],
        Orders::One => vec![given],
        Orders::Two => vec![given.clone(), given.into_iter().rev().collect()],
        Orders::Cyclic => {
            let rotated = |by: usize| [&given[by..], &given[..by]].concat();
            (0..given.len()).map(rotated).collect()
        }
    };
    Ok((orders.iter().map(|order| question.wording(order, form)).collect(), orders))
}

impl Asked {
    /// Combines the bounds of all prompts to the answer. `content_free` has those of the prompts without
    /// the conversation. Returns `None` if the model gives all options of a prompt the probability 0.
    pub fn answer(&self, bounds: &[OptionBounds], content_free: &[OptionBounds]) -> Option<DecisionAnswer> {
        let divided: Vec<OptionBounds>;
        let corrected = if content_free.is_empty() {
            bounds
        } else {
            divided = bounds.iter().zip(content_free).map(|(asked, empty)| divide(asked, empty)).collect();
            &divided
        };
        let mut answer = if self.is_independent {
            combine_independent(corrected, self.options, self.temperature)
        } else {
            combine(corrected, &self.orders, self.temperature)
        }?;
        answer.set_mass(bounds);
        Some(answer)
    }

    /// Returns the index of an option in the question, given its index in a prompt.
    pub fn option(&self, prompt: usize, option: usize) -> usize {
        let order = &self.orders[prompt];
        if self.is_independent { order[0] } else { order[option] }
    }
}
