//! Checks that the fuzz targets run on each grammar that compiles.

use std::sync::{Arc, LazyLock};

use formwork_grammar::{Constraint, Formats, Grammar, Layout, Limits, Order, Profile, SchemaOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};

/// Maximum number of bytes to choose before closing the output.
const STEPS: usize = 48;

/// Number of tokens at which masks are compared.
const TOKENS: usize = 8;

/// Returns limits that keep each input to a few milliseconds.
pub fn limits() -> Limits {
    Limits { states: 1 << 12, source_bytes: 1 << 14, shortest_bytes: 1 << 8, ..Limits::default() }
}

/// Reports whether a GBNF grammar may contain token terminals. They match no bytes, and walks here
/// use bytes.
pub fn may_name_tokens(source: &str) -> bool {
    source.contains('<')
}

/// Decodes options from the bits of a byte.
pub fn options(bits: u8) -> SchemaOptions {
    let has = |bit: u8| bits >> bit & 1 == 1;
    SchemaOptions {
        profile: if has(0) { Profile::Generate } else { Profile::Accept },
        layout: [Layout::Spaced, Layout::Compact, Layout::Pretty, Layout::Flexible]
            [usize::from(bits >> 1 & 3)],
        order: if has(3) { Order::Any } else { Order::Declared },
        formats: if has(4) { Formats::Annotate } else { Formats::Assert },
    }
}

/// Derives a seed for random choices from the input.
pub fn seed_of(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

/// Checks that the grammar accepts its shortest output. Then walks over random allowed bytes, which
/// must never get stuck, and closes the output within the promised number of bytes.
pub fn walk(grammar: &Grammar, mut seed: u64) {
    assert!(grammar.accepts(&grammar.shortest()), "the shortest output is not accepted");
    let Ok(constraint) = Constraint::new(grammar, Arc::clone(&BYTES)) else { return };
    let mut matcher = constraint.matcher();
    let mut recognizer = grammar.recognizer();
    for _ in 0..next(&mut seed) % STEPS {
        let following: Vec<u8> = recognizer.following().iter().collect();
        if following.is_empty() {
            assert!(recognizer.accepting(), "stuck");
            return;
        }
        let byte = following[next(&mut seed) % following.len()];
        assert!(recognizer.extend(&[byte]).is_ok(), "a byte that may follow was refused");
        assert!(matcher.commit(TokenId(u32::from(byte))).is_ok(), "a byte that may follow is not allowed");
    }
    let Some(mut left) = matcher.closing_tokens() else { panic!("cannot be closed byte by byte") };
    while left > 0 {
        left -= 1;
        let mask = matcher.mask_within(left + 1);
        let token = mask.iter().find(|&token| !BYTES.is_end(token) && matcher.allows_within(token, left + 1));
        let Some(token) = token else { panic!("no token closes within {left}") };
        assert!(matcher.commit(token).is_ok(), "a token of the mask was refused");
        if matcher.closing_tokens() == Some(0) {
            break;
        }
    }
    assert!(matcher.accepting(), "closed and not accepted");
}

/// Checks each bit of the masks along a random walk against the token's bytes, tried one after the
/// other.
pub fn compare_masks(grammar: &Grammar, mut seed: u64) {
    let Ok(constraint) = Constraint::new(grammar, Arc::clone(&PIECES)) else { return };
    let mut matcher = constraint.matcher();
    let mut text = Vec::new();
    for _ in 0..TOKENS {
        let mask = matcher.mask();
        for token in PIECES.ids().filter(|&token| !PIECES.is_end(token)) {
            let mut recognizer = grammar.recognizer();
            assert!(recognizer.extend(&text).is_ok(), "what was allowed is not");
            let allowed = recognizer.extend(PIECES.bytes(token)).is_ok();
            assert_eq!(mask.contains(token), allowed, "{:?} after {text:?}", PIECES.bytes(token));
        }
        let end = PIECES.ends()[0];
        assert_eq!(mask.contains(end), grammar.accepts(&text), "the end after {text:?}");
        let tokens: Vec<_> = mask.iter().filter(|&token| !PIECES.is_end(token)).collect();
        if tokens.is_empty() {
            return;
        }
        let token = tokens[next(&mut seed) % tokens.len()];
        text.extend_from_slice(PIECES.bytes(token));
        assert!(matcher.commit(token).is_ok(), "a token of the mask was refused");
    }
}

/// All bytes; each is the token with the same id.
static BYTES: LazyLock<Arc<Vocabulary>> =
    LazyLock::new(|| vocabulary((0..=255).map(|byte| vec![byte]).collect()));

/// Pieces of JSON and of words.
static PIECES: LazyLock<Arc<Vocabulary>> = LazyLock::new(|| {
    let pieces = [
        "\"", "\\", "\\\"", "\\u00", "e9", "\":", "\",", "\"}", "{\"", "[", "]", "{", "}", ",", ":", " ",
        "\n", "  ", "0", "1", "12", "-", ".5", "e", "e+", "true", "null", "fal", "a", "b", "ab", "aa",
        "aaaa", "name", "na", "x", "é", "日", "😀", "/", "@",
    ];
    vocabulary(pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect())
});

fn vocabulary(pieces: Vec<Vec<u8>>) -> Arc<Vocabulary> {
    let end = TokenId(pieces.len() as u32);
    let mut tokens: Vec<_> = pieces.into_iter().map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
    tokens.push(Token { bytes: Vec::new(), kind: TokenKind::Control });
    Arc::new(Vocabulary::new(tokens, vec![end]).expect("the tokens are valid"))
}
