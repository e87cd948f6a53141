//! Compares the kernels for GPUs with transformers and with the CPU.
//!
//! `FORMWORK_TEST_GPU` names the device. Without it, the tests use a driver that computes on the
//! CPU, and pass without one.

use std::sync::Mutex;

use candle_core::quantized::GgmlDType;
use formwork_lm::{Batch, LanguageModel, Logits, Role, Run, TopLogits, TopRequest, Wanted, masked};
use formwork_model::{Device, GpuLayers, GpuList, GpuNumber, Model, OpenOptions};
use formwork_vocab::{TokenId, TokenSet};

use crate::converted;
use crate::encoders;
use crate::golden::{SMOLLM2, real};
use crate::pair::{LEAST_VOCABULARY, Pair};
use crate::published::goldens;
use crate::tiny::{self, CONTEXT, append, open_with, tokens};

/// Returns the tested device, or `None` if the system has no driver for it.
pub(crate) fn tested() -> Option<Device> {
    /// Keeps the device open, with its compiled kernels.
    static HELD: Mutex<Option<Model>> = Mutex::new(None);
    let name = std::env::var("FORMWORK_TEST_GPU").unwrap_or_else(|_| "gpu:cpu".to_owned());
    let device = name.parse().unwrap();
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    match open_with(&tiny.file, OpenOptions { device, ..OpenOptions::default() }) {
        Ok(model) => {
            *HELD.lock().unwrap() = Some(model);
            Some(device)
        }
        Err(error) => {
            let error = format!("{error:?}");
            assert!(error.contains("NoSoftwareDriver") || error.contains("NoAdapter"), "{error}");
            eprintln!("not tested: no driver for {name}; Debian has one in mesa-vulkan-drivers");
            None
        }
    }
}

/// Opens a model, or returns `None` if GPUs cannot compute it.
pub(crate) fn open_on(device: Device, file: &[u8]) -> Option<Model> {
    match open_with(file, OpenOptions { device, ..OpenOptions::default() }) {
        Ok(model) => Some(model),
        Err(error) => {
            assert!(error.to_string().contains("the kernels for GPUs do not support"), "{error:?}");
            None
        }
    }
}

#[test]
fn gpus_compute_what_transformers_does() {
    let Some(device) = tested() else { return };
    let (mut failed, mut computed) = (Vec::new(), 0);
    // Most of the time goes to compiling kernels for each width.
    let is_needed = |name: &str| name.ends_with("-64") || name == "llama-576";
    for (name, golden) in goldens().into_iter().filter(|(name, _)| is_needed(name)) {
        let folder = golden.checkpoint();
        let options = OpenOptions { device, ..OpenOptions::default() };
        let model = match Model::open(folder.path(), options) {
            Ok(model) => model,
            Err(error) => {
                assert!(
                    error.to_string().contains("the kernels for GPUs do not support"),
                    "{name}: {error:?}"
                );
                eprintln!("{name}: {error}");
                continue;
            }
        };
        computed += 1;
        let error = golden.largest_error(&model);
        eprintln!("{name}: {error:.1e}");
        if error.is_nan() || error > 1e-4 {
            failed.push(format!("{name}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
    assert!(computed > 20, "{computed}");
}

/// Models with windows and caps, with norms after blocks and of whole rows of queries, with each kind of
/// state, of mixture and of keys and values.
const VARIED: [&str; 7] = [
    "gemma2-64",
    "olmo2-64",
    "qwen3.5-moe-64",
    "lfm2-64",
    "nemotron-h-latent-64",
    "deepseek-v3-64",
    "gemma4-e-64",
];

#[test]
fn random_calls_give_the_results_of_the_cpu() {
    let Some(device) = tested() else { return };
    for (name, golden) in goldens().iter().filter(|(name, _)| VARIED.contains(&name.as_str())) {
        for dtype in [GgmlDType::F32, GgmlDType::Q8_0] {
            let file = converted::gguf_with(golden, dtype, Some(CONTEXT as u32));
            // Both sides store keys and values of quantised models in 16 bits, but in different forms.
            // A small difference can round an activation to the next of 8 bits.
            let bound = if dtype == GgmlDType::F32 { 1e-4 } else { 5e-2 };
            let mut pair = Pair::new(&file, device, bound);
            let has_experts = name.contains("moe") || name.contains("nemotron") || name.contains("deepseek");
            for _ in 0..30 {
                pair.step(&format!("{name} {dtype:?}"));
            }
            let text = text(40, 3);
            let [cpu, gpu] = [0, 1].map(|side| {
                let sequence = pair.models[side].open();
                pair.models[side].hidden_states(sequence, &text).unwrap()
            });
            assert_eq!(cpu.len(), gpu.len());
            let largest = cpu.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
            let mut errors: Vec<f32> = cpu.iter().zip(&gpu).map(|(x, y)| (x - y).abs()).collect();
            errors.sort_by(f32::total_cmp);
            // A small difference can also choose another expert for a token.
            let counted = if has_experts && dtype != GgmlDType::F32 { 0.9 } else { 1.0 };
            let error = errors[(errors.len() as f32 * counted) as usize - 1];
            assert!(error <= bound * largest, "{name} {dtype:?}: {error}");
        }
    }
}

#[test]
fn layers_on_several_devices_give_the_results_of_the_cpu() {
    let Some(device) = tested() else { return };
    let Device::Gpu(number) = device else { panic!("{device} is no GPU") };
    let both = Device::Gpus(GpuList::new(&[number, number]).unwrap());
    let cases = [
        ("gemma2-64", device, GpuLayers::Count(1)),
        ("gemma2-64", both, GpuLayers::All),
        // The devices keep copies of their states at different positions.
        ("qwen3.5-moe-64", device, GpuLayers::Count(2)),
        ("lfm2-64", both, GpuLayers::All),
    ];
    for (name, device, gpu_layers) in cases {
        let (_, golden) = goldens().into_iter().find(|(own, _)| own == name).unwrap();
        let file = converted::gguf_with(&golden, GgmlDType::F32, Some(CONTEXT as u32));
        let options = OpenOptions { device, gpu_layers: Some(gpu_layers), ..OpenOptions::default() };
        let model = open_with(&file, options).unwrap();
        let (count, number) = (model.spec().unwrap().layers.len(), Device::Gpu(number));
        let places = match gpu_layers {
            GpuLayers::Count(first) => format!("{number} ({first} layers), cpu ({} layers)", count - first),
            _ => format!("{number} ({0} layers), {number} ({0} layers)", count / 2),
        };
        assert_eq!(model.computes_on(), places, "{name}");
        let mut pair = Pair::with_options(&file, options, 1e-4);
        for _ in 0..25 {
            pair.step(&format!("{name} {places}"));
        }
        let text = text(40, 3);
        let [cpu, devices] = pair.models.each_mut().map(|model| {
            let sequence = model.open();
            model.hidden_states(sequence, &text).unwrap()
        });
        assert_eq!(cpu.len(), devices.len());
        let largest = cpu.iter().fold(1f32, |largest, x| largest.max(x.abs()));
        assert!(cpu.iter().zip(&devices).all(|(x, y)| (x - y).abs() <= 1e-4 * largest), "{name}");
    }
}

#[test]
fn experts_on_the_cpu_give_its_results() {
    let Some(device) = tested() else { return };
    let Device::Gpu(number) = device else { panic!("{device} is no GPU") };
    let both = Device::Gpus(GpuList::new(&[number, number]).unwrap());
    let one = |experts: usize| format!("{device}, cpu (experts of {experts} layers)");
    let part = |experts: usize| format!("{device} (2 layers, experts of {experts} on the CPU)");
    let two = format!("{}, {}", part(2), part(1));
    // Mixtures with a shared expert, beside a dense block, in a narrower space, and with biases.
    let cases = [
        ("qwen3.5-moe-64", device, 1, one(1)),
        ("gemma4-moe-64", device, 99, one(6)),
        ("nemotron-h-latent-64", device, 99, one(2)),
        ("gpt-oss-64", device, 1, one(1)),
        ("qwen3-moe-64", both, 3, two),
    ];
    for (name, device, experts, places) in cases {
        let (_, golden) = goldens().into_iter().find(|(own, _)| own == name).unwrap();
        let options = OpenOptions { device, cpu_experts: Some(experts), ..OpenOptions::default() };
        if !matches!(device, Device::Gpus(_)) {
            let folder = golden.checkpoint();
            let error = golden.largest_error(&Model::open(folder.path(), options).unwrap());
            assert!(error <= 1e-4, "{name}: {error}");
        }
        // With rounded weights of this model, small differences choose other experts on any two devices.
        let dtypes = [GgmlDType::F32, GgmlDType::Q8_0];
        let dtypes = if name.starts_with("gemma4") { &dtypes[..1] } else { &dtypes };
        for &dtype in dtypes {
            let file = converted::gguf_with(&golden, dtype, Some(CONTEXT as u32));
            assert_eq!(open_with(&file, options).unwrap().computes_on(), places, "{name}");
            let bound = if dtype == GgmlDType::F32 { 1e-4 } else { 5e-2 };
            let mut pair = Pair::with_options(&file, options, bound);
            for _ in 0..20 {
                pair.step(&format!("{name} {dtype:?}"));
            }
        }
    }
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    for device in [Device::Cpu, Device::Auto] {
        let options = OpenOptions { device, cpu_experts: Some(1), ..OpenOptions::default() };
        let error = open_with(&tiny.file, options).unwrap_err().to_string();
        assert!(error.contains("cannot leave experts to the CPU; use the device `gpu`"), "{error}");
    }
}

#[test]
fn layers_that_fit_go_to_the_gpu() {
    let Some(device) = tested() else { return };
    let (_, golden) = goldens().into_iter().find(|(name, _)| name == "llama-64").unwrap();
    let file = converted::gguf_with(&golden, GgmlDType::F32, None);
    let places = |megabytes: u64| {
        let gpu_memory = Some(megabytes << 20);
        let options =
            OpenOptions { device, gpu_layers: Some(GpuLayers::Auto), gpu_memory, ..OpenOptions::default() };
        open_with(&file, options).unwrap().computes_on()
    };
    assert_eq!(places(8192), device.to_string());
    assert_eq!(places(64), "cpu");
    let options = OpenOptions { gpu_layers: Some(GpuLayers::Count(2)), ..OpenOptions::default() };
    let error = open_with(&file, options).unwrap_err().to_string();
    assert!(error.contains("layers cannot be divided on the device cpu; use the device `gpu`"), "{error}");
}

/// Calls `check` with some models on the tested device, with quantised weights.
fn each_model(check: impl Fn(&mut dyn LanguageModel)) {
    let Some(device) = tested() else { return };
    for (_, golden) in goldens().iter().filter(|(name, _)| VARIED.contains(&name.as_str())) {
        let file = converted::gguf_with(golden, GgmlDType::Q8_0, Some(CONTEXT as u32));
        let model = open_on(device, &file).expect("the models are supported");
        check(&mut *model.language_model());
    }
}

/// Returns tokens that every model has. They depend on `seed`.
fn text(len: usize, seed: usize) -> Vec<TokenId> {
    tokens(len, seed).into_iter().map(|token| TokenId(token.0 % LEAST_VOCABULARY)).collect()
}

#[test]
fn a_batch_gives_the_bits_of_its_runs_alone() {
    each_model(|model| {
        assert!(model.is_batch_invariant());
        let texts: Vec<_> = [330, 1, 70, 3].iter().enumerate().map(|(seed, &len)| text(len, seed)).collect();
        let roles = [Role::Prompt, Role::Generated, Role::Generated, Role::Prompt];
        let sequences: Vec<_> = texts.iter().map(|_| model.open()).collect();
        let run = |index: usize| Run {
            sequence: sequences[index],
            tokens: &texts[index],
            role: roles[index],
            wanted: Wanted::All,
        };
        let together = model.forward(&Batch { runs: (0..4).map(run).collect() }).unwrap();
        for index in 0..4 {
            let alone = model.open();
            // A prompt may be cut anywhere, and generated tokens may come one by one.
            let (before, last) = texts[index].split_at(texts[index].len() * 2 / 3);
            let pieces = if roles[index] == Role::Prompt { before.chunks(47) } else { before.chunks(1) };
            for piece in pieces {
                append(model, alone, piece, roles[index], Wanted::Nothing).unwrap();
            }
            let row = append(model, alone, last, roles[index], Wanted::All).unwrap();
            assert_eq!(row, together.row(index), "run {index}");
        }
    });
}

#[test]
fn forks_and_cut_sequences_give_the_bits_of_fresh_ones() {
    each_model(|model| {
        let (prompt, own, others) = (text(290, 4), text(9, 5), text(70, 6));
        let fresh = model.open();
        append(model, fresh, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        let expected = append(model, fresh, &own, Role::Generated, Wanted::All).unwrap();
        let parent = model.open();
        append(model, parent, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        let fork = model.fork(parent, prompt.len()).unwrap();
        // The parent writes to the same positions as the fork.
        append(model, parent, &others, Role::Generated, Wanted::Nothing).unwrap();
        assert_eq!(append(model, fork, &own, Role::Generated, Wanted::All).unwrap(), expected);
        model.truncate(parent, 101).unwrap();
        append(model, parent, &prompt[101..], Role::Prompt, Wanted::Nothing).unwrap();
        assert_eq!(append(model, parent, &own, Role::Generated, Wanted::All).unwrap(), expected);
    });
}

/// Returns the row of logits after a prompt and a generated token.
fn row(model: &mut dyn LanguageModel, wanted: Wanted<'_>) -> Vec<f32> {
    let prompt = text(20, 7);
    let sequence = model.open();
    append(model, sequence, &prompt[..19], Role::Prompt, Wanted::Nothing).unwrap();
    let row = append(model, sequence, &prompt[19..], Role::Generated, wanted).unwrap();
    model.close(sequence);
    row
}

#[test]
fn a_masked_head_has_the_bits_of_the_whole_head() {
    each_model(|model| {
        let full = row(model, Wanted::All);
        for step in [1, 2, 5, 17, 95] {
            let mut set = TokenSet::empty(full.len());
            (3..full.len()).step_by(step).for_each(|token| set.insert(TokenId(token as u32)));
            let expected = masked(full.clone(), Some(&set));
            assert_eq!(row(model, Wanted::Only(&set)), expected, "every {step}");
            let largest = expected.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for (given, expected) in row(model, Wanted::Largest(Some(&set))).iter().zip(&expected) {
                assert!(
                    given.total_cmp(expected).is_eq() || *given == f32::NEG_INFINITY && *expected < largest
                );
            }
        }
        let largest = full.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let given = row(model, Wanted::Largest(None));
        for (given, expected) in given.iter().zip(&full) {
            assert!(given.total_cmp(expected).is_eq() || *given == f32::NEG_INFINITY && *expected < largest);
        }
    });
}

/// Computes the logits after a prompt and a generated token for several sequences at once.
fn together(model: &mut dyn LanguageModel, wanted: &[Wanted<'_>]) -> Logits {
    let prompt = text(20, 7);
    let sequences: Vec<_> = wanted.iter().map(|_| model.open()).collect();
    for &sequence in &sequences {
        append(model, sequence, &prompt[..19], Role::Prompt, Wanted::Nothing).unwrap();
    }
    let runs = sequences.iter().zip(wanted).map(|(&sequence, &wanted)| Run {
        sequence,
        tokens: &prompt[19..],
        role: Role::Generated,
        wanted,
    });
    let logits = model.forward(&Batch { runs: runs.collect() }).unwrap();
    for sequence in sequences {
        model.close(sequence);
    }
    logits
}

/// Compares the likeliest tokens of rows with the whole rows.
fn check_likeliest(model: &mut dyn LanguageModel) {
    let full = row(model, Wanted::All);
    let mut most = TokenSet::full(full.len());
    (0..full.len()).step_by(3).for_each(|token| most.remove(TokenId(token as u32)));
    let mut few = TokenSet::empty(full.len());
    (5..full.len()).step_by(40).for_each(|token| few.insert(TokenId(token as u32)));
    let (always, never) = (|_: &TopLogits| true, |_: &TopLogits| false);
    let request = |set, temperature, is_enough| Wanted::Top(TopRequest { set, temperature, is_enough });
    let wanted = [
        request(None, 1.0, &always),
        request(Some(&most), 1.5, &always),
        request(Some(&few), 1.0, &always),
        request(Some(&most), 1.0, &never),
        Wanted::Largest(Some(&most)),
        Wanted::All,
    ];
    // All rows in one step, and each in its own.
    let mut all = vec![together(model, &wanted)];
    all.extend(wanted.iter().map(|&wanted| together(model, &[wanted])));
    for is_together in [true, false] {
        let of = |index: usize| if is_together { (&all[0], index) } else { (&all[1 + index], 0) };
        for (index, set) in [None, Some(&most), Some(&few)].into_iter().enumerate() {
            let (logits, at) = of(index);
            let top = logits.top(at).expect("a row of so few tokens fits");
            let expected = masked(full.clone(), set);
            let whole = TopLogits::of(&expected, top.tokens.len(), [1.0, 1.5, 1.0][index]);
            assert_eq!(top.tokens, whole.tokens, "row {index}");
            assert!((top.rest - whole.rest).abs() <= 1e-4 * whole.rest + 1e-30, "row {index}");
            assert!(top.is_complete || index < 2, "row {index}");
        }
        let (logits, at) = of(3);
        assert_eq!(logits.row(at), masked(full.clone(), Some(&most)), "a row where few are not enough");
        let (logits, at) = of(4);
        let expected = masked(full.clone(), Some(&most));
        let largest = expected.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (given, expected) in logits.row(at).iter().zip(&expected) {
            let is_equal = given.total_cmp(expected).is_eq();
            assert!(is_equal || *given == f32::NEG_INFINITY && *expected < largest);
        }
        let (logits, at) = of(5);
        assert_eq!(logits.row(at), full, "a whole row beside the others");
    }
}

#[test]
fn likeliest_tokens_have_the_bits_of_whole_rows() {
    each_model(check_likeliest);
    // A real vocabulary has tokens that are left out.
    let (Some(device), Some(path)) = (tested(), real(SMOLLM2)) else { return };
    let model = Model::open(&path, OpenOptions { device, ..OpenOptions::default() }).unwrap();
    let model = &mut *model.language_model();
    let mut logits = |wanted: Wanted<'_>| {
        let sequence = model.open();
        append(model, sequence, &text(1, 7), Role::Prompt, Wanted::Nothing).unwrap();
        let run = Run { sequence, tokens: &text(1, 8), role: Role::Generated, wanted };
        model.forward(&Batch { runs: vec![run] }).unwrap()
    };
    let full = logits(Wanted::All).row(0).to_vec();
    let given = logits(Wanted::Top(TopRequest { set: None, temperature: 0.7, is_enough: &|_| true }));
    let top = given.top(0).expect("a row with some likely tokens");
    let whole = TopLogits::of(&full, top.tokens.len(), 0.7);
    assert_eq!(top.tokens, whole.tokens);
    assert!(whole.rest > 0.0 && (top.rest - whole.rest).abs() <= 1e-4 * whole.rest);
}

#[test]
fn constrained_rows_together_have_the_bits_of_whole_rows() {
    each_model(|model| {
        let full = row(model, Wanted::All);
        // More rows than the head computes at once, with sets that overlap.
        let sets: Vec<TokenSet> = (0..11)
            .map(|first| {
                let mut set = TokenSet::empty(full.len());
                (first..full.len()).step_by(9).for_each(|token| set.insert(TokenId(token as u32)));
                set
            })
            .collect();
        let wanted: Vec<_> = sets.iter().map(Wanted::Only).collect();
        let logits = together(model, &wanted);
        for (index, set) in sets.iter().enumerate() {
            assert_eq!(logits.row(index), masked(full.clone(), Some(set)), "row {index}");
        }
    });
}

#[test]
fn models_that_gpus_cannot_compute_are_refused_by_name() {
    let Some(device) = tested() else { return };
    let folder = encoders::named("bert").golden.checkpoint();
    let options = OpenOptions { device, ..OpenOptions::default() };
    let error = Model::open(folder.path(), options).unwrap_err().to_string();
    assert!(
        error.contains("the kernels for GPUs do not support models for embeddings (architecture \"bert\")"),
        "{error}"
    );
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    let many = Device::Gpu(GpuNumber::Hardware(99));
    let error = open_with(&tiny.file, OpenOptions { device: many, ..OpenOptions::default() }).unwrap_err();
    assert!(format!("{error:?}").contains("number: 99"), "{error:?}");
}
