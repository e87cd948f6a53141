//! `WordPiece` tokenizers from the metadata of GGUF files, as models of the BERT family have them.
//!
//! The format spells the start of a word as `▁`. The `tokenizers` crate instead marks the other pieces
//! with `##`, and does the encoding.

use serde_json::{Map, Value, json};

use super::Tokenizer;
use super::gguf::{CONTROL, GgufTokenizer};
use crate::VocabError;
use crate::error::Kind;

/// Spelling of the start of a word.
const START: char = '▁';
/// Maximum number of characters of a word. Longer words are unknown.
const MAX_WORD: usize = 100;

/// Builds the tokenizer that the fields of a file describe.
pub(super) fn tokenizer(fields: &GgufTokenizer) -> Result<Tokenizer, VocabError> {
    let limit = fields.tokens.len();
    if !fields.token_type.is_empty() && fields.token_type.len() != limit {
        let (field, given) = ("tokenizer.ggml.token_type", fields.token_type.len());
        return Err(Kind::FieldLength { field, given, limit }.into());
    }
    let special = |field: &'static str, id: Option<u32>, usual: &'static str| match id {
        Some(given) if given as usize >= limit => Err(Kind::TokenOutside { field, given, limit }),
        Some(id) => Ok(id),
        None => {
            let found = fields.tokens.iter().position(|token| token == usual);
            found.map(|id| id as u32).ok_or(Kind::NoSpecial { field, usual })
        }
    };
    let first = special("tokenizer.ggml.cls_token_id", fields.cls.or(fields.bos), "[CLS]")?;
    let last = special("tokenizer.ggml.seperator_token_id", fields.sep, "[SEP]")?;
    let unknown = special("tokenizer.ggml.unknown_token_id", fields.unknown, "[UNK]")?;
    // Files of some converters have no types. Their control tokens are recognised by their brackets.
    let is_control = |(index, token): (usize, &String)| match fields.token_type.get(index) {
        Some(&kind) => kind == CONTROL || index as u32 == unknown,
        None => is_bracketed(token),
    };
    let controls: Vec<bool> = fields.tokens.iter().enumerate().map(is_control).collect();
    let spell = |(token, &is_control): (&String, &bool)| match token.strip_prefix(START) {
        Some(word) => word.to_owned(),
        None if is_control || is_bracketed(token) => token.clone(),
        None => format!("##{token}"),
    };
    let spellings: Vec<String> = fields.tokens.iter().zip(&controls).map(spell).collect();
    let vocabulary: Map<String, Value> =
        spellings.iter().zip(0..).map(|(spelling, id): (_, u32)| (spelling.clone(), id.into())).collect();
    let added = spellings.iter().enumerate().filter(|(index, _)| controls[*index]);
    let added: Vec<Value> = added
        .map(|(id, spelling)| {
            json!({
                "id": id, "content": spelling, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false,
            })
        })
        .collect();
    let frame = [first, last].map(|id| &spellings[id as usize]);
    let [opening, closing] = frame.map(|token| json!({ "SpecialToken": { "id": token, "type_id": 0 } }));
    let frame = [first, last].map(|id| {
        let token = &spellings[id as usize];
        (token.clone(), json!({ "id": token, "ids": [id], "tokens": [token] }))
    });
    let text = |name: &str, kind: u32| json!({ "Sequence": { "id": name, "type_id": kind } });
    let json = json!({
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [opening, text("A", 0), closing],
            "pair": [opening, text("A", 0), closing, text("B", 1), closing],
            "special_tokens": frame.into_iter().collect::<Map<_, _>>(),
        },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": spellings[unknown as usize],
            "continuing_subword_prefix": "##", "max_input_chars_per_word": MAX_WORD, "vocab": vocabulary,
        },
    });
    Tokenizer::from_json(json.to_string().as_bytes())
}

/// Reports whether a spelling has the form of a control token, such as `[CLS]`.
fn is_bracketed(spelling: &str) -> bool {
    spelling.len() > 2 && spelling.starts_with('[') && spelling.ends_with(']')
}
