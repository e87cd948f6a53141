//! Translation of all kernels to the languages of Vulkan, Metal and Direct3D.

use std::sync::PoisonError;

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::gpu;
use crate::attention::{Attention, KeyValues, KvType, QkNorm, Rotation, Shared};
use crate::latent::LatentAttention;
use crate::layer::{self, Activation, Added, Columns, Norm, RowNorm};
use crate::mixture::{Choice, Groups, Mix, Router, Scores};
use crate::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product, TILES};
use crate::recurrent::{Convolution, GatedNorm, Recurrence, RecurrenceKind, Sharing};
use crate::top::Top;
use crate::weights::{Codes, Matrix, Part, Scales, Storage};
use crate::{Buffer, Gpu, MatrixCores};

const STORAGES: [(Codes, Scales); 9] = [
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

fn matrix((codes, scales): (Codes, Scales), buffer: &Buffer) -> Matrix {
    let planes = [(); 3].map(|()| buffer.clone());
    Matrix {
        storage: Storage { codes, scales, bias: 8 },
        rows: 70,
        groups: 9,
        parts: vec![Part { first: 0, rows: 70, planes }],
    }
}

/// Compiles the products of all storages.
fn products(gpu: &Gpu, buffer: &Buffer) {
    for storage in STORAGES {
        let matrix = matrix(storage, buffer);
        let x = Activations::new(gpu, 8, 288);
        let output = Output { buffer: gpu.buffer(4096), stride: 70, first: 0 };
        for operand in [Operand::Bytes, Operand::Floats] {
            let choice = Choice::new(gpu, 8, (10, 3));
            let experts = Outputs::Experts { choice, rows: 7, has_pairs: operand == Operand::Bytes };
            for outputs in [Outputs::All, Outputs::Listed(buffer.clone()), experts] {
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
    let added = |norm| Added { y: buffer, norm, scale: 0.5, stream_scale: 0.25 };
    for added in [None, Some(added(None)), Some(added(Some(buffer)))] {
        for weight in [None, Some(buffer)] {
            let norm = Norm {
                width: 68,
                epsilon: 1e-5,
                added,
                weight,
                is_centred: added.is_none(),
                bias: weight.filter(|_| added.is_none()),
                residual: &residual,
                out: Some(&x),
            };
            norm.bind(gpu, buffer, &x);
            Norm { out: None, ..norm }.bind(gpu, buffer, &x);
        }
    }
    for activation in [
        Activation::Silu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::PlainGelu,
        Activation::ReluSquared,
        Activation::ClampedSwiglu { limit: 7.0 },
    ] {
        activation.bind(gpu, buffer, (buffer, 72), &x);
    }
    let columns = Columns { buffer, stride: 96, first: 4 };
    Activation::GeluTanh.bind_to(gpu, buffer, (buffer, 32, columns), &x);
    layer::round(gpu, buffer, columns, (&x, 71));
    for added in [None, Some(buffer)] {
        RowNorm { y: columns, width: 68, epsilon: 1e-5, weight: buffer, added }.bind(gpu, buffer, &x);
    }
    layer::layer_inputs(gpu, buffer, (3, 16, 1e-5), [buffer; 2], &out);
    layer::gather(gpu, buffer, buffer, (buffer, 68), &out);
    layer::best(gpu, buffer, (buffer, 5000), (&out, 3));
    for cap in [None, Some(30.0)] {
        Top::new(gpu, (buffer, 2, 5000), cap);
    }
    let shared = Shared {
        batch: buffer,
        qkv: buffer,
        stride: 512,
        gates: 160,
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
                qk_norm: Some(QkNorm { query: buffer, key: buffer, is_whole, is_rotated: !is_whole }),
                value_norm: is_whole,
                key_values: if is_whole { KeyValues::OneProjection } else { KeyValues::Own },
                rotation: Some(rotation),
                sinks: is_whole.then_some(buffer),
                is_gated: is_whole,
                kv,
            };
            attention.bind(gpu, &shared, &keys, &values);
            let latent = LatentAttention {
                heads: 6,
                plain_dim: 12,
                rope_dim: 8,
                rank: 24,
                scale: 0.25,
                epsilon: 1e-5,
                norm: buffer,
                rotation: Rotation { pairs: 4, ..rotation },
                projected: buffer,
                latent: buffer,
                kv,
            };
            latent.bind(gpu, &shared, [&keys, &values]);
        }
    }
}

/// Compiles the steps of mixtures of experts, with all their variants.
fn mixtures(gpu: &Gpu, buffer: &Buffer) {
    let choice = Choice::new(gpu, 8, (12, 3));
    let out = gpu.buffer(1 << 16);
    for (scores, is_plain) in
        [(Scores::Softmax, true), (Scores::SoftmaxOverChosen, true), (Scores::Sigmoid, false)]
    {
        let given = (!is_plain).then_some(buffer);
        let router = Router {
            experts: 12,
            used: 3,
            scores,
            groups: given.map(|_| Groups { count: 4, used: 2, best: 2 }),
            normalised: given.map(|_| 1e-20),
            scale: 2.5,
            bias: given,
            factors: given,
        };
        router.bind(gpu, buffer, buffer, &choice);
        let shared = given.map(|shared| (shared, Some(buffer)));
        Mix { width: 68, routed: Some((&choice, buffer)), shared }.bind(gpu, buffer, &out);
    }
    Mix { width: 68, routed: None, shared: Some((buffer, None)) }.bind(gpu, buffer, &out);
}

/// Compiles convolutions and recurrences, with all their variants.
fn recurrences(gpu: &Gpu, buffer: &Buffer) {
    let [state, out] = [(); 2].map(|()| gpu.buffer(1 << 16));
    let x = Columns { buffer, stride: 400, first: 16 };
    let kinds = [
        RecurrenceKind::DeltaRule { rates: 300, query_scale: 0.25 },
        RecurrenceKind::Mamba2 { limits: [0.0, f32::INFINITY] },
    ];
    for kind in kinds {
        let is_gated = kind == kinds[0];
        let given = is_gated.then_some(buffer);
        let convolution = Convolution { x, channels: 70, kernel: 4, factors: buffer, bias: given, is_gated };
        convolution.bind(gpu, (buffer, buffer), &state, &out);
        let recurrence = Recurrence {
            x,
            mixed: x,
            kind,
            heads: 4,
            rows: 12,
            columns: 70,
            sharing: if is_gated { Sharing::Neighbours(2) } else { Sharing::Alternating(2) },
            starts: [0, 24, 48],
            times: 304,
            constants: buffer,
        };
        recurrence.bind(gpu, (buffer, buffer), &state, &out);
        let norm = GatedNorm {
            len: 280,
            norms: if is_gated { 4 } else { 1 },
            epsilon: 1e-5,
            weight: (buffer, if is_gated { 70 } else { 280 }),
            is_gated_first: !is_gated,
            skip: (!is_gated).then_some((buffer, 70, x)),
        };
        norm.bind(gpu, buffer, (buffer, x), &Activations::new(gpu, 8, 288));
    }
}

#[test]
fn all_kernels_are_valid_for_vulkan_metal_and_direct3d() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.buffer(1 << 16);
    products(&gpu, &buffer);
    layers(&gpu, &buffer);
    mixtures(&gpu, &buffer);
    recurrences(&gpu, &buffer);
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

/// Also without a device that has matrix cores.
#[test]
fn kernels_for_matrix_cores_are_valid_for_vulkan() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.buffer(1 << 16);
    let x = Activations::new(&gpu, 8, 288);
    let output = Output { buffer: gpu.buffer(4096), stride: 70, first: 0 };
    for storage in STORAGES.into_iter().filter(|(codes, _)| !codes.is_float()) {
        let (operand, outputs) = (Operand::Bytes, Outputs::All);
        let inputs = Inputs { batch: &buffer, x: &x, operand, bias: Some(&buffer), factor: 2.0, outputs };
        let product = Product::new(&gpu, &matrix(storage, &buffer), &inputs, &output);
        // NVIDIA has blocks of 16, and lavapipe of 8.
        for (size, subgroup) in [(16, 32), (8, 8)] {
            let source = product.core_source(0, MatrixCores { size, subgroup });
            let module = naga::front::wgsl::parse_str(&source).unwrap();
            let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
            let info = validator.validate(&module).unwrap();
            spv::write_vec(&module, &info, &spv::Options::default(), None).unwrap();
        }
    }
}
