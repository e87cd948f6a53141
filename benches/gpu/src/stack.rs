//! Passes over all steps of a dense model for one token.

use std::time::Instant;

use anyhow::Result;

use crate::gpu::{Gpu, Kernel, Step, seconds};
use crate::kernels::{Arrangement, Variant};
use crate::products::{self, Pool, Product, Shape};
use crate::steps::{self, Small};

/// Widths of a dense model.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) layers: u32,
    pub(crate) hidden: u32,
    pub(crate) qkv: u32,
    pub(crate) feed_forward: u32,
    pub(crate) vocabulary: u32,
}

impl Model {
    /// Returns the four products of a layer: query, key and value; output; gate and up; down.
    fn products(&self) -> [Shape; 4] {
        [
            Shape { rows: self.qkv, k: self.hidden },
            Shape { rows: self.hidden, k: self.hidden },
            Shape { rows: self.feed_forward * 2, k: self.hidden },
            Shape { rows: self.hidden, k: self.feed_forward },
        ]
    }

    fn head(&self) -> Shape {
        Shape { rows: self.vocabulary, k: self.hidden }
    }
}

/// One dispatch of a stack, with its own bindings.
struct Planned<'a> {
    kernel: &'a Kernel,
    bindings: wgpu::BindGroup,
    workgroups: u32,
}

impl Planned<'_> {
    fn step(&self) -> Step<'_> {
        Step { kernel: self.kernel, bindings: &self.bindings, workgroups: self.workgroups }
    }
}

/// Times passes over a model's steps for one token, then a loop of tokens that each read back 8
/// bytes.
pub(crate) fn measure(pool: &Pool, model: &Model, variant: Variant, tokens: u32) -> Result<()> {
    let gpu = pool.gpu;
    let compiled: Vec<_> = products::arrangements(gpu)
        .into_iter()
        .filter(|arrangement| !arrangement.subgroup)
        .map(|arrangement| Product::new(gpu, variant, arrangement, 1))
        .collect();
    let small = Small::new(gpu);
    let mut chosen = Vec::new();
    let mut alone = 0.0;
    for shape in model.products().into_iter().chain([model.head()]) {
        let best = products::best(pool, &compiled, shape)?;
        alone += best.in_order * if shape == model.head() { 1.0 } else { f64::from(model.layers) };
        chosen.push((shape, best.arrangement));
    }
    let plan = plan(pool, model, &compiled, &small, &chosen);
    let steps: Vec<_> = plan.iter().map(Planned::step).collect();
    let timing = gpu.median(9, &[], &steps)?;
    let rate = decode(pool, &steps, tokens, false)?;
    let ahead = decode(pool, &steps, tokens, true)?;
    let bytes: u64 =
        chosen[..4].iter().map(|(shape, _)| shape.bytes(variant) * u64::from(model.layers)).sum();
    let gigabytes = (bytes + model.head().bytes(variant)) as f64 / 1e9;
    let checks = if gpu.unchecked.get() { ", no checks" } else { "" };
    println!(
        "| {} {variant}{checks} | {} | {gigabytes:.2} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {rate:.0} \
         | {ahead:.0} |",
        model.name,
        steps.len(),
        alone * 1e3,
        timing.gpu * 1e3,
        gigabytes / timing.gpu,
        timing.record * 1e6,
        timing.submit * 1e6,
        1.0 / timing.gpu,
    );
    Ok(())
}

/// Prints the heading of [`measure`]'s table.
pub(crate) fn heading() {
    println!("\n## Layer stacks, one token, context 0 (attention, rope and cache are trivial kernels)\n");
    println!(
        "| stack | steps | GB read | products alone, ms | GPU pass, ms | GB/s | CPU record, µs | CPU submit, µs \
         | tokens/s by GPU time | tokens/s with a readback each | and recorded ahead |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
}

fn plan<'a>(
    pool: &Pool,
    model: &Model,
    compiled: &'a [Product],
    small: &'a Small,
    chosen: &[(Shape, Arrangement)],
) -> Vec<Planned<'a>> {
    let product = |place: usize| {
        let (shape, arrangement) = chosen[place];
        compiled.iter().find(|product| product.arrangement == arrangement).map(|product| Planned {
            bindings: pool.bind(product, shape, None, &pool.y),
            kernel: &product.kernel,
            workgroups: shape.rows.div_ceil(arrangement.rows_per_workgroup()),
        })
    };
    let step = |kernel: &'a Kernel, count: u32, workgroups: u32| {
        Some(Planned { kernel, bindings: steps::bind(pool, kernel, count), workgroups })
    };
    let mut planned = Vec::new();
    for _ in 0..model.layers {
        planned.push(step(&small.norm, model.hidden, 1));
        planned.push(product(0));
        planned.push(step(&small.touch, model.qkv, model.qkv.div_ceil(256)));
        planned.push(step(&small.touch, model.hidden, model.hidden.div_ceil(256)));
        planned.push(step(&small.combine, model.hidden, model.hidden.div_ceil(1024)));
        planned.push(product(1));
        planned.push(step(&small.norm, model.hidden, 1));
        planned.push(product(2));
        planned.push(product(3));
    }
    planned.push(step(&small.norm, model.hidden, 1));
    planned.push(product(4));
    planned.push(step(&small.best, model.vocabulary, model.vocabulary.div_ceil(2048)));
    planned.into_iter().flatten().collect()
}

/// Returns the tokens per second of a loop that submits the steps and reads back 8 bytes for each
/// token.
///
/// If `ahead`, records the commands of a token while the device runs the previous ones; otherwise
/// records while the device is idle.
fn decode(pool: &Pool, steps: &[Step], tokens: u32, ahead: bool) -> Result<f64> {
    let gpu = pool.gpu;
    let staging = gpu.staging(8);
    let record = || {
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        Gpu::record(&mut encoder, steps, None);
        encoder.copy_buffer_to_buffer(&pool.x, 0, &staging, 0, 8);
        encoder.finish()
    };
    let began = Instant::now();
    let mut recorded = None;
    for _ in 0..tokens {
        let commands = recorded.take().unwrap_or_else(record);
        gpu.queue.submit([commands]);
        if ahead {
            recorded = Some(record());
        }
        gpu.map(&staging)?;
    }
    Ok(f64::from(tokens) / seconds(began.elapsed()))
}
