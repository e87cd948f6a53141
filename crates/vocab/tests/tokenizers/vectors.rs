use std::path::Path;
use std::{env, fs};

use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer};

use crate::gguf_file;

const BETWEEN_TEXTS: &str = "\n__ggml_vocab_test__\n";

/// Checks every vocabulary in the folder with the texts next to it. Each text must be encoded to
/// the recorded ids, and the ids must be decoded to the text.
#[test]
fn recorded_ids() {
    let Some(folder) = env::var_os("FORMWORK_TOKENIZER_VECTORS") else { return };
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "gguf") {
            compare(&path);
            seen += 1;
        }
    }
    assert!(seen > 0, "no vocabularies in the folder");
}

fn compare(path: &Path) {
    let beside = |extension: &str| path.with_extension(format!("gguf.{extension}"));
    let fields = gguf_file::read(&fs::read(path).unwrap());
    let texts = fs::read_to_string(beside("inp")).unwrap();
    let expected = fs::read_to_string(beside("out")).unwrap();
    let space_prefix = fields.model == "llama" && fields.add_space_prefix != Some(false);
    let tokenizer =
        Tokenizer::from_gguf(fields).unwrap_or_else(|error| panic!("{}: {error}", path.display()));

    let texts: Vec<_> = texts.strip_suffix(BETWEEN_TEXTS).unwrap_or(&texts).split(BETWEEN_TEXTS).collect();
    let expected: Vec<_> = expected.lines().collect();
    assert_eq!(texts.len(), expected.len(), "{}", path.display());
    for (text, expected) in texts.iter().zip(expected) {
        let expected: Vec<_> = expected.split_whitespace().map(|id| TokenId(id.parse().unwrap())).collect();
        let ids = tokenizer.encode(text, EncodeOptions::default()).unwrap();
        assert_eq!(ids, expected, "{}: {text:?}", path.display());
        let prefix = if space_prefix && !text.is_empty() { " " } else { "" };
        assert_eq!(String::from_utf8(tokenizer.decode(&ids)).unwrap(), format!("{prefix}{text}"));
        assert_eq!(String::from_utf8(tokenizer.decode_text(&ids, false)).unwrap(), *text);
        let fragment = tokenizer.encode_fragment(text).unwrap();
        assert_eq!(String::from_utf8(tokenizer.decode(&fragment)).unwrap(), *text);
    }
}
