//! Prompts of models that fill in text between a prefix and a suffix.

use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, TokenKind, Tokenizer, VocabError, Vocabulary};

/// Spellings of a kind of token in several families of models.
type Spellings = &'static [&'static str];

const PREFIX: Spellings = &[
    "<|fim_prefix|>",
    "<fim_prefix>",
    "<fim-prefix>",
    "<｜fim▁begin｜>",
    "▁<PRE>",
    "<PRE>",
    "<|code_prefix|>",
    "[PREFIX]",
];
const SUFFIX: Spellings = &[
    "<|fim_suffix|>",
    "<fim_suffix>",
    "<fim-suffix>",
    "<｜fim▁hole｜>",
    "▁<SUF>",
    "<SUF>",
    "<|code_suffix|>",
    "[SUFFIX]",
];
const MIDDLE: Spellings = &[
    "<|fim_middle|>",
    "<fim_middle>",
    "<fim-middle>",
    "<｜fim▁end｜>",
    "▁<MID>",
    "<MID>",
    "<|code_middle|>",
];
const REPOSITORY: Spellings = &["<|repo_name|>", "<reponame>", "<repo_name>"];
const FILE: Spellings = &["<|file_sep|>", "<file_sep>", "<file-sep>"];
/// Further tokens after which a model writes no more of the middle.
const ENDS: Spellings = &["<|fim_pad|>", "<fim_pad>", "<fim-pad>", "▁<EOT>", "<EOT>", "<|code_middle_end|>"];

/// Tokens that mark the parts of a text to fill in.
#[derive(Clone, Debug)]
pub(crate) struct FillTokens {
    prefix: TokenId,
    suffix: TokenId,
    /// `None` if the suffix comes first and the prefix ends the prompt, as with Mistral's models.
    middle: Option<TokenId>,
    repository: Option<TokenId>,
    file: Option<TokenId>,
    /// Tokens that end the middle, beside the end-of-sequence tokens.
    pub(crate) ends: Vec<TokenId>,
}

/// A file that a model reads before the text to fill in.
#[derive(Clone, Debug)]
pub(crate) struct TextFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl FillTokens {
    /// Returns the tokens of a vocabulary, or `None` if the vocabulary lacks some of them.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Option<Self> {
        let kinds = [PREFIX, SUFFIX, MIDDLE, REPOSITORY, FILE, ENDS];
        let mut found = [const { Vec::<TokenId>::new() }; 6];
        for token in vocabulary.ids().filter(|&token| vocabulary.kind(token) != TokenKind::Unused) {
            let bytes = vocabulary.bytes(token);
            if !matches!(bytes.first(), Some(b'<' | b'[' | 0xe2)) || bytes.len() > 32 {
                continue;
            }
            for (kind, found) in kinds.iter().zip(&mut found) {
                if kind.iter().any(|spelling| spelling.as_bytes() == bytes) {
                    found.push(token);
                }
            }
        }
        let first = |tokens: &[TokenId]| tokens.first().copied();
        let (prefix, suffix) = (first(&found[0])?, first(&found[1])?);
        let middle = first(&found[2]);
        if middle.is_none() && vocabulary.bytes(prefix) != b"[PREFIX]" {
            return None;
        }
        let ends = found.iter().flatten().copied().collect();
        Some(Self { prefix, suffix, middle, repository: first(&found[3]), file: first(&found[4]), ends })
    }

    /// Encodes a text to fill in. The spellings of control tokens in the texts are ordinary text.
    ///
    /// `prefix` is the text before the gap, `suffix` the text after it. The model reads the files first.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer,
        files: &[TextFile<'_>],
        prefix: &str,
        suffix: &str,
    ) -> Result<Vec<TokenId>, VocabError> {
        let text = |text: &str| tokenizer.encode(text, EncodeOptions::default());
        let mut tokens: Vec<TokenId> = tokenizer.bos().filter(|_| tokenizer.add_bos()).into_iter().collect();
        if let (Some(file), false) = (self.file, files.is_empty()) {
            if let Some(repository) = self.repository {
                tokens.push(repository);
                tokens.extend(text("project\n")?);
            }
            for text_file in files {
                tokens.push(file);
                tokens.extend(text(&format!(
                    "{}\n{}\n",
                    text_file.name,
                    text_file.text.trim_end_matches('\n')
                ))?);
            }
            tokens.push(file);
            tokens.extend(text("file\n")?);
        } else {
            for text_file in files {
                tokens.extend(text(&format!("{}\n\n", text_file.text.trim_end_matches('\n')))?);
            }
        }
        let (before, after) = (text(prefix)?, text(suffix)?);
        if let Some(middle) = self.middle {
            tokens.push(self.prefix);
            tokens.extend(before);
            tokens.push(self.suffix);
            tokens.extend(after);
            tokens.push(middle);
        } else {
            tokens.push(self.suffix);
            tokens.extend(after);
            tokens.push(self.prefix);
            tokens.extend(before);
        }
        Ok(tokens)
    }
}
