//! Memory bandwidth of copies and reads.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::gpu::Step;
use crate::products::Pool;

const SOURCE: &str = include_str!("shaders/copy.wgsl");
const READ: &str = "let v = v0 ^ v1 ^ v2 ^ v3 ^ v4 ^ v5 ^ v6 ^ v7;
    if all(v == vec4<u32>(shape.magic)) { b[at] = v; }";
const COPY: &str = "b[at] = v0; b[at + 256u] = v1; b[at + 512u] = v2; b[at + 768u] = v3;
    b[at + 1024u] = v4; b[at + 1280u] = v5; b[at + 1536u] = v6; b[at + 1792u] = v7;";

/// Copies for one second, so that the GPU reaches its full clock rate.
pub(crate) fn warm_up(pool: &Pool) -> Result<()> {
    let gpu = pool.gpu;
    let target = gpu.buffer(pool.size);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        let kernel = gpu.kernel(&SOURCE.replace("WRITE", COPY), "main", &[false, true]);
        let storage = [pool.buffer.as_entire_binding(), target.as_entire_binding()];
        let bindings = gpu.bind(&kernel, &gpu.upload(&[0_u32; 4]), &storage);
        let step =
            || Step { kernel: &kernel, bindings: &bindings, workgroups: (pool.size / 16 / 2048) as u32 };
        gpu.time(&[], &[step(), step(), step(), step()])?;
    }
    Ok(())
}

/// Prints the bandwidth of a copy and of a read of the whole pool.
pub(crate) fn measure(pool: &Pool) -> Result<()> {
    let gpu = pool.gpu;
    println!("\n## Bandwidth of memory\n");
    println!("| kernel | bytes moved | GB/s |");
    println!("|---|---|---|");
    let target = gpu.buffer(pool.size);
    let parameters = gpu.upload(&[0, 0x1234_5678_u32, 0, 0]);
    for (name, write, factor) in [("copy", COPY, 2), ("read", READ, 1)] {
        let kernel = gpu.kernel(&SOURCE.replace("WRITE", write), "main", &[false, true]);
        let storage = [pool.buffer.as_entire_binding(), target.as_entire_binding()];
        let bindings = gpu.bind(&kernel, &parameters, &storage);
        let workgroups = (pool.size / 16 / 2048) as u32;
        let steps: Vec<_> =
            (0..4).map(|_| Step { kernel: &kernel, bindings: &bindings, workgroups }).collect();
        let time = gpu.median(5, &[], &steps)?.gpu / 4.0;
        let bytes = pool.size * factor;
        println!("| {name} | {bytes} | {:.0} |", bytes as f64 / time / 1e9);
    }
    Ok(())
}
