//! Tables of the adapter and of products.

use anyhow::Result;

use crate::gpu::{Gpu, Step};
use crate::kernels::{Activations, Arrangement, VARIANTS, Variant, Weights};
use crate::products::{self, Pool, Product, Shape};
use crate::reference;
use crate::steps::Small;

/// Prints the adapter, its limits and its features.
pub(crate) fn adapter(gpu: &Gpu) {
    let info = gpu.adapter.get_info();
    let limits = gpu.adapter.limits();
    let features = gpu.adapter.features();
    let has = |feature| if features.contains(feature) { "yes" } else { "no" };
    println!("adapter: {}, driver {} {}", info.name, info.driver, info.driver_info);
    println!(
        "subgroups: {}, of {}-{} threads",
        has(wgpu::Features::SUBGROUP),
        info.subgroup_min_size,
        info.subgroup_max_size
    );
    println!("int8 dot product: in WGSL always; wgpu does not report whether the device has it");
    println!("shader-f16: {}", has(wgpu::Features::SHADER_F16));
    println!("timestamps in passes: {}", has(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES));
    println!("immediates: {} ({} bytes)", has(wgpu::Features::IMMEDIATES), limits.max_immediate_size);
    println!("cooperative matrix feature: {}", has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX));
    for matrix in gpu.adapter.cooperative_matrix_properties() {
        println!("cooperative matrix: {matrix:?}");
    }
    println!(
        "limits: binding {} B, buffer {} B, {} storage buffers, workgroup memory {} B, {} invocations",
        limits.max_storage_buffer_binding_size,
        limits.max_buffer_size,
        limits.max_storage_buffers_per_shader_stage,
        limits.max_compute_workgroup_storage_size,
        limits.max_compute_invocations_per_workgroup,
    );
}

/// Prints the fastest arrangement of each product of one token.
pub(crate) fn one_token(pool: &Pool, shapes: &[Shape]) -> Result<()> {
    let gpu = pool.gpu;
    println!("\n## One token: GB/s of weights, each product behind a barrier (and without barriers)\n");
    println!("Arrangements are threads/lanes x rows; `s` joins by `subgroupAdd`.\n");
    println!("| product | shape | best tree | µs | GB/s | no barriers, GB/s | best subgroup | GB/s |");
    println!("|---|---|---|---|---|---|---|---|");
    for variant in VARIANTS {
        let compiled: Vec<_> = products::arrangements(gpu)
            .into_iter()
            .map(|arrangement| Product::new(gpu, variant, arrangement, 1))
            .collect();
        let (joined, trees): (Vec<_>, Vec<_>) =
            compiled.into_iter().partition(|product| product.arrangement.subgroup);
        let mut totals = vec![0.0; trees.len()];
        for shape in shapes {
            let gigabytes = shape.bytes(variant) as f64 / 1e9;
            let best = products::best(pool, &trees, *shape)?;
            let mut free = 0.0;
            for (place, product) in trees.iter().enumerate() {
                totals[place] += products::time(pool, product, *shape, true)?;
                if product.arrangement == best.arrangement {
                    free = products::time(pool, product, *shape, false)?;
                }
            }
            let (subgroup, rate) = if joined.is_empty() {
                ("-".to_owned(), 0.0)
            } else {
                let best = products::best(pool, &joined, *shape)?;
                (best.arrangement.to_string(), gigabytes / best.in_order)
            };
            println!(
                "| {variant} | {}x{} | {} | {:.1} | {:.0} | {:.0} | {subgroup} | {rate:.0} |",
                shape.rows,
                shape.k,
                best.arrangement,
                best.in_order * 1e6,
                gigabytes / best.in_order,
                gigabytes / free,
            );
        }
        let all: Vec<_> = trees
            .iter()
            .zip(totals)
            .map(|(product, total)| format!("{} {:.0}", product.arrangement, total * 1e6))
            .collect();
        println!("| {variant} | sum of shapes, µs | {} | | | | | |", all.join(", "));
    }
    Ok(())
}

/// Prints the time of products of 1, 2, 4 and 8 tokens.
pub(crate) fn several_tokens(pool: &Pool, shapes: &[Shape]) -> Result<()> {
    let gpu = pool.gpu;
    println!("\n## Several tokens: µs of a product behind a barrier, best of three arrangements\n");
    println!("| product | shape | 1 | 2 | 4 | 8 | best at 8 |");
    println!("|---|---|---|---|---|---|---|");
    let arrangement = |threads, rows| Arrangement { threads, lanes: 32, rows, subgroup: false };
    let arrangements = [arrangement(64, 2), arrangement(64, 1), arrangement(128, 2)];
    let arrangements = &arrangements[..if gpu.quick { 1 } else { 3 }];
    for variant in VARIANTS {
        let mut kernels = Vec::new();
        for tokens in [1, 2, 4, 8] {
            let compiled: Vec<_> = arrangements
                .iter()
                .map(|arrangement| Product::new(gpu, variant, *arrangement, tokens))
                .collect();
            kernels.push(compiled);
        }
        for shape in shapes {
            let mut times = Vec::new();
            let mut last = String::new();
            for compiled in &kernels {
                let best = products::best(pool, compiled, *shape)?;
                times.push(format!("{:.1}", best.in_order * 1e6));
                last = best.arrangement.to_string();
            }
            println!("| {variant} | {}x{} | {} | {last} |", shape.rows, shape.k, times.join(" | "));
        }
    }
    Ok(())
}

/// Prints the time of products over a list of rows, with no part of the matrix in caches.
pub(crate) fn listed_rows(pool: &Pool, shape: Shape) -> Result<()> {
    let gpu = pool.gpu;
    println!(
        "\n## Listed rows of a Q4_K matrix of {} x {}, each product behind a barrier\n",
        shape.rows, shape.k
    );
    println!("| product | rows | µs |");
    println!("|---|---|---|");
    let flush_kernel = Small::new(gpu).touch;
    let scratch = gpu.buffer(128 << 20);
    let flush_shape = gpu.upload(&[32_u32 << 20, 0, 0, 0]);
    let storage = [&scratch, &pool.x, &pool.codes, &pool.heads].map(|buffer| buffer.as_entire_binding());
    let flush = gpu.bind(&flush_kernel, &flush_shape, &storage);
    let before: Vec<_> =
        (0..2).map(|_| Step { kernel: &flush_kernel, bindings: &flush, workgroups: 65_535 }).collect();
    let arrangement = Arrangement { threads: 64, lanes: 32, rows: 1, subgroup: false };
    for activations in [Activations::F32, Activations::Int8] {
        let variant = Variant { weights: Weights::Q4K, activations };
        let product = Product::listed(gpu, variant, arrangement);
        for rows in [1, 100, 5000, shape.rows] {
            if rows > shape.rows {
                continue;
            }
            let count = 8_u32;
            let groups: Vec<_> = (0..count)
                .map(|place| {
                    let shift = 2_654_435_761_u32.wrapping_mul(place * 2 + 1);
                    let random = reference::random_words(rows as usize);
                    let mut list: Vec<_> =
                        random.iter().map(|word| (word >> 2).wrapping_mul(shift) % shape.rows).collect();
                    list.sort_unstable();
                    pool.bind(&product, shape, Some(&list), &pool.y)
                })
                .collect();
            let steps: Vec<_> = groups.iter().map(|bindings| product.step(bindings, rows)).collect();
            let time = gpu.median(5, &before, &steps)?.gpu / f64::from(count);
            println!("| {variant} | {rows} | {:.1} |", time * 1e6);
        }
    }
    Ok(())
}
