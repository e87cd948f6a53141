//! How often a pass asks for memory: the layers never do.

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

/// The system's allocator, with a count of what it is asked for.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting;

/// Runs a token of a sequence, and counts.
fn step(model: &mut dyn LanguageModel, sequence: SequenceId) -> usize {
    let tokens = [TokenId(1)];
    let run = Run { sequence, tokens: &tokens, role: Role::Generated, wanted: Wanted::All };
    let before = COUNT.load(Ordering::Relaxed);
    model.forward(&Batch { runs: vec![run] }).unwrap();
    COUNT.load(Ordering::Relaxed) - before
}

/// The least that a token of a model with so many layers takes after so many others, where no block of the cache begins.
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
        // Within a span of attention, and beyond it.
        for before in [1, 515] {
            let of_layers = |layers| of_layers(architecture, dtype, layers, before);
            let (few, many) = (of_layers(2), of_layers(14));
            assert_eq!(few, many, "{architecture}: a layer asks for memory after {before} tokens");
            assert!(few <= MOST, "{architecture}: {few}");
        }
    }
}

/// What the batch, its logits and the runs take, and the angles of rotation.
const MOST: usize = 30;
