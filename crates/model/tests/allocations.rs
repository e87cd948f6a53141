//! Checks the number of allocations of a forward pass. Layers do not allocate.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]
#![allow(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::quantized::GgmlDType;
use formwork_lm::{Batch, LanguageModel, Role, Run, SequenceId, Wanted};
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
fn of_layers(architecture: &'static str, dtype: GgmlDType, layers: usize, before: usize) -> usize {
    let model = tiny::open(&tiny::deep(architecture, dtype, layers).file).unwrap();
    let mut decoder = model.language_model();
    let sequence = decoder.open();
    let prompt = vec![TokenId(2); before];
    tiny::append(&mut *decoder, sequence, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
    (0..20).map(|_| step(&mut *decoder, sequence)).min().unwrap()
}

#[test]
fn layers_take_no_memory() {
    for (architecture, dtype) in
        [("llama", GgmlDType::Q4_0), ("gemma3", GgmlDType::Q8_0), ("qwen3", GgmlDType::Q8_0)]
    {
        // Positions within the first span of attention, and beyond it.
        for before in [1, 515] {
            let of_layers = |layers| of_layers(architecture, dtype, layers, before);
            let (few, many) = (of_layers(2), of_layers(14));
            assert_eq!(few, many, "{architecture}: a layer asks for memory after {before} tokens");
            assert!(few <= MOST, "{architecture}: {few}");
        }
    }
}

/// Maximum number of allocations per pass: for the batch, its logits, the runs and the rotation
/// angles.
const MOST: usize = 30;
