//! Measures the figures that decide the design of the GPU back end, over Vulkan and WGSL. The
//! figures are memory bandwidth, products, steps, readback and products of listed rows. `--quick`
//! uses small sizes, for drivers on the CPU.

mod bandwidth;
mod check;
mod gpu;
mod kernels;
mod products;
mod reference;
mod report;
mod stack;
mod steps;

use anyhow::{Result, ensure};

use crate::gpu::Gpu;
use crate::kernels::VARIANTS;
use crate::products::{Pool, Shape};
use crate::stack::Model;

const SHAPES: [Shape; 7] = [
    Shape { rows: 2048, k: 2048 },
    Shape { rows: 8192, k: 2048 },
    Shape { rows: 2048, k: 8192 },
    Shape { rows: 4096, k: 4096 },
    Shape { rows: 14_336, k: 4096 },
    Shape { rows: 4096, k: 14_336 },
    Shape { rows: 128_256, k: 4096 },
];
const QUICK_SHAPES: [Shape; 2] = [Shape { rows: 128, k: 512 }, Shape { rows: 256, k: 256 }];

const LLAMA_8B: Model = Model {
    name: "Llama 8B",
    layers: 32,
    hidden: 4096,
    qkv: 6144,
    feed_forward: 14_336,
    vocabulary: 128_256,
};
const LLAMA_1B: Model =
    Model { name: "Llama 1B", layers: 16, hidden: 2048, qkv: 3072, feed_forward: 8192, vocabulary: 128_256 };
const TINY: Model =
    Model { name: "tiny", layers: 2, hidden: 256, qkv: 256, feed_forward: 256, vocabulary: 512 };

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let gpu = Gpu::open(quick)?;
    report::adapter(&gpu);
    let failures = check::all(&gpu)?;
    let piece = if quick { 1 << 20 } else { 64 << 20 };
    let pool = Pool::new(&gpu, piece * if quick { 8 } else { 17 }, piece)?;
    bandwidth::warm_up(&pool)?;
    bandwidth::measure(&pool)?;
    steps::trivial(&gpu)?;
    steps::small(&pool)?;
    steps::readback(&gpu)?;
    let models: &[Model] = if quick { &[TINY] } else { &[LLAMA_1B, LLAMA_8B] };
    stack::heading();
    for model in models {
        for variant in &VARIANTS[..4] {
            stack::measure(&pool, model, *variant, if quick { 2 } else { 64 })?;
        }
    }
    gpu.unchecked.set(true);
    for model in models {
        stack::measure(&pool, model, VARIANTS[1], if quick { 2 } else { 64 })?;
    }
    gpu.unchecked.set(false);
    let head = if quick { QUICK_SHAPES[1] } else { SHAPES[6] };
    report::listed_rows(&pool, head)?;
    let shapes: &[Shape] = if quick { &QUICK_SHAPES } else { &SHAPES };
    report::one_token(&pool, shapes)?;
    report::several_tokens(&pool, shapes)?;
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}
