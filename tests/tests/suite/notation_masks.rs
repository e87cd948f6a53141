//! Compares masks of calls in every notation of arguments with a reference that tries each token byte by
//! byte, on a vocabulary of single bytes.

use std::sync::Arc;

use formwork_chat::{Content, Thoughts, Tools};
use formwork_grammar::{Constraint, Grammar, Limits, Matcher, SchemaOptions};
use formwork_model::Checkpoint;
use formwork_tests::random::{self, Random};
use formwork_vocab::{Token, TokenId, TokenKind, TokenSet, Vocabulary};
use serde_json::json;

use super::chat_formats::{format_of, templates, tool, typed_tools};

/// The templates whose arguments have a notation of their own.
const NOTATIONS: [&str; 9] = [
    "tags",
    "keys",
    "marked types",
    "braces",
    "python",
    "nested tags",
    "cdata",
    "keywords",
    "list of keywords",
];

/// Maximum length of a sampled call in bytes.
const LONGEST: usize = 400;

/// The text tokens of a vocabulary, and a matcher that reads bytes.
struct Reference {
    /// Text tokens in the order of their bytes.
    tokens: Vec<TokenId>,
    matcher: Matcher,
}

impl Reference {
    fn new(grammar: &Grammar, vocabulary: &Vocabulary) -> Self {
        let bytes = (0..=255).map(|byte| Token { bytes: vec![byte], kind: TokenKind::Text });
        let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
        let single = Vocabulary::new(bytes.chain([end]).collect(), vec![TokenId(256)]).expect("small");
        let constraint = Constraint::new(grammar, Arc::new(single)).expect("no tokens");
        let has_text =
            |token: &TokenId| vocabulary.kind(*token).is_text() && !vocabulary.bytes(*token).is_empty();
        let mut tokens: Vec<TokenId> = vocabulary.ids().filter(has_text).collect();
        tokens.sort_by_key(|&token| vocabulary.bytes(token));
        Self { tokens, matcher: constraint.matcher() }
    }

    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.matcher.commit(TokenId(byte.into())).expect("an allowed byte");
        }
    }

    /// Returns the tokens whose bytes may follow, and the end tokens if the output may end.
    fn mask(&mut self, vocabulary: &Vocabulary) -> TokenSet {
        let mut mask = vocabulary.empty_set();
        let mut path: Vec<u8> = Vec::new();
        let mut at = 0;
        while let Some(&token) = self.tokens.get(at) {
            let bytes = vocabulary.bytes(token);
            let shared = path.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            self.matcher.rollback(path.len() - shared);
            path.truncate(shared);
            while let Some(&byte) = bytes.get(path.len()) {
                if self.matcher.commit(TokenId(byte.into())).is_err() {
                    break;
                }
                path.push(byte);
            }
            if path.len() == bytes.len() {
                mask.insert(token);
                at += 1;
            } else {
                // No token that begins with the refused byte is allowed.
                let refused = &bytes[..=path.len()];
                let is_refused = |&token: &TokenId| vocabulary.bytes(token).starts_with(refused);
                at += self.tokens[at..].partition_point(is_refused);
            }
        }
        self.matcher.rollback(path.len());
        if self.matcher.accepting() {
            vocabulary.ends().iter().for_each(|&end| mask.insert(end));
        }
        mask
    }
}

/// Returns tools with values of all types, and with strings of patterns with and without an end.
fn all_tools() -> Tools {
    let mut tools = typed_tools();
    let strings = json!({
        "code": { "type": "string", "pattern": "^[A-Za-z0-9_-]{2,40}$" },
        "line": { "type": "string", "pattern": "^\\S[^\\r\\n]*$" },
        "link": { "type": "string", "format": "uri" },
        "text": { "type": "string", "minLength": 1, "maxLength": 90 },
        "time": { "type": ["string", "null"], "format": "date-time" },
        "word": { "type": "string", "pattern": "^[^<>]+$", "maxLength": 30 },
    });
    tools.tools.push(tool("find", &strings));
    tools
}

/// Compares every mask along sampled calls of a notation. Returns the number of masks.
fn compare(
    name: &str,
    vocabulary: &Arc<Vocabulary>,
    random: &mut Random,
    (calls, every): (usize, usize),
) -> usize {
    let source = templates().into_iter().find(|(other, _)| *other == name).expect("a template").1;
    let part = format_of(&source).answer(&Content::Free, &all_tools(), Thoughts::None).expect("bounded");
    let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect(name);
    let constraint = Constraint::new(&grammar, Arc::clone(vocabulary)).expect("no tokens");
    let outputs: Vec<_> = grammar.samples(random.below(1000) as u64).max_bytes(300).take(calls).collect();
    compare_along(name, (&grammar, &constraint), random, (&outputs, every))
}

/// Compares every `every`-th mask along outputs of a grammar. Returns the number of masks.
fn compare_along(
    name: &str,
    (grammar, constraint): (&Grammar, &Constraint),
    random: &mut Random,
    (outputs, every): (&[Vec<u8>], usize),
) -> usize {
    let vocabulary = constraint.vocabulary();
    let mut compared = 0;
    for output in outputs {
        let mut reference = Reference::new(grammar, vocabulary);
        let mut matcher = constraint.matcher();
        let mut rest = &output[..output.len().min(LONGEST)];
        let mut step = random.below(every);
        loop {
            if step.is_multiple_of(every) || rest.is_empty() {
                let (mask, expected) = (matcher.mask(), reference.mask(vocabulary));
                if let Some(token) = vocabulary.ids().find(|&id| mask.contains(id) != expected.contains(id)) {
                    let text = String::from_utf8_lossy(vocabulary.bytes(token)).into_owned();
                    let before = String::from_utf8_lossy(&output[..output.len() - rest.len()]).into_owned();
                    panic!("{name}: {text:?} is {} after {before:?}", expected.contains(token));
                }
                compared += 1;
            }
            step += 1;
            // A random token of the call's text.
            let fits: Vec<TokenId> = reference
                .tokens
                .iter()
                .copied()
                .filter(|&token| rest.starts_with(vocabulary.bytes(token)))
                .collect();
            if fits.is_empty() {
                break;
            }
            let token = *random.pick(&fits);
            matcher.commit(token).expect("part of the call");
            reference.push(vocabulary.bytes(token));
            rest = &rest[vocabulary.bytes(token).len()..];
        }
        assert!(rest.is_empty(), "{name}: no token begins {:?}", String::from_utf8_lossy(rest));
    }
    compared
}

/// Creates a vocabulary of all bytes and of pieces of calls, with a mean length of `cut` bytes.
fn pieces_of_calls(random: &mut Random, cut: usize) -> Vocabulary {
    let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for name in NOTATIONS {
        let source = templates().into_iter().find(|(other, _)| *other == name).expect("a template").1;
        let part =
            format_of(&source).answer(&Content::Free, &typed_tools(), Thoughts::None).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect(name);
        for output in grammar.samples(3).max_bytes(300).take(12) {
            let mut piece = Vec::new();
            for byte in output {
                piece.push(byte);
                if random.below(cut) == 0 {
                    tokens.push(std::mem::take(&mut piece));
                }
            }
        }
    }
    tokens.sort();
    tokens.dedup();
    let end = TokenId(tokens.len() as u32);
    let mut tokens: Vec<Token> =
        tokens.into_iter().map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
    tokens.push(Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control });
    Vocabulary::new(tokens, vec![end]).expect("not empty")
}

#[test]
fn masks_of_every_notation_equal_the_reference() {
    let mut random = Random::new(42);
    let short = pieces_of_calls(&mut random, 3);
    let long = pieces_of_calls(&mut random, 12);
    for vocabulary in [short, long, random::vocabulary(&mut random)].map(Arc::new) {
        for name in NOTATIONS {
            assert!(compare(name, &vocabulary, &mut random, (12, 2)) > 60, "{name}");
        }
    }
}

/// Returns calls of a tool with one string, which has up to `longest` characters.
fn calls_with_strings(random: &mut Random, longest: usize) -> Vec<Vec<u8>> {
    const PIECES: [&str; 9] = ["a", " ", "\n", "\n\n</", "\n</param", "</parameter", "é", "word ", "🙂"];
    let call = |length: usize, random: &mut Random| {
        let mut text = String::new();
        while text.chars().count() < length {
            text.push_str(random.pick::<&str>(&PIECES));
        }
        let text: String = text.chars().take(length).collect();
        let call = format!("<function=put>\n<parameter=text>\n{text}\n</parameter>\n</function>");
        format!("<tool_call>\n{call}\n</tool_call>").into_bytes()
    };
    let lengths = [longest, 2, longest - 1, longest / 2, longest, longest];
    lengths.map(|length| call(length, random)).into()
}

#[test]
fn masks_up_to_the_maximum_length_of_a_string_equal_the_reference() {
    let mut random = Random::new(44);
    let short = pieces_of_calls(&mut random, 3);
    let long = pieces_of_calls(&mut random, 12);
    let source = templates().into_iter().find(|(name, _)| *name == "tags").expect("a template").1;
    for vocabulary in [short, long, random::vocabulary(&mut random)].map(Arc::new) {
        for lengths in [json!({ "maxLength": 100 }), json!({ "minLength": 2, "maxLength": 40 }), json!({})] {
            let mut text = lengths.clone();
            text["type"] = "string".into();
            let mut tools = all_tools();
            tools.tools.push(tool("put", &json!({ "text": text })));
            let part = format_of(&source).answer(&Content::Free, &tools, Thoughts::None).expect("bounded");
            // The second grammar takes masks of the first one.
            for _ in 0..2 {
                let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default());
                let grammar = grammar.expect("a good schema");
                let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).expect("no tokens");
                let longest = lengths["maxLength"].as_u64().unwrap_or(60) as usize;
                let calls = calls_with_strings(&mut random, longest);
                compare_along("tags", (&grammar, &constraint), &mut random, (&calls, 1));
            }
        }
    }
}

/// Compares masks on the vocabularies in the folder `FORMWORK_TOKENIZER_VECTORS`, if it is set.
#[test]
fn masks_of_every_notation_equal_the_reference_on_real_tokenizers() {
    let Some(folder) = std::env::var_os("FORMWORK_TOKENIZER_VECTORS") else { return };
    let mut random = Random::new(43);
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let checkpoint = Checkpoint::open(&path).expect("a good file");
        let vocabulary = Arc::clone(checkpoint.tokenizer().expect("a good tokenizer").vocabulary());
        let compared: usize =
            NOTATIONS.map(|name| compare(name, &vocabulary, &mut random, (1, 4))).iter().sum();
        eprintln!("{}: {compared} masks equal", path.display());
    }
}
