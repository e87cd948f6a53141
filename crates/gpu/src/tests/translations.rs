//! Translation of all kernels to the languages of Vulkan, Metal and Direct3D.

use std::sync::PoisonError;

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::gpu;
use crate::layer::{self, Activation, Added, Attention, KvType, Norm, QkNorm, Rotation, Shared};
use crate::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product, TILES};
use crate::weights::{Codes, Matrix, Part, Scales, Storage};
use crate::{Buffer, Gpu};

/// Compiles the products of all storages.
fn products(gpu: &Gpu, buffer: &Buffer) {
    let codes = [
        (Codes::Bytes, Scales::Half),
        (Codes::Nibbles, Scales::HalfPair),
        (Codes::FiveBits, Scales::Header),
        (Codes::SixBits, Scales::Small),
        (Codes::Nibbles, Scales::Pair),
        (Codes::Bytes, Scales::Four),
        (Codes::F16, Scales::Nothing),
        (Codes::Bf16, Scales::Nothing),
        (Codes::F32, Scales::Nothing),
    ];
    for (codes, scales) in codes {
        let planes = [(); 3].map(|()| buffer.clone());
        let matrix = Matrix {
            storage: Storage { codes, scales, bias: 8 },
            rows: 70,
            groups: 9,
            parts: vec![Part { first: 0, rows: 70, planes }],
        };
        let x = Activations::new(gpu, 8, 288);
        let output = Output { buffer: gpu.buffer(4096), stride: 70, first: 0 };
        for operand in [Operand::Bytes, Operand::Floats] {
            for outputs in [Outputs::All, Outputs::Listed(buffer.clone())] {
                let inputs =
                    Inputs { batch: buffer, x: &x, operand, bias: Some(buffer), factor: 2.0, outputs };
                let product = Product::new(gpu, &matrix, &inputs, &output);
                for tokens in TILES {
                    let batch = Batch { tokens, rows: 70, ..Batch::default() };
                    product.steps(gpu, batch, &mut Vec::new());
                    if operand == Operand::Bytes {
                        product.prompt_steps(gpu, batch, &mut Vec::new());
                    }
                }
            }
        }
    }
}

/// Compiles the other steps of a layer, with all their variants.
fn layers(gpu: &Gpu, buffer: &Buffer) {
    let x = Activations::new(gpu, 8, 288);
    let other = || gpu.buffer(1 << 16);
    let [residual, out, queries, sums, stats, keys, values] = [(); 7].map(|()| other());
    let added = |norm| Added { y: buffer, norm, scale: 0.5 };
    for added in [None, Some(added(None)), Some(added(Some(buffer)))] {
        for weight in [None, Some(buffer)] {
            let norm = Norm { width: 68, epsilon: 1e-5, added, weight, residual: &residual, out: Some(&x) };
            norm.bind(gpu, buffer, &x);
            Norm { out: None, ..norm }.bind(gpu, buffer, &x);
        }
    }
    for activation in
        [Activation::Silu, Activation::Gelu, Activation::GeluTanh, Activation::ClampedSwiglu { limit: 7.0 }]
    {
        activation.bind(gpu, buffer, (buffer, 72), &x);
    }
    layer::gather(gpu, buffer, buffer, (buffer, 68), &out);
    layer::best(gpu, buffer, (buffer, 5000), (&out, 3));
    let shared = Shared {
        batch: buffer,
        qkv: buffer,
        stride: 512,
        rotations: buffer,
        slots: buffer,
        queries: &queries,
        table: buffer,
        items: buffer,
        sums: &sums,
        stats: &stats,
        parts: buffer,
        out: &x,
    };
    for kv in [KvType::F16, KvType::F32] {
        for is_whole in [false, true] {
            let rotation = Rotation { pairs: 8, is_interleaved: is_whole, first: 4 };
            let attention = Attention {
                heads: 6,
                kv_heads: 2,
                head_dim: if is_whole { 160 } else { 16 },
                window: is_whole.then_some(40),
                softcap: is_whole.then_some(30.0),
                scale: 0.25,
                epsilon: 1e-5,
                qk_norm: Some(QkNorm { query: buffer, key: buffer, is_whole }),
                rotation: Some(rotation),
                sinks: is_whole.then_some(buffer),
                kv,
            };
            attention.bind(gpu, &shared, &keys, &values);
        }
    }
}

#[test]
fn all_kernels_are_valid_for_vulkan_metal_and_direct3d() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.buffer(1 << 16);
    products(&gpu, &buffer);
    layers(&gpu, &buffer);
    gpu.check().unwrap();
    let compiled = gpu.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(compiled.len() > 100, "{}", compiled.len());
    for source in compiled.keys() {
        let module = naga::front::wgsl::parse_str(source).unwrap();
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
        let info = validator.validate(&module).unwrap();
        spv::write_vec(&module, &info, &spv::Options::default(), None).unwrap();
        msl::write_string(&module, &info, &msl::Options::default(), &msl::PipelineOptions::default())
            .unwrap();
        let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_4, ..hlsl::Options::default() };
        let pipeline = hlsl::PipelineOptions::default();
        let mut text = String::new();
        hlsl::Writer::new(&mut text, &options, &pipeline).write(&module, &info, None).unwrap();
    }
}
