//! Tests with mutated model files.
//!
//! A mutated file must either give an error, or open and compute. The memory used must be in
//! proportion to the size of the file. `FORMWORK_TEST_RUNS` sets the number of files of each kind,
//! and `FORMWORK_TEST_SEED` the random seed.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::path::Path;

use candle_core::quantized::GgmlDType;
use formwork_lm::{AdapterId, Role, Wanted};
use formwork_model::{AdapterFile, Model, OpenOptions};
use formwork_vocab::TokenId;
use peak_alloc::PeakAlloc;

#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "runtime/converted.rs"]
mod converted;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "runtime/published.rs"]
mod published;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "runtime/tiny.rs"]
mod tiny;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "runtime/writer.rs"]
mod writer;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory limit for a tiny model, in addition to ten times the size of its file. Kernels use
/// buffers of some megabytes.
const ALLOWED: usize = 64 << 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end.max(1)
    }

    /// Makes a few random changes. Most are in the first `interesting` bytes, which contain the
    /// structure of the file.
    fn mutate(&mut self, bytes: &mut Vec<u8>, interesting: usize) {
        const NUMBERS: [u64; 10] =
            [0, 1, 2, 0x7f, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, i64::MAX as u64, u64::MAX];
        for _ in 0..=self.below(3) {
            let end = bytes.len();
            let near = self.below(4) > 0;
            let at = self.below(if near { interesting.min(end) } else { end });
            match self.below(7) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
                    let width = [1, 2, 4, 8][self.below(4)].min(end - at);
                    bytes[at..at + width].copy_from_slice(&number[..width]);
                }
                4 => bytes.insert(at, self.next() as u8),
                5 => drop(bytes.remove(at)),
                _ => {
                    let (from, len) = (self.below(end), self.below(24));
                    let piece: Vec<u8> = bytes[from..(from + len).min(end)].to_vec();
                    let to = at.min(end - piece.len());
                    bytes[to..to + piece.len()].copy_from_slice(&piece);
                }
            }
            if bytes.len() < 2 {
                return;
            }
        }
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |value| value.parse().unwrap())
}

/// Opens a model and computes a few tokens if it opens. Returns whether it opened.
fn try_out(path: &Path, len: usize, what: &str) -> bool {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let opened = Model::open(path, OpenOptions::default());
    let works = opened.is_ok();
    match opened {
        Ok(model) => {
            let mut decoder = model.language_model();
            let sequence = decoder.open();
            let tokens: Vec<TokenId> = (0..3).map(TokenId).collect();
            // An error is acceptable, because the vocabulary may have shrunk.
            drop(tiny::append(&mut *decoder, sequence, &tokens, Role::Prompt, Wanted::All));
            drop(model.tokenizer());
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{what}"),
    }
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken <= ALLOWED + 10 * len, "{what}: {taken} bytes for a file of {len}");
    works
}

#[test]
fn no_changed_file_makes_the_reader_fail() {
    let runs = setting("FORMWORK_TEST_RUNS", 400);
    let seed = setting("FORMWORK_TEST_SEED", 1);
    let goldens: Vec<_> =
        published::goldens().into_iter().filter(|(name, _)| name.ends_with("-64")).collect();
    let folder = tempfile::tempdir().unwrap();
    let (mut opened, mut tried) = (0, 0);
    for run in 0..runs {
        let mut random = Random(seed << 32 | run);
        for _ in 0..4 {
            random.next();
        }
        let (name, golden) = &goldens[random.below(goldens.len())];
        let dtype = [GgmlDType::F32, GgmlDType::Q8_0, GgmlDType::Q4_0][random.below(3)];
        let mut file = converted::gguf_with(golden, dtype, None);
        let directory = file.windows(5).rposition(|window| window == b"blk.0").unwrap_or(file.len()) + 200;
        let interesting = directory.min(file.len());
        random.mutate(&mut file, interesting);
        let path = folder.path().join("mutated.gguf");
        std::fs::write(&path, &file).unwrap();
        opened += u64::from(try_out(&path, file.len(), &format!("GGUF run {run} of {name}")));

        let checkpoint = golden.checkpoint();
        let file = if random.below(3) == 0 { "config.json" } else { "model.safetensors" };
        let path = checkpoint.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        let header = bytes.iter().position(|&byte| byte == 0x7d).unwrap_or(0) + 4000;
        let interesting = header.min(bytes.len());
        random.mutate(&mut bytes, interesting);
        std::fs::write(&path, &bytes).unwrap();
        let files = ["config.json", "model.safetensors"].map(|name| checkpoint.path().join(name));
        let len = files.iter().map(|file| file.metadata().unwrap().len() as usize).sum();
        opened += u64::from(try_out(checkpoint.path(), len, &format!("folder run {run} of {name}")));
        tried += 2;
    }
    // Files with changed weights only still open.
    assert!(opened > 0 && opened < tried, "{opened} of {tried} opened");
}

/// Adds an adapter to a model and computes a few tokens if it fits. Returns whether it did.
fn try_adapter(model: &Model, path: &Path, len: usize, what: &str) -> bool {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let mut model = model.clone();
    let added = AdapterFile::open(path).and_then(|file| model.add_adapter("one", &file, 1.0));
    let works = added.is_ok();
    match added {
        Ok(()) => {
            let mut decoder = model.language_model();
            let sequence = decoder.open_with(AdapterId(0)).unwrap();
            let tokens: Vec<TokenId> = (0..3).map(TokenId).collect();
            tiny::append(&mut *decoder, sequence, &tokens, Role::Prompt, Wanted::All).unwrap();
        }
        Err(error) => assert!(error.to_string().contains(": "), "{what}: {error}"),
    }
    let taken = MEMORY.peak_usage().saturating_sub(before);
    assert!(taken <= ALLOWED + 10 * len, "{what}: {taken} bytes for a file of {len}");
    works
}

#[test]
fn no_changed_adapter_makes_the_reader_fail() {
    let (_, golden) = published::goldens().into_iter().find(|(name, _)| name == "llama-64").unwrap();
    let model = tiny::open(&converted::gguf(&golden)).unwrap();
    let hidden = golden.tensors["model.layers.0.self_attn.o_proj.weight"][0];
    let values = vec![0.01f32; 4 * hidden];
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut writer = writer::Writer::default();
    writer.string("general.type", "adapter");
    writer.string("general.architecture", "llama");
    writer.string("adapter.type", "lora");
    writer.f32("adapter.lora.alpha", 8.0);
    let mut tensors = Vec::new();
    for (own, name) in [("attn_q", "q_proj"), ("attn_output", "o_proj")] {
        for (side, shape) in [("a", [4, hidden]), ("b", [hidden, 4])] {
            let dims = shape.map(|dim| dim as u64);
            let tensor = format!("blk.0.{own}.weight.lora_{side}");
            writer.tensor(&tensor, &[dims[1], dims[0]], GgmlDType::F32, &values);
            let side = side.to_uppercase();
            let name = format!("base_model.model.model.layers.0.self_attn.{name}.lora_{side}.weight");
            let (shape, bytes) = (shape.to_vec(), bytes.clone());
            tensors.push(published::Stored { name, dtype: "F32", shape, bytes });
        }
    }
    let gguf = writer.finish();
    let folder = tempfile::tempdir().unwrap();
    let [file, config, weights] = ["adapter.gguf", "adapter_config.json", "adapter_model.safetensors"]
        .map(|name| folder.path().join(name));
    published::write_safetensors(&weights, tensors);
    let weight_bytes = std::fs::read(&weights).unwrap();
    let config_bytes = br#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "rank_pattern": {"o_proj": 4}}"#;
    let (mut added, mut tried) = (0, 0);
    for run in 0..=setting("FORMWORK_TEST_RUNS", 400) {
        let mut random = Random(setting("FORMWORK_TEST_SEED", 1) << 32 | run);
        let (mut gguf, mut config_bytes, mut weight_bytes) =
            (gguf.clone(), config_bytes.to_vec(), weight_bytes.clone());
        // The first files are unchanged.
        if run > 0 {
            (0..4).for_each(|_| _ = random.next());
            random.mutate(&mut gguf, 600);
            if random.below(3) == 0 {
                random.mutate(&mut config_bytes, 80);
            } else {
                random.mutate(&mut weight_bytes, 600);
            }
        }
        std::fs::write(&file, &gguf).unwrap();
        std::fs::write(&config, &config_bytes).unwrap();
        std::fs::write(&weights, &weight_bytes).unwrap();
        let works = [
            try_adapter(&model, &file, gguf.len(), &format!("GGUF run {run}")),
            try_adapter(&model, folder.path(), weight_bytes.len(), &format!("folder run {run}")),
        ];
        assert!(run > 0 || works == [true; 2]);
        added += works.iter().filter(|works| **works).count();
        tried += 2;
    }
    assert!(added < tried, "{added} of {tried} fitted");
}
