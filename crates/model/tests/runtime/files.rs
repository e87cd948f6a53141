//! Tests of checkpoints with several files, and of conversion on load.

use std::path::Path;

use candle_core::quantized::GgmlDType;
use formwork_lm::{Role, Wanted};
use formwork_model::{LoadError, Model, OpenOptions, Quantization};
use formwork_vocab::TokenId;
use serde_json::{Value, json};

use crate::converted;
use crate::published::{Golden, Stored, goldens, write_safetensors};
use crate::tiny::{self, append};
use crate::writer::Writer;

pub(crate) fn golden(name: &str) -> Golden {
    goldens().into_iter().find(|(given, _)| given == name).unwrap().1
}

/// Widens the matrices of a model of 64 elements, so that rows are whole blocks of 256.
pub(crate) fn wide(mut golden: Golden) -> Golden {
    golden.config.insert("hidden_size".to_owned(), 256.into());
    golden.config.insert("head_dim".to_owned(), 64.into());
    golden.config.insert("intermediate_size".to_owned(), 512.into());
    for shape in golden.tensors.values_mut() {
        for dim in shape.iter_mut().filter(|dim| **dim != 96) {
            *dim = if *dim == 32 { 128 } else { 256 };
        }
    }
    for (name, shape) in golden.tensors.iter_mut().filter(|(name, _)| name.contains("mlp")) {
        *shape = if name.contains("down") { vec![256, 512] } else { vec![512, 256] };
    }
    golden
}

pub(crate) fn logits(model: &Model) -> Vec<f32> {
    let tokens: Vec<TokenId> = (0..24).map(|at| TokenId(at * 7 % 96)).collect();
    let mut decoder = model.language_model();
    let sequence = decoder.open();
    append(&mut *decoder, sequence, &tokens, Role::Prompt, Wanted::All).unwrap()
}

fn open(path: &Path) -> Result<Model, LoadError> {
    Model::open(path, OpenOptions::default())
}

/// Returns the error of opening a path, with the folder removed from it.
fn fault(path: &Path, folder: &Path) -> String {
    let error = open(path).expect_err("it should not open").to_string();
    error.replace(&format!("{}/", folder.display()), "").replace(&folder.display().to_string(), "FOLDER")
}

/// Splits a model into `count` GGUF files. The first has the tensors outside of layers; the others
/// have the layers.
fn parts(golden: &Golden, folder: &Path, count: u32) {
    for index in 0..count {
        let mut writer = Writer::default();
        let here = |name: &str| match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, _)) => layer.parse::<u32>().unwrap() % (count - 1) + 1 == index,
            None => index == 0,
        };
        writer.u32("split.no", index);
        writer.u32("split.count", count);
        writer.u32("split.tensors.count", golden.tensors.len() as u32);
        converted::write_part(golden, &mut writer, index == 0, &here);
        let name = format!("tiny-{:05}-of-{count:05}.gguf", index + 1);
        std::fs::write(folder.join(name), writer.finish()).unwrap();
    }
}

#[test]
fn a_split_file_is_the_same_as_a_whole_one() {
    let golden = golden("qwen3-64");
    let expected = logits(&tiny::open(&converted::gguf(&golden)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    parts(&golden, folder.path(), 3);
    let model = open(&folder.path().join("tiny-00001-of-00003.gguf")).unwrap();
    assert_eq!(logits(&model), expected);
    let sizes = std::fs::read_dir(folder.path()).unwrap().map(|part| part.unwrap().metadata().unwrap().len());
    assert_eq!(model.checkpoint().byte_len() as u64, sizes.sum::<u64>());
}

#[test]
fn faults_of_parts_are_named() {
    let golden = golden("qwen3-64");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    parts(&golden, folder, 3);
    let part = |index: u32| folder.join(format!("tiny-{index:05}-of-00003.gguf"));
    let second = fault(&part(2), folder);
    assert_eq!(
        second,
        "tiny-00002-of-00003.gguf: this is part 2 of 3; open the first part, tiny-00001-of-00003.gguf"
    );
    let odd = folder.join("odd.gguf");
    std::fs::copy(part(1), &odd).unwrap();
    let message =
        "the first of 3 parts must be named NAME-00001-of-00003.gguf, so that the others can be found";
    assert_eq!(fault(&odd, folder), format!("odd.gguf: {message}"));
    std::fs::copy(part(2), part(3)).unwrap();
    assert_eq!(fault(&part(1), folder), "tiny-00003-of-00003.gguf: not part 3 of 3 of the same file");
    std::fs::remove_file(part(3)).unwrap();
    assert_eq!(fault(&part(1), folder), "tiny-00003-of-00003.gguf: cannot be read");
}

/// Writes a model as two safetensors files with an index.
fn shards(golden: &Golden, folder: &Path) {
    std::fs::write(folder.join("config.json"), Value::from(golden.config.clone()).to_string()).unwrap();
    let (first, second): (Vec<Stored>, Vec<Stored>) =
        golden.tensors.keys().map(|name| golden.stored(name)).partition(|tensor| tensor.name.contains("mlp"));
    let file = |index: usize| format!("model-{index:05}-of-00002.safetensors");
    let entry = |index: usize, tensors: &[Stored]| {
        let names = tensors.iter().map(move |tensor| (tensor.name.clone(), Value::from(file(index))));
        names.collect::<Vec<_>>()
    };
    let map = [entry(1, &first), entry(2, &second)].concat().into_iter().collect::<serde_json::Map<_, _>>();
    std::fs::write(folder.join("model.safetensors.index.json"), json!({ "weight_map": map }).to_string())
        .unwrap();
    write_safetensors(&folder.join(file(1)), first);
    write_safetensors(&folder.join(file(2)), second);
}

#[test]
fn shards_are_the_same_as_one_file() {
    let golden = golden("gemma3-64");
    let (whole, sharded) = (golden.checkpoint(), tempfile::tempdir().unwrap());
    shards(&golden, sharded.path());
    let expected = logits(&open(whole.path()).unwrap());
    assert_eq!(logits(&open(sharded.path()).unwrap()), expected);
    // The path of a file opens its folder.
    assert_eq!(logits(&open(&whole.path().join("model.safetensors")).unwrap()), expected);
    assert_eq!(logits(&open(&sharded.path().join("model.safetensors.index.json")).unwrap()), expected);
}

#[test]
fn faults_of_folders_are_named() {
    let golden = golden("llama-64");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(fault(folder, folder), "config.json: cannot be read");
    shards(&golden, folder);
    let index = folder.join("model.safetensors.index.json");
    let sound = std::fs::read_to_string(&index).unwrap();
    let with = |from: &str, to: &str| {
        std::fs::write(&index, sound.replacen(from, to, 1)).unwrap();
        fault(folder, folder)
    };
    let name = "model.safetensors.index.json";
    assert_eq!(
        with("model-00001", "../model-00001"),
        format!(
            "{name}: \"../model-00001-of-00002.safetensors\" is not the name of a file in the same folder"
        )
    );
    assert_eq!(with("model-00001-of-00002", "other"), "other.safetensors: cannot be read");
    let moved = with("00002-of-00002", "00001-of-00002");
    assert!(
        moved.starts_with(&format!("{name}: tensor "))
            && moved.ends_with(" is not in model-00001-of-00002.safetensors"),
        "{moved}"
    );
    assert_eq!(with("{", "["), format!("{name}: invalid or unexpected JSON"));
    std::fs::write(&index, &sound).unwrap();
    std::fs::remove_file(folder.join("model-00002-of-00002.safetensors")).unwrap();
    assert_eq!(fault(folder, folder), "model-00002-of-00002.safetensors: cannot be read");
}

#[test]
fn faults_of_configurations_are_named() {
    let mut golden = golden("llama-64");
    let sound = golden.config.clone();
    let mut with = |key: &str, value: Value| {
        golden.config.clone_from(&sound);
        golden.config.insert(key.to_owned(), value);
        let folder = golden.checkpoint();
        fault(folder.path(), folder.path())
    };
    let known = "bert, cohere2, deepseek_v2, deepseek_v3, ernie4_5, ernie4_5_moe, exaone4, gemma, gemma2, gemma3_text, gemma4_text, gemma4_unified_text, glm4, glm4_moe, glm4_moe_lite, gpt_oss, granite, granitemoehybrid, helium, hunyuan_v1_dense, kimi_k2, lfm2, lfm2_moe, llama, minimax_m2, ministral3, mistral, mistral4, mixtral, modernbert, nemotron_h, nomic_bert, olmo, olmo2, olmo3, olmoe, phi, phi3, qwen2, qwen2_moe, qwen3, qwen3_5_moe_text, qwen3_5_text, qwen3_moe, qwen3_next, qwen3_vl_moe_text, qwen3_vl_text, seed_oss, smollm3, starcoder2";
    assert_eq!(
        with("model_type", "mamba".into()),
        format!("config.json: unsupported architecture \"mamba\"; expected one of {known}")
    );
    assert_eq!(with("hidden_size", Value::Null), "config.json: metadata key \"hidden_size\" is missing");
    assert_eq!(
        with("hidden_size", "64".into()),
        "config.json: metadata key \"hidden_size\" holds a string, expected an unsigned integer"
    );
    assert_eq!(
        with("num_key_value_heads", 3.into()),
        "config.json: metadata key \"num_key_value_heads\" is 3: it must divide the number of heads"
    );
    assert_eq!(with("rms_norm_eps", Value::Null), "config.json: metadata key \"rms_norm_eps\" is missing");
    assert_eq!(
        with("hidden_act", "relu".into()),
        "config.json: metadata key \"hidden_act\" is relu: this architecture supports only silu"
    );
    assert_eq!(
        with("num_hidden_layers", 1_000_000.into()),
        "config.json: metadata key \"num_hidden_layers\" is 1000000: it must not exceed the number of tensors"
    );
    assert_eq!(
        with("num_hidden_layers", 5.into()),
        "FOLDER: tensor \"model.layers.4.input_layernorm.weight\" is missing"
    );
    assert_eq!(
        with("intermediate_size", 95.into()),
        "model.safetensors: tensor \"model.layers.0.mlp.down_proj.weight\" has shape [96, 64], expected [95, 64]"
    );
    let nameless = with("rope_scaling", json!({ "factor": 2.0 }));
    assert_eq!(nameless, "config.json: metadata key \"rope_type\" is missing");
    let scaling = json!({ "rope_type": "dynamic", "factor": 2.0 });
    assert_eq!(
        with("rope_scaling", scaling),
        "config.json: metadata key \"rope_type\" is dynamic: expected none, linear, llama3, yarn or longrope"
    );
}

#[test]
fn faults_of_headers_are_named() {
    let golden = golden("llama-64");
    let folder = golden.checkpoint();
    let file = folder.path().join("model.safetensors");
    let with = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.resize(bytes.len() + data, 0);
        std::fs::write(&file, bytes).unwrap();
        fault(folder.path(), folder.path()).strip_prefix("model.safetensors: ").unwrap().to_owned()
    };
    let one = |entry: &str, data| with(&format!("{{\"t\":{entry}}}"), data);
    assert_eq!(with("nonsense", 0), "invalid or unexpected JSON");
    assert_eq!(one("3", 4), "invalid entry of tensor \"t\"");
    assert_eq!(
        one(r#"{"dtype":"F9","shape":[1],"data_offsets":[0,4]}"#, 4),
        "tensor \"t\" at offset 61 has the unknown type \"F9\""
    );
    assert_eq!(
        one(r#"{"dtype":"F32","shape":[1],"data_offsets":[0,5]}"#, 5),
        "tensor \"t\" has data bytes 0 to 5, but its type and shape require 4 bytes"
    );
    assert_eq!(
        one(r#"{"dtype":"F32","shape":[1],"data_offsets":[4,0]}"#, 5),
        "tensor \"t\" has data bytes 4 to 0, but its type and shape require 4 bytes"
    );
    assert_eq!(
        one(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#, 7),
        "tensor \"t\" takes 8 bytes from offset 62, past the end of the file at 69"
    );
    let huge = r#"{"dtype":"F32","shape":[4611686018427387904,2],"data_offsets":[0,8]}"#;
    assert_eq!(one(huge, 8), "tensor \"t\" at offset 82 has the invalid shape [4611686018427387904, 2]");
    let entry = |from: u32| format!(r#"{{"dtype":"F32","shape":[2],"data_offsets":[{from},{}]}}"#, from + 8);
    let overlap = with(&format!(r#"{{"a":{},"b":{}}}"#, entry(0), entry(4)), 12);
    assert!(overlap.starts_with("tensors \"a\" and \"b\" overlap at offset"), "{overlap}");
    for (bytes, message) in [
        (&b""[..], "the file is empty"),
        (b"1234", "the file ends at offset 4 inside the header's length at offset 0"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff{}", "the file ends at offset 10 inside the header at offset 8"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(fault(folder.path(), folder.path()), format!("model.safetensors: {message}"));
    }
}

#[test]
fn weights_can_be_quantized_when_they_are_loaded() {
    // Rows of 64 and 96 elements are whole blocks in 8 bits only.
    let golden = golden("llama-64");
    let folder = golden.checkpoint();
    let expected = logits(&tiny::open(&converted::gguf_with(&golden, GgmlDType::Q8_0, None)).unwrap());
    for quantize in [Quantization::Q8_0, Quantization::Q4K] {
        let options = OpenOptions { quantize: Some(quantize), ..OpenOptions::default() };
        let given = logits(&Model::open(folder.path(), options).unwrap());
        // GGUF files have another order of queries and keys, so sums differ by rounding.
        for (given, expected) in given.iter().zip(&expected) {
            assert!((given - expected).abs() < 1e-4, "{given} {expected}");
        }
    }
}

#[test]
fn four_bits_are_close_to_the_whole() {
    let golden = wide(golden("llama-64"));
    let folder = golden.checkpoint();
    let expected = logits(&open(folder.path()).unwrap());
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
    let errors = [Quantization::Q8_0, Quantization::Q4K].map(|quantize| {
        let options = OpenOptions { quantize: Some(quantize), ..OpenOptions::default() };
        let given = logits(&Model::open(folder.path(), options).unwrap());
        norm(&mut given.iter().zip(&expected).map(|(given, expected)| given - expected))
            / norm(&mut expected.iter().copied())
    });
    assert!(errors[0] < 0.02 && errors[1] > 2.0 * errors[0] && errors[1] < 0.2, "{errors:?}");
}

#[test]
fn odd_fields_of_real_files_are_understood() {
    let golden = golden("phi3-64");
    let mut config = golden.config.clone();
    config.insert("sliding_window".to_owned(), 0.into());
    let none = Golden { config, ..golden };
    let model = tiny::open(&converted::gguf(&none)).unwrap();
    assert!(model.spec().unwrap().attentions().all(|(_, shape)| shape.window.is_none()), "zero is no window");
}

/// In Granite 4, the number of heads is given per layer, and a key states whether layers use rotary
/// embeddings.
#[test]
fn reads_fields_of_each_layer() {
    let golden = golden("granite-64");
    let with = |heads: [u32; 4]| {
        let mut writer = Writer::default();
        writer.u32s("granite.attention.head_count_kv", &heads);
        writer.bool("granite.rope.scaling.finetuned", false);
        let mut config = golden.config.clone();
        config.remove("num_key_value_heads");
        let nameless = Golden { config, ..golden.clone() };
        converted::write_part(&nameless, &mut writer, true, &|_| true);
        tiny::open(&writer.finish())
    };
    let model = with([2; 4]).unwrap();
    assert!(model.spec().unwrap().attentions().all(|(_, shape)| shape.kv_heads == 2));
    assert!(model.spec().unwrap().attentions().all(|(_, shape)| shape.rope.is_none()));
    for (heads, expected) in [
        ([2, 2, 4, 2], "blk.2.attn_k.weight"),
        ([2, 0, 2, 2], "granite.attention.head_count_kv\" is 0: it must divide the number of heads"),
    ] {
        let error = with(heads).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn rejects_lists_without_one_entry_per_layer() {
    let golden = golden("smollm3-64");
    let mut config = golden.config.clone();
    config.insert("no_rope_layers".to_owned(), vec![1, 1, 0].into());
    let short = Golden { config, ..golden };
    let error = open(short.checkpoint().path()).unwrap_err().to_string();
    assert!(error.ends_with("no_rope_layers\" is 3: expected one entry per layer"), "{error}");

    let golden = self::golden("gemma3-64");
    let mut writer = Writer::default();
    writer.u32s("gemma3.attention.sliding_window_pattern", &[1, 1, 1, 1, 1, 0]);
    let mut config = golden.config.clone();
    config.remove("sliding_window_pattern");
    let nameless = Golden { config, ..golden };
    converted::write_part(&nameless, &mut writer, true, &|_| true);
    let error = tiny::open(&writer.finish()).unwrap_err().to_string();
    assert!(error.ends_with("sliding_window_pattern\" is 6: expected one entry per layer"), "{error}");
}

#[test]
fn a_context_of_one_token_cannot_be_stretched() {
    let golden = golden("phi3-576");
    let mut config = golden.config.clone();
    config.insert("original_max_position_embeddings".to_owned(), 1.into());
    let one = Golden { config, ..golden };
    let error = open(one.checkpoint().path()).unwrap_err().to_string();
    assert!(error.ends_with("original_max_position_embeddings\" is 1: it must be more than 1"), "{error}");
}
