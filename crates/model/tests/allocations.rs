//! Checks the number of allocations of a forward pass. Layers do not allocate.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]
#![allow(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::quantized::GgmlDType;
use formwork_lm::{AdapterId, Batch, LanguageModel, Role, Run, SequenceId, Wanted};
use formwork_model::AdapterFile;
use formwork_vocab::TokenId;

#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "runtime/tiny.rs"]
mod tiny;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "runtime/writer.rs"]
mod writer;

/// The system allocator, with a counter of allocations and reallocations.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting;

/// Computes one token of a sequence and returns the number of allocations.
fn step(model: &mut dyn LanguageModel, sequence: SequenceId) -> usize {
    let tokens = [TokenId(1)];
    let run = Run { sequence, tokens: &tokens, role: Role::Generated, wanted: Wanted::All };
    let before = COUNT.load(Ordering::Relaxed);
    model.forward(&Batch { runs: vec![run] }).unwrap();
    COUNT.load(Ordering::Relaxed) - before
}

/// Returns the minimum number of allocations for a token, with `layers` layers and `before` earlier
/// tokens. The minimum excludes steps that start a new cache block.
fn of_layers(
    (architecture, dtype): (&'static str, GgmlDType),
    layers: usize,
    before: usize,
    has_adapter: bool,
) -> usize {
    let mut model = tiny::open(&tiny::deep(architecture, dtype, layers).file).unwrap();
    if has_adapter {
        model.add_adapter("one", &adapter(architecture, layers), 1.0).unwrap();
    }
    let mut decoder = model.language_model();
    let sequence = if has_adapter { decoder.open_with(AdapterId(0)).unwrap() } else { decoder.open() };
    let prompt = vec![TokenId(2); before];
    tiny::append(&mut *decoder, sequence, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
    (0..20).map(|_| step(&mut *decoder, sequence)).min().unwrap()
}

/// Creates an adapter of some matrices of each layer.
fn adapter(architecture: &str, layers: usize) -> AdapterFile {
    const RANK: usize = 4;
    let mut writer = writer::Writer::default();
    writer.string("general.type", "adapter");
    writer.string("general.architecture", architecture);
    writer.string("adapter.type", "lora");
    let key = tiny::KV_HEADS * if architecture == "gemma3" { 32 } else { 16 };
    for layer in 0..layers {
        for (part, columns, rows) in [
            ("attn_v", tiny::HIDDEN, key),
            ("ffn_gate", tiny::HIDDEN, tiny::FEED_FORWARD),
            ("ffn_down", tiny::FEED_FORWARD, tiny::HIDDEN),
        ] {
            let mut write = |side: &str, shape: [usize; 2]| {
                let name = format!("blk.{layer}.{part}.weight.lora_{side}");
                let values = vec![0.1; shape[0] * shape[1]];
                writer.tensor(&name, &shape.map(|dim| dim as u64), GgmlDType::F32, &values);
            };
            write("a", [columns, RANK]);
            write("b", [RANK, rows]);
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), writer.finish()).unwrap();
    AdapterFile::open(file.path()).unwrap()
}

#[test]
fn layers_take_no_memory() {
    for (architecture, dtype) in
        [("llama", GgmlDType::Q4_0), ("gemma3", GgmlDType::Q8_0), ("qwen3", GgmlDType::Q8_0)]
    {
        // Positions within the first span of attention, and beyond it.
        for (before, has_adapter) in [(1, false), (515, false), (1, true), (515, true)] {
            let of_layers = |layers| of_layers((architecture, dtype), layers, before, has_adapter);
            let (few, many) = (of_layers(2), of_layers(14));
            assert_eq!(few, many, "{architecture}: a layer asks for memory after {before} tokens");
            assert!(few <= MOST, "{architecture}: {few}");
        }
    }
}

/// Maximum number of allocations per pass: for the batch, its logits, the runs and the rotation
/// angles.
const MOST: usize = 30;
