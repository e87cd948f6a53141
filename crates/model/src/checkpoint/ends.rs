//! Tokens that end a sequence, in the JSON files of a folder with safetensors.
//!
//! `config.json` and `generation_config.json` name end tokens by their ids, and
//! `tokenizer_config.json` names one by its spelling. The files of one model often name different
//! tokens, and each of them ends a sequence.

use formwork_vocab::{TokenId, TokenKind, Vocabulary};
use serde_json::{Map, Value};

use crate::error::Kind;

/// Key of the end tokens in `config.json` and `generation_config.json`.
pub(super) const IDS: &str = "eos_token_id";
/// Key of the end token in `tokenizer_config.json`.
const SPELLING: &str = "eos_token";

/// Returns the end tokens that `config` names. The value is an id, a list of ids, or null. Negative
/// ids stand for no token, and ids outside the vocabulary are skipped.
pub(super) fn end_tokens(config: &Map<String, Value>, vocabulary: &Vocabulary) -> Result<Vec<TokenId>, Kind> {
    let mut ends = Vec::new();
    for value in listed(config.get(IDS)) {
        if value.as_i64().is_none_or(|id| id > i64::from(u32::MAX)) {
            return Err(wrong_type(IDS, value, "a token id or a list of token ids"));
        }
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).map(TokenId);
        ends.extend(id.filter(|id| id.index() < vocabulary.len()));
    }
    Ok(ends)
}

/// Returns the ids that the value of [`IDS`] lists. Returns no ids if the value is missing or null.
pub(super) fn listed(value: Option<&Value>) -> &[Value] {
    match value {
        None | Some(Value::Null) => &[],
        Some(Value::Array(ids)) => ids,
        Some(id) => std::slice::from_ref(id),
    }
}

/// Returns the end token that a `tokenizer_config.json` names. The value is its spelling, an object
/// with its spelling, or null. Returns `None` if there is no such token in the vocabulary.
pub(super) fn end_token(
    config: &Map<String, Value>,
    vocabulary: &Vocabulary,
) -> Result<Option<TokenId>, Kind> {
    let value = config.get(SPELLING).unwrap_or(&Value::Null);
    let spelling = match value {
        Value::Null => return Ok(None),
        Value::Object(token) => token.get("content").unwrap_or(value),
        other => other,
    };
    let Value::String(spelling) = spelling else {
        return Err(wrong_type(SPELLING, spelling, "the spelling of a token"));
    };
    let spelt = vocabulary.ids().filter(|&id| vocabulary.bytes(id) == spelling.as_bytes());
    // An ordinary token can have the same spelling as a control token.
    Ok(spelt.min_by_key(|&id| vocabulary.kind(id) != TokenKind::Control))
}

fn wrong_type(key: &str, value: &Value, expected: &'static str) -> Kind {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "another number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Kind::KeyType { key: key.to_owned(), given, expected }
}

#[cfg(test)]
mod tests {
    use formwork_vocab::Token;
    use serde_json::json;

    use super::*;
    use crate::Safetensors;

    fn vocabulary() -> Vocabulary {
        let token = |text: &str, kind| Token { bytes: text.into(), kind };
        let tokens = vec![
            token("</s>", TokenKind::Text),
            token("</s>", TokenKind::Control),
            token("<|user|>", TokenKind::Control),
        ];
        Vocabulary::new(tokens, vec![]).unwrap()
    }

    fn object(value: Value) -> Map<String, Value> {
        if let Value::Object(object) = value { object } else { panic!("not an object") }
    }

    #[test]
    fn reads_one_id_a_list_of_ids_or_none() {
        let ids = |value| end_tokens(&object(json!({IDS: value})), &vocabulary()).map_err(|e| e.to_string());
        assert_eq!(ids(json!(1)), Ok(vec![TokenId(1)]));
        assert_eq!(ids(json!([2, 1])), Ok(vec![TokenId(2), TokenId(1)]));
        assert_eq!(ids(json!([-1, 3, 2])), Ok(vec![TokenId(2)]));
        assert_eq!(ids(json!(null)), Ok(vec![]));
        let error = |given| {
            Err(format!(
                "metadata key \"eos_token_id\" holds {given}, expected a token id or a list of token ids"
            ))
        };
        assert_eq!(ids(json!("</s>")), error("a string"));
        assert_eq!(ids(json!([1, null])), error("null"));
        assert_eq!(ids(json!(1.5)), error("another number"));
        assert_eq!(ids(json!(4_294_967_296_u64)), error("another number"));
    }

    #[test]
    fn reads_the_spelling_of_a_token() {
        let id = |value| end_token(&object(json!({SPELLING: value})), &vocabulary());
        assert_eq!(id(json!("</s>")).unwrap(), Some(TokenId(1)));
        assert_eq!(id(json!({"content": "<|user|>", "special": true})).unwrap(), Some(TokenId(2)));
        assert_eq!(id(json!("<eos>")).unwrap(), None);
        assert_eq!(id(json!(null)).unwrap(), None);
        let error = id(json!({"special": true})).unwrap_err().to_string();
        assert_eq!(error, "metadata key \"eos_token\" holds an object, expected the spelling of a token");
    }

    /// Writes a folder without tensors whose `tokenizer.json` has the special tokens `names`. Returns
    /// the spellings of the tokens that end a sequence, and of the named one.
    #[expect(clippy::needless_pass_by_value, reason = "the arguments are literals")]
    fn ends(names: &[&str], config: Value, generation: Value, eos: Value) -> (Vec<String>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        let added = |(name, id): (&&str, u32)| {
            json!({
                "id": id, "content": name, "special": true,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            })
        };
        let tokenizer = json!({
            "version": "1.0",
            "added_tokens": names.iter().zip(1..).map(added).collect::<Vec<_>>(),
            "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        });
        let header = b"{}";
        write("model.safetensors", &[&(header.len() as u64).to_le_bytes()[..], header].concat());
        write("tokenizer.json", tokenizer.to_string().as_bytes());
        write("config.json", config.to_string().as_bytes());
        write("generation_config.json", generation.to_string().as_bytes());
        write("tokenizer_config.json", json!({SPELLING: eos}).to_string().as_bytes());
        let tokenizer = Safetensors::open(folder.path()).unwrap().tokenizer().unwrap();
        let spelling = |id| String::from_utf8(tokenizer.vocabulary().bytes(id).to_vec()).unwrap();
        let ends = tokenizer.vocabulary().ends().iter().map(|&end| spelling(end)).collect();
        (ends, tokenizer.eos().map(spelling))
    }

    #[test]
    fn a_folder_stops_at_the_end_tokens_of_all_its_files() {
        let check = |names: &[&str], config, generation, eos, expected: &[&str]| {
            let (ends, named) = ends(names, config, generation, json!(eos));
            assert_eq!((ends, named.as_deref()), (expected.iter().map(|&end| end.to_owned()).collect(), eos));
        };
        let gemma = ["<eos>", "<|tool_response>", "<turn|>", "<|turn>"];
        let nested = json!({"eos_token_id": [1, 3], "text_config": {"eos_token_id": 1}});
        check(&gemma, nested, json!({}), Some("<eos>"), &gemma[..3]);
        let qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
        let nested = json!({"text_config": {"eos_token_id": 1}});
        check(&qwen, nested, json!({"eos_token_id": [3, 1]}), Some("<|im_end|>"), &[qwen[0], qwen[2]]);
        let glm = ["<|endoftext|>", "<|user|>", "<|observation|>", "<|assistant|>"];
        check(&glm, json!({"eos_token_id": [1, 2, 3]}), json!({}), Some("<|endoftext|>"), &glm[..3]);
        let minimax = ["]~!b[", "[e~["];
        check(&minimax, json!({}), json!({"eos_token_id": 2}), None, &["[e~["]);
        let deepseek = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"];
        check(&deepseek, json!({"eos_token_id": 2}), json!({}), Some(deepseek[1]), &deepseek[1..]);
        let lfm2 = ["<|startoftext|>", "<|endoftext|>", "<|im_end|>"];
        check(&lfm2, json!({"eos_token_id": 3}), json!({"eos_token_id": 3}), Some(lfm2[2]), &lfm2[1..]);
        let unknown = ["<finis>", "<other>"];
        check(&unknown, json!({"eos_token_id": 9}), json!({}), Some("<finis>"), &["<finis>"]);
    }
}
