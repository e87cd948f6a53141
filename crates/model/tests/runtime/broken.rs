//! Tests with malformed files. Opening them gives an error that names the place, and never panics.

use candle_core::quantized::GgmlDType;
use formwork_lm::{Role, Wanted};
use formwork_model::gguf::Gguf;

use crate::tiny::{self, append, tiny, tokens};
use crate::writer::Writer;

/// Returns the error of opening a file, without its path.
fn fault(file: &[u8]) -> String {
    let error = tiny::open(file).expect_err("the file should not open");
    let path = error.path().display().to_string();
    let message = error.to_string();
    message.strip_prefix(&format!("{path}: ")).expect("the message starts with the path").to_owned()
}

/// Returns the number of bytes before the tensor data, or slightly more.
fn directory_len(file: &[u8]) -> usize {
    let last = b"ffn_down.weight";
    let end = file.windows(last.len()).rposition(|window| window == last);
    end.map_or(4096, |end| end + 64).min(file.len())
}

#[test]
fn a_file_cut_at_any_length_is_an_error() {
    let file = tiny("llama", GgmlDType::Q4_0).file;
    let all = (0..directory_len(&file)).chain((directory_len(&file)..file.len()).step_by(997));
    for len in all {
        assert!(!fault(&file[..len]).is_empty(), "cut at {len}");
    }
}

#[test]
fn a_changed_byte_never_panics() {
    let file = tiny("llama", GgmlDType::Q4_0).file;
    let mut changed = file.clone();
    for at in 0..directory_len(&file) {
        // Testing every value of every byte would take minutes. The factor 37 is coprime to 256, so
        // that every value occurs often.
        for value in [0, 0xff, (at * 37) as u8] {
            changed[at] = value;
            // A changed file that opens must also compute.
            if let Ok(model) = tiny::open(&changed) {
                let mut model = model.language_model();
                let sequence = model.open();
                let tokens = &tokens(1, 1)[..];
                let role = Role::Generated;
                drop(append(&mut *model, sequence, tokens, role, Wanted::All));
            }
        }
        changed[at] = file[at];
    }
}

#[test]
fn faults_are_named() {
    let sound = tiny("llama", GgmlDType::F32).file;
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = sound.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        fault(&file)
    };
    assert_eq!(fault(b""), "the file is empty");
    assert_eq!(fault(b"GG"), "the file ends at offset 2 inside the magic number at offset 0");
    assert_eq!(patched(0, b"ELF!"), "not a GGUF file: it starts with [45, 4c, 46, 21]");
    assert_eq!(patched(4, &[1, 0, 0, 0]), "unsupported GGUF version 1; expected 2 or 3");
    assert!(patched(4, &[0, 0, 0, 3]).ends_with("the file is big-endian"));
    assert!(patched(8, &[0xff; 8]).starts_with("18446744073709551615 tensors declared at offset 8"));
    assert!(
        patched(16, &[0xff; 8]).starts_with("18446744073709551615 metadata entries declared at offset 16")
    );
}

/// Checks that the causes of an error do not repeat its message.
#[test]
fn causes_continue_after_the_reason() {
    let error = tiny::open(b"GGML").unwrap_err();
    assert!(error.to_string().ends_with("it starts with [47, 47, 4d, 4c]"), "{error}");
    assert!(std::error::Error::source(&error).is_none());
    let missing = std::path::Path::new("no/such/file.gguf");
    let error = formwork_model::Model::open(missing, formwork_model::OpenOptions::default()).unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert!(cause.is_none_or(|cause| !error.to_string().contains(&cause)), "{error}");
}

#[test]
fn metadata_faults_are_named() {
    let mut nested = Writer::default();
    nested.nested("some.list");
    assert!(fault(&nested.finish()).starts_with("metadata key \"some.list\" at offset"));
    let mut twice = Writer::default();
    twice.u32("a", 1);
    twice.u32("a", 2);
    assert!(fault(&twice.finish()).starts_with("metadata key \"a\" occurs a second time"));
    let mut alignment = Writer::default();
    alignment.u32("general.alignment", 33);
    assert_eq!(
        fault(&alignment.finish()),
        "general.alignment is 33; expected a power of two between 8 and 65536"
    );
    let mut unknown = Writer::default();
    unknown.string("general.architecture", "mamba");
    unknown.raw_tensor("t", &[1], (0, 0), &[0; 4]);
    let message = fault(&unknown.finish());
    let known = "bert, cohere2, deepseek2, ernie4_5, ernie4_5-moe, exaone4, gemma-embedding, gemma2, gemma3, gemma4, glm4, glm4moe, gpt-oss, granite, granitehybrid, hunyuan-dense, lfm2, lfm2moe, llama, minimax-m2, mistral3, mistral4, modern-bert, nemotron_h, nemotron_h_moe, nomic-bert, olmo2, olmoe, phi2, phi3, qwen2, qwen2moe, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, qwen3vl, qwen3vlmoe, seed_oss, smollm3";
    assert_eq!(message, format!("unsupported architecture \"mamba\"; expected one of {known}"));
    let mut missing = Writer::default();
    missing.string("general.architecture", "llama");
    missing.raw_tensor("t", &[1], (0, 0), &[0; 4]);
    assert_eq!(fault(&missing.finish()), "metadata key \"llama.embedding_length\" is missing");
}

#[test]
fn tensor_faults_are_named() {
    let one = |shape: &[u64], dtype, offset| {
        let mut writer = Writer::default();
        writer.raw_tensor("t", shape, (dtype, offset), &[0; 64]);
        fault(&writer.finish())
    };
    assert!(one(&[4], 99, 0).contains("tensor \"t\" at offset 24 has the unknown type 99"));
    assert!(one(&[4], 0, 7).contains("data offset 7, which is not a multiple of the alignment 32"));
    assert!(one(&[4], 0, 96).contains("past the end of the file"));
    assert!(one(&[17], 0, 0).contains("takes 68 bytes"));
    assert!(
        one(&[33], 2, 0).contains("rows of 33 elements; expected a multiple of 32, the size of a Q4_0 block")
    );
    assert!(one(&[1, 2, 1, 1, 1], 0, 0).contains("has 5 dimensions"));
    assert!(one(&[1 << 40, 1 << 40], 0, 0).contains("invalid shape"));
    assert!(one(&[0], 0, 0).contains("invalid shape"));
    let mut overlap = Writer::default();
    overlap.raw_tensor("first", &[16], (0, 0), &[0; 64]);
    overlap.raw_tensor("second", &[16], (0, 32), &[0; 32]);
    assert!(fault(&overlap.finish()).starts_with("tensors \"first\" and \"second\" overlap at offset"));
}

#[test]
fn a_wrong_shape_and_a_missing_tensor_are_named() {
    let file = tiny("llama", GgmlDType::F32).file;
    let name = b"blk.1.ffn_up.weight";
    let at = file.windows(name.len()).position(|window| window == name).unwrap();
    let mut renamed = file.clone();
    renamed[at] = b'x';
    assert_eq!(fault(&renamed), "tensor \"blk.1.ffn_up.weight\" is missing");
    let mut reshaped = file;
    // Swaps the two dimensions, which keeps the size.
    let dims = at + name.len() + 4;
    let (columns, rows) = reshaped[dims..dims + 16].split_at_mut(8);
    columns.swap_with_slice(rows);
    let message = fault(&reshaped);
    assert_eq!(message, "tensor \"blk.1.ffn_up.weight\" has shape [96, 64], expected [64, 96]");
}

#[test]
fn a_vocabulary_can_be_inspected_but_not_run() {
    let mut writer = Writer::default();
    writer.string("general.architecture", "llama");
    writer.strings("tokenizer.ggml.tokens", &["a".to_owned(), "b".to_owned()]);
    assert_eq!(writer.data_len(), 0);
    let file = writer.finish();
    assert_eq!(fault(&file), "the file holds no tensors, only metadata");
    let on_disk = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(on_disk.path(), &file).unwrap();
    let gguf = Gguf::open(on_disk.path()).unwrap();
    let lines: Vec<String> =
        gguf.metadata().iter().map(|(key, value)| format!("{key} = {}", gguf.preview(value, 1))).collect();
    assert_eq!(lines, ["general.architecture = llama", "tokenizer.ggml.tokens = [a, … 1 more]"]);
}
