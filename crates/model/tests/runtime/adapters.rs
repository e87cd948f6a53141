//! Adapters in both formats on checkpoints in both formats.
//!
//! An adapter must give the results of a model whose matrices contain its change.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use formwork_lm::{AdapterId, Batch, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_model::gguf::Gguf;
use formwork_model::{AdapterFile, LoadError, Model, OpenOptions};
use formwork_vocab::{TokenId, TokenSet};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::converted;
use crate::published::{Golden, Stored, goldens, goldens_in, write_safetensors};
use crate::tiny::{self, append};
use crate::writer::Writer;

const RANK: usize = 4;
const ALPHA: f32 = 6.0;
const SCALE: f32 = ALPHA / RANK as f32;
/// Maximum difference of a logit, relative to the largest one.
const CLOSE: f32 = 1e-4;
const FIRST: AdapterId = AdapterId(0);

/// A change of one matrix.
#[derive(Clone)]
struct Change {
    /// Name of the matrix in safetensors, with `.weight`.
    name: String,
    /// Numbers of outputs and inputs.
    shape: [usize; 2],
    /// Shape: `[RANK, inputs]`.
    a: Vec<f32>,
    /// Shape: `[outputs, RANK]`.
    b: Vec<f32>,
}

impl Change {
    fn is_embedding(&self) -> bool {
        self.name.contains("embed")
    }

    /// Returns the name of the module in a PEFT file.
    fn module(&self) -> &str {
        self.name.trim_end_matches(".weight")
    }

    /// Returns the matrix of `golden` with this change.
    fn merged(&self, golden: &Golden) -> Vec<f32> {
        let [rows, columns] = self.shape;
        let mut values = golden.values(&self.name);
        for row in 0..rows {
            for column in 0..columns {
                let product = |rank: usize| self.b[row * RANK + rank] * self.a[rank * columns + column];
                values[row * columns + column] += SCALE * (0..RANK).map(product).sum::<f32>();
            }
        }
        values
    }
}

/// Returns small pseudo-random numbers that depend on `seed`.
fn noise(seed: &str, len: usize, size: f32) -> Vec<f32> {
    let mut state = seed.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * size
    };
    (0..len).map(next).collect()
}

/// Returns changes of all matrices of a model that an adapter can change. `seed` distinguishes adapters.
fn changes(golden: &Golden, seed: &str) -> Vec<Change> {
    let is_untied = golden.tensors.contains_key("lm_head.weight");
    let others = ["conv", "vision", "visual", "multi_modal", "per_layer.weight"];
    let is_changed = |(name, shape): &(&String, &Vec<usize>)| {
        let is_embedding = name.contains("embed");
        shape.len() == 2
            && name.ends_with(".weight")
            && (!is_embedding || is_untied)
            && !others.iter().any(|other| {
                name.contains(other) && !name.contains("conv.in_proj") && !name.contains("conv.out_proj")
            })
    };
    let change = |(name, shape): (&String, &Vec<usize>)| {
        let shape = [shape[0], shape[1]];
        let size = 1.0 / (shape[1] as f32).sqrt();
        let a = noise(&format!("{seed} a {name}"), RANK * shape[1], size);
        let b = noise(&format!("{seed} b {name}"), shape[0] * RANK, 0.5);
        Change { name: name.clone(), shape, a, b }
    };
    golden.tensors.iter().filter(is_changed).map(change).collect()
}

/// Returns the model with the changes in its matrices.
fn merged(golden: &Golden, changes: &[Change]) -> Golden {
    let mut merged = golden.clone();
    merged.changed = changes.iter().map(|change| (change.name.clone(), change.merged(golden))).collect();
    merged
}

fn config() -> Value {
    json!({"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", "target_modules": "all-linear"})
}

fn stored(name: String, shape: [usize; 2], values: &[f32]) -> Stored {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Stored { name, dtype: "F32", shape: shape.to_vec(), bytes }
}

/// Returns the tensors of a PEFT file.
fn peft_tensors(changes: &[Change]) -> Vec<Stored> {
    let tensors = changes.iter().flat_map(|change| {
        let name = |side: &str| format!("base_model.model.{}.lora_{side}", change.module());
        let [rows, columns] = change.shape;
        if change.is_embedding() {
            // PEFT stores the factors of the transposed matrix. Shapes: `[RANK, vocabulary]` and
            // `[hidden, RANK]`.
            let a = (0..RANK * rows).map(|at| change.b[at % rows * RANK + at / rows]).collect::<Vec<_>>();
            let b =
                (0..columns * RANK).map(|at| change.a[at % RANK * columns + at / RANK]).collect::<Vec<_>>();
            return [
                stored(name("embedding_A"), [RANK, rows], &a),
                stored(name("embedding_B"), [columns, RANK], &b),
            ];
        }
        [
            stored(name("A.weight"), [RANK, columns], &change.a),
            stored(name("B.default.weight"), [rows, RANK], &change.b),
        ]
    });
    tensors.collect()
}

fn peft(changes: &[Change]) -> TempDir {
    peft_with(&config(), peft_tensors(changes))
}

fn peft_with(config: &Value, tensors: Vec<Stored>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("adapter_config.json"), config.to_string()).unwrap();
    write_safetensors(&folder.path().join("adapter_model.safetensors"), tensors);
    folder
}

/// Writes an adapter as llama.cpp's converter does.
fn gguf(golden: &Golden, changes: &[Change]) -> Vec<u8> {
    let mut writer = adapter_writer(converted::architecture(golden.model_type()));
    for change in changes {
        if change.name.contains("experts.") && !change.name.contains("shared_experts") {
            continue;
        }
        let [rows, columns] = change.shape;
        let converted = |shape: [usize; 2], values: &[f32]| {
            let mut model = golden.clone();
            model.tensors.insert(change.name.clone(), shape.to_vec());
            model.changed = BTreeMap::from([(change.name.clone(), values.to_vec())]);
            let mut writer = Writer::default();
            converted::write_tensor(&model, &mut writer, &change.name);
            read_tensor(&writer.finish())
        };
        let (name, _) = converted([rows, columns], &vec![0.0; rows * columns]);
        if change.is_embedding() {
            // The first matrix is transposed.
            write(&mut writer, &(name.clone() + ".lora_a"), &[RANK, rows], &change.b);
            let b: Vec<f32> =
                (0..columns * RANK).map(|at| change.a[at % RANK * columns + at / RANK]).collect();
            write(&mut writer, &(name + ".lora_b"), &[RANK, columns], &b);
            continue;
        }
        // The order of the columns of one matrix differs between the formats, and the order of the rows of
        // others.
        let is_by_column = change.name.ends_with("linear_attn.out_proj.weight");
        let a = if is_by_column { converted([RANK, columns], &change.a).1 } else { change.a.clone() };
        let b = if is_by_column { change.b.clone() } else { converted([rows, RANK], &change.b).1 };
        write(&mut writer, &(name.clone() + ".lora_a"), &[columns, RANK], &a);
        write(&mut writer, &(name + ".lora_b"), &[RANK, rows], &b);
    }
    experts(&mut writer, changes);
    writer.finish()
}

/// Writes the changes of experts, stacked by layer.
fn experts(writer: &mut Writer, changes: &[Change]) {
    let mut stacks: BTreeMap<(usize, &str), BTreeMap<usize, &Change>> = BTreeMap::new();
    for change in changes {
        let Some((block, rest)) = change.name.split_once(".experts.") else { continue };
        let (expert, part) = rest.split_once('.').unwrap();
        let part = match part {
            "gate_proj.weight" | "w1.weight" => "gate",
            "down_proj.weight" | "w2.weight" => "down",
            _ => "up",
        };
        let layer = block.split_once("layers.").unwrap().1.split('.').next().unwrap();
        let stack = stacks.entry((layer.parse().unwrap(), part)).or_default();
        stack.insert(expert.parse().unwrap(), change);
    }
    for ((layer, part), stack) in stacks {
        let [rows, columns] = stack[&0].shape;
        let name = format!("blk.{layer}.ffn_{part}_exps.weight");
        let [a, b] = [|change: &Change| change.a.clone(), |change: &Change| change.b.clone()]
            .map(|side| stack.values().flat_map(|change| side(change)).collect::<Vec<f32>>());
        write(writer, &format!("{name}.lora_a"), &[columns, RANK, stack.len()], &a);
        write(writer, &format!("{name}.lora_b"), &[RANK, rows, stack.len()], &b);
    }
}

fn adapter_writer(architecture: &str) -> Writer {
    let mut writer = Writer::default();
    writer.string("general.type", "adapter");
    writer.string("general.architecture", architecture);
    writer.string("adapter.type", "lora");
    writer.f32("adapter.lora.alpha", ALPHA);
    writer
}

fn write(writer: &mut Writer, name: &str, shape: &[usize], values: &[f32]) {
    let shape: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
    writer.tensor(name, &shape, GgmlDType::F32, values);
}

/// Returns the name and the elements of the only tensor of a GGUF file.
fn read_tensor(file: &[u8]) -> (String, Vec<f32>) {
    let on_disk = on_disk(file);
    let gguf = Gguf::open(on_disk.path()).unwrap();
    let [tensor] = gguf.tensors() else { panic!("{} tensors", gguf.tensors().len()) };
    let bytes = &file[tensor.offset..tensor.offset + tensor.byte_len];
    (tensor.name.clone(), bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn on_disk(file: &[u8]) -> tempfile::NamedTempFile {
    let on_disk = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(on_disk.path(), file).unwrap();
    on_disk
}

fn with_adapter(mut model: Model, path: &Path) -> Result<Model, LoadError> {
    model.add_adapter("one", &AdapterFile::open(path)?, 1.0)?;
    Ok(model)
}

fn in_folder(golden: &Golden) -> Model {
    Model::open(golden.checkpoint().path(), OpenOptions::default()).unwrap()
}

fn in_gguf(golden: &Golden) -> Model {
    tiny::open(&converted::gguf(golden)).unwrap()
}

/// Computes the logits after each token of the golden text.
fn logits(golden: &Golden, model: &Model, adapter: Option<AdapterId>) -> Vec<Vec<f32>> {
    let mut model = model.language_model();
    let sequence = match adapter {
        Some(adapter) => model.open_with(adapter).unwrap(),
        None => model.open(),
    };
    let tokens: Vec<TokenId> = golden.tokens.iter().copied().map(TokenId).collect();
    rows(&mut *model, sequence, &tokens)
}

fn rows(model: &mut dyn LanguageModel, sequence: SequenceId, tokens: &[TokenId]) -> Vec<Vec<f32>> {
    let wanted = vec![None; tokens.len()];
    let run = Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::Each(&wanted) };
    model.forward(&Batch { runs: vec![run] }).unwrap().rows(0).to_vec()
}

fn distance(given: &[Vec<f32>], expected: &[Vec<f32>]) -> f32 {
    let expected = expected.concat();
    let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let pairs = given.iter().flatten().zip(&expected);
    pairs.fold(0.0f32, |most, (given, expected)| most.max((given - expected).abs())) / largest
}

fn small() -> impl Iterator<Item = (String, Golden)> {
    goldens().into_iter().filter(|(name, _)| name.ends_with("-64"))
}

/// Matrices that are stored differently in the two formats, so that an adapter in one format does not
/// fit a checkpoint in the other.
const SAME_FORMAT_ONLY: [&str; 3] =
    ["self_attn.kv_b_proj", "linear_attn.in_proj_qkvz", "shared_mlp.input_linear"];

fn has_both_formats(change: &Change) -> bool {
    !SAME_FORMAT_ONLY.iter().any(|name| change.name.contains(name))
}

#[test]
fn a_peft_adapter_equals_merged_weights() {
    for (name, golden) in small() {
        let changes = changes(&golden, "one");
        let adapter = peft(&changes);
        let model = with_adapter(in_folder(&golden), adapter.path()).unwrap();
        let expected = logits(&golden, &in_folder(&merged(&golden, &changes)), None);
        let base = logits(&golden, &model, None);
        assert!(distance(&base, &expected) > 0.02, "{name}: the adapter changes too little");
        let distance = distance(&logits(&golden, &model, Some(FIRST)), &expected);
        assert!(distance < CLOSE, "{name}: {distance}");
        assert_eq!(base, logits(&golden, &in_folder(&golden), None), "{name}: the base without an adapter");
    }
}

/// Adapters leave the head for drafts as it is. Its matrices must not shift those that they change.
#[test]
fn an_adapter_equals_merged_weights_beside_a_head_for_drafts() {
    for (name, golden) in goldens_in("tests/runtime/goldens/drafts") {
        let mut changes = changes(&golden, "one");
        changes.retain(|change| !change.name.starts_with("mtp."));
        let options = OpenOptions { draft_head: true, ..OpenOptions::default() };
        let open = |golden: &Golden| Model::open(golden.checkpoint().path(), options).unwrap();
        let model = with_adapter(open(&golden), peft(&changes).path()).unwrap();
        assert!(model.language_model().has_draft_head());
        let expected = logits(&golden, &open(&merged(&golden, &changes)), None);
        let distance = distance(&logits(&golden, &model, Some(FIRST)), &expected);
        assert!(distance < CLOSE, "{name}: {distance}");
    }
}

#[test]
fn a_peft_adapter_fits_a_gguf_file() {
    for (name, golden) in small() {
        let (changes, others): (Vec<_>, Vec<_>) =
            changes(&golden, "two").into_iter().partition(has_both_formats);
        let model = with_adapter(in_gguf(&golden), peft(&changes).path());
        let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = logits(&golden, &in_gguf(&merged(&golden, &changes)), None);
        let distance = distance(&logits(&golden, &model, Some(FIRST)), &expected);
        assert!(distance < CLOSE, "{name}: {distance}");
        for other in others {
            let error = with_adapter(in_gguf(&golden), peft(&[other]).path()).unwrap_err().to_string();
            assert!(error.contains("lora_"), "{name}: {error}");
        }
    }
}

#[test]
fn a_gguf_adapter_equals_merged_weights_in_both_formats() {
    for (name, golden) in small() {
        let changes: Vec<_> = changes(&golden, "three").into_iter().filter(has_both_formats).collect();
        let file = on_disk(&gguf(&golden, &changes));
        let expected = logits(&golden, &in_folder(&merged(&golden, &changes)), None);
        for model in [in_gguf(&golden), in_folder(&golden)] {
            let kind = if model.checkpoint().path().is_dir() { "a folder" } else { "a file" };
            let model = with_adapter(model, file.path());
            let model = model.unwrap_or_else(|error| panic!("{name}: {error}"));
            let distance = distance(&logits(&golden, &model, Some(FIRST)), &expected);
            assert!(distance < 4.0 * CLOSE, "{name} in {kind}: {distance}");
        }
    }
}

/// Models with different mixers, feed-forward blocks and orders of rows.
const SEVERAL: [&str; 8] = [
    "deepseek-v3-64",
    "gemma4-e-64",
    "granite-hybrid-64",
    "lfm2-64",
    "llama-64",
    "mixtral-64",
    "phi3-64",
    "qwen3.5-64",
];

/// Calls `check` for models with two adapters, with several types of weights.
fn each_model(check: impl Fn(&str, &mut dyn LanguageModel)) {
    for (name, golden) in small().filter(|(name, _)| SEVERAL.contains(&name.as_str())) {
        for dtype in [GgmlDType::F32, GgmlDType::Q8_0, GgmlDType::Q4_0] {
            let mut model = tiny::open(&converted::gguf_with(&golden, dtype, Some(600))).unwrap();
            for seed in ["one", "two"] {
                let changes: Vec<_> = changes(&golden, seed).into_iter().filter(has_both_formats).collect();
                let file = AdapterFile::open(peft(&changes).path()).unwrap();
                model.add_adapter(seed, &file, 1.0).unwrap();
            }
            assert!(model.adapter_bytes() > 0);
            let model = &mut *model.language_model();
            assert_eq!(model.adapters(), ["one", "two"]);
            check(&format!("{name} in {dtype:?}"), model);
        }
    }
}

fn open(model: &mut dyn LanguageModel, adapter: Option<u32>) -> SequenceId {
    match adapter {
        Some(adapter) => model.open_with(AdapterId(adapter)).unwrap(),
        None => model.open(),
    }
}

/// Returns tokens that every model has. They depend on `seed`.
fn text(len: usize, seed: usize) -> Vec<TokenId> {
    tiny::tokens(len, seed).into_iter().map(|token| TokenId(token.0 % 96)).collect()
}

#[test]
fn a_batch_mixes_adapters_without_changing_a_bit() {
    each_model(|name, model| {
        let adapters = [Some(1), None, Some(0), Some(1), Some(0), None];
        let texts: Vec<_> = [40, 90, 3, 1, 130, 7].iter().enumerate().map(|(s, &len)| text(len, s)).collect();
        // Alone, token by token and in pieces.
        let alone: Vec<_> = adapters
            .iter()
            .zip(&texts)
            .map(|(&adapter, text)| {
                let [pieces, single] = [(); 2].map(|()| open(model, adapter));
                for piece in text[..text.len() - 1].chunks(19) {
                    append(model, pieces, piece, Role::Prompt, Wanted::Nothing).unwrap();
                }
                let last = &text[text.len() - 1..];
                let expected = append(model, pieces, last, Role::Generated, Wanted::All).unwrap();
                for token in text {
                    append(model, single, &[*token], Role::Generated, Wanted::Nothing).unwrap();
                }
                model.truncate(single, text.len() - 1).unwrap();
                let given = append(model, single, last, Role::Generated, Wanted::All).unwrap();
                assert_eq!(given, expected, "{name}, token by token");
                expected
            })
            .collect();
        let sequences: Vec<_> = adapters.iter().map(|&adapter| open(model, adapter)).collect();
        let runs = sequences.iter().zip(&texts);
        let runs =
            runs.map(|(&sequence, tokens)| Run { sequence, tokens, role: Role::Prompt, wanted: Wanted::All });
        let given = model.forward(&Batch { runs: runs.collect() }).unwrap();
        for (index, expected) in alone.iter().enumerate() {
            assert_eq!(given.row(index), expected, "{name}, run {index}");
        }
    });
}

#[test]
fn a_fork_keeps_the_adapter_and_the_base_stays_as_it_is() {
    each_model(|name, model| {
        let (prompt, more) = (text(70, 3), text(5, 4));
        let [base, own, other] = [None, Some(0), Some(1)].map(|adapter| {
            let sequence = open(model, adapter);
            append(model, sequence, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
            let fork = model.fork(sequence, 67).unwrap();
            let expected = append(model, sequence, &more, Role::Generated, Wanted::All).unwrap();
            append(model, fork, &prompt[67..], Role::Prompt, Wanted::Nothing).unwrap();
            assert_eq!(append(model, fork, &more, Role::Generated, Wanted::All).unwrap(), expected, "{name}");
            expected
        });
        assert!(base != own && own != other && base != other, "{name}");
        let unknown = model.open_with(AdapterId(2)).unwrap_err();
        assert_eq!(unknown.to_string(), "adapter 2 is unknown; the model has 2 adapters");
    });
}

#[test]
fn a_changed_head_computes_the_requested_tokens() {
    each_model(|name, model| {
        let prompt = text(9, 5);
        for (count, adapter) in [(3, Some(0)), (60, Some(0)), (96, Some(1)), (60, None)] {
            let mut set = TokenSet::empty(model.vocab_size());
            (0..count).for_each(|token| set.insert(TokenId(token)));
            let sequence = open(model, adapter);
            let all = append(model, sequence, &prompt, Role::Prompt, Wanted::All).unwrap();
            let masked = formwork_lm::masked(all.clone(), Some(&set));
            model.truncate(sequence, 0).unwrap();
            let only = append(model, sequence, &prompt, Role::Prompt, Wanted::Only(&set)).unwrap();
            assert_eq!(only, masked, "{name}");
            model.truncate(sequence, 0).unwrap();
            let largest =
                append(model, sequence, &prompt, Role::Prompt, Wanted::Largest(Some(&set))).unwrap();
            let most = masked.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for (given, expected) in largest.iter().zip(&masked) {
                assert!(
                    given.to_bits() == expected.to_bits() || *expected < most && *given == f32::NEG_INFINITY,
                    "{name}"
                );
            }
        }
    });
}

fn llama() -> Golden {
    small().find(|(name, _)| name == "llama-64").unwrap().1
}

/// Returns the message of the error for a PEFT adapter on a tiny model, without the path.
fn fault(config: &Value, tensors: Vec<Stored>) -> String {
    let folder = peft_with(config, tensors);
    let error = with_adapter(in_folder(&llama()), folder.path()).unwrap_err();
    assert!(error.path().starts_with(folder.path()), "{error}");
    error
        .to_string()
        .rsplit_once(".json: ")
        .or(error.to_string().rsplit_once(".safetensors: "))
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn refuses_configurations_that_need_other_computations() {
    let changes = changes(&llama(), "one");
    let with = |key: &str, value: Value| {
        let mut config = config();
        config[key] = value;
        fault(&config, peft_tensors(&changes))
    };
    assert_eq!(with("use_dora", json!(true)), "metadata key \"use_dora\" is true: DoRA is not supported");
    assert_eq!(
        with("modules_to_save", json!(["lm_head"])),
        "metadata key \"modules_to_save\" is [\"lm_head\"]: modules that are trained as a whole are not supported"
    );
    assert!(with("bias", json!("all")).ends_with("trained biases are not supported; expected \"none\""));
    assert!(with("peft_type", json!("IA3")).ends_with("expected \"LORA\""));
    assert!(with("fan_in_fan_out", json!(true)).ends_with("transposed matrices are not supported"));
    assert!(with("init_lora_weights", json!("pissa_niter_4")).contains("changed weights"));
    assert!(
        with("alpha_pattern", json!({"layers.*.q_proj": 3})).contains("other patterns are not supported")
    );
    assert!(with("r", json!(8)).contains("has shape [4, 96], expected [8, 96]"));
    assert!(with("r", json!(0)).ends_with("expected a positive integer"));
    assert!(with("lora_alpha", json!("x")).ends_with("expected a number"));
    let folder = tempfile::tempdir().unwrap();
    let error = AdapterFile::open(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("adapter_config.json: cannot be read"), "{error}");
}

#[test]
fn refuses_tensors_by_name() {
    let golden = llama();
    let name = "base_model.model.model.layers.0.self_attn.q_proj";
    let one = |part: &str, shape: [usize; 2]| {
        stored(format!("{name}.{part}"), shape, &vec![0.5; shape[0] * shape[1]])
    };
    let check = |tensors: Vec<Stored>, expected: &str| {
        let message = fault(&config(), tensors);
        assert_eq!(message, format!("tensor {:?} {expected}", expected_name(&message)));
    };
    let a = || one("lora_A.weight", [RANK, 64]);
    let b = || one("lora_B.weight", [64, RANK]);
    check(vec![a()], "cannot be applied: the other matrix of the pair is missing");
    check(
        vec![a(), b(), one("lora_magnitude_vector.weight", [64, 1])],
        "cannot be applied: DoRA is not supported",
    );
    check(
        vec![a(), b(), one("lora_B.bias", [64, 1])],
        "cannot be applied: biases of adapters are not supported",
    );
    check(
        vec![a(), b(), stored("base_model.model.lm_head.weight".into(), [4, 4], &[0.0; 16])],
        "cannot be applied: only pairs of lora_A and lora_B are supported, no modules or biases that are \
         trained as a whole",
    );
    check(vec![a(), one("lora_B.weight", [63, RANK])], "has shape [4, 63], expected [4, 64]");
    check(vec![one("lora_A.weight", [RANK, 65]), b()], "has shape [65, 4], expected [64, 4]");
    check(vec![a(), one("lora_B.weight", [64, 2])], "has shape [2, 64], expected [4, 64]");
    let nan = stored(format!("{name}.lora_B.weight"), [64, RANK], &[f32::NAN; 64 * RANK]);
    check(vec![a(), nan], "has an element that is not finite");
    let mut elsewhere = changes(&golden, "one");
    elsewhere.truncate(1);
    elsewhere[0].name = "model.layers.9.self_attn.q_proj.weight".to_owned();
    check(peft_tensors(&elsewhere), "changes no matrix of the model, whose architecture is \"llama\"");
}

/// Returns the name of the tensor in an error message.
fn expected_name(message: &str) -> String {
    message.split('"').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn refuses_gguf_files_that_are_no_adapters_of_the_model() {
    let golden = llama();
    let fault = |file: &[u8]| {
        let file = on_disk(file);
        let error = with_adapter(in_gguf(&golden), file.path()).unwrap_err().to_string();
        error.split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(fault(&converted::gguf(&golden)), "metadata key \"general.type\" is missing");
    let other = adapter_writer("qwen2").finish();
    assert_eq!(fault(&other), "the adapter is for the architecture \"qwen2\", but the model's is \"llama\"");
    let mut norm = adapter_writer("llama");
    write(&mut norm, "blk.0.attn_norm.weight", &[4, 4], &[0.0; 16]);
    assert!(
        fault(&norm.finish()).ends_with("expected a name that ends with .weight.lora_a or .weight.lora_b")
    );
    let mut activated = adapter_writer("llama");
    activated.u32s("adapter.alora.invocation_tokens", &[1, 2]);
    assert!(fault(&activated.finish()).ends_with("activated LoRA is not supported"));
    assert!(!AdapterFile::is_at(on_disk(&converted::gguf(&golden)).path()));
    assert!(AdapterFile::is_at(on_disk(&adapter_writer("llama").finish()).path()));
}

#[test]
fn ranks_and_factors_of_modules_follow_the_patterns() {
    let golden = llama();
    let mut changes = changes(&golden, "one");
    changes.retain(|change| change.name.contains("layers.0.") && change.name.contains("q_proj"));
    let given = |config: &Value| {
        let folder = peft_with(config, peft_tensors(&changes));
        logits(&golden, &with_adapter(in_folder(&golden), folder.path()).unwrap(), Some(FIRST))
    };
    let with = |pairs: &[(&str, Value)]| {
        let mut config = config();
        for (key, value) in pairs {
            config[*key] = value.clone();
        }
        config
    };
    let expected = given(&config());
    let by_pattern = with(&[
        ("r", json!(16)),
        ("lora_alpha", json!(1)),
        ("rank_pattern", json!({"self_attn.q_proj": RANK})),
        ("alpha_pattern", json!({"^model.layers.0.self_attn.q_proj": ALPHA})),
    ]);
    assert_eq!(given(&by_pattern), expected);
    let stabilised = with(&[("use_rslora", json!(true)), ("lora_alpha", json!(ALPHA / 2.0))]);
    assert_eq!(given(&stabilised), expected);
    assert!(given(&with(&[("lora_alpha", json!(ALPHA / 2.0))])) != expected);
}
