//! Heads for drafts (multi-token prediction): what they predict, and that they change no output.

use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use formwork_engine::{Engine, EngineHandle, EngineOptions, Output, Request, Sampling};
use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_lm::{Batch, DraftRun, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_model::{Model, OpenOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde::Deserialize;

use crate::published::{Golden, goldens_in};
use crate::tiny::{self, append};
use crate::{converted, tiny::tokens as some_tokens};

const FOLDER: &str = "tests/runtime/goldens/drafts";
/// Positions of the results of `generate.py`.
const POSITIONS: [usize; 4] = [0, 1, 64, 98];
const VOCABULARY: u32 = 96;

/// Results of a head: for each position, the logits after one draft and after a second one.
#[derive(Deserialize)]
struct Drafts {
    drafts: Vec<[Vec<f32>; 2]>,
}

/// Returns the models with heads, their names, and the results of the heads.
fn models() -> Vec<(String, Golden, Drafts)> {
    let with_drafts = |(name, golden): (String, Golden)| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
        let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        (name, golden, serde_json::from_slice(&text).unwrap())
    };
    goldens_in(FOLDER).into_iter().map(with_drafts).collect()
}

/// Returns options that load the head.
fn with_head() -> OpenOptions {
    OpenOptions { draft_head: true, ..OpenOptions::default() }
}

/// Returns tokens that every model has.
fn tokens(len: usize, seed: usize) -> Vec<TokenId> {
    some_tokens(len, seed).into_iter().map(|token| TokenId(token.0 % VOCABULARY)).collect()
}

/// Returns the model as a GGUF file with matrices of type `dtype`.
fn gguf(golden: &Golden, dtype: GgmlDType) -> Vec<u8> {
    converted::gguf_with(&golden.with_last_layer_of_head(), dtype, Some(600))
}

impl Golden {
    /// Returns the model with the layer of its head as its last layer, as GGUF files have it.
    fn with_last_layer_of_head(&self) -> Self {
        let mut whole = self.clone();
        let layers = self.config["num_hidden_layers"].as_u64().unwrap();
        let of_head: Vec<String> =
            self.tensors.keys().filter(|name| name.starts_with("mtp.layers.0.")).cloned().collect();
        for name in of_head {
            let renamed = name.replacen("mtp.layers.0.", &format!("model.layers.{layers}."), 1);
            whole.changed.insert(renamed.clone(), self.values(&name));
            let shape = whole.tensors.remove(&name).unwrap();
            whole.tensors.insert(renamed, shape);
        }
        whole.config.insert("num_hidden_layers".to_owned(), (layers + 1).into());
        whole
    }

    /// Returns the model with smaller blocks, so that the next token depends mostly on the last one, and
    /// with a head that finds the same dependence.
    fn with_good_head(&self) -> Self {
        let mut good = self.clone();
        for (name, shape) in &self.tensors {
            let mut values = self.values(name);
            let is_output = ["o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj"];
            if is_output.iter().any(|end| name.ends_with(end)) {
                values = values.iter().map(|value| 0.1 * value).collect();
            }
            if name == "mtp.fc.weight" {
                // The vector of the token passes through, and that before it does not.
                let [rows, columns] = shape[..] else { panic!("a matrix") };
                let diagonal = |at: usize| if at % columns == at / columns { 1.0 } else { 0.0 };
                values = (0..rows * columns).map(diagonal).collect();
            }
            if name.starts_with("mtp.") && name.ends_with("norm.weight") && !name.contains("layers") {
                values.fill(0.0);
            }
            good.changed.insert(name.clone(), values);
        }
        good
    }
}

/// Drafts tokens after those of a sequence. Returns the logits after the last one.
fn draft(model: &mut dyn LanguageModel, sequence: SequenceId, tokens: &[TokenId]) -> Vec<f32> {
    let run = DraftRun { sequence, tokens, wanted: None };
    model.draft(&[run]).unwrap().row(0).to_vec()
}

fn assert_near(given: &[f32], expected: &[f32], place: &str) {
    assert_eq!(given.len(), expected.len(), "{place}");
    for (given, expected) in given.iter().zip(expected) {
        assert!((given - expected).abs() <= 1e-4, "{place}: {given} instead of {expected}");
    }
}

/// Compares heads from both formats with results of layers of transformers. Drafts follow prompts and
/// single tokens, one by one and together.
#[test]
fn heads_predict_what_their_definition_says() {
    for (name, golden, expected) in models() {
        let folder = golden.checkpoint();
        let safetensors = Model::open(folder.path(), with_head()).unwrap();
        let gguf = tiny::open_with(&gguf(&golden, GgmlDType::F32), with_head()).unwrap();
        let text: Vec<TokenId> = golden.tokens.iter().copied().map(TokenId).collect();
        for (format, model) in [("safetensors", safetensors), ("GGUF", gguf)] {
            golden.assert_computed_by(&model, &name);
            let model = &mut *model.language_model();
            assert!(model.has_draft_head());
            for (position, [first, second]) in POSITIONS.into_iter().zip(&expected.drafts) {
                let place = format!("{name}, {format}, {position}");
                let next = text[position + 1];
                let after = TokenId((3 * next.0 + 1) % VOCABULARY);
                let sequence = model.open();
                append(model, sequence, &text[..=position], Role::Prompt, Wanted::Nothing).unwrap();
                assert_near(&draft(model, sequence, &[next]), first, &place);
                assert_near(&draft(model, sequence, &[after]), second, &place);
                model.truncate(sequence, position + 1).unwrap();
                assert_near(&draft(model, sequence, &[next, after]), second, &place);
                let stepwise = model.open();
                for token in &text[..=position] {
                    append(model, stepwise, &[*token], Role::Generated, Wanted::All).unwrap();
                }
                assert_near(&draft(model, stepwise, &[next]), first, &place);
            }
        }
    }
}

/// Tests that drafts and removed tokens leave no trace, neither in the head nor in the model.
#[test]
fn a_head_depends_on_the_tokens_of_its_sequence_only() {
    for (name, golden, _) in models() {
        for dtype in [GgmlDType::F32, GgmlDType::Q8_0] {
            let file = gguf(&golden, dtype);
            let model = &mut *tiny::open_with(&file, with_head()).unwrap().language_model();
            let without = &mut *tiny::open(&file).unwrap().language_model();
            assert!(!without.has_draft_head());
            let text = tokens(300, 4);
            let of_fresh = |model: &mut dyn LanguageModel, len: usize| {
                let fresh = model.open();
                append(model, fresh, &text[..len], Role::Prompt, Wanted::Nothing).unwrap();
                draft(model, fresh, &text[len..len + 2])
            };
            let (used, plain) = (model.open(), without.open());
            append(model, used, &text[..130], Role::Prompt, Wanted::Nothing).unwrap();
            append(without, plain, &text[..130], Role::Prompt, Wanted::Nothing).unwrap();
            let mut at = 130;
            for accepted in [2, 0, 3, 1, 0] {
                draft(model, used, &tokens(3, at));
                let drafts: Vec<TokenId> =
                    text[at..=at + accepted].iter().copied().chain(tokens(4, at)).take(5).collect();
                let wanted = Wanted::Each(&[None; 5]);
                let run = Run { sequence: used, tokens: &drafts, role: Role::Generated, wanted };
                let rows = model.forward(&Batch { runs: vec![run] }).unwrap();
                for (row, token) in rows.rows(0).iter().zip(&text[at..=at + accepted]) {
                    let expected = append(without, plain, &[*token], Role::Generated, Wanted::All).unwrap();
                    assert_eq!(*row, expected, "{name}, {at}");
                }
                at += accepted + 1;
                model.truncate(used, at).unwrap();
                let expected = of_fresh(model, at);
                assert_eq!(draft(model, used, &text[at..at + 2]), expected, "{name}, {at}");
            }
            // Prefixes of prompts are shared up to a multiple of 64 tokens.
            let fork = model.fork(used, 128).unwrap();
            append(model, fork, &text[128..200], Role::Prompt, Wanted::Nothing).unwrap();
            let expected = of_fresh(model, 200);
            assert_eq!(draft(model, fork, &text[200..202]), expected, "{name}");
            let follower = model.fork(fork, 200).unwrap();
            assert_eq!(draft(model, follower, &text[200..202]), expected, "{name}");
            // After a cut at any other place, only the drafts may be worse.
            model.truncate(fork, 177).unwrap();
            let cut = append(model, fork, &text[177..200], Role::Prompt, Wanted::All).unwrap();
            let fresh = without.open();
            let expected = append(without, fresh, &text[..200], Role::Prompt, Wanted::All).unwrap();
            assert_eq!(cut, expected, "{name}");
            draft(model, fork, &text[200..202]);
        }
    }
}

#[test]
fn sequences_draft_together_as_alone() {
    // With 8 bits, a single row would have the largest logits only.
    let (_, golden, _) = &models()[0];
    let model = &mut *tiny::open_with(&gguf(golden, GgmlDType::F32), with_head()).unwrap().language_model();
    let texts: Vec<_> = [70, 3, 130].into_iter().enumerate().map(|(seed, len)| tokens(len, seed)).collect();
    let drafts: Vec<_> = [1, 3, 2].into_iter().enumerate().map(|(seed, len)| tokens(len, seed + 9)).collect();
    let opened = |model: &mut dyn LanguageModel, text: &[TokenId]| {
        let sequence = model.open();
        append(model, sequence, text, Role::Prompt, Wanted::Nothing).unwrap();
        sequence
    };
    let sequences: Vec<_> = texts.iter().map(|text| opened(model, text)).collect();
    let runs = sequences.iter().zip(&drafts);
    let runs: Vec<_> = runs.map(|(&sequence, tokens)| DraftRun { sequence, tokens, wanted: None }).collect();
    let together = model.draft(&runs).unwrap();
    for (index, (text, drafts)) in texts.iter().zip(&drafts).enumerate() {
        let alone = opened(model, text);
        assert_eq!(together.row(index), draft(model, alone, drafts), "{index}");
    }
    // Wrong calls change nothing.
    let closed = opened(model, &texts[0]);
    model.close(closed);
    for sequence in [closed, runs[0].sequence] {
        let wrong = [runs[0], DraftRun { sequence, ..runs[1] }];
        assert!(model.draft(&wrong).is_err());
    }
    let wrong = [DraftRun { tokens: &[TokenId(VOCABULARY)], ..runs[0] }];
    assert!(model.draft(&wrong).is_err());
    model.truncate(sequences[0], texts[0].len()).unwrap();
    assert_eq!(draft(model, sequences[0], &drafts[0]), together.row(0));
}

/// Token that ends a text.
const END: TokenId = TokenId(VOCABULARY - 1);

fn tokenizer() -> Arc<Tokenizer> {
    let letters = (0..VOCABULARY - 1).map(|at| Token { bytes: vec![b' ' + at as u8], kind: TokenKind::Text });
    let end = Token { bytes: b"<end>".to_vec(), kind: TokenKind::Control };
    let vocabulary = Vocabulary::new(letters.chain([end]).collect(), vec![END]).unwrap();
    Arc::new(Tokenizer::greedy(vocabulary))
}

fn engine(file: &[u8], options: OpenOptions, speculate: Option<usize>) -> EngineHandle {
    let model = tiny::open_with(file, options).unwrap().language_model();
    Engine::start(model, tokenizer(), EngineOptions { speculate, ..EngineOptions::default() })
}

/// Returns the texts of requests that run at the same time.
fn texts(engine: &EngineHandle, requests: Vec<Request>) -> Vec<String> {
    let generations: Vec<_> = requests.into_iter().map(|request| engine.generate(request).unwrap()).collect();
    let text = |mut generation: formwork_engine::Generation| {
        let mut text = String::new();
        loop {
            match generation.blocking_next() {
                Some(Output::Text(piece)) => text.push_str(&piece),
                Some(Output::Failed(error)) => panic!("{error}"),
                Some(Output::Finished(_)) | None => return text,
                Some(_) => {}
            }
        }
    };
    generations.into_iter().map(text).collect()
}

/// Compares greedy and sampled outputs of a model with its head, in which eight requests run together,
/// with those without it, in which each runs alone. Also checks 1,000 outputs under a grammar. The drafts
/// are usually right in one model, and hardly ever in the other.
#[test]
fn outputs_with_a_head_are_those_without_it() {
    let (_, golden, _) = &models()[0];
    let grammar =
        Grammar::gbnf("root ::= \"[\" [a-p]{9,30} (\", \" [a-p 0-9]{3,20})* \"]\"", &Limits::default());
    let constraint = Constraint::new(&grammar.unwrap(), Arc::clone(tokenizer().vocabulary())).unwrap();
    let request = |seed: usize, is_constrained: bool, temperature: f32| Request {
        max_tokens: Some(60),
        constraint: is_constrained.then(|| constraint.clone()),
        sampling: Sampling { temperature, seed: seed as u64, ..Sampling::default() },
        ..Request::new(tokens(20 + 13 * (seed % 8), seed % 8))
    };
    for (name, golden, rounds) in [("good", golden.with_good_head(), 115), ("random", golden.clone(), 10)] {
        let file = gguf(&golden, GgmlDType::Q8_0);
        let plain = engine(&file, OpenOptions::default(), Some(0));
        let drafting = engine(&file, with_head(), None);
        for round in 0..rounds {
            let requests = || -> Vec<Request> {
                let temperature = [0.0, 0.7][round % 2];
                (8 * round..8 * round + 8).map(|seed| request(seed, true, temperature)).collect()
            };
            let given = texts(&drafting, requests());
            // The first rounds are compared, and all outputs are checked.
            if round < 6 {
                let alone = requests().into_iter().flat_map(|request| texts(&plain, vec![request]));
                assert_eq!(given, alone.collect::<Vec<_>>(), "{name}, round {round}");
            }
            for text in &given {
                let mut matcher = constraint.matcher();
                assert!(matcher.commit_text(text.as_bytes()).is_ok(), "{text}");
                assert!(matcher.accepting(), "{text}");
            }
        }
        for temperature in [0.0, 0.7] {
            let requests = || (0..4).map(|seed| request(seed, false, temperature)).collect::<Vec<_>>();
            assert_eq!(texts(&drafting, requests()), texts(&plain, requests()), "{name}");
        }
        let stats = drafting.stats();
        println!("{name}: {} of {} drafts were right", stats.accepted_tokens, stats.drafted_tokens);
        assert_eq!(stats.replayed_tokens, 0);
        assert!(stats.drafted_tokens > 0);
        if name == "good" {
            assert!(2 * stats.accepted_tokens > stats.drafted_tokens);
        }
    }
}
