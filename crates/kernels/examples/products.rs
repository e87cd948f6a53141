//! Measures the products of weights on one core.
//!
//! `cargo run --release -p formwork-kernels --example products [COLUMNS [TYPE]]`
//!
//! The first column is gigabytes of weights per second for a single token, with a matrix that
//! exceeds the caches. Compare it with the speed of plain reading in the first line. The other
//! columns are billions of multiply-adds per second for several tokens, with a matrix that fits the
//! caches. `512/16` has 16-bit activations, where a product counts once.

#![expect(clippy::print_stdout, reason = "prints its measurements")]

use std::hint::black_box;
use std::time::Instant;

use formwork_kernels::{Activation, Encoding, MatrixMut, PackedRows, Packing, Q16Block, Tier, pack};

const TYPES: [Encoding; 28] = [
    Encoding::Q4_0,
    Encoding::Q4_1,
    Encoding::Q5_0,
    Encoding::Q5_1,
    Encoding::Q8_0,
    Encoding::Q2K,
    Encoding::Q3K,
    Encoding::Q4K,
    Encoding::Q5K,
    Encoding::Q6K,
    Encoding::Iq4Nl,
    Encoding::Iq4Xs,
    Encoding::Mxfp4,
    Encoding::Iq1S,
    Encoding::Iq1M,
    Encoding::Iq2Xxs,
    Encoding::Iq2Xs,
    Encoding::Iq2S,
    Encoding::Iq3Xxs,
    Encoding::Iq3S,
    Encoding::Tq1_0,
    Encoding::Tq2_0,
    Encoding::Q1_0,
    Encoding::Q2_0,
    Encoding::Nvfp4,
    Encoding::F16,
    Encoding::Bf16,
    Encoding::F32,
];

/// Size of the large matrix, in bytes.
const LARGE: usize = 96 << 20;
/// Number of rows of the small matrix.
const SMALL: usize = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let columns: usize = arguments.next().and_then(|columns| columns.parse().ok()).unwrap_or(2048);
    let only = arguments.next();
    println!("{:?}, {columns} columns; plain reading {:.1} GB/s", Tier::best(), reading());
    println!("type    1: GB/s     2      4      8     16     64    512  512/16  GMAC/s   pack GB/s");
    for encoding in TYPES {
        let (len, block) = encoding.block();
        let name = format!("{encoding:?}");
        if columns.is_multiple_of(len) && only.as_ref().is_none_or(|only| *only == name) {
            measure(encoding, &name, columns, columns / len * block);
        }
    }
}

fn measure(encoding: Encoding, name: &str, columns: usize, row_bytes: usize) {
    let x: Vec<f32> = (0..512 * columns).map(|i| (i * 7919 % 1009) as f32 / 504.0 - 1.0).collect();
    let groups = Activation::quantize(&x);
    let rests = Activation::rests(&x, &groups);
    let count = Q16Block::count(columns);
    let mut words = vec![Q16Block::default(); 512 * count];
    for (x, words) in x.chunks(columns).zip(words.chunks_mut(count)) {
        Q16Block::quantize_into(x, words);
    }
    let token = |t: usize, is_fine: bool| {
        let len = groups.len() / 512;
        let (values, part) = (&x[t * columns..(t + 1) * columns], t * len..(t + 1) * len);
        let words = &words[t * count..(t + 1) * count];
        if is_fine {
            Activation::fine(values, &groups[part.clone()], &rests[part]).with_words(words)
        } else {
            Activation::new(values, &groups[part]).with_words(words)
        }
    };

    let rows = LARGE / row_bytes / 16 * 16;
    let bytes = bytes(rows * row_bytes);
    let packing = Packing::plain(encoding);
    let mut packed = vec![0; PackedRows::bytes_for(packing, rows, columns)];
    let pack_time = seconds(1, || pack(packing, &bytes, row_bytes, &mut packed));
    let large = PackedRows::new(packing, rows, columns, &packed);
    let mut out = vec![0.0; rows];
    let one = seconds(5, || large.products(0, &[token(0, false)], MatrixMut::new(&mut out, rows)));
    print!("{name:7} {:8.1}", packed.len() as f64 / one / 1e9);

    let packed = &packed[..PackedRows::bytes_for(packing, SMALL, columns)];
    let small = PackedRows::new(packing, SMALL, columns, packed);
    let cases = [(2, false), (4, false), (8, false), (16, false), (64, false), (512, false), (512, true)];
    for (tokens, is_fine) in cases {
        let x: Vec<Activation<'_>> = (0..tokens).map(|t| token(t, is_fine)).collect();
        let mut out = vec![0.0; tokens * SMALL];
        let repeats = 512 / tokens;
        let time =
            seconds(5, || (0..repeats).for_each(|_| small.products(0, &x, MatrixMut::new(&mut out, SMALL))));
        print!(" {:6.0}", (repeats * tokens * SMALL * columns) as f64 / time / 1e9);
    }
    println!("           {:6.2}", bytes.len() as f64 / pack_time / 1e9);
}

/// Returns bytes that are moderate scales in every type.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| 0x20 | (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] & 0x1f).collect()
}

/// Returns the speed of plain reading, in gigabytes per second.
fn reading() -> f64 {
    let words = vec![1u64; LARGE / 8];
    let time = seconds(5, || {
        black_box(words.iter().fold(0, |all, word| all ^ word));
    });
    LARGE as f64 / time / 1e9
}

/// Returns the shortest of `times` times, in seconds.
fn seconds(times: usize, mut work: impl FnMut()) -> f64 {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}
