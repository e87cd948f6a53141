//! Prompts in which the texts of a conversation never become control tokens.

use formwork_lm::{ChatInput, Message};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, TokenKind, TokenTrie, Tokenizer, VocabError, Vocabulary};
use serde_json::Value;

/// Spellings of control tokens in the texts of a conversation. A mark stands for each of them while the
/// template is rendered: a private-use character, the index of the spelling, and the character again.
pub(super) struct Spellings {
    /// A character that occurs in no text.
    mark: char,
    found: Vec<String>,
}

impl Spellings {
    /// Replaces the spellings of control tokens in all texts of a conversation and of a question with marks.
    pub(super) fn replace(
        messages: &mut [Message],
        question: &mut [Message],
        vocabulary: &Vocabulary,
    ) -> Self {
        let trie = vocabulary.derived(|vocabulary| {
            let is_control = |id: &TokenId| vocabulary.kind(*id) == TokenKind::Control;
            let control = vocabulary.ids().filter(is_control);
            ControlTrie(TokenTrie::new(control.map(|id| (vocabulary.bytes(id), id))))
        });
        let mut spellings = Self { mark: unused([&mut *messages, &mut *question]), found: Vec::new() };
        for messages in [messages, question] {
            each_text(messages, &mut |text| spellings.replace_in(text, &trie.0));
        }
        spellings
    }

    fn replace_in(&mut self, text: &mut String, trie: &TokenTrie) {
        let (mut replaced, mut rest) = (String::new(), text.as_str());
        let mut at = 0;
        while at < rest.len() {
            match trie.prefixes(&rest.as_bytes()[at..]).last() {
                Some((len, _)) if rest.is_char_boundary(at + len) => {
                    replaced.push_str(&rest[..at]);
                    replaced.extend([
                        self.mark.to_string(),
                        self.found.len().to_string(),
                        self.mark.to_string(),
                    ]);
                    self.found.push(rest[at..at + len].to_owned());
                    rest = &rest[at + len..];
                    at = 0;
                }
                _ => at += rest[at..].chars().next().map_or(1, char::len_utf8),
            }
        }
        if !replaced.is_empty() {
            *text = replaced + rest;
        }
    }

    /// Returns the text of a question with a mark before it.
    pub(super) fn begun(&self, question: &str) -> String {
        format!("{0}{QUESTION}{0}{question}", self.mark)
    }

    /// Encodes a rendered conversation. Control tokens that the template wrote become control tokens, and
    /// the spellings in the conversation's texts become text. The question begins with a token of its own,
    /// so that the text before it has the same tokens for all questions.
    pub(super) fn encode(
        &self,
        tokenizer: &Tokenizer,
        prompt: &str,
        head: &mut PromptHead,
    ) -> Result<Vec<TokenId>, VocabError> {
        let mark = format!("{0}{QUESTION}{0}", self.mark);
        let (before, question) = prompt.split_once(&mark).unwrap_or((prompt, ""));
        if head.text != before || head.tokens.is_empty() {
            let begins = |bos| before.as_bytes().starts_with(tokenizer.vocabulary().bytes(bos));
            let bos = tokenizer.add_bos() && !tokenizer.bos().is_some_and(begins);
            let tokens = self.pieces(tokenizer, before, |first| {
                tokenizer.encode(first, EncodeOptions { special: true, bos })
            })?;
            *head = PromptHead { text: before.to_owned(), tokens };
        }
        let mut tokens = head.tokens.clone();
        // A template that writes a message twice would write the mark again.
        let question = question.replace(&mark, "");
        tokens.extend(self.pieces(tokenizer, &question, |first| tokenizer.encode_continuation(first))?);
        Ok(tokens)
    }

    /// Encodes text with marks. `encode` encodes the text before the first mark.
    fn pieces(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        encode: impl FnOnce(&str) -> Result<Vec<TokenId>, VocabError>,
    ) -> Result<Vec<TokenId>, VocabError> {
        // The pieces alternate between text of the template and indices.
        let mut pieces = text.split(self.mark);
        let mut tokens = encode(pieces.next().unwrap_or_default())?;
        while let Some(index) = pieces.next() {
            let spelling = index.parse().ok().and_then(|index: usize| self.found.get(index));
            tokens.extend(tokenizer.encode_fragment(spelling.map_or(index, String::as_str))?);
            tokens.extend(tokenizer.encode_continuation(pieces.next().unwrap_or_default())?);
        }
        Ok(tokens)
    }
}

/// Stands between two marks before a question.
const QUESTION: &str = "?";

/// Tokens of a prompt before the question. They are encoded once for all questions about a conversation.
#[derive(Clone, Debug, Default)]
pub struct PromptHead {
    text: String,
    tokens: Vec<TokenId>,
}

/// The spellings of a vocabulary's control tokens.
struct ControlTrie(TokenTrie);

/// Returns a private-use character that occurs in no text of a conversation.
fn unused(conversations: [&mut [Message]; 2]) -> char {
    let mut used = std::collections::HashSet::new();
    for messages in conversations {
        each_text(messages, &mut |text| used.extend(text.chars().filter(|char| *char >= '\u{e000}')));
    }
    let private =
        ('\u{e000}'..='\u{f8ff}').chain('\u{f0000}'..='\u{ffffd}').chain('\u{100000}'..='\u{10fffd}');
    let mut private = private.filter(|char| !used.contains(char));
    private.next().unwrap_or('\u{e000}')
}

/// Calls a function for all strings of a conversation, except roles.
fn each_text(messages: &mut [Message], on: &mut impl FnMut(&mut String)) {
    for message in messages {
        message.content.iter_mut().for_each(&mut *on);
        message.fields.values_mut().for_each(|value| each_string(value, on));
    }
}

fn each_string(value: &mut Value, on: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => on(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, on)),
        Value::Object(members) => members.values_mut().for_each(|member| each_string(member, on)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Adds a user's text to a conversation: to its last message if the user wrote it.
pub(super) fn add_user_text(input: &mut ChatInput, text: &str) {
    match input.messages.last_mut() {
        Some(last) if last.role == "user" && last.content.is_some() => {
            let said = last.content.take().unwrap_or_default();
            last.content = Some(if said.is_empty() { text.to_owned() } else { format!("{said}\n\n{text}") });
        }
        _ => input.messages.push(Message::new("user", text)),
    }
}
