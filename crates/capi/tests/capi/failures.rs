//! Calls that fail, and inputs that could overflow a stack.

use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

use formwork_capi::*;

use crate::support::{
    Compile, Said, byte_vocabulary, bytes, compile, compile_with, done, get, handle, mask, matcher, slice,
    token, vocabulary,
};

fn refused(source: Compile, text: &str) -> Said {
    compile(source, text).err().expect("an error")
}

#[test]
fn schemas_are_refused_with_pointer_and_keyword() {
    let error = refused(formwork_grammar_json_schema, r#"{"properties": {"a/b": {"type": "integr"}}}"#);
    assert_eq!(error.status, FormworkStatus::Grammar);
    assert_eq!(error.pointer.as_deref(), Some("/properties/a~1b/type"));
    assert_eq!(error.keyword.as_deref(), Some("type"));
    assert!(error.message.contains("did you mean `integer`?"), "{}", error.message);
    assert_eq!((error.excerpt, error.place), (None, (0, 0)));
    let error = refused(formwork_grammar_json_schema, r#"{"type": "integer", "minimum": 2, "maximum": 1}"#);
    assert_eq!(error.status, FormworkStatus::Unsatisfiable);
    let error = refused(formwork_grammar_json_schema, "{\n  \"type\": }");
    assert_eq!((error.status, error.place), (FormworkStatus::NotJson, (2, 11)));
}

#[test]
fn sources_are_refused_with_line_and_column() {
    let error = refused(formwork_grammar_gbnf, "root ::= \"a\"\n  | other");
    assert_eq!((error.status, error.place), (FormworkStatus::Grammar, (2, 5)));
    assert_eq!(error.excerpt.as_deref(), Some("  | other\n    ^"));
    let error = refused(formwork_grammar_lark, "start: \"a\"\nx: y");
    assert_eq!(error.place.0, 2);
    assert_eq!(refused(formwork_grammar_regex, "(a").status, FormworkStatus::Grammar);
    // A NUL in a message would end a C string early.
    let error = refused(formwork_grammar_gbnf, "root ::= \0 \"a\"");
    assert!(error.message.len() > 20 && error.place == (1, 10), "{}", error.message);
}

#[test]
fn tags_are_refused_with_pointer() {
    let tag = r#"{"begin": "<a>", "content": {"type": "regex", "pattern": "x"}, "end": ""}"#;
    let whole = |tag: &str, more: &str| {
        format!(r#"{{"type": "triggered_tags", "triggers": ["<a>"], "tags": [{tag}]{more}}}"#)
    };
    assert!(compile(formwork_grammar_structural_tags, &whole(tag, "")).is_ok());
    for (text, pointer, problem) in [
        ("[]".to_owned(), "", "expected an object"),
        (whole("3", ""), "/tags/0", "expected an object"),
        (whole(&tag.replace("begin", "start"), ""), "/tags/0", "missing member `begin`"),
        (whole(&tag.replace("\"<a>\"", "1"), ""), "/tags/0/begin", "expected a text"),
        (
            whole(&tag.replace("regex", "any_text"), ""),
            "/tags/0/content/type",
            "unsupported value `any_text`",
        ),
        (whole(tag, ", \"maximum\": 1"), "", "unknown member `maximum`"),
        (whole(tag, ", \"excludes\": [1]"), "/excludes/0", "expected a text"),
        (whole(tag, ", \"at_least_one\": 1"), "/at_least_one", "expected true or false"),
        (whole(tag, "").replace("triggered_tags", "or"), "/type", "unsupported value `or`"),
    ] {
        let error = refused(formwork_grammar_structural_tags, &text);
        assert_eq!(error.pointer.as_deref(), Some(pointer), "{text}");
        assert!(error.message.starts_with(&format!("#{pointer}: {problem}")), "{}", error.message);
    }
    let error = refused(formwork_grammar_structural_tags, &whole(tag, "").replace("\"<a>\"]", "\"<b>\"]"));
    assert!(error.message.starts_with("tags[0].begin: "), "{}", error.message);
}

#[test]
fn null_is_refused_by_name() {
    let null = |argument: &str, status: Result<(), Said>| {
        let error = status.unwrap_err();
        let expected = format!("`{argument}` is NULL");
        assert_eq!((error.status, error.message), (FormworkStatus::NullPointer, expected));
    };
    let no_grammar: Option<&mut MaybeUninit<Option<Box<FormworkGrammar>>>> = None;
    // SAFETY: NULL is a valid argument.
    unsafe {
        null("grammar", done(|e| formwork_grammar_regex(c"a".as_ptr(), 1, ptr::null(), no_grammar, e)));
        null("pattern", handle(|g, e| formwork_grammar_regex(ptr::null(), 1, ptr::null(), g, e)).map(drop));
        null(
            "tokens",
            handle(|v, e| formwork_vocabulary_new(ptr::null(), 1, ptr::null(), 0, v, e)).map(drop),
        );
        null(
            "json",
            handle(|t, e| formwork_tokenizer_from_json(ptr::null(), 1, ptr::null(), 0, t, e)).map(drop),
        );
        null("matcher", get(|a, e| formwork_matcher_mask(None, ptr::null_mut(), 0, a, e)).map(drop));
        null("grammar", get(|a, e| formwork_grammar_accepts(None, ptr::null(), 0, a, e)).map(drop));
    }
    null("constraint", handle(|m, e| formwork_matcher_new(None, m, e)).map(drop));
    null(
        "vocabulary",
        handle(|c, e| {
            let grammar = compile(formwork_grammar_regex, "a").expect("a grammar");
            formwork_constraint_new(Some(&grammar), None, c, e)
        })
        .map(drop),
    );
    null("matcher", done(|e| formwork_matcher_commit(None, 0, e)));
    null("matcher", bytes(|b, e| formwork_matcher_explain(None, b, e)).map(drop));
    // Nobody has to take the error.
    assert_eq!(formwork_matcher_commit(None, 0, None), FormworkStatus::NullPointer);
    assert_eq!(formwork_vocabulary_len(None), 0);
    assert!(formwork_error_message(None).is_null());
    formwork_grammar_free(None);
    formwork_matcher_free(None);
    // SAFETY: NULL is a valid argument.
    unsafe { formwork_bytes_free(None) };
}

#[test]
fn texts_must_be_utf8() {
    for source in [formwork_grammar_json_schema as Compile, formwork_grammar_gbnf, formwork_grammar_lark] {
        let error = compile_with(source, b"ab\xff", None).err().expect("an error");
        assert_eq!(error.status, FormworkStatus::NotUtf8);
        assert!(error.message.ends_with("is not UTF-8: invalid byte at offset 2"), "{}", error.message);
    }
    let choices = [slice(b"a"), slice(b"\xc3")];
    // SAFETY: the choices are alive.
    let error = handle(|grammar, error| unsafe {
        formwork_grammar_choices(choices.as_ptr(), 2, ptr::null(), grammar, error)
    });
    assert_eq!(error.err().expect("an error").message, "`choices[1]` is not UTF-8: invalid byte at offset 0");
}

#[test]
fn arguments_out_of_range_are_refused() {
    // SAFETY: zeros are valid for a struct of numbers.
    let mut options: FormworkOptions = unsafe { std::mem::zeroed() };
    let with = |options: &FormworkOptions| {
        compile_with(formwork_grammar_regex, b"a", Some(options)).err().map(|error| error.message)
    };
    assert_eq!(with(&options).as_deref(), Some("`options.size` is 0; expected the size of FormworkOptions"));
    options.size = size_of::<FormworkOptions>();
    assert_eq!(with(&options), None);
    options.layout = 7;
    assert_eq!(with(&options).as_deref(), Some("`options.layout` is 7; expected one of FORMWORK_LAYOUT_…"));
    options.layout = 0;
    options.nesting = 1 << 20;
    assert_eq!(with(&options).as_deref(), Some("`options.nesting` is 1048576, more than the limit of 1024"));

    let mut strange = token(b"a");
    strange.kind = 9;
    let message = |result: Result<_, Said>| result.map(|_: Box<_>| ()).unwrap_err().message;
    assert_eq!(
        message(vocabulary(&[token(b"a"), strange], &[])),
        "`tokens[1].kind` is 9; expected one of FORMWORK_TOKEN_…"
    );
    assert_eq!(message(vocabulary(&[], &[])), "the vocabulary is empty");
    assert!(message(vocabulary(&[token(b"a")], &[1])).contains("out of range (vocabulary size 1)"));
    let mut huge = token(b"a");
    huge.bytes.length = usize::MAX;
    assert!(message(vocabulary(&[huge, huge], &[])).contains("more than the limit of 4294967295"));
    // SAFETY: the pointer is refused before it is read.
    let result = handle(|v, e| unsafe {
        formwork_vocabulary_new(ptr::without_provenance(1), 1, ptr::null(), 0, v, e)
    });
    assert!(message(result).starts_with("`tokens` is not aligned"));
}

#[test]
fn refused_tokens_and_short_buffers_leave_the_matcher_unchanged() {
    let mut matcher = matcher(compile(formwork_grammar_regex, "ab").expect("a grammar"));
    for token in [u32::from(b'b'), 256, 257, u32::MAX] {
        let error = done(|error| formwork_matcher_commit(Some(&mut matcher), token, error)).unwrap_err();
        assert_eq!(error.status, FormworkStatus::NotAllowed);
        assert_eq!(error.message, format!("token {token} is not allowed at position 0: expected `a`"));
    }
    let mut words = [7; 8];
    // SAFETY: the buffer is alive.
    let result = get(|allowed, error| unsafe {
        formwork_matcher_mask(Some(&mut matcher), words.as_mut_ptr(), 8, allowed, error)
    });
    assert_eq!(result.unwrap_err().message, "`words` has room for 8 words, but the mask has 9");
    assert_eq!(words, [7; 8]);
    assert_eq!(mask(&mut matcher, 257), [u32::from(b'a')]);
}

#[test]
fn an_output_that_cannot_be_spelt_has_no_completion() {
    let vocabulary = vocabulary(&[token(b"a")], &[]).expect("a vocabulary");
    let grammar = compile(formwork_grammar_regex, "b").expect("a grammar");
    let constraint = handle(|c, e| formwork_constraint_new(Some(&grammar), Some(&vocabulary), c, e));
    let constraint = constraint.expect("a constraint");
    let mut matcher = handle(|m, e| formwork_matcher_new(Some(&constraint), m, e)).expect("a matcher");
    let result = get(|count, error| formwork_matcher_closing_tokens(Some(&mut matcher), count, error));
    assert_eq!(result.unwrap_err().status, FormworkStatus::NoCompletion);
    // A token that only the grammar names.
    let grammar = compile(formwork_grammar_gbnf, "root ::= <[9]>").expect("a grammar");
    let result = handle(|c, e| formwork_constraint_new(Some(&grammar), Some(&vocabulary), c, e));
    assert_eq!(result.err().expect("an error").status, FormworkStatus::Grammar);
}

/// Hosts have threads with small stacks, and a stack that overflows ends the host.
#[test]
fn deep_sources_need_no_stack_of_the_caller() {
    let small = thread::Builder::new().stack_size(256 << 10).spawn(|| {
        // SAFETY: zeros are valid for a struct of numbers.
        let mut options: FormworkOptions = unsafe { std::mem::zeroed() };
        options.size = size_of::<FormworkOptions>();
        options.nesting = FORMWORK_NESTING_MAX;
        let nest = |open: &str, inner: &str, close: &str, depth: usize| {
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let schema = nest(r#"{"type": "array", "maxItems": 1, "items": "#, "true", "}", 1000);
        let deep_tags = format!(
            r#"{{"type": "triggered_tags", "triggers": ["<"], "tags": [{{"begin": "<", "end": "",
            "content": {{"type": "json_schema", "json_schema": {}}}}}]}}"#,
            nest(r#"{"items": "#, "true", "}", 1000)
        );
        let cases: [(Compile, bool, String); 10] = [
            (formwork_grammar_json_schema, true, schema),
            (formwork_grammar_json_schema, true, nest(r#"{"not": "#, "{\"type\": \"null\"}", "}", 1000)),
            (formwork_grammar_json_schema, true, nest(r#"{"anyOf": [{"type": "null"}, "#, "true", "]}", 500)),
            (formwork_grammar_json_schema, true, format!(r#"{{"const": {}}}"#, nest("[", "", "]", 1020))),
            (formwork_grammar_json_schema, false, "[".repeat(1 << 20)),
            (formwork_grammar_gbnf, true, format!("root ::= {}", nest("(", "\"a\"", ")?", 1000))),
            (formwork_grammar_lark, true, format!("start: {}", nest("(", "\"a\"", ")?", 1000))),
            (formwork_grammar_regex, true, nest("(b", "a", ")?", 240)),
            (formwork_grammar_regex, false, nest("(b", "a", ")?", 1000)),
            (formwork_grammar_structural_tags, true, deep_tags),
        ];
        for (source, compiles, text) in cases {
            let result = compile_with(source, text.as_bytes(), Some(&options));
            assert_eq!(result.is_ok(), compiles, "{text:.40}");
            let Ok(grammar) = result else { continue };
            let _ = bytes(|text, error| formwork_grammar_to_gbnf(Some(&grammar), text, error));
            bytes(|out, error| formwork_grammar_sample(Some(&grammar), 1, 0, out, error)).expect("a sample");
            let mut matcher = matcher(grammar);
            assert!(!mask(&mut matcher, 257).is_empty());
            get(|count, error| formwork_matcher_closing_tokens(Some(&mut matcher), count, error))
                .expect("a number");
            bytes(|json, error| formwork_matcher_explain(Some(&mut matcher), json, error)).expect("JSON");
        }
        drop(byte_vocabulary());
    });
    small.expect("a thread").join().expect("no panic");
}
