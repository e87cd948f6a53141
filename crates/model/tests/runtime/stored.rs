//! Models with matrices in the quantised formats of published checkpoints. Each is compared with a
//! model of plain floats that have the same values.

use candle_core::quantized::GgmlDType;
use formwork_model::{Model, OpenOptions};
use formwork_vocab::TokenId;
use serde_json::{Value, json};

use crate::published::{Golden, Stored, goldens, write_safetensors};
use crate::writer::Writer;
use crate::{converted, tiny};

const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn golden(name: &str) -> Golden {
    goldens().into_iter().find(|(given, _)| given == name).unwrap().1
}

/// Compares the residual streams of two models. Activations are rounded to 8 bits for products with
/// quantised weights, and 8-bit floats are rounded to 8-bit integers.
fn assert_close(golden: &Golden, [given, expected]: &[Model; 2]) {
    let tokens: Vec<TokenId> = golden.tokens.iter().copied().map(TokenId).collect();
    let states = |model: &Model| model.hidden_states(&tokens).unwrap();
    for (given, expected) in states(given).iter().zip(&states(expected)) {
        let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
        let error = norm(&mut given.iter().zip(expected).map(|(given, expected)| given - expected));
        let size = norm(&mut expected.iter().copied());
        assert!(error < 0.02 * size, "{error} of {size}");
    }
}

/// The tensors of a quantised matrix without the start of their names, and its values.
type Quantised = (Vec<Stored>, Vec<f32>);

/// Compares a model whose matrices `quantise` converts with a model of the resulting values.
/// `write` adds the description of the formats to the checkpoint.
fn compare(
    golden: &Golden,
    quantise: impl Fn(&str, [usize; 2], &[f32]) -> Option<Quantised>,
    write: impl Fn(&std::path::Path),
) {
    let (mut quantised, mut plain) = (Vec::new(), Vec::new());
    for (name, shape) in &golden.tensors {
        let stored = golden.stored(name);
        let found = match **shape {
            [rows, columns] => quantise(name, [rows, columns], &golden.values(name)),
            _ => None,
        };
        let Some((parts, values)) = found else {
            quantised.push(stored.clone());
            plain.push(stored);
            continue;
        };
        let module = name.strip_suffix("weight").unwrap();
        quantised
            .extend(parts.into_iter().map(|part| Stored { name: format!("{module}{}", part.name), ..part }));
        plain.push(Stored { bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect(), ..stored });
    }
    let open = |tensors, is_quantised: bool| {
        let folder = golden.checkpoint();
        if is_quantised {
            write(folder.path());
        }
        write_safetensors(&folder.path().join("model.safetensors"), tensors);
        Model::open(folder.path(), OpenOptions::default()).unwrap()
    };
    assert_close(golden, &[open(quantised, true), open(plain, false)]);
}

/// Writes a `config.json` with a quantisation.
fn with_config<'a>(golden: &'a Golden, quantization: &'a Value) -> impl Fn(&std::path::Path) + 'a {
    move |folder| {
        let mut config = golden.config.clone();
        config.insert("quantization_config".to_owned(), quantization.clone());
        std::fs::write(folder.join("config.json"), Value::from(config).to_string()).unwrap();
    }
}

fn part(name: &str, dtype: &'static str, shape: Vec<usize>, bytes: Vec<u8>) -> Stored {
    Stored { name: name.to_owned(), dtype, shape, bytes }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the index of the level next to `x`.
fn nearest(x: f32, levels: &[f32]) -> usize {
    let distance = |index: &usize| (levels[*index] - x).abs();
    (0..levels.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap()
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// Rounds rows to 8-bit floats with a scale per row.
fn fp8([rows, columns]: [usize; 2], values: &[f32]) -> Quantised {
    let level = |code: u8| {
        let (exponent, mantissa) = (i32::from(code >> 3), f32::from(code & 7) / 8.0);
        if exponent == 0 { mantissa / 64.0 } else { (1.0 + mantissa) * 2f32.powi(exponent - 7) }
    };
    let levels: Vec<f32> = (0..127).map(level).collect();
    let (mut scales, mut codes, mut rounded) = (Vec::new(), Vec::new(), Vec::new());
    for row in values.chunks(columns) {
        let scale = largest(row) / 448.0;
        scales.push(scale);
        for x in row {
            let code = nearest(x.abs() / scale, &levels);
            codes.push(code as u8 | u8::from(*x < 0.0) << 7);
            rounded.push((levels[code] * scale).copysign(*x));
        }
    }
    let scales = part("weight_scale", "F32", vec![rows, 1], floats(&scales));
    (vec![part("weight", "F8_E4M3", vec![rows, columns], codes), scales], rounded)
}

/// Rounds 16 values to 4-bit floats. Returns the exponent of the scale, the codes and the values.
fn float4(values: &[f32]) -> (i32, Vec<u8>, Vec<f32>) {
    let exponent = (largest(values) / 6.0).log2().ceil() as i32;
    let scale = 2f32.powi(exponent);
    let code = |x: &f32| nearest(x.abs() / scale, &E2M1) as u8 | u8::from(*x < 0.0) << 3;
    let codes: Vec<u8> = values.iter().map(code).collect();
    let value = |(code, x): (&u8, &f32)| (E2M1[usize::from(code & 7)] * scale).copysign(*x);
    let rounded = codes.iter().zip(values).map(value).collect();
    (exponent, codes, rounded)
}

/// Returns the 8-bit float `2^exponent`.
fn power(exponent: i32) -> u8 {
    ((exponent + 7) << 3) as u8
}

/// Rounds rows to NVFP4, with the factor 1/64.
fn nvfp4([rows, columns]: [usize; 2], values: &[f32], names: [&str; 2], factor: f32) -> Quantised {
    let (mut scales, mut pairs, mut rounded) = (Vec::new(), Vec::new(), Vec::new());
    for group in values.chunks(16) {
        let (exponent, codes, values) = float4(group);
        scales.push(power(exponent + 6));
        pairs.extend(codes.chunks(2).map(|pair| pair[0] | pair[1] << 4));
        rounded.extend(values);
    }
    let parts = vec![
        part(names[0], "U8", vec![rows, columns / 2], pairs),
        part("weight_scale", "F8_E4M3", vec![rows, columns / 16], scales),
        part(names[1], "F32", vec![1], floats(&[factor])),
    ];
    (parts, rounded)
}

/// Rounds rows to 4 bits in groups of 32, in the layout of GPTQ. The zero points are 5.
fn gptq([rows, columns]: [usize; 2], values: &[f32]) -> Quantised {
    let groups = columns / 32;
    let mut weights = vec![0u32; columns / 8 * rows];
    let mut scales = vec![0f32; groups * rows];
    let mut rounded = vec![0.0; values.len()];
    for (row, values) in values.chunks(columns).enumerate() {
        for (group, values) in values.chunks(32).enumerate() {
            let scale = largest(values) / 5.0;
            scales[group * rows + row] = scale;
            for (i, x) in values.iter().enumerate() {
                let (column, code) = (group * 32 + i, (x / scale + 5.0).round().clamp(0.0, 15.0));
                weights[column / 8 * rows + row] |= (code as u32) << (column % 8 * 4);
                rounded[row * columns + column] = (code - 5.0) * scale;
            }
        }
    }
    let zeros = vec![0x4444_4444; groups * rows / 8];
    let parts = vec![
        part("qweight", "I32", vec![columns / 8, rows], words(&weights)),
        part("qzeros", "I32", vec![groups, rows / 8], words(&zeros)),
        part("scales", "F32", vec![groups, rows], floats(&scales)),
    ];
    (parts, rounded)
}

#[test]
fn several_formats_of_compressed_tensors_run() {
    let golden = golden("llama-64");
    let config = json!({
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "config_groups": {
            "group_0": { "format": "float-quantized", "targets": ["re:.*self_attn.*"] },
            "group_1": { "format": "nvfp4-pack-quantized", "targets": ["re:.*mlp.*"] },
        },
        "ignore": ["lm_head", "model.layers.1.mlp.gate_proj"],
    });
    let quantise = |name: &str, shape, values: &[f32]| match name {
        "model.layers.1.mlp.gate_proj.weight" => None,
        _ if name.contains("self_attn") => Some(fp8(shape, values)),
        _ if name.contains("mlp") => {
            Some(nvfp4(shape, values, ["weight_packed", "weight_global_scale"], 64.0))
        }
        _ => None,
    };
    compare(&golden, quantise, with_config(&golden, &config));
}

/// Tests the older form of the Model Optimizer, whose description is a file of its own.
#[test]
fn experts_of_the_model_optimizer_run() {
    let golden = golden("qwen3-moe-64");
    let quantise = |name: &str, shape, values: &[f32]| {
        name.contains("experts").then(|| nvfp4(shape, values, ["weight", "weight_scale_2"], 1.0 / 64.0))
    };
    compare(&golden, quantise, |folder| {
        let quantization = json!({ "quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"] });
        let file = json!({ "producer": { "name": "modelopt" }, "quantization": quantization });
        std::fs::write(folder.join("hf_quant_config.json"), file.to_string()).unwrap();
    });
}

/// Tests GPTQ with tensors of several projections.
#[test]
fn gptq_runs() {
    for name in ["llama-64", "phi3-64"] {
        let golden = golden(name);
        let config = json!({ "quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": false });
        let quantise =
            |name: &str, shape, values: &[f32]| name.contains("_proj").then(|| gptq(shape, values));
        compare(&golden, quantise, with_config(&golden, &config));
    }
}

/// Writes the matrices of the layers as NVFP4, and a factor for each matrix.
fn write_nvfp4(writer: &mut Writer, name: &str, shape: &[u64], values: &[f32]) -> bool {
    let Some((blocks, factors, _)) = gguf_nvfp4(name, shape, values) else { return false };
    let place = (40, writer.data_len());
    writer.raw_tensor(name, shape, place, &blocks);
    let scale = name.replace(".weight", ".scale");
    writer.tensor(&scale, &[factors.len() as u64], GgmlDType::F32, &factors);
    true
}

/// Writes the values of the same matrices as plain floats.
fn write_floats(writer: &mut Writer, name: &str, shape: &[u64], values: &[f32]) -> bool {
    let Some((_, _, rounded)) = gguf_nvfp4(name, shape, values) else { return false };
    let place = (0, writer.data_len());
    writer.raw_tensor(name, shape, place, &floats(&rounded));
    true
}

/// Returns the blocks, the factors and the values of a matrix. Returns `None` for tensors that
/// remain floats.
fn gguf_nvfp4(name: &str, shape: &[u64], values: &[f32]) -> Option<(Vec<u8>, Vec<f32>, Vec<f32>)> {
    let is_matrix = name.starts_with("blk") && name.ends_with("weight") && shape.len() > 1;
    if !is_matrix || name.contains("ffn_gate_inp") || !shape[0].is_multiple_of(64) {
        return None;
    }
    let count = shape.get(2).map_or(1, |&count| count as usize);
    let factors: Vec<f32> = (0..count).map(|matrix| 1.0 / (64.0 + matrix as f32)).collect();
    let (mut blocks, mut rounded) = (Vec::new(), Vec::new());
    for (matrix, factor) in values.chunks(values.len() / count).zip(&factors) {
        for block in matrix.chunks(64) {
            let groups: Vec<_> = block.chunks(16).map(float4).collect();
            blocks.extend(groups.iter().map(|(exponent, ..)| power(exponent + 6)));
            for (_, codes, values) in groups {
                blocks.extend((0..8).map(|i| codes[i] | codes[i + 8] << 4));
                rounded.extend(values.iter().map(|x| x * 64.0 * factor));
            }
        }
    }
    Some((blocks, factors, rounded))
}

#[test]
fn gguf_files_with_nvfp4_run() {
    for name in ["llama-64", "qwen3-moe-64"] {
        let golden = golden(name);
        let models = [write_nvfp4, write_floats].map(|encode| {
            let writer = Writer::encoding_by(encode);
            tiny::open(&converted::gguf_by(&golden, writer, GgmlDType::F32, None)).unwrap()
        });
        assert_close(&golden, &models);
    }
}
