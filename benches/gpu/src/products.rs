//! Matrices cut from a pool, and the speed of matrix-vector products.

use std::cell::Cell;

use anyhow::{Context, Result};

use crate::gpu::{Gpu, Kernel, Step};
use crate::kernels::{self, ARRANGEMENTS, Activations, Arrangement, Variant};
use crate::reference;

/// Bindings of a product; only the output, which is last, is writable.
const WRITABLE: [bool; 6] = [false, false, false, false, false, true];

/// Number of rows and width of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) rows: u32,
    pub(crate) k: u32,
}

impl Shape {
    /// Returns the size of such a matrix in bytes.
    pub(crate) fn bytes(self, variant: Variant) -> u64 {
        u64::from(self.rows) * u64::from(variant.weights.stride(self.k)) * 16
    }
}

/// A compiled product.
pub(crate) struct Product {
    pub(crate) kernel: Kernel,
    pub(crate) variant: Variant,
    pub(crate) arrangement: Arrangement,
}

impl Product {
    /// Compiles a product of `tokens` columns over all rows.
    pub(crate) fn new(gpu: &Gpu, variant: Variant, arrangement: Arrangement, tokens: u32) -> Self {
        let kernel = gpu.kernel(&kernels::product(variant, arrangement, tokens, false), "main", &WRITABLE);
        Self { kernel, variant, arrangement }
    }

    /// Compiles a product of one column over a list of rows.
    pub(crate) fn listed(gpu: &Gpu, variant: Variant, arrangement: Arrangement) -> Self {
        let kernel = gpu.kernel(&kernels::product(variant, arrangement, 1, true), "main", &WRITABLE);
        Self { kernel, variant, arrangement }
    }

    /// Returns the dispatch that computes `outputs` rows.
    pub(crate) fn step<'a>(&'a self, bindings: &'a wgpu::BindGroup, outputs: u32) -> Step<'a> {
        let workgroups = outputs.div_ceil(self.arrangement.rows_per_workgroup());
        Step { kernel: &self.kernel, bindings, workgroups }
    }
}

/// A large buffer of random words, from which matrices of all types are cut one after the other.
pub(crate) struct Pool<'g> {
    pub(crate) gpu: &'g Gpu,
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) size: u64,
    /// Activations in `f32`, codes and heads for any shape and up to eight tokens.
    pub(crate) x: wgpu::Buffer,
    pub(crate) codes: wgpu::Buffer,
    pub(crate) heads: wgpu::Buffer,
    pub(crate) y: wgpu::Buffer,
    next: Cell<u64>,
}

impl<'g> Pool<'g> {
    /// Creates a pool of `size` bytes from copies of `piece` random bytes; `size` is a multiple of
    /// `piece`.
    pub(crate) fn new(gpu: &'g Gpu, size: u64, piece: u64) -> Result<Self> {
        let words = gpu.upload(&reference::random_words(piece as usize / 4));
        let buffer = gpu.buffer(size);
        let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for place in 0..size / piece {
            encoder.copy_buffer_to_buffer(&words, 0, &buffer, place * piece, piece);
        }
        gpu.queue.submit([encoder.finish()]);
        gpu.wait()?;
        let activations = reference::random_words(14_336 * 8);
        Ok(Self {
            gpu,
            buffer,
            size,
            x: gpu.upload(&activations),
            codes: gpu.upload(&activations[..14_336 * 2]),
            heads: gpu.upload(&activations[..14_336]),
            y: gpu.buffer(128_256 * 8 * 4),
            next: Cell::new(0),
        })
    }

    /// Cuts the next `bytes` bytes from the pool, which wraps around at its end.
    fn cut(&self, bytes: u64) -> wgpu::BindingResource<'_> {
        let mut at = self.next.get().next_multiple_of(256);
        if at + bytes > self.size {
            at = 0;
        }
        self.next.set(at + bytes);
        let size = wgpu::BufferSize::new(bytes);
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: &self.buffer, offset: at, size })
    }

    /// Binds a matrix cut from the pool, the activations, a list of rows and an output.
    pub(crate) fn bind(
        &self,
        product: &Product,
        shape: Shape,
        list: Option<&[u32]>,
        y: &wgpu::Buffer,
    ) -> wgpu::BindGroup {
        let matrix = self.cut(shape.bytes(product.variant));
        let x = if product.variant.activations == Activations::F32 { &self.x } else { &self.codes };
        let outputs = list.map_or(shape.rows, |list| list.len() as u32);
        let parameters = self.gpu.upload(&[shape.k, shape.rows, outputs, 0]);
        let list = self.gpu.upload(list.unwrap_or(&[0]));
        let buffers = [x, &self.heads, &list, y].map(|buffer| buffer.as_entire_binding());
        let storage: Vec<_> = [matrix.clone(), matrix].into_iter().chain(buffers).collect();
        self.gpu.bind(&product.kernel, &parameters, &storage)
    }
}

/// Returns the arrangements to try on this device.
pub(crate) fn arrangements(gpu: &Gpu) -> Vec<Arrangement> {
    let mut all = ARRANGEMENTS[..if gpu.quick { 2 } else { ARRANGEMENTS.len() }].to_vec();
    if gpu.has_subgroups_of_32 {
        let joined = |threads, rows| Arrangement { threads, lanes: 32, rows, subgroup: true };
        all.extend([joined(64, 2), joined(128, 1), joined(128, 2), joined(256, 2)]);
    }
    all
}

/// The fastest arrangement of a product.
#[derive(Clone, Copy)]
pub(crate) struct Best {
    pub(crate) arrangement: Arrangement,
    /// Seconds per product in a series of products with a barrier before each.
    pub(crate) in_order: f64,
}

/// Times a product over a rotation of matrices, with or without a barrier before each product.
pub(crate) fn time(pool: &Pool, product: &Product, shape: Shape, in_order: bool) -> Result<f64> {
    let count = (pool.size / 4 / shape.bytes(product.variant)).clamp(4, 200) as usize;
    let outputs: Vec<_> =
        (0..if in_order { 0 } else { count }).map(|_| pool.gpu.buffer(u64::from(shape.rows) * 32)).collect();
    let groups: Vec<_> = (0..count)
        .map(|place| pool.bind(product, shape, None, outputs.get(place).unwrap_or(&pool.y)))
        .collect();
    let steps: Vec<_> = groups.iter().map(|bindings| product.step(bindings, shape.rows)).collect();
    Ok(pool.gpu.median(3, &[], &steps)?.gpu / count as f64)
}

/// Returns the fastest of `products` for one shape.
pub(crate) fn best(pool: &Pool, products: &[Product], shape: Shape) -> Result<Best> {
    let mut best: Option<Best> = None;
    for product in products {
        let in_order = time(pool, product, shape, true)?;
        if best.is_none_or(|best| in_order < best.in_order) {
            best = Some(Best { arrangement: product.arrangement, in_order });
        }
    }
    best.context("no arrangement to try")
}
