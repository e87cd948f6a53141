//! Tests of the tokens that end a sequence, and of control tokens inside answers.
//!
//! The names, types and ids are those that llama.cpp's converter writes for each family.

use formwork_vocab::tokenizer::{EncodeOptions, GgufTokenizer};
use formwork_vocab::{TokenId, TokenKind, Tokenizer};
use serde_json::json;

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Returns a tokenizer whose tokens are `a` and `rows`. Names `eos` as the end-of-sequence token, and
/// `eot` as the end of a turn.
fn gguf(rows: &[(&str, i32)], eos: &str, eot: Option<&str>) -> GgufTokenizer {
    let id = |name: &str| rows.iter().position(|row| row.0 == name).map(|at| at as u32 + 1);
    GgufTokenizer {
        model: "gpt2".into(),
        pre: Some("gpt-2".into()),
        tokens: ["a"].into_iter().chain(rows.iter().map(|row| row.0)).map(str::to_owned).collect(),
        token_type: [NORMAL].into_iter().chain(rows.iter().map(|row| row.1)).collect(),
        eos: id(eos),
        eot: eot.and_then(id),
        ..GgufTokenizer::default()
    }
}

/// Returns the spellings of the tokens that end a sequence.
fn ends(fields: GgufTokenizer) -> Vec<String> {
    let tokenizer = Tokenizer::from_gguf(fields).unwrap();
    let vocabulary = tokenizer.vocabulary();
    let spelling = |&end: &TokenId| String::from_utf8(vocabulary.bytes(end).to_vec()).unwrap();
    vocabulary.ends().iter().map(spelling).collect()
}

#[test]
fn every_family_stops_at_all_its_ends() {
    let gemma = [
        ("<eos>", CONTROL),
        ("<|tool_call>", USER_DEFINED),
        ("<|tool_response>", USER_DEFINED),
        ("<turn|>", CONTROL),
        ("</s>", NORMAL),
    ];
    assert_eq!(ends(gguf(&gemma, "<eos>", None)), ["<eos>", "<|tool_response>", "<turn|>"]);
    let qwen = [("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL)];
    assert_eq!(ends(gguf(&qwen, "<|endoftext|>", None)), ["<|endoftext|>", "<|im_end|>"]);
    let minimax = [("]~!b[", CONTROL), ("]~b]", CONTROL), ("[e~[", CONTROL)];
    assert_eq!(ends(gguf(&minimax, "", None)), ["[e~["]);
    let kimi = [("[BOS]", CONTROL), ("[EOS]", CONTROL), ("<|im_end|>", CONTROL), ("[EOT]", CONTROL)];
    assert_eq!(ends(gguf(&kimi, "[EOS]", None)), ["[EOS]", "<|im_end|>", "[EOT]"]);
    let deepseek = [("<｜begin▁of▁sentence｜>", CONTROL), ("<｜end▁of▁sentence｜>", CONTROL)];
    assert_eq!(ends(gguf(&deepseek, "", None)), ["<｜end▁of▁sentence｜>"]);
    let glm = [("<|endoftext|>", CONTROL), ("<|user|>", CONTROL), ("<|observation|>", CONTROL)];
    assert_eq!(ends(gguf(&glm, "<|endoftext|>", Some("<|user|>"))), ["<|endoftext|>", "<|user|>"]);
    let lfm2 = [("<|startoftext|>", CONTROL), ("<|endoftext|>", CONTROL), ("<|im_end|>", CONTROL)];
    assert_eq!(ends(gguf(&lfm2, "<|im_end|>", None)), ["<|endoftext|>", "<|im_end|>"]);
    let harmony = [("<|return|>", CONTROL), ("<|end|>", CONTROL), ("<|call|>", CONTROL)];
    assert_eq!(ends(gguf(&harmony, "<|return|>", None)), ["<|return|>", "<|call|>"]);
}

#[test]
fn the_named_end_token_is_not_always_the_first() {
    let lfm2 = [("<|endoftext|>", CONTROL), ("<|im_end|>", CONTROL)];
    let tokenizer = Tokenizer::from_gguf(gguf(&lfm2, "<|im_end|>", None)).unwrap();
    assert_eq!(tokenizer.eos(), Some(TokenId(2)));
    let tokenizer = tokenizer.with_eos(TokenId(0)).unwrap();
    assert_eq!((tokenizer.eos(), tokenizer.vocabulary().ends().len()), (Some(TokenId(0)), 3));
    assert!(tokenizer.with_eos(TokenId(3)).is_err());
}

/// Checks a tokenizer with the tokens `a`, `<|tool_call>` and `<bos>`, in this order.
fn check_call(tokenizer: &Tokenizer) {
    let call = TokenId(1);
    assert_eq!(tokenizer.vocabulary().kind(call), TokenKind::Text);
    assert_eq!(tokenizer.vocabulary().kind(TokenId(2)), TokenKind::Control);
    assert_eq!(tokenizer.decode(&[TokenId(0), call, TokenId(2)]), b"a<|tool_call>");
    assert_eq!(tokenizer.encode_fragment("a<|tool_call>a").unwrap(), [TokenId(0), call, TokenId(0)]);
    let special = EncodeOptions { special: true, bos: false };
    assert_eq!(tokenizer.encode("<bos><|tool_call>", special).unwrap(), [TokenId(2), call]);
    assert!(tokenizer.encode_fragment("<bos>").is_err(), "spelt out, it has characters without tokens");
}

#[test]
fn control_tokens_inside_calls_are_text() {
    let fields = gguf(&[("<|tool_call>", CONTROL), ("<bos>", CONTROL)], "", None);
    check_call(&Tokenizer::from_gguf(fields).unwrap());
    let added = |id: u32, content: &str| {
        json!({
            "id": id, "content": content, "special": true,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    };
    let json = json!({
        "version": "1.0",
        "added_tokens": [added(1, "<|tool_call>"), added(2, "<bos>")],
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    });
    check_call(&Tokenizer::from_json(json.to_string().as_bytes()).unwrap());
}

#[test]
fn prompts_of_gemma_4_start_with_a_token_even_if_the_file_denies_it() {
    let fields = GgufTokenizer {
        model: "gemma4".into(),
        bos: Some(1),
        add_bos: Some(false),
        ..gguf(&[("<bos>", CONTROL)], "", None)
    };
    assert!(Tokenizer::from_gguf(fields).unwrap().add_bos());
}

#[test]
fn some_names_stand_for_merges_over_characters() {
    let fields = GgufTokenizer {
        tokens: ["a", "▁", "▁a", "\n\n"].map(str::to_owned).to_vec(),
        token_type: vec![NORMAL; 4],
        merges: vec!["▁ a".to_owned()],
        pre: Some("granite-embed-multi-311m".into()),
        ..gguf(&[], "", None)
    };
    let tokenizer = Tokenizer::from_gguf(fields).unwrap();
    assert_eq!(tokenizer.encode_fragment("a a\n\na").unwrap(), [0, 2, 3, 0].map(TokenId));
}
