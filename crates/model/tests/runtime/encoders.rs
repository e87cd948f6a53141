//! Compares models of whole texts with Hugging Face transformers, on tiny random models.
//! `goldens/encoders/generate.py` generated the results.

use std::path::Path;

use formwork_lm::{Abilities, EncodedText, Pooling};
use formwork_model::{Checkpoint, Model, OpenOptions};
use formwork_vocab::TokenId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::converted_encoders::gguf;
use crate::published::{Golden, Stored, write_safetensors};
use crate::tiny;

/// A model, and the results that transformers computed with it.
#[derive(Deserialize)]
pub(crate) struct Encoder {
    #[serde(flatten)]
    pub(crate) golden: Golden,
    /// Index of the first token of the second text, for a reranker.
    second: Option<usize>,
    /// Output of the classifier.
    score: Option<f32>,
    /// Output of the model after its last norm. Shape: `[positions, hidden]`.
    states: Vec<Vec<f32>>,
    /// Mean of the output over all tokens.
    mean: Vec<f32>,
}

fn encoders() -> Vec<(String, Encoder)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtime/goldens/encoders");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
    };
    let mut encoders: Vec<(String, Encoder)> = files.map(read).collect();
    encoders.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(encoders.len(), 7);
    encoders
}

pub(crate) fn named(name: &str) -> Encoder {
    encoders().into_iter().find(|(own, _)| own == name).unwrap().1
}

fn assert_close(given: &[f32], expected: &[f32], place: &str) {
    assert_eq!(given.len(), expected.len(), "{place}");
    for (given, expected) in given.iter().zip(expected) {
        assert!((given - expected).abs() <= 1e-4, "{place}: {given} instead of {expected}");
    }
}

/// Combines the hidden states of a text. Shape of `states`: `[tokens, hidden]`.
fn pooled(states: &[f32], hidden: usize, pooling: Pooling) -> Vec<f32> {
    let rows = states.chunks_exact(hidden);
    match pooling {
        Pooling::First => rows.clone().next().unwrap().to_vec(),
        Pooling::Last => rows.last().unwrap().to_vec(),
        Pooling::Mean => {
            let count = rows.len() as f32;
            (0..hidden).map(|at| rows.clone().map(|row| row[at]).sum::<f32>() / count).collect()
        }
    }
}

impl Encoder {
    fn tokens(&self) -> Vec<TokenId> {
        self.golden.tokens.iter().copied().map(TokenId).collect()
    }

    /// Compares a model with the results of transformers, to 1e-4.
    fn assert_computed_by(&self, model: &Model, name: &str) {
        let tokens = self.tokens();
        let hidden = model.spec().unwrap().hidden;
        if self.second.is_none() {
            let states = model.hidden_states(&tokens).unwrap();
            let golden = std::iter::once(&self.golden.embedded).chain(&self.golden.layers);
            assert_eq!(states.len(), self.golden.layers.len() + 1, "{name}");
            for (index, (state, expected)) in states.iter().zip(golden).enumerate() {
                for (&position, expected) in self.golden.positions.iter().zip(expected) {
                    let given = &state[position * hidden..(position + 1) * hidden];
                    assert_close(given, expected, &format!("{name} after {index} layers at {position}"));
                }
            }
        }
        let mut decoder = model.language_model();
        let text = EncodedText { tokens: &tokens, second: self.second };
        // The same text beside others has the same bits.
        let other = EncodedText { tokens: &tokens[..5], second: None };
        let together = decoder.encode(&[other, text, other]).unwrap();
        let states = decoder.encode(&[text]).unwrap().remove(0);
        assert_eq!(together[1], states, "{name}");
        assert_eq!(together[0], together[2], "{name}");
        for (&position, expected) in self.golden.positions.iter().zip(&self.states) {
            let given = &states[position * hidden..(position + 1) * hidden];
            assert_close(given, expected, &format!("{name}, output at {position}"));
        }
        assert_close(&pooled(&states, hidden, Pooling::Mean), &self.mean, &format!("{name}, mean"));
        let Abilities { generates, ranking, .. } = decoder.abilities();
        assert_eq!(ranking.is_some(), self.score.is_some(), "{name}");
        if let (Some(ranking), Some(score)) = (ranking, self.score) {
            let probability = 1.0 / (1.0 + (-score).exp());
            let given = decoder.score(&pooled(&states, hidden, ranking.pooling)).unwrap();
            assert_close(&[given], &[probability], &format!("{name}, score"));
        }
        assert!(!generates || name == "qwen3-embedding", "{name}");
    }
}

#[test]
fn encoders_compute_what_transformers_does() {
    for (name, encoder) in encoders() {
        let folder = encoder.golden.checkpoint();
        let model =
            Model::open(folder.path(), OpenOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        encoder.assert_computed_by(&model, &name);
    }
}

#[test]
fn encoders_in_gguf_files_compute_what_transformers_does() {
    for (name, encoder) in encoders() {
        let model = tiny::open(&gguf(&encoder.golden, None)).unwrap_or_else(|e| panic!("{name}: {e}"));
        // The pooling of a reranker in this format is fixed, so its score is compared elsewhere.
        if encoder.score.is_none() {
            encoder.assert_computed_by(&model, &name);
        }
    }
}

#[test]
fn pooling_types_of_gguf_files_state_the_purpose() {
    let encoder = named("qwen3-embedding");
    let abilities = |pooling| {
        tiny::open(&gguf(&encoder.golden, Some(pooling))).map(|model| model.language_model().abilities())
    };
    assert!(abilities(0).unwrap().generates);
    for (pooling, expected) in [(1, Pooling::Mean), (2, Pooling::First), (3, Pooling::Last)] {
        let abilities = abilities(pooling).unwrap();
        let profile = abilities.embedding.unwrap();
        assert_eq!((profile.pooling, profile.width, abilities.generates), (expected, Some(64), false));
    }
    let error = abilities(9).unwrap_err().to_string();
    assert!(error.contains("qwen3.pooling_type"), "{error}");
    let reranker = named("bert-reranker");
    let model = tiny::open(&gguf(&reranker.golden, Some(4))).unwrap();
    reranker.assert_computed_by(&model, "bert-reranker");
}

/// Writes the files of sentence-transformers for the model in `folder`.
fn write_modules(folder: &Path, modules: &Value, files: &[(&str, Value)]) {
    std::fs::write(folder.join("modules.json"), modules.to_string()).unwrap();
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content.to_string()).unwrap();
    }
}

fn module(kind: &str, path: &str) -> Value {
    json!({ "idx": 0, "name": "0", "path": path, "type": format!("sentence_transformers.models.{kind}") })
}

#[test]
fn modules_of_sentence_transformers_are_read() {
    let encoder = named("embedding-gemma");
    let folder = encoder.golden.checkpoint();
    let modules = json!([
        module("Transformer", ""),
        module("Pooling", "1_Pooling"),
        module("Dense", "2_Dense"),
        module("Dense", "3_Dense"),
        module("Normalize", "4_Normalize"),
    ]);
    let dense = |inputs: usize, outputs: usize, activation: &str| {
        json!({ "in_features": inputs, "out_features": outputs, "bias": false,
                "activation_function": format!("torch.nn.modules.{activation}") })
    };
    let files = [
        (
            "1_Pooling/config.json",
            json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false }),
        ),
        ("2_Dense/config.json", dense(64, 96, "linear.Identity")),
        ("3_Dense/config.json", dense(96, 32, "activation.Tanh")),
        (
            "config_sentence_transformers.json",
            json!({ "prompts": { "query": "q: ", "document": "" }, "default_prompt_name": "query" }),
        ),
        ("sentence_bert_config.json", json!({ "max_seq_length": 41, "do_lower_case": false })),
    ];
    write_modules(folder.path(), &modules, &files);
    // Each output is a multiple of one input.
    let weight = |inputs: usize, outputs: usize| {
        let element = |at: usize| if at % inputs == at / inputs % inputs { 0.25f32 } else { 0.0 };
        let bytes = (0..inputs * outputs).flat_map(|at| element(at).to_le_bytes()).collect();
        Stored { name: "linear.weight".to_owned(), dtype: "F32", shape: vec![outputs, inputs], bytes }
    };
    write_safetensors(&folder.path().join("2_Dense/model.safetensors"), [weight(64, 96)]);
    write_safetensors(&folder.path().join("3_Dense/model.safetensors"), [weight(96, 32)]);
    let model = Model::open(folder.path(), OpenOptions::default()).unwrap();
    assert_eq!(model.context_len(), 41);
    let decoder = model.language_model();
    let profile = decoder.abilities().embedding.unwrap();
    assert_eq!((profile.width, profile.normalizes, profile.pooling), (Some(32), true, Pooling::Mean));
    assert_eq!((&*profile.prompts["query"], profile.default_prompt.as_deref()), ("q: ", Some("query")));
    let expected: Vec<f32> = encoder.mean[..32].iter().map(|x| (x / 16.0).tanh()).collect();
    assert_close(&decoder.project(encoder.mean.clone()), &expected, "two dense layers");
}

#[test]
fn faulty_modules_are_refused_by_name() {
    let encoder = named("bert");
    let pooling = || module("Pooling", "1_Pooling");
    let mean = || json!({ "pooling_mode_mean_tokens": true });
    for (modules, config, expected) in [
        (json!([module("Transformer", "")]), mean(), "modules.json: the module Pooling is missing"),
        (
            json!([module("Transformer", ""), pooling(), module("LSTM", "2_LSTM")]),
            mean(),
            "modules.json: metadata key \"2.type\" is sentence_transformers.models.LSTM: expected",
        ),
        (
            json!([module("Transformer", ""), module("Pooling", "../other")]),
            mean(),
            "modules.json: \"../other\" is not",
        ),
        (
            json!([module("Transformer", ""), pooling()]),
            json!({ "pooling_mode_max_tokens": true }),
            "1_Pooling/config.json: metadata key \"pooling_mode_max_tokens\" is true: expected",
        ),
        (
            json!([module("Transformer", ""), pooling()]),
            json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true }),
            "expected exactly one of cls, mean and lasttoken",
        ),
        (
            json!([module("Transformer", ""), pooling()]),
            json!({ "pooling_mode": "mean", "include_prompt": false }),
            "metadata key \"include_prompt\" is false",
        ),
        (
            json!([module("Transformer", ""), pooling(), module("Dense", "2_Dense")]),
            json!({ "pooling_mode": "mean", "in_features": 32, "out_features": 64,
                    "activation_function": "torch.nn.modules.activation.ReLU" }),
            "2_Dense/config.json: metadata key \"activation_function\" is torch.nn.modules.activation.ReLU",
        ),
    ] {
        let folder = encoder.golden.checkpoint();
        let files = [("1_Pooling/config.json", config.clone()), ("2_Dense/config.json", config)];
        write_modules(folder.path(), &modules, &files);
        let error = Checkpoint::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let folder = encoder.golden.checkpoint();
    let mut config = encoder.golden.config.clone();
    config.insert("hidden_act".to_owned(), "gelu_new".into());
    std::fs::write(folder.path().join("config.json"), Value::from(config).to_string()).unwrap();
    let error = Model::open(folder.path(), OpenOptions::default()).unwrap_err().to_string();
    assert!(error.contains("\"hidden_act\" is gelu_new: this architecture supports only gelu"), "{error}");
}

/// The files of Qwen3-Reranker are those of a language model, whose answers are `yes` and `no`.
#[test]
fn a_reranker_without_a_classifier_compares_two_answers() {
    let encoder = named("qwen3-embedding");
    let parent = encoder.golden.checkpoint();
    let folder = parent.path().join("Tiny-Reranker");
    std::fs::create_dir(&folder).unwrap();
    let tokenizer = json!({
        "version": "1.0",
        "added_tokens": [],
        "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE",
            "vocab": { "y": 0, "e": 1, "s": 2, "n": 3, "o": 4, "ye": 5, "yes": 6, "no": 7 },
            "merges": ["y e", "ye s", "n o"],
        },
    });
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(parent.path().join(file), folder.join(file)).unwrap();
    }
    let mut decoder = Model::open(&folder, OpenOptions::default()).unwrap().language_model();
    let abilities = decoder.abilities();
    let ranking = abilities.ranking.unwrap();
    assert!(!abilities.generates && abilities.embedding.is_none() && ranking.pooling == Pooling::Last);
    assert!(ranking.template.unwrap().contains("<Query>: {query}\n<Document>: {document}<|im_end|>"));
    let tokens = encoder.tokens();
    let states = decoder.encode(&[EncodedText { tokens: &tokens, second: None }]).unwrap().remove(0);
    let last = pooled(&states, 64, Pooling::Last);
    let embedding = encoder.golden.values("embed_tokens.weight");
    let logit = |token: usize| -> f32 {
        embedding[token * 64..(token + 1) * 64].iter().zip(&last).map(|(x, y)| x * y).sum()
    };
    let expected = 1.0 / (1.0 + (logit(7) - logit(6)).exp());
    assert_close(&[decoder.score(&last).unwrap()], &[expected], "score");
}
