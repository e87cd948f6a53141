//! Tests of small `tokenizer.json` files, one for each notation of bytes.

use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, TokenKind, Tokenizer};
use serde_json::{Value, json};

fn load(json: &Value) -> Tokenizer {
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({
        "id": id, "content": content, "special": special,
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
    })
}

fn byte_level() -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [added(6, "<|begin_of_text|>", true), added(7, "<|eot_id|>", true), added(8, "<br>", false)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|begin_of_text|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [],
            "special_tokens": {
                "<|begin_of_text|>": {"id": "<|begin_of_text|>", "ids": [6], "tokens": ["<|begin_of_text|>"]},
            },
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "Ċ": 9},
            "merges": ["a b", "Ġ ab"],
        },
    })
}

#[test]
fn byte_level_tokens_are_their_bytes() {
    let tokenizer = load(&byte_level());
    let vocabulary = tokenizer.vocabulary();
    assert_eq!(vocabulary.len(), 10);
    assert_eq!(vocabulary.bytes(TokenId(4)), b" ab");
    assert_eq!(vocabulary.kind(TokenId(7)), TokenKind::Control);
    assert_eq!(vocabulary.kind(TokenId(8)), TokenKind::Text);
    assert_eq!(vocabulary.kind(TokenId(5)), TokenKind::Unused, "nothing has this id");
    assert_eq!(vocabulary.ends(), [TokenId(7)]);
    assert_eq!((tokenizer.bos(), tokenizer.add_bos()), (Some(TokenId(6)), true));
}

#[test]
fn whole_texts_fragments_and_special_tokens() {
    let tokenizer = load(&byte_level());
    assert_eq!(tokenizer.encode("ab", EncodeOptions::default()).unwrap(), [TokenId(4)]);
    assert_eq!(tokenizer.encode_fragment("ab ab\n<br>").unwrap(), [3, 4, 9, 8].map(TokenId));
    let special = EncodeOptions { special: true, bos: true };
    assert_eq!(tokenizer.encode("ab<|eot_id|>", special).unwrap(), [6, 4, 7].map(TokenId));
    let error = tokenizer.encode_fragment("ab <|eot_id|>").unwrap_err();
    assert_eq!(error.to_string(), "no sequence of tokens covers the word at offset 2 of the text");
}

#[test]
fn spaces_and_bytes_of_sentencepiece() {
    let tokenizer = load(&json!({
        "version": "1.0",
        "added_tokens": [added(0, "<unk>", true), added(1, "</s>", true), added(2, "▁▁", false)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
            "vocab": {"<unk>": 0, "</s>": 1, "▁▁": 2, "a": 3, "▁": 4, "▁a": 5, "<0xC3>": 6, "<0xA9>": 7},
            "merges": ["▁ a"],
        },
    }));
    let whole = tokenizer.encode("a aé", EncodeOptions::default()).unwrap();
    assert_eq!(whole, [5, 5, 6, 7].map(TokenId));
    let fragment = tokenizer.encode_fragment("a aé").unwrap();
    assert_eq!(fragment, [3, 5, 6, 7].map(TokenId));
    assert_eq!(tokenizer.decode(&fragment), "a aé".as_bytes());
    assert_eq!(tokenizer.decode_text(&whole, false), "a aé".as_bytes());
    assert_eq!(tokenizer.vocabulary().bytes(TokenId(2)), b"  ");
    assert_eq!(tokenizer.vocabulary().kind(TokenId(6)), TokenKind::Byte);
    assert_eq!(tokenizer.vocabulary().ends(), [TokenId(1)]);
    assert!(tokenizer.encode_fragment("a日").is_err(), "an unknown token would lose the text");
}

#[test]
fn errors_name_the_fault() {
    let error = Tokenizer::from_json(b"{").unwrap_err().to_string();
    assert!(error.starts_with("tokenizer.json: "), "{error}");
    let mut json = byte_level();
    json["decoder"] = json!({"type": "WordPiece", "prefix": "@@", "cleanup": true});
    let error = Tokenizer::from_json(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(
        error.starts_with("tokenizer.json: unsupported decoder `WordPiece with another prefix"),
        "{error}"
    );
    let mut json = byte_level();
    json["added_tokens"][2]["id"] = json!(11);
    let error = Tokenizer::from_json(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("added token `<br>` has id 11"), "{error}");
}
