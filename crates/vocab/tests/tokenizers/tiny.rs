//! Tests of small vocabularies that are given as GGUF fields.

use formwork_vocab::tokenizer::{EncodeOptions, GgufTokenizer};
use formwork_vocab::{TokenId, TokenKind, Tokenizer};

const SPECIAL: EncodeOptions = EncodeOptions { special: true, bos: false };

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&s| s.to_owned()).collect()
}

fn ids(list: &[u32]) -> Vec<TokenId> {
    list.iter().copied().map(TokenId).collect()
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    tokenizer.encode(text, EncodeOptions::default()).unwrap().iter().map(|id| id.0).collect()
}

/// Returns a vocabulary with scores, byte tokens, control tokens and user-defined tokens.
fn llama() -> GgufTokenizer {
    let rows: &[(&str, i32, f32)] = &[
        ("<unk>", 2, 0.0),
        ("<s>", 3, 0.0),
        ("</s>", 3, 0.0),
        ("<0xC3>", 6, 0.0),
        ("<0xA9>", 6, 0.0),
        ("a", 1, -10.0),
        ("b", 1, -11.0),
        ("c", 1, -12.0),
        ("▁", 1, -13.0),
        ("ab", 1, -2.0),
        ("bc", 1, -1.0),
        ("▁a", 1, -3.0),
        ("aa", 1, -4.0),
        ("<br>", 4, 0.0),
        ("\n", 4, 0.0),
        ("<s", 1, 0.0),
    ];
    GgufTokenizer {
        model: "llama".into(),
        tokens: rows.iter().map(|row| row.0.to_owned()).collect(),
        token_type: rows.iter().map(|row| row.1).collect(),
        scores: rows.iter().map(|row| row.2).collect(),
        add_space_prefix: Some(false),
        ..GgufTokenizer::default()
    }
}

#[test]
fn the_highest_score_merges_first_and_the_leftmost_among_equals() {
    let tokenizer = Tokenizer::from_gguf(llama()).unwrap();
    assert_eq!(encode(&tokenizer, "abc"), [5, 10]);
    assert_eq!(encode(&tokenizer, "aba"), [9, 5]);
    assert_eq!(encode(&tokenizer, "aaa"), [12, 5]);
    assert_eq!(encode(&tokenizer, "aaaa"), [12, 12]);
    assert_eq!(encode(&tokenizer, "c ac"), [7, 11, 7]);
    assert!(encode(&tokenizer, "").is_empty());
}

#[test]
fn unknown_characters_become_byte_tokens_or_an_error() {
    let tokenizer = Tokenizer::from_gguf(llama()).unwrap();
    assert_eq!(encode(&tokenizer, "aé"), [5, 3, 4]);
    assert_eq!(tokenizer.decode(&ids(&[5, 3, 4])), "aé".as_bytes());
    assert_eq!(tokenizer.vocabulary().kind(TokenId(3)), TokenKind::Byte);
    let error = tokenizer.encode_fragment("abü").unwrap_err();
    assert_eq!(error.to_string(), "no token covers byte 0xbc at offset 2 of the text");
}

#[test]
fn a_space_goes_before_the_text_and_after_tokens_but_not_before_a_fragment() {
    let tokenizer = Tokenizer::from_gguf(GgufTokenizer { add_space_prefix: None, ..llama() }).unwrap();
    assert_eq!(encode(&tokenizer, "a"), [11]);
    assert_eq!(encode(&tokenizer, "a<br>a"), [11, 13, 11]);
    assert_eq!(tokenizer.encode_fragment("a<br>a").unwrap(), ids(&[5, 13, 5]));
    assert!(encode(&tokenizer, "").is_empty());
    assert_eq!(tokenizer.decode(&ids(&[11, 13, 11])), b" a<br> a");
    assert_eq!(tokenizer.decode_text(&ids(&[11, 13, 11]), false), b"a<br> a");
    assert_eq!(tokenizer.decode_text(&ids(&[1, 11]), false), b"a");
    assert_eq!(tokenizer.decode_text(&ids(&[5]), false), b"a");
}

#[test]
fn control_tokens_are_read_from_text_only_on_request() {
    let tokenizer = Tokenizer::from_gguf(llama()).unwrap();
    assert_eq!(tokenizer.encode("a</s>a", SPECIAL).unwrap(), ids(&[5, 2, 5]));
    assert!(tokenizer.encode_fragment("a</s>").is_err(), "spelt out, it has characters without tokens");
    assert!(tokenizer.encode_fragment("<s>").is_err(), "`<s` may be merged, but not to the control token");
    assert_eq!(tokenizer.decode(&ids(&[5, 2])), b"a");
    assert_eq!(tokenizer.decode_special(&ids(&[5, 2])), b"a</s>");
    assert_eq!(encode(&tokenizer, "\n<br>\n"), [14, 13, 14]);
    assert_eq!(tokenizer.vocabulary().kind(TokenId(13)), TokenKind::Text);
    let bos = EncodeOptions { special: false, bos: true };
    assert!(tokenizer.add_bos());
    assert_eq!(tokenizer.encode("a", bos).unwrap(), ids(&[1, 5]));
}

#[test]
fn ends_are_those_named_and_those_spelt() {
    let tokenizer = Tokenizer::from_gguf(llama()).unwrap();
    assert_eq!(tokenizer.vocabulary().ends(), ids(&[2]));
    let eot = GgufTokenizer { eos: Some(1), eot: Some(0), ..llama() };
    assert_eq!(Tokenizer::from_gguf(eot).unwrap().vocabulary().ends(), ids(&[0, 1, 2]));
    let more = tokenizer.with_ends(&ids(&[13])).unwrap();
    assert_eq!(more.vocabulary().ends(), ids(&[2, 13]));
    assert_eq!(more.vocabulary().kind(TokenId(13)), TokenKind::Control);
    assert!(more.with_ends(&ids(&[16])).is_err());
}

#[test]
fn phi_3_takes_the_white_space_after_its_tokens() {
    let phi = GgufTokenizer { name: Some("Phi-3 mini".into()), ..llama() };
    let tokenizer = Tokenizer::from_gguf(phi).unwrap();
    assert_eq!(tokenizer.encode("</s>\n a<s>\na", SPECIAL).unwrap(), ids(&[2, 5, 1, 14, 5]));
}

/// Returns a vocabulary with byte-level merges and the splitting rules `pre`.
fn gpt2(pre: &str) -> GgufTokenizer {
    GgufTokenizer {
        model: "gpt2".into(),
        pre: Some(pre.into()),
        tokens: strings(&[
            "a",
            "b",
            "Ġ",
            "1",
            "2",
            "ab",
            "Ġab",
            "12",
            "Ã",
            "©",
            "Ã©",
            "<|im_end|>",
            "  ",
            "Ċ",
        ]),
        token_type: vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 1],
        merges: strings(&["1 2", "a b", "Ġ ab", "Ã ©", "x y"]),
        ..GgufTokenizer::default()
    }
}

#[test]
fn merges_apply_within_words() {
    let tokenizer = Tokenizer::from_gguf(gpt2("gpt-2")).unwrap();
    assert_eq!(encode(&tokenizer, "ab ab12é\n"), [5, 6, 7, 10, 13]);
    assert_eq!(tokenizer.vocabulary().bytes(TokenId(10)), "é".as_bytes());
    assert_eq!(tokenizer.vocabulary().bytes(TokenId(6)), b" ab");
    assert_eq!(encode(&tokenizer, "a  b"), [0, 12, 1]);
    assert_eq!(tokenizer.encode("ab<|im_end|>", SPECIAL).unwrap(), ids(&[5, 11]));
    assert_eq!(tokenizer.vocabulary().ends(), ids(&[11]));
    assert!(!tokenizer.add_bos());
}

#[test]
fn the_name_of_the_splitting_decides_what_a_word_is() {
    let digits_apart = Tokenizer::from_gguf(gpt2("smollm")).unwrap();
    assert_eq!(encode(&digits_apart, "ab12"), [5, 3, 4]);
    let digits_together = Tokenizer::from_gguf(gpt2("llama-bpe")).unwrap();
    assert_eq!(encode(&digits_together, "ab12"), [5, 7]);
}

#[test]
fn whole_words_need_no_merges_where_the_model_says_so() {
    let without = |pre| Tokenizer::from_gguf(GgufTokenizer { merges: vec![], ..gpt2(pre) }).unwrap();
    assert_eq!(encode(&without("llama-bpe"), "ab ab"), [5, 6]);
    assert_eq!(encode(&without("qwen2"), "ab ab"), [0, 1, 2, 0, 1]);
}

#[test]
fn merges_over_characters_fall_back_to_bytes() {
    let tokenizer = Tokenizer::from_gguf(GgufTokenizer {
        model: "gemma4".into(),
        tokens: strings(&["a", "▁", "▁a", "<0xC3>", "<0xA9>", "\n", "\n\n"]),
        token_type: vec![1, 1, 1, 6, 6, 1, 1],
        merges: strings(&["▁ a"]),
        ..GgufTokenizer::default()
    })
    .unwrap();
    assert_eq!(encode(&tokenizer, "a aé\n\na"), [0, 2, 3, 4, 6, 0]);
}

#[test]
fn errors_name_the_fault() {
    let error = |fields| Tokenizer::from_gguf(fields).unwrap_err().to_string();
    assert_eq!(
        error(GgufTokenizer { model: "t5".into(), ..llama() }),
        "tokenizer.ggml.model: unsupported model `t5`; expected one of gpt2, llama, gemma4, bert"
    );
    assert!(
        error(gpt2("wombat"))
            .starts_with("tokenizer.ggml.pre: unknown pre-tokenizer `wombat`; expected one of a.x-4.0, ")
    );
    assert_eq!(
        error(GgufTokenizer { scores: vec![], ..llama() }),
        "tokenizer.ggml.scores has 0 entries; expected 16"
    );
    assert_eq!(
        error(GgufTokenizer { bos: Some(99), ..llama() }),
        "tokenizer.ggml.bos_token_id: token 99 is out of range (vocabulary size 16)"
    );
    assert_eq!(
        error(GgufTokenizer { merges: strings(&["ab"]), ..gpt2("gpt-2") }),
        "tokenizer.ggml.merges: entry 0 `ab` is not two tokens separated by a space"
    );
    assert_eq!(
        error(GgufTokenizer { token_type: vec![6; 16], ..llama() }),
        "tokenizer.ggml.tokens: byte token 0 is spelled `<unk>`; expected the form `<0xNN>`"
    );
    assert_eq!(
        error(GgufTokenizer { model: "llama".into(), ..GgufTokenizer::default() }),
        "the vocabulary is empty"
    );
}

#[test]
fn rejects_too_long_texts() {
    let error =
        Tokenizer::from_gguf(llama()).unwrap().encode_fragment(&"a".repeat((8 << 20) + 1)).unwrap_err();
    assert_eq!(error.to_string(), "the text is 8388609 bytes long, more than the limit of 8388608");
}

#[test]
fn word_pieces_split_words_and_frame_texts() {
    let tokens =
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁the", "▁sea", "shore", "s", "▁,", "▁海", "▁[", "▁]", "▁sep"];
    let fields = GgufTokenizer {
        model: "bert".into(),
        tokens: tokens.map(str::to_owned).to_vec(),
        ..GgufTokenizer::default()
    };
    let tokenizer = Tokenizer::from_gguf(fields.clone()).unwrap();
    assert_eq!(encode(&tokenizer, "The seashores, the  Séa"), [4, 5, 6, 7, 8, 4, 5]);
    assert_eq!(encode(&tokenizer, "海海 boat"), [9, 9, 1]);
    let framed = tokenizer.encode_framed("the [SEP]").unwrap();
    // The spelling of a control token in a text is text.
    assert_eq!(framed, ids(&[2, 4, 10, 12, 11, 3]));
    assert_eq!(tokenizer.decode_text(&framed, false), b"the [ sep ]");
    let error = Tokenizer::from_gguf(GgufTokenizer { sep: Some(13), ..fields.clone() }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenizer.ggml.seperator_token_id: token 13 is out of range (vocabulary size 13)"
    );
    let error = Tokenizer::from_gguf(GgufTokenizer { tokens: vec!["a".into()], ..fields }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenizer.ggml.cls_token_id is missing, and the vocabulary has no token `[CLS]`"
    );
}
