//! Compares every bit of the mask with the slow reference.

use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_model::{Model, OpenOptions};
use formwork_tests::random::{self, Random};
use formwork_tests::reference::cfg::Reference;
use formwork_tests::reference::{TextTokens, reference_mask};
use formwork_vocab::{TokenId, Vocabulary};

/// Maximum length of a prefix in bytes. The reference's time grows with the cube of the length.
const LONGEST: usize = 10;

/// Maximum number of items in the reference's sets; more ambiguous grammars are abandoned.
const WIDEST: usize = 400;

/// Walks random prefixes of random grammars and compares the mask at each step. Returns the number
/// of compared masks.
fn compare(vocabulary: &Arc<Vocabulary>, random: &mut Random, (pairs, wide_every): (usize, usize)) -> usize {
    let tokens = TextTokens::new(vocabulary);
    let mut compared = 0;
    while compared < pairs {
        // Wide classes make the reference simulate most of the vocabulary, so they are rare.
        let wide = random.below(wide_every) == 0;
        let source = random::gbnf(random, wide);
        let Ok(grammar) = Grammar::gbnf(&source, &Limits::default()) else { continue };
        let reference = Reference::new(&source);
        let mut matcher = Constraint::new(&grammar, Arc::clone(vocabulary))
            .expect("every token is in the vocabulary")
            .matcher();
        let mut chart = reference.start();
        for _ in 0..6 {
            if Reference::width(&chart) > WIDEST {
                break;
            }
            let mask = matcher.mask();
            let accepting = reference.accepting(&chart);
            let expected = reference_mask(&tokens, &chart, accepting, |chart, byte| {
                let mut next = chart.clone();
                reference.push(&mut next, byte);
                reference.viable(&next).then_some(next)
            });
            for token in vocabulary.ids() {
                assert_eq!(
                    mask.contains(token),
                    expected.contains(token),
                    "token {token} {:?} in\n{source}",
                    String::from_utf8_lossy(vocabulary.bytes(token)),
                );
            }
            assert_eq!(matcher.accepting(), accepting, "{source}");
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

/// Compares masks on the real tokenizers, if available, for grammars without wide classes.
/// `FORMWORK_TEST_PAIRS` sets the number of masks for each.
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
