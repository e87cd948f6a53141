//! Models with matrices in types of one to four bits, and the same models with the matrices as
//! floats.

use candle_core::quantized::GgmlDType;
use formwork_kernels::{Encoding, dequantize};
use half::f16;

use crate::files::{golden, logits, wide};
use crate::writer::Writer;
use crate::{converted, tiny};

/// A type, its number in files, and the place of the scale in a block. `None` stands for the last
/// four words of the block, which have four bits of the scale each.
type Type = (Encoding, u32, Option<usize>);

const TYPES: [Type; 11] = [
    (Encoding::Iq2Xxs, 16, Some(0)),
    (Encoding::Iq2Xs, 17, Some(0)),
    (Encoding::Iq3Xxs, 18, Some(0)),
    (Encoding::Iq1S, 19, Some(0)),
    (Encoding::Iq3S, 21, Some(0)),
    (Encoding::Iq2S, 22, Some(0)),
    (Encoding::Iq1M, 29, None),
    (Encoding::Tq1_0, 34, Some(52)),
    (Encoding::Tq2_0, 35, Some(64)),
    (Encoding::Q1_0, 41, Some(0)),
    (Encoding::Q2_0, 42, Some(0)),
];

fn put_scale((.., place): Type, block: &mut [u8], scale: f16) {
    let bits = scale.to_bits();
    if let Some(at) = place {
        block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
        return;
    }
    for (i, word) in block[48..].chunks_exact_mut(2).enumerate() {
        word[1] = word[1] & 15 | ((bits >> (4 * i)) as u8 & 15) << 4;
    }
}

/// Returns a block of random codes whose elements have the root mean square `size`, and its
/// elements.
fn block(of: Type, size: f32, state: &mut u64) -> (Vec<u8>, Vec<f32>) {
    let (len, bytes) = of.0.block();
    let mut random = || {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 56) as u8
    };
    let mut block: Vec<u8> = (0..bytes).map(|_| random()).collect();
    let mut values = vec![0.0; len];
    put_scale(of, &mut block, f16::ONE);
    dequantize(of.0, &block, &mut values);
    let mean_square = values.iter().map(|x| x * x).sum::<f32>() / len as f32;
    put_scale(of, &mut block, f16::from_f32(size / mean_square.sqrt()));
    dequantize(of.0, &block, &mut values);
    (block, values)
}

/// Returns a model with matrices of type `of`, and the model with the same matrices as floats.
fn models(of: Type) -> [Vec<u8>; 2] {
    let golden = wide(golden("llama-64"));
    let mut writers = [Writer::default(), Writer::default()];
    for writer in &mut writers {
        converted::write_part(&golden, writer, true, &|name| name.contains("norm"));
    }
    let mut state = 1;
    let mut matrix = |name: &str, columns: usize, rows: usize, size: f32| {
        let count = columns * rows / of.0.block().0;
        let (blocks, values): (Vec<_>, Vec<_>) =
            (0..count).map(|_| block(of, size / (columns as f32).sqrt(), &mut state)).unzip();
        let shape = [columns as u64, rows as u64];
        let [low, floats] = &mut writers;
        low.raw_tensor(name, &shape, (of.1, low.data_len()), &blocks.concat());
        floats.tensor(name, &shape, GgmlDType::F32, &values.concat());
    };
    matrix("token_embd.weight", 256, 96, 16.0);
    matrix("output.weight", 256, 96, 1.0);
    for layer in 0..4 {
        for (part, columns, rows) in [
            ("attn_q", 256, 256),
            ("attn_k", 256, 128),
            ("attn_v", 256, 128),
            ("attn_output", 256, 256),
            ("ffn_gate", 256, 512),
            ("ffn_up", 256, 512),
            ("ffn_down", 512, 256),
        ] {
            matrix(&format!("blk.{layer}.{part}.weight"), columns, rows, 1.0);
        }
    }
    writers.map(|writer| writer.finish())
}

#[test]
fn models_of_few_bits_are_close_to_their_floats() {
    for of in TYPES {
        let [given, expected] = models(of).map(|file| logits(&tiny::open(&file).unwrap()));
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
        let error = norm(&mut given.iter().zip(&expected).map(|(given, expected)| given - expected))
            / norm(&mut expected.iter().copied());
        eprintln!("{:?}: {error}", of.0);
        assert!(error > 0.0 && error < 0.02, "{:?}: {error}", of.0);
    }
}
