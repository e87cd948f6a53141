//! Compares matrices in each stored format with values that `tests/stored/generate.py` computed.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use formwork_kernels::Encoding;

const VECTORS: &[u8] = include_bytes!("../../../tests/stored/vectors.safetensors");

/// Writes a checkpoint with the tensors of all cases. `change` may edit the header of the tensors.
fn checkpoint(quantization: &Value, change: impl FnOnce(&mut Value)) -> (TempDir, Checkpoint) {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({ "model_type": "llama", "quantization_config": quantization });
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let (len, rest) = VECTORS.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let mut header: Value = serde_json::from_slice(header).unwrap();
    change(&mut header);
    let header = header.to_string();
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
    std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    (folder, checkpoint)
}

/// Reads the matrix of a case.
fn read_case(checkpoint: &Checkpoint, case: &str) -> Result<Matrix, Kind> {
    let expected = checkpoint.tensor(&format!("{case}.expected")).unwrap();
    let name = if expected.shape.len() == 3 { case.to_owned() } else { format!("{case}.weight") };
    read(checkpoint, (Method::of(checkpoint)?, Purpose::Compute), &name, &expected.shape).map(Option::unwrap)
}

fn fp8(block: Option<[usize; 2]>) -> Value {
    json!({ "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": block })
}

fn compressed(format: &str) -> Value {
    let weights = json!({ "block_structure": [12, 64] });
    let groups = json!({ "group_0": { "weights": weights }, "group_1": { "weights": null } });
    json!({ "quant_method": "compressed-tensors", "format": format, "config_groups": groups })
}

fn model_opt(algorithm: &str) -> Value {
    json!({ "quant_method": "modelopt", "quant_algo": algorithm })
}

fn gptq(group: i64, format: &str) -> Value {
    json!({ "quant_method": "gptq", "bits": 4, "group_size": group, "checkpoint_format": format })
}

fn awq(group: i64) -> Value {
    json!({ "quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm" })
}

/// The cases, each with its configuration and the encoding of the matrix.
fn cases() -> Vec<(&'static str, Value, Encoding)> {
    use Encoding as E;
    vec![
        ("fp8-block", fp8(Some([12, 64])), E::Q8_0),
        ("fp8-block-powers", fp8(Some([12, 64])), E::Q8_0),
        ("fp8-experts", fp8(Some([12, 64])), E::Q8_0),
        ("fp8-tensor", fp8(None), E::Q8_0),
        ("float-block", compressed("float-quantized"), E::Q8_0),
        ("float-tensor", compressed("naive-quantized"), E::Q8_0),
        ("float-channel", compressed("mixed-precision"), E::Q8_0),
        ("int8", compressed("int-quantized"), E::Q8_0),
        ("int8-offset", compressed("int-quantized"), E::Q8_0),
        ("pack", compressed("pack-quantized"), E::Q4_0),
        ("pack-offset", compressed("pack-quantized"), E::Q4_1),
        ("pack-channel", compressed("pack-quantized"), E::Q4_0),
        ("pack-narrow", compressed("pack-quantized"), E::Q8_0),
        ("pack-order", compressed("pack-quantized"), E::Q8_0),
        ("pack-8", compressed("pack-quantized"), E::Q8_0),
        ("nvfp4", compressed("nvfp4-pack-quantized"), E::Nvfp4),
        ("nvfp4-narrow", compressed("nvfp4-pack-quantized"), E::Q8_0),
        ("mxfp4", compressed("mxfp4-pack-quantized"), E::Mxfp4),
        ("modelopt-nvfp4", model_opt("NVFP4"), E::Nvfp4),
        ("modelopt-nvfp4-narrow", model_opt("MIXED_PRECISION"), E::Q8_0),
        ("modelopt-fp8", model_opt("MIXED_PRECISION"), E::Q8_0),
        ("gptq", gptq(32, "gptq"), E::Q4_0),
        ("gptq-offset", gptq(64, "gptq"), E::Q4_1),
        ("gptq-v2", gptq(32, "gptq_v2"), E::Q4_1),
        ("gptq-row", gptq(-1, "gptq"), E::Q4_0),
        ("gptq-order", gptq(32, "gptq"), E::Q8_0),
        ("gptq-8", gptq(32, "gptq"), E::Q8_0),
        ("gptq-2", gptq(32, "gptq"), E::Q4_1),
        ("awq", awq(32), E::Q4_1),
    ]
}

/// Cases whose elements are rounded to 8 bits.
fn is_rounded(case: &str) -> bool {
    ["fp8", "float", "narrow", "order", "int8-offset"].iter().any(|part| case.contains(part))
}

#[test]
fn matrices_have_the_values_of_the_reference() {
    for (case, config, encoding) in cases() {
        let (_folder, checkpoint) = checkpoint(&config, |_| {});
        let matrix = read_case(&checkpoint, case).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(matrix.encoding(), encoding, "{case}");
        let shape = &checkpoint.tensor(&format!("{case}.expected")).unwrap().shape;
        let expected = checkpoint.values(&format!("{case}.expected"), shape).unwrap();
        let mut given = vec![f32::NAN; expected.len()];
        matrix.dequantize(0..matrix.rows, &mut given);
        let (given, expected) = (given.as_chunks::<32>().0, expected.as_chunks::<32>().0);
        let (mut errors, mut squares) = (0.0, 0.0);
        for (given, expected) in given.iter().zip(expected) {
            let largest = expected.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            // Rounding to 8 bits changes an element by half of a step. The step itself is rounded
            // to 11 bits, as are the offsets of `Q4_1`.
            let tolerance = match encoding {
                Encoding::Q8_0 if is_rounded(case) => largest * (0.5 / 127.0 + 1.0 / 2048.0),
                Encoding::Q4_1 => largest / 2048.0,
                _ => largest * 1e-6,
            };
            for (given, expected) in given.iter().zip(expected) {
                assert!((given - expected).abs() <= tolerance, "{case}: {given} instead of {expected}");
                errors += f64::from(given - expected).powi(2);
                squares += f64::from(*expected).powi(2);
            }
        }
        println!("{case:<22} {encoding:?} {:.1e}", (errors / squares).sqrt());
    }
}

/// Returns the message of the error for a case whose header was changed.
fn error_of(case: &str, config: &Value, change: impl FnOnce(&mut Value)) -> String {
    let (_folder, checkpoint) = checkpoint(config, change);
    read_case(&checkpoint, case).expect_err(case).to_string()
}

#[test]
fn missing_tensors_are_named() {
    for (case, config, _) in cases() {
        let parts = ["weight_scale", "weight_scale_inv", "weight_scale_2", "weight", "weight_packed"];
        for part in parts.iter().chain(&["qweight", "qzeros", "scales"]) {
            let tensor = format!("{case}.{part}");
            let (_folder, whole) = checkpoint(&config, |_| {});
            if whole.tensor(&tensor).is_none() {
                continue;
            }
            let error = error_of(case, &config, |header| {
                header.as_object_mut().unwrap().remove(&tensor);
            });
            let names = [format!("{case}.weight"), tensor];
            assert!(names.iter().any(|name| error == format!("tensor {name:?} is missing")), "{error}");
        }
    }
}

#[test]
fn wrong_shapes_and_types_are_named() {
    for (case, config, _) in cases() {
        let (_folder, whole) = checkpoint(&config, |_| {});
        let parts = whole.tensors().iter().filter(|info| info.name.starts_with(&format!("{case}.")));
        for info in parts.filter(|info| !info.name.ends_with("expected")) {
            let error = error_of(case, &config, |header| {
                header[&info.name]["shape"] = json!([1, 1, 1, info.byte_len]);
                header[&info.name]["dtype"] = "BOOL".into();
            });
            assert!(error.starts_with(&format!("tensor {:?} has ", info.name)), "{error}");
        }
    }
}

#[test]
fn unsupported_methods_are_named() {
    let key = "quantization_config";
    for (config, expected) in [
        (
            json!({ "quant_method": "bitsandbytes" }),
            "quant_method\" is \"bitsandbytes\": expected one of awq",
        ),
        (json!({}), "quant_method\" is missing"),
        (json!(3), "quantization_config\" is 3: expected an object"),
        (gptq(0, "gptq"), "group_size\" is 0: expected -1 or a positive size"),
        (gptq(-2, "gptq"), "group_size\" is -2: expected -1 or a positive size"),
        (gptq(1 << 40, "gptq"), "group_size\" is 1099511627776: expected -1"),
        (gptq(32, "marlin"), "checkpoint_format\" is \"marlin\": expected gptq or gptq_v2"),
        (json!({ "quant_method": "awq", "group_size": 32, "version": "gemv" }), "version\" is \"gemv\""),
        (compressed("marlin-24"), "format\" is \"marlin-24\": expected one of dense"),
        (model_opt("W4A8_AWQ"), "quant_algo\" is \"W4A8_AWQ\": expected one of FP8"),
        (fp8(Some([0, 1])), "weight_block_size\" is [0,1]: expected two positive sizes"),
        (
            json!({ "quant_method": "compressed-tensors", "transform_config": { "config_groups": { "u": {} } } }),
            "transform_config\" is",
        ),
    ] {
        let error = error_of("gptq", &config, |_| {});
        assert!(error.contains(expected) && error.contains(key), "{error}");
    }
}

/// Tests groups that do not divide the columns, and groups of other sizes than the configuration
/// says.
#[test]
fn absurd_groups_are_errors() {
    let wrong = |case: &str, config: &Value, tensor: &str, shape: Value, expected: &str| {
        let error = error_of(case, config, |header| header[tensor]["shape"] = shape);
        assert!(error.contains(expected), "{error}");
    };
    let expected = "tensor \"pack.weight_scale\" has shape [64], expected [1, 16]";
    wrong("pack", &compressed("pack-quantized"), "pack.weight_scale", json!([64]), expected);
    let expected = "tensor \"gptq.scales\" has shape [16, 4], expected [16, 8]";
    wrong("gptq", &gptq(16, "gptq"), "gptq.scales", json!([4, 16]), expected);
    let expected = "tensor \"awq.scales\" has shape [16, 4], expected [16, 1]";
    wrong("awq", &awq((1 << 31) - 1), "awq.scales", json!([4, 16]), expected);
    let expected = "tensor \"fp8-block.weight_scale_inv\" has shape [2, 2], expected [96, 16]";
    wrong("fp8-block", &fp8(Some([1, 1])), "fp8-block.weight_scale_inv", json!([2, 2]), expected);
}

/// Tests plain float weights in a quantised checkpoint, which its configuration excludes.
#[test]
fn plain_tensors_stay_as_they_are() {
    let (_folder, checkpoint) = checkpoint(&gptq(32, "gptq"), |header| {
        header["gptq.weight"] = header["gptq.expected"].take();
        header.as_object_mut().unwrap().retain(|_, entry| !entry.is_null());
    });
    let method = Method::of(&checkpoint).unwrap();
    assert!(read(&checkpoint, (method, Purpose::Compute), "gptq.weight", &[128, 16]).unwrap().is_none());
    assert_eq!(rows(&checkpoint, "gptq"), Some(16));
    assert_eq!(rows(&checkpoint, "awq"), Some(16));
    assert_eq!(rows(&checkpoint, "pack"), Some(16));
    assert_eq!(rows(&checkpoint, "none"), None);
}
