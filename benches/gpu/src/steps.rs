//! Cost of dependent steps: trivial ones, the small ones of a layer, and readback.

use std::time::Instant;

use anyhow::Result;

use crate::gpu::{Gpu, Kernel, Step, seconds};
use crate::products::Pool;

const SOURCE: &str = include_str!("shaders/small.wgsl");
const WRITABLE: [bool; 4] = [true; 4];

/// The kernels of the small steps.
pub(crate) struct Small {
    pub(crate) norm: Kernel,
    pub(crate) combine: Kernel,
    pub(crate) touch: Kernel,
    pub(crate) best: Kernel,
}

impl Small {
    /// Compiles the kernels.
    pub(crate) fn new(gpu: &Gpu) -> Self {
        let kernel = |name| gpu.kernel(SOURCE, name, &WRITABLE);
        Self {
            norm: kernel("norm"),
            combine: kernel("combine"),
            touch: kernel("touch"),
            best: kernel("best"),
        }
    }
}

/// Binds a small step over `count` values to the pool's buffers.
pub(crate) fn bind(pool: &Pool, kernel: &Kernel, count: u32) -> wgpu::BindGroup {
    let shape = pool.gpu.upload(&[count, 0, 0, 0]);
    let storage = [&pool.y, &pool.x, &pool.codes, &pool.heads].map(|buffer| buffer.as_entire_binding());
    pool.gpu.bind(kernel, &shape, &storage)
}

/// Times each small step of Llama 8B, with a barrier before each.
pub(crate) fn small(pool: &Pool) -> Result<()> {
    println!("\n## Small steps behind a barrier\n");
    println!("| step | values | workgroups | µs |");
    println!("|---|---|---|---|");
    let Small { norm, combine, touch, best } = Small::new(pool.gpu);
    for (name, kernel, count, workgroups) in [
        ("norm and quantise", &norm, 4096, 1),
        ("quantise", &combine, 4096, 4),
        ("trivial", &touch, 4096, 16),
        ("largest, first half", &best, 128_256, 63),
    ] {
        let bindings = bind(pool, kernel, count);
        let steps: Vec<_> = (0..64).map(|_| Step { kernel, bindings: &bindings, workgroups }).collect();
        let time = pool.gpu.median(9, &[], &steps)?.gpu / 64.0;
        println!("| {name} | {count} | {workgroups} | {:.2} |", time * 1e6);
    }
    Ok(())
}

/// Times passes of trivial dispatches, with and without barriers between them.
pub(crate) fn trivial(gpu: &Gpu) -> Result<()> {
    println!("\n## Passes of trivial dispatches (one workgroup of 64 threads each)\n");
    println!("| dispatches | between them | GPU, µs | µs each | CPU record, µs | CPU submit, µs |");
    println!("|---|---|---|---|---|---|");
    let kernel = gpu.kernel(SOURCE, "touch", &WRITABLE);
    let shape = gpu.upload(&[64_u32, 0, 0, 0]);
    for count in [147, 291] {
        for barriers in [true, false] {
            let buffers: Vec<_> = (0..count * 4).map(|_| gpu.buffer(256)).collect();
            let groups: Vec<_> = (0..count)
                .map(|place| {
                    let four = if barriers { &buffers[..4] } else { &buffers[place * 4..place * 4 + 4] };
                    let storage: Vec<_> = four.iter().map(wgpu::Buffer::as_entire_binding).collect();
                    gpu.bind(&kernel, &shape, &storage)
                })
                .collect();
            let steps: Vec<_> =
                groups.iter().map(|bindings| Step { kernel: &kernel, bindings, workgroups: 1 }).collect();
            let timing = gpu.median(9, &[], &steps)?;
            let between = if barriers { "barriers" } else { "nothing" };
            let (gpu, each) = (timing.gpu * 1e6, timing.gpu * 1e6 / count as f64);
            let (record, submit) = (timing.record * 1e6, timing.submit * 1e6);
            println!("| {count} | {between} | {gpu:.0} | {each:.2} | {record:.0} | {submit:.0} |");
        }
    }
    Ok(())
}

/// Times the readback of a few bytes and of a row of logits while the device is idle.
pub(crate) fn readback(gpu: &Gpu) -> Result<()> {
    println!("\n## From submission to bytes on the CPU, device idle\n");
    println!("| bytes | median, µs |");
    println!("|---|---|");
    let source = gpu.buffer(512 << 10);
    for size in [8, 512 << 10] {
        let staging = gpu.staging(size);
        let mut times = Vec::new();
        for _ in 0..101 {
            let began = Instant::now();
            let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&source, 0, &staging, 0, size);
            gpu.queue.submit([encoder.finish()]);
            gpu.map(&staging)?;
            times.push(seconds(began.elapsed()));
        }
        times.sort_by(f64::total_cmp);
        println!("| {size} | {:.0} |", times[50] * 1e6);
    }
    Ok(())
}
