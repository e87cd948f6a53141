//! Measures the products of attention on one core.
//!
//! `cargo run --release -p formwork-kernels --example attention [HEAD_DIM [QUERIES]]`
//!
//! Prints nanoseconds per block of 64 positions and the memory throughput, for keys and values
//! together. Blocks either fit the caches or exceed them, and are read with and without
//! prefetching. To use huge pages, set `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`.

#![expect(clippy::print_stdout, reason = "prints its measurements")]

use std::hint::black_box;
use std::time::Instant;

use formwork_kernels::{
    KvBlock, KvFormat, KvShape, POSITIONS, Pair, Prefetch, Query, Tier, add_values, key_products,
};

/// Number of blocks in a sequence. All keys of a sequence are processed before its values.
const BLOCKS: usize = 3;
/// Memory sizes in bytes: one that fits the caches, and one that exceeds them.
const SIZES: [usize; 2] = [1 << 17, 1 << 27];

fn main() {
    let mut arguments = std::env::args().skip(1).map_while(|number| number.parse().ok());
    let head_dim = arguments.next().unwrap_or(64);
    let count = arguments.next().unwrap_or(3);
    println!("{:?}, heads of {head_dim}, {count} queries", Tier::best());
    for format in [KvFormat::I16, KvFormat::I8] {
        measure(format, head_dim, count);
    }
}

fn measure(format: KvFormat, head_dim: usize, count: usize) {
    let shape = KvShape::new(format, head_dim);
    let row: Vec<f32> = (0..head_dim).map(|i| (i * 7919 % 1009) as f32 / 504.0 - 1.0).collect();
    let mut rooms = vec![vec![Pair::default(); Query::pairs(head_dim)]; count];
    let query = |room| Query::new(format, &row, 0.125, room);
    let queries: Vec<Query<'_>> = rooms.iter_mut().map(|room: &mut Vec<Pair>| query(room)).collect();
    let block_bytes = shape.block_len() * size_of::<u32>();
    for bytes in SIZES {
        let mut memory = vec![0; bytes / (block_bytes * BLOCKS) * BLOCKS * shape.block_len()];
        for block in memory.chunks_exact_mut(shape.block_len()) {
            (0..POSITIONS).for_each(|position| shape.write(block, position, &row, &row));
        }
        let (steps, mut room) = (steps(shape, &memory), vec![0; shape.room_len()]);
        for prefetches in [false, true] {
            let mut outs = vec![vec![0.0; head_dim]; count];
            let seconds = seconds(|| attend(&queries, (&steps, prefetches), &mut room, &mut outs));
            let seconds = seconds / (steps.len() / 2) as f64;
            let how = if prefetches { "prefetched" } else { "as it comes" };
            let rate = block_bytes as f64 / seconds / 1e9;
            println!(
                "{format:?}, {bytes:10} bytes, {how:11}: {:5.0} ns a block, {rate:5.1} GB/s",
                seconds * 1e9
            );
        }
    }
}

/// A block with the part that is multiplied: keys or values.
#[derive(Clone, Copy)]
enum Step<'a> {
    Keys(KvBlock<'a>),
    Values(KvBlock<'a>),
}

impl<'a> Step<'a> {
    /// Returns the memory that the step reads.
    fn memory(self) -> Prefetch<'a> {
        match self {
            Step::Keys(block) => block.keys(),
            Step::Values(block) => block.values(),
        }
    }
}

/// Returns the steps of all sequences, one sequence after the other.
fn steps(shape: KvShape, memory: &[u32]) -> Vec<Step<'_>> {
    let blocks = memory.chunks_exact(shape.block_len()).map(|memory| KvBlock::new(shape, memory, POSITIONS));
    let blocks: Vec<KvBlock<'_>> = blocks.collect();
    let mut steps = Vec::new();
    for sequence in blocks.chunks_exact(BLOCKS) {
        steps.extend(sequence.iter().map(|&block| Step::Keys(block)));
        steps.extend(sequence.iter().map(|&block| Step::Values(block)));
    }
    steps
}

fn attend(
    queries: &[Query<'_>],
    (steps, prefetches): (&[Step<'_>], bool),
    room: &mut [u32],
    outs: &mut [Vec<f32>],
) {
    let mut scores = vec![[0.0; POSITIONS]; queries.len()];
    let mut scores: Vec<&mut [f32; POSITIONS]> = scores.iter_mut().collect();
    let weights = [1.0 / POSITIONS as f32; POSITIONS];
    let weights = vec![&weights; queries.len()];
    let mut outs: Vec<&mut [f32]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
    for (at, step) in steps.iter().enumerate() {
        let next =
            steps.get(at + 1).filter(|_| prefetches).map_or_else(Prefetch::default, |step| step.memory());
        match *step {
            Step::Keys(block) => {
                key_products(queries, block.with_keys(room).prefetching(next), &mut scores);
            }
            Step::Values(block) => {
                add_values(&weights, block.with_values(room).prefetching(next), &mut outs);
            }
        }
    }
    black_box((scores, outs));
}

/// Returns the shortest of ten times, in seconds.
fn seconds(mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..10).map(time).fold(f64::INFINITY, f64::min)
}
