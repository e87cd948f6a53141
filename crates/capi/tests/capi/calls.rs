//! Calls that succeed.

use std::ffi::CStr;

use formwork_capi::*;

use crate::support::{
    Compile, byte_vocabulary, bytes, compile, compile_with, constraint, done, get, handle, mask, mask_words,
    matcher, slice, token, tokens, vocabulary,
};

fn accepts(grammar: &FormworkGrammar, text: &[u8]) -> bool {
    // SAFETY: the text is alive.
    get(|accepted, error| unsafe {
        formwork_grammar_accepts(Some(grammar), text.as_ptr(), text.len(), accepted, error)
    })
    .expect("a decision")
}

fn commit(matcher: &mut FormworkMatcher, text: &[u8]) {
    for &byte in text {
        done(|error| formwork_matcher_commit(Some(matcher), byte.into(), error)).expect("an allowed byte");
    }
}

#[test]
fn version_is_that_of_the_package() {
    // SAFETY: the library returns a text with a NUL.
    let version = unsafe { CStr::from_ptr(formwork_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_source_compiles() {
    let tags = r#"{"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<"], "tags": [
        {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": {"enum": [1]}}, "end": ";"},
        {"begin": "<b>", "content": {"type": "grammar", "grammar": "root ::= \"2\""}, "end": ";"},
        {"begin": "<c>", "content": {"type": "regex", "pattern": "3+"}, "end": ";"}
    ], "excludes": ["!"], "stop_after_first": true}}"#;
    let cases: [(Compile, &str, &str, &str); 5] = [
        (formwork_grammar_json_schema, r#"{"type": "array", "items": {"const": 7}}"#, "[7, 7]", "[7,7]"),
        (formwork_grammar_gbnf, "root ::= \"a\" [0-9]+", "a12", "a"),
        (formwork_grammar_lark, "start: \"a\" INT\n%import common.INT", "a12", "a"),
        (formwork_grammar_regex, r"\d{2}", "12", "1"),
        (formwork_grammar_structural_tags, tags, "x <c>33;", "x! <c>33;"),
    ];
    for (source, text, good, bad) in cases {
        let grammar = compile(source, text).expect(text);
        assert!(accepts(&grammar, good.as_bytes()), "{good}");
        assert!(!accepts(&grammar, bad.as_bytes()), "{bad}");
        let shortest = bytes(|bytes, error| formwork_grammar_shortest(Some(&grammar), bytes, error));
        assert!(accepts(&grammar, &shortest.expect("bytes")));
        let sample = |seed| bytes(|b, error| formwork_grammar_sample(Some(&grammar), seed, 40, b, error));
        assert!(accepts(&grammar, &sample(3).expect("bytes")));
        assert_eq!(sample(3), sample(3));
        formwork_grammar_free(Some(grammar));
    }
    let choices = ["yes", "no"].map(|choice| slice(choice.as_bytes()));
    // SAFETY: the choices are alive.
    let grammar = handle(|grammar, error| unsafe {
        formwork_grammar_choices(choices.as_ptr(), 2, std::ptr::null(), grammar, error)
    });
    let grammar = grammar.expect("a grammar");
    assert!(accepts(&grammar, b"no") && !accepts(&grammar, b"maybe"));
    formwork_grammar_free(Some(grammar));
}

#[test]
fn options_decide_about_spellings_and_limits() {
    // SAFETY: zeros are valid for a struct of numbers.
    let mut options: FormworkOptions = unsafe { std::mem::zeroed() };
    options.size = size_of::<FormworkOptions>();
    options.layout = FORMWORK_LAYOUT_COMPACT;
    let schema = br#"{"properties": {"a": true, "b": true}, "required": ["a", "b"], "type": "object"}"#;
    let with = |options: &FormworkOptions| {
        compile_with(formwork_grammar_json_schema, schema, Some(options)).expect("a grammar")
    };
    let grammar = with(&options);
    assert!(accepts(&grammar, br#"{"a":1,"b":2}"#) && !accepts(&grammar, br#"{"a": 1, "b": 2}"#));
    options.profile = FORMWORK_PROFILE_ACCEPT;
    options.layout = FORMWORK_LAYOUT_FLEXIBLE;
    options.order = FORMWORK_ORDER_ANY;
    options.undeclared = FORMWORK_UNDECLARED_ALLOW;
    let grammar = with(&options);
    assert!(accepts(&grammar, b" {\"b\" : 1e2,\n\"c\": 3, \"a\":\"\\u0041\"}"));
    options.states = 1;
    let error = compile_with(formwork_grammar_regex, b"a{9}", Some(&options)).err().expect("a limit");
    assert_eq!(error.status, FormworkStatus::Limit);
}

#[test]
fn grammars_print_warnings_and_gbnf() {
    let schema = r#"{"anyOf": [{"const": "a"}, {"type": "integer", "minimum": 2, "maximum": 1}]}"#;
    let grammar = compile(formwork_grammar_json_schema, schema).expect("a grammar");
    let count = formwork_grammar_warning_count(Some(&grammar));
    assert_eq!(count, 1);
    let text = |index| bytes(|text, error| formwork_grammar_warning(Some(&grammar), index, text, error));
    assert!(text(0).expect("a warning").starts_with(b"#/anyOf/1: "));
    assert_eq!(text(count).unwrap_err().status, FormworkStatus::InvalidArgument);
    let gbnf = bytes(|text, error| formwork_grammar_to_gbnf(Some(&grammar), text, error)).expect("GBNF");
    let gbnf = compile(formwork_grammar_gbnf, str::from_utf8(&gbnf).expect("UTF-8")).expect("a grammar");
    assert!(accepts(&gbnf, b"\"a\""));
}

#[test]
fn vocabularies_report_their_tokens() {
    let mut list = [token(b"a"), token(b" b"), token(b"<pad>"), token(b"</s>"), token(b"")];
    list[2].kind = FORMWORK_TOKEN_UNUSED;
    list[4].kind = FORMWORK_TOKEN_BYTE;
    let vocabulary = vocabulary(&list, &[3]).expect("a vocabulary");
    assert_eq!((formwork_vocabulary_len(Some(&vocabulary)), mask_words(&vocabulary)), (5, 1));
    let kinds = [0, 1, 2, 3, 4, 5].map(|token| formwork_vocabulary_kind(Some(&vocabulary), token));
    assert_eq!(kinds, [0, 0, 3, 2, 1, 3]);
    assert!(formwork_vocabulary_is_end(Some(&vocabulary), 3));
    assert!(!formwork_vocabulary_is_end(Some(&vocabulary), 9));
    let found = get(|bytes, error| formwork_vocabulary_bytes(Some(&vocabulary), 1, bytes, error));
    let found = found.expect("bytes");
    // SAFETY: the bytes live as long as the vocabulary.
    assert_eq!(unsafe { std::slice::from_raw_parts(found.data, found.length) }, b" b");
}

#[test]
fn matchers_follow_an_output_after_all_else_is_freed() {
    let grammar = compile(formwork_grammar_regex, "ab?").expect("a grammar");
    let mut matcher = matcher(grammar);
    assert_eq!(mask(&mut matcher, 257), [u32::from(b'a')]);
    let forced = bytes(|bytes, error| formwork_matcher_forced_bytes(Some(&mut matcher), bytes, error));
    assert_eq!(forced, Ok(b"a".to_vec()));
    let closing = get(|count, error| formwork_matcher_closing_tokens(Some(&mut matcher), count, error));
    assert_eq!(closing, Ok(1));
    commit(&mut matcher, b"a");
    assert_eq!(mask(&mut matcher, 257), [u32::from(b'b'), 256]);
    let mut copy = handle(|copy, error| formwork_matcher_clone(Some(&matcher), copy, error)).expect("a copy");
    commit(&mut copy, b"b");
    assert_eq!((formwork_matcher_len(Some(&matcher)), formwork_matcher_len(Some(&copy))), (1, 2));
    let accepting = get(|out, error| formwork_matcher_accepting(Some(&mut matcher), out, error));
    let complete = get(|out, error| formwork_matcher_complete(Some(&mut matcher), out, error));
    assert_eq!((accepting, complete), (Ok(true), Ok(false)));
    assert_eq!(get(|out, error| formwork_matcher_complete(Some(&mut copy), out, error)), Ok(true));
    formwork_matcher_free(Some(copy));
    done(|error| formwork_matcher_commit(Some(&mut matcher), 256, error)).expect("the end");
    assert!(mask(&mut matcher, 257).is_empty());
    done(|error| formwork_matcher_rollback(Some(&mut matcher), 9, error)).expect("the start");
    assert_eq!(mask(&mut matcher, 257), [u32::from(b'a')]);
    formwork_matcher_free(Some(matcher));
}

#[test]
fn masks_within_leave_room_to_close() {
    let grammar = compile(formwork_grammar_regex, "a|b[a-z]{5}").expect("a grammar");
    let mut matcher = matcher(grammar);
    let mut within = |remaining| {
        let mut words = [u32::MAX; 9];
        // SAFETY: the buffer is alive.
        let count = get(|allowed, error| unsafe {
            formwork_matcher_mask_within(Some(&mut matcher), remaining, words.as_mut_ptr(), 9, allowed, error)
        });
        let set = (0..288).filter(|t| words[*t / 32] >> (t % 32) & 1 == 1).map(|t| t as u8 as char);
        (count.expect("a mask"), set.collect::<String>())
    };
    assert_eq!(within(0), (0, String::new()));
    assert_eq!(within(5), (1, "a".to_owned()));
    assert_eq!(within(6), (2, "ab".to_owned()));
    let mut allows = |token: u8, remaining| {
        get(|out, error| {
            formwork_matcher_allows_within(Some(&mut matcher), token.into(), remaining, out, error)
        })
    };
    assert_eq!([allows(b'b', 5), allows(b'b', 6), allows(b'c', 6)], [Ok(false), Ok(true), Ok(false)]);
}

#[test]
fn explanations_are_json() {
    let grammar = compile(formwork_grammar_json_schema, r#"{"type": "boolean"}"#).expect("a grammar");
    let mut matcher = matcher(grammar);
    let text = bytes(|json, error| formwork_matcher_explain(Some(&mut matcher), json, error)).expect("JSON");
    let json: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!((&json["tokens"], &json["may_end"]), (&2.into(), &false.into()));
    assert_eq!(json["bytes"], "`f` or `t`");
    assert_eq!(json["expected"], serde_json::json!(["`false`", "`true`"]));
}

const TOKENIZER: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
    "added_tokens": [{"id": 4, "content": "<|im_end|>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
        "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}
}"#;

fn tokenizer(ends: &[u32]) -> Box<FormworkTokenizer> {
    // SAFETY: the arrays are alive.
    let tokenizer = handle(|tokenizer, error| unsafe {
        let (json, length) = (TOKENIZER.as_ptr(), TOKENIZER.len());
        formwork_tokenizer_from_json(json, length, ends.as_ptr(), ends.len(), tokenizer, error)
    });
    tokenizer.expect("a tokenizer")
}

#[test]
fn tokenizers_encode_and_decode() {
    let tokenizer = tokenizer(&[]);
    let encode = |text: &str, flags| {
        let (start, length) = (text.as_ptr().cast(), text.len());
        // SAFETY: the text is alive.
        tokens(|out, error| unsafe {
            formwork_tokenizer_encode(Some(&tokenizer), start, length, flags, out, error)
        })
    };
    let decode = |ids: &[u32], flags| {
        // SAFETY: the tokens are alive.
        bytes(|out, error| unsafe {
            formwork_tokenizer_decode(Some(&tokenizer), ids.as_ptr(), ids.len(), flags, out, error)
        })
    };
    assert_eq!(encode("ab ba", 0), Ok(vec![2, 3, 1, 0]));
    assert_eq!(encode("", 0), Ok(vec![]));
    let special = FORMWORK_ENCODE_SPECIAL | FORMWORK_ENCODE_CONTINUATION;
    assert_eq!(encode("a<|im_end|>", special), Ok(vec![0, 4]));
    assert_eq!(decode(&[2, 3, 1, 4], 0), Ok(b"ab b".to_vec()));
    assert_eq!(decode(&[4], FORMWORK_DECODE_SPECIAL | FORMWORK_DECODE_WHOLE), Ok(b"<|im_end|>".to_vec()));
    assert_eq!(decode(&[5], 0).unwrap_err().message, "token 5 is out of range (vocabulary size 5)");
    assert_eq!(encode("?", 0).unwrap_err().status, FormworkStatus::Vocabulary);
    assert_eq!(encode("a", 8).unwrap_err().status, FormworkStatus::InvalidArgument);
    assert!(!formwork_tokenizer_adds_bos(Some(&tokenizer)));
}

#[test]
fn forced_tokens_come_from_the_tokenizer_of_the_vocabulary() {
    let tokenizer = tokenizer(&[3]);
    let vocabulary = handle(|out, error| formwork_tokenizer_vocabulary(Some(&tokenizer), out, error));
    let vocabulary = vocabulary.expect("a vocabulary");
    assert_eq!([3, 4].map(|end| formwork_vocabulary_is_end(Some(&vocabulary), end)), [true, true]);
    let grammar = compile(formwork_grammar_regex, "ab(aa|bb)").expect("a grammar");
    let constraint = constraint(grammar, vocabulary);
    assert!(formwork_constraint_memory(Some(&constraint)) > 0);
    let new = || handle(|out, error| formwork_matcher_new(Some(&constraint), out, error)).expect("a matcher");
    let mut ours = new();
    let forced = |matcher: &mut FormworkMatcher| {
        tokens(|out, error| formwork_matcher_forced_tokens(Some(matcher), Some(&tokenizer), out, error))
    };
    assert_eq!(forced(&mut ours), Ok(vec![2]));
    let grammar = compile(formwork_grammar_regex, "a").expect("a grammar");
    assert_eq!(forced(&mut matcher(grammar)).unwrap_err().status, FormworkStatus::InvalidArgument);
}

/// Handles other than matchers are used by several threads, which must get equal masks.
#[test]
fn constraints_are_shared_between_threads() {
    let schema = r#"{"type": "array", "items": {"type": "integer"}}"#;
    let grammar = compile(formwork_grammar_json_schema, schema).expect("a grammar");
    let constraint = constraint(grammar, byte_vocabulary());
    let masks = || {
        let matcher = handle(|out, error| formwork_matcher_new(Some(&constraint), out, error));
        let mut matcher = matcher.expect("a matcher");
        b"[12, 3]".map(|byte| {
            let allowed = mask(&mut matcher, 257);
            commit(&mut matcher, &[byte]);
            allowed
        })
    };
    std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(masks));
        let results = threads.map(|thread| thread.join().expect("no panic"));
        assert!(results.iter().all(|result| *result == results[0]));
    });
}
