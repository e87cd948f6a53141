//! llguidance behind the measured interface.
//!
//! The setup is that of llguidance's own MaskBench program: one factory per tokenizer, with the
//! slices for JSON and without fast-forward tokens. Each schema has one parser. Its first mask is
//! computed on a clone that shares the parser's lexer, and each instance uses a deep clone.
//! Whitespace is flexible unless the profile is `generate`.

use anyhow::{Result, ensure};
use formwork_benches::masks::{Engine, Isolation, Refusal, Sequence, Spelling};
use formwork_vocab::{TokenId, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::{ParserFactory, TokenParser};
use serde_json::{Value, json};
use toktrie::InferenceCapabilities;
use toktrie_hf_tokenizers::ByteTokenizer;

/// Version in `Cargo.toml`.
const VERSION: &str = "1.8.0";

pub struct LlGuidance {
    factory: ParserFactory,
    isolation: Isolation,
    /// Options to insert in the schema; `None` for the defaults.
    options: Option<Value>,
}

impl LlGuidance {
    /// Creates the engine for the `tokenizer.json` from which `ours` was read. `rigid` fixes the
    /// whitespace to one spelling.
    pub fn new(
        tokenizer_json: &[u8],
        ours: &Tokenizer,
        rigid: Option<Spelling>,
        isolation: Isolation,
    ) -> Result<Self> {
        let environment = ByteTokenizer::from_json_bytes(tokenizer_json)?.into_tok_env(None)?;
        let (given, expected) = (environment.tok_trie().vocab_size(), ours.vocabulary().len());
        ensure!(given == expected, "llguidance reads {given} tokens where Formwork reads {expected}");
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
        factory.quiet();
        let options = rigid.map(|spelling| {
            let (item, key) = match spelling {
                Spelling::Compact => (",", ":"),
                Spelling::Spaced => (", ", ": "),
            };
            json!({ "whitespace_flexible": false, "item_separator": item, "key_separator": key })
        });
        Ok(Self { factory, isolation, options })
    }
}

impl Engine for LlGuidance {
    type Grammar = TokenParser;
    type Sequence = LlGuidanceSequence;

    fn name(&self) -> String {
        format!("llguidance {VERSION}")
    }

    fn compile(&self, mut schema: Value) -> Result<TokenParser, Refusal> {
        if let (Some(options), Some(schema)) = (&self.options, schema.as_object_mut()) {
            schema.insert("x-guidance".to_owned(), options.clone());
        }
        let parser = self
            .factory
            .create_parser(TopLevelGrammar::from_json_schema(schema))
            .map_err(|error| refusal(&error))?;
        let mut first = parser.clone();
        first.start_without_prompt();
        first.compute_mask().map_err(|error| refusal(&error))?;
        Ok(parser)
    }

    fn start(&self, parser: &TokenParser) -> LlGuidanceSequence {
        let mut parser = match self.isolation {
            Isolation::Test => parser.deep_clone(),
            Isolation::Schema => parser.clone(),
        };
        parser.start_without_prompt();
        let end = self.factory.tok_env().tok_trie().eos_token();
        LlGuidanceSequence { parser, end }
    }
}

pub struct LlGuidanceSequence {
    parser: TokenParser,
    end: u32,
}

impl Sequence for LlGuidanceSequence {
    fn advance(&mut self, token: TokenId) -> Result<bool, String> {
        let mask = self.parser.compute_mask().map_err(|error| first_line(&error))?;
        if !mask.is_allowed(token.0) {
            return Ok(false);
        }
        self.parser.consume_token(token.0).map_err(|error| first_line(&error))?;
        Ok(true)
    }

    fn may_end(&mut self) -> Result<bool, String> {
        let mask = self.parser.compute_mask().map_err(|error| first_line(&error))?;
        Ok(mask.is_allowed(self.end))
    }
}

fn refusal(error: &anyhow::Error) -> Refusal {
    Refusal { keyword: None, reason: first_line(error), message: error.to_string() }
}

/// Returns the message without the state dump that may follow it.
fn first_line(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
