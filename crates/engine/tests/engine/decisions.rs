//! Tests of decisions against enumeration, and of their bits.

use std::sync::Arc;

use formwork_engine::{
    Decided, DecisionError, DecisionRequest, Enclosure, Ending, Engine, EngineHandle, EngineOptions,
    Question, SearchLimits, Visited,
};
use formwork_lm::ScriptedModel;
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};

use crate::fixture::{self, Shared, babble};

/// Tokens of the small vocabulary: texts, then two that end an answer and one control token.
const TEXTS: [&str; 8] = ["a", "b", "ab", "ba", "aba", "bab", "c", "\u{e9}"];
const ENDS: [TokenId; 2] = [TokenId(8), TokenId(9)];
const SIZE: usize = 11;

fn small_tokenizer() -> Arc<Tokenizer> {
    let texts = TEXTS.map(|text| Token { bytes: text.into(), kind: TokenKind::Text });
    let controls = ["</s>", "<end>", "ab"].map(|name| Token { bytes: name.into(), kind: TokenKind::Control });
    let vocabulary = Vocabulary::new(texts.into_iter().chain(controls).collect(), ENDS.to_vec()).unwrap();
    Arc::new(Tokenizer::greedy(vocabulary))
}

/// Starts an engine with the small vocabulary. Some rows have tokens of probability 0. The model has one
/// logit more than the vocabulary has tokens.
fn small_engine() -> EngineHandle {
    let model = ScriptedModel::new(SIZE + 1, 64, script);
    Engine::start(Box::new(model), small_tokenizer(), EngineOptions::default())
}

fn script(tokens: &[TokenId], row: &mut [f32]) {
    babble(tokens, row);
    if tokens.len().is_multiple_of(3) {
        row[0] = f32::NEG_INFINITY;
    }
    row[SIZE] = 9.0;
}

/// Returns the probability of each token after `tokens`.
fn probabilities(tokens: &[TokenId]) -> Vec<f64> {
    let mut row = vec![0.0; SIZE + 1];
    script(tokens, &mut row);
    let weights: Vec<f64> = row[..SIZE].iter().map(|&logit| f64::from(logit).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Returns the probability that the answer after `tokens` is `text`, or begins with it, by enumeration.
fn enumerated(tokens: &mut Vec<TokenId>, text: &[u8], ending: &Ending) -> f64 {
    if text.is_empty() && *ending == Ending::Open {
        return 1.0;
    }
    let probabilities = probabilities(tokens);
    let mut sum = 0.0;
    if let (true, Ending::Tokens(ends)) = (text.is_empty(), ending) {
        sum += ends.iter().map(|end| probabilities[end.index()]).sum::<f64>();
    }
    for (token, piece) in TEXTS.iter().enumerate() {
        let piece = piece.as_bytes();
        let rest = match text.strip_prefix(piece) {
            Some(rest) => rest,
            None if *ending == Ending::Open && piece.starts_with(text) => &[],
            None => continue,
        };
        tokens.push(TokenId(token as u32));
        sum += probabilities[token] * enumerated(tokens, rest, ending);
        tokens.pop();
    }
    sum
}

fn question(prompt: &[u32], options: &[&[&str]], ending: Ending) -> Question {
    let texts = |texts: &&[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Question {
        prompt: prompt.iter().copied().map(TokenId).collect(),
        options: options.iter().map(texts).collect(),
        ending,
        temperature: 1.0,
        visited: Visited::AsNeeded,
        sampler: None,
    }
}

fn request(questions: Vec<Question>, tolerance: f64, nodes: usize) -> DecisionRequest {
    DecisionRequest { questions, limits: SearchLimits { tolerance, nodes }, deadline: None, is_part: false }
}

fn decide(engine: &EngineHandle, request: DecisionRequest) -> Decided {
    engine.decide(request).unwrap().blocking_result().unwrap()
}

fn assert_close(given: f64, expected: f64) {
    assert!((given - expected).abs() <= 1e-12 * expected.max(1e-3), "{given} instead of {expected}");
}

#[test]
fn probabilities_equal_enumeration() {
    let engine = small_engine();
    // One option is the beginning of another one, two have the text of a control token, and one has two
    // texts.
    let options: &[&[&str]] = &[&["ab"], &["abab"], &["abababab", "c"], &["bab\u{e9}a"], &["a"]];
    let ends = [Ending::Tokens(ENDS.to_vec()), Ending::Tokens(vec![ENDS[1]])];
    let open: &[&[&str]] = &[&["abab"], &["ba", "c"], &["bb"], &["abc", "aa"]];
    for (options, ending) in [(options, &ends[0]), (options, &ends[1]), (open, &Ending::Open)] {
        let asked = question(&[3, 1, 2], options, ending.clone());
        let prompt = asked.prompt.clone();
        let decided = decide(&engine, request(vec![asked.clone()], 0.0, usize::MAX));
        let [enclosure] = &decided.enclosures[..] else { panic!("one question") };
        assert_eq!(enclosure.error.to_bits(), 0);
        assert_eq!(enclosure.ln_lower, enclosure.ln_upper);
        let expected = options.iter().map(|texts| {
            texts.iter().map(|text| enumerated(&mut prompt.clone(), text.as_bytes(), ending)).sum::<f64>()
        });
        let expected: Vec<f64> = expected.collect();
        for (ln, &expected) in enclosure.ln_lower.iter().zip(&expected) {
            assert_close(ln.exp(), expected);
        }
        assert_close(enclosure.mass(), expected.iter().sum());
        assert_close(enclosure.shares().unwrap().iter().sum(), 1.0);
    }
}

#[test]
fn all_texts_together_have_probability_one() {
    let engine = small_engine();
    let letters = ["a", "b", "c", "\u{e9}"];
    let mut texts: Vec<String> = letters.map(str::to_owned).into();
    for length in 1..4 {
        let longest: Vec<String> =
            texts.iter().filter(|text| text.chars().count() == length).cloned().collect();
        texts.extend(longest.iter().flat_map(|text| letters.map(|letter| format!("{text}{letter}"))));
    }
    // The first token ends the answer, is a control token, or begins an answer of at most four letters
    // or a longer one.
    let ended: Vec<&[String]> = texts.iter().map(std::slice::from_ref).collect();
    let asked = Question {
        prompt: vec![TokenId(4)],
        options: ended.iter().map(|texts| texts.to_vec()).collect(),
        ending: Ending::Tokens((8..11).map(TokenId).collect()),
        temperature: 1.0,
        visited: Visited::AsNeeded,
        sampler: None,
    };
    let short = decide(&engine, request(vec![asked], 0.0, usize::MAX)).enclosures[0].mass();
    let longer = texts.iter().filter(|text| text.chars().count() == 4);
    let longer = longer.flat_map(|text| letters.map(|letter| vec![format!("{text}{letter}")])).collect();
    let asked = Question {
        prompt: vec![TokenId(4)],
        options: longer,
        ending: Ending::Open,
        temperature: 1.0,
        visited: Visited::AsNeeded,
        sampler: None,
    };
    let long = decide(&engine, request(vec![asked], 0.0, usize::MAX)).enclosures[0].mass();
    let none: f64 = probabilities(&[TokenId(4)])[8..11].iter().sum();
    assert_close(short + long + none, 1.0);
}

#[test]
fn the_enclosure_holds_at_every_limit() {
    let engine = small_engine();
    let options: &[&[&str]] = &[&["abab"], &["abababab"], &["babab"], &["aab"]];
    let asked = || question(&[1], options, Ending::Tokens(ENDS.to_vec()));
    let exact = decide(&engine, request(vec![asked()], 0.0, usize::MAX)).enclosures.remove(0);
    let shares = exact.shares().unwrap();
    let mut before = f64::INFINITY;
    assert!(exact.nodes > 30);
    for nodes in 0..=exact.nodes {
        let bounds = decide(&engine, request(vec![asked()], 0.0, nodes)).enclosures.remove(0);
        assert!(bounds.nodes <= nodes);
        assert!(bounds.error <= before, "the error grows from {before} to {} at {nodes}", bounds.error);
        before = bounds.error;
        for (option, &ln) in exact.ln_lower.iter().enumerate() {
            let (lower, upper) = (bounds.ln_lower[option], bounds.ln_upper[option]);
            assert!(lower <= ln + 1e-12 && ln <= upper + 1e-12, "{lower} <= {ln} <= {upper} at {nodes}");
        }
        for (given, exact) in bounds.shares().unwrap().iter().zip(&shares) {
            assert!((given - exact).abs() <= bounds.error + 1e-12, "{given} is far from {exact} at {nodes}");
        }
    }
    assert_eq!(before.to_bits(), 0);
    let hot = Question { temperature: 8.0, ..asked() };
    let hot = decide(&engine, request(vec![hot], 0.01, usize::MAX)).enclosures.remove(0);
    let every = Question { visited: Visited::All, ..asked() };
    let every = decide(&engine, request(vec![every], 1.0, 1024)).enclosures.remove(0);
    assert!(every.nodes < exact.nodes && every.ln_lower.iter().all(|ln| ln.is_finite()));
    let loose = decide(&engine, request(vec![asked()], 0.01, usize::MAX)).enclosures.remove(0);
    assert!(hot.error <= 0.01 && hot.error.to_bits() != loose.error.to_bits());
    assert!(loose.error <= 0.01 && loose.nodes < exact.nodes);
}

/// Returns the bits of all numbers of an enclosure.
fn bits(enclosure: &Enclosure) -> Vec<u64> {
    let Enclosure { ln_lower, ln_upper, error, nodes, prompt_tokens } = enclosure;
    let numbers = ln_lower.iter().chain(ln_upper).chain([error]).map(|number| number.to_bits());
    numbers.chain([*nodes as u64, *prompt_tokens as u64]).collect()
}

/// Returns a question with a prompt that begins like those of all others.
fn shared_question(index: usize) -> Question {
    let mut prompt: Vec<TokenId> = (0..200).map(|at| TokenId(at * at % 250)).collect();
    prompt.extend((0..5 + index % 40).map(|at| TokenId((at * index) as u32 % 250)));
    let options = ["true", "false", "maybe", "true]]"];
    let options = options[..2 + index % 3].iter().map(|&option| vec![option.to_owned()]).collect();
    let ending = if index.is_multiple_of(3) { Ending::Open } else { Ending::Tokens(vec![fixture::END]) };
    Question { prompt, options, ending, temperature: 1.0, visited: Visited::AsNeeded, sampler: None }
}

#[test]
fn a_question_has_the_same_bits_alone_and_among_others() {
    let start = |options: EngineOptions| {
        let model = ScriptedModel::new(fixture::VOCABULARY, 1024, babble);
        Engine::start(Box::new(model), fixture::tokenizer(), options)
    };
    let limits = SearchLimits { tolerance: 1e-9, nodes: 40 };
    let all: Vec<Question> = (0..150).map(shared_question).collect();
    let ask = |engine: &EngineHandle, questions: Vec<Question>| {
        decide(engine, DecisionRequest { questions, limits, deadline: None, is_part: false })
    };
    let engine = start(EngineOptions::default());
    let together = ask(&engine, all.clone());
    assert_eq!((together.cached_tokens, together.enclosures.len()), (0, 150));
    let expected: Vec<Vec<u64>> = together.enclosures.iter().map(bits).collect();
    // From the cache, in another order, with other passes, and twice.
    let warm = ask(&engine, all.iter().rev().cloned().collect());
    assert_eq!(warm.cached_tokens, 192);
    let reversed: Vec<Vec<u64>> = warm.enclosures.iter().rev().map(bits).collect();
    assert_eq!(reversed, expected);
    let narrow = start(EngineOptions {
        parallel: 1,
        step_tokens: 7,
        prefix_cache_bytes: 0,
        ..EngineOptions::default()
    });
    let again: Vec<Vec<u64>> = ask(&narrow, all.clone()).enclosures.iter().map(bits).collect();
    assert_eq!(again, expected);
    for index in [0, 1, 2, 77, 149] {
        let twice = ask(&narrow, vec![all[index].clone(), all[index].clone()]);
        assert_eq!(bits(&twice.enclosures[0]), expected[index]);
        assert_eq!(bits(&twice.enclosures[1]), expected[index]);
    }
}

#[test]
fn a_cancelled_or_finished_request_leaves_no_sequence() {
    let shared = Shared::new(ScriptedModel::new(fixture::VOCABULARY, 4096, babble));
    let options = EngineOptions { prefix_cache_bytes: 0, ..EngineOptions::default() };
    let engine = Engine::start(Box::new(shared.clone()), fixture::tokenizer(), options);
    let limits = SearchLimits { tolerance: 0.0, nodes: 100 };
    let questions: Vec<Question> = (0..400).map(shared_question).collect();
    let request = DecisionRequest { questions, limits, deadline: None, is_part: false };
    engine.decide(request.clone()).unwrap().blocking_result().unwrap();
    assert_eq!((shared.open_sequences(), engine.stats().decisions), (0, 400));
    drop(engine.decide(request.clone()).unwrap());
    let next = DecisionRequest { questions: vec![shared_question(1)], ..request.clone() };
    engine.decide(next).unwrap().blocking_result().unwrap();
    assert_eq!((shared.open_sequences(), engine.stats().cancelled), (0, 1));
    let late = DecisionRequest { deadline: Some(std::time::Instant::now()), ..request };
    let error = engine.decide(late).unwrap().blocking_result().unwrap_err();
    assert!(error.is_deadline());
    assert_eq!(shared.open_sequences(), 0);
}

#[test]
fn faulty_options_are_refused() {
    let engine = small_engine();
    let ended = || Ending::Tokens(ENDS.to_vec());
    let refused = |options: &[&[&str]], ending| {
        let asked = question(&[1], options, ending);
        engine.decide(request(vec![asked], 0.0, 1)).unwrap_err()
    };
    assert!(matches!(refused(&[&["a"], &[""]], ended()), DecisionError::EmptyText { option: 1 }));
    assert!(matches!(refused(&[&["a"], &[]], ended()), DecisionError::EmptyText { option: 1 }));
    assert!(matches!(
        refused(&[&["a"], &["b"], &["c", "a"]], ended()),
        DecisionError::RepeatedText { option: 2 }
    ));
    assert!(matches!(refused(&[&["a"], &["ax"]], ended()), DecisionError::Unspellable { option: 1 }));
    let error = refused(&[&["abb"], &["ab"]], Ending::Open);
    assert!(matches!(error, DecisionError::PrefixText { option: 1, longer: 0 }));
    let long = question(&[1; 60], &[&["aaaa"], &["aaaaa"]], ended());
    let error = engine.decide(request(vec![long], 0.0, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "this model's maximum context length is 64 tokens; the prompt of question 0 has 60 tokens, and its \
         longest option needs up to 5"
    );
    assert!(engine.decide(request(Vec::new(), 0.0, 1)).is_err());
    assert!(engine.decide(request(vec![question(&[], &[&["a"]], ended())], 0.0, 1)).is_err());
}
