//! Every bit of the mask against the slow reference.

use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_model::{Model, OpenOptions};
use formwork_tests::random::{self, Random};
use formwork_tests::reference::cfg::{Chart, Reference};
use formwork_vocab::{TokenId, TokenSet, Vocabulary};

/// Prefixes end once they are longer than this many bytes: the reference's time grows with the cube of it.
const LONGEST: usize = 10;

/// Very ambiguous grammars are left once the reference's sets have more items than this.
const WIDEST: usize = 400;

/// Walks random prefixes of random grammars and compares the mask at each step; gives the number of masks compared.
fn compare(vocabulary: &Arc<Vocabulary>, random: &mut Random, (pairs, wide_every): (usize, usize)) -> usize {
    let sorted = text_tokens(vocabulary);
    let mut compared = 0;
    while compared < pairs {
        // Classes of most characters make the reference simulate most of the vocabulary.
        let wide = random.below(wide_every) == 0;
        let source = random::gbnf(random, wide);
        let Ok(grammar) = Grammar::gbnf(&source, &Limits::default()) else { continue };
        let reference = Reference::new(&source);
        let mut matcher = Constraint::new(&grammar, Arc::clone(vocabulary)).matcher();
        let mut chart = reference.start();
        for _ in 0..6 {
            if Reference::width(&chart) > WIDEST {
                break;
            }
            let mask = matcher.mask();
            let expected = reference_mask(&reference, &chart, vocabulary, &sorted);
            for token in vocabulary.ids() {
                assert_eq!(
                    mask.contains(token),
                    expected.contains(token),
                    "token {token} {:?} in\n{source}",
                    String::from_utf8_lossy(vocabulary.bytes(token)),
                );
            }
            assert_eq!(matcher.accepting(), reference.accepting(&chart), "{source}");
            compared += 1;
            let allowed: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
            if allowed.is_empty() {
                break;
            }
            let token = *random.pick(&allowed);
            matcher.commit(token).expect("allowed");
            for &byte in vocabulary.bytes(token) {
                reference.push(&mut chart, byte);
            }
            if matcher.tokens().iter().map(|&token| vocabulary.bytes(token).len()).sum::<usize>() > LONGEST {
                break;
            }
        }
    }
    compared
}

/// All text tokens, in the order of their bytes.
fn text_tokens(vocabulary: &Vocabulary) -> Vec<TokenId> {
    let mut tokens: Vec<TokenId> =
        vocabulary.ids().filter(|&token| vocabulary.kind(token).is_text()).collect();
    tokens.sort_by_key(|&token| vocabulary.bytes(token));
    tokens
}

/// The mask by simulating each token byte by byte. Tokens are visited in the order of their bytes, so that what two of
/// them share is simulated once.
fn reference_mask(
    reference: &Reference,
    chart: &Chart,
    vocabulary: &Vocabulary,
    sorted: &[TokenId],
) -> TokenSet {
    let mut mask = vocabulary.empty_set();
    let mut path: Vec<(u8, Chart)> = Vec::new();
    let mut dead: Option<Vec<u8>> = None;
    for &token in sorted {
        let bytes = vocabulary.bytes(token);
        if bytes.is_empty() || dead.as_ref().is_some_and(|dead| bytes.starts_with(dead)) {
            continue;
        }
        let shared = path.iter().zip(bytes).take_while(|((have, _), byte)| have == *byte).count();
        path.truncate(shared);
        let mut viable = true;
        for &byte in &bytes[shared..] {
            let mut next = path.last().map_or(chart, |(_, chart)| chart).clone();
            reference.push(&mut next, byte);
            viable = reference.viable(&next);
            if !viable {
                dead = Some(bytes[..=path.len()].to_vec());
                break;
            }
            path.push((byte, next));
        }
        if viable {
            mask.insert(token);
        }
    }
    if reference.accepting(chart) {
        for &end in vocabulary.ends() {
            mask.insert(end);
        }
    }
    mask
}

/// On the real tokenizers, where they are at hand, and grammars without wide classes; `FORMWORK_TEST_PAIRS` sets the number
/// of masks for each.
#[test]
fn cfg_masks_equal_the_reference_on_real_tokenizers() {
    let pairs = std::env::var("FORMWORK_TEST_PAIRS").ok().and_then(|pairs| pairs.parse().ok()).unwrap_or(25);
    for path in super::real_models::model_files() {
        let model = Model::open(&path, OpenOptions::default()).expect("a good file");
        let vocabulary = Arc::clone(model.tokenizer().expect("a good tokenizer").vocabulary());
        let compared = compare(&vocabulary, &mut Random::new(7), (pairs, usize::MAX));
        eprintln!("{}: {compared} masks equal", path.display());
    }
}

#[test]
fn cfg_masks_equal_the_reference() {
    let mut random = Random::new(1);
    let vocabulary = Arc::new(random::vocabulary(&mut random));
    assert!(compare(&vocabulary, &mut random, (1000, 10)) >= 1000);
}
