//! Selection of a model's files among the files of a repository.

use super::error::{HubError, Kind};
use super::name::{is_gguf, is_relative};
use crate::checkpoint::safetensors::{CONFIG, INDEX, SINGLE};
use crate::gguf::split;

/// Files of a model, in the order in which they are to be fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Selection {
    /// A GGUF file, or all parts of a split GGUF file. The model is opened by the path of the first
    /// file.
    Gguf(Vec<String>),
    /// Safetensors, their configuration and their tokenizer. The model is opened by the path of
    /// their folder.
    Folder(Vec<String>),
}

/// Files that are fetched together with safetensors, if the repository has them.
const BESIDE: [&str; 8] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "hf_quant_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
];

impl Selection {
    /// Selects `file` and, if it is split, all its parts. If `file` is `None`, selects the
    /// repository's GGUF file. If there is no GGUF file either, selects the repository's
    /// safetensors.
    pub(crate) fn of(repo: &str, file: Option<&str>, files: &[String]) -> Result<Self, HubError> {
        if let Some(file) = file {
            return Ok(Self::Gguf(parts(file)));
        }
        match preferred(repo, files)? {
            Some(file) => Ok(Self::Gguf(parts(file))),
            None => safetensors(files).ok_or_else(|| Kind::NoModel { repo: repo.to_owned() }.into()),
        }
    }

    pub(crate) fn files(&self) -> &[String] {
        match self {
            Self::Gguf(files) | Self::Folder(files) => files,
        }
    }
}

/// Returns the GGUF file to use for a hub id without a file. This is the only GGUF file, or the
/// only one with `Q4_K_M` in its name. Image projectors and later parts of split files are ignored.
///
/// Returns `None` if there is no GGUF file, and an error if the choice is ambiguous.
fn preferred<'a>(repo: &str, files: &'a [String]) -> Result<Option<&'a str>, HubError> {
    let counts = |file: &&String| {
        let first = split::parse(file).is_none_or(|(_, number, _)| number == 1);
        is_gguf(file) && is_relative(file) && first && !file.to_ascii_lowercase().contains("mmproj")
    };
    let files: Vec<&String> = files.iter().filter(counts).collect();
    let middle: Vec<&String> =
        files.iter().filter(|file| file.to_ascii_lowercase().contains("q4_k_m")).copied().collect();
    match (files.as_slice(), middle.as_slice()) {
        ([], _) => Ok(None),
        ([file], _) | (_, [file]) => Ok(Some(file)),
        _ => {
            let files = files.into_iter().cloned().collect();
            Err(Kind::Ambiguous { repo: repo.to_owned(), files }.into())
        }
    }
}

/// Returns the names of all parts if `file` is the first part of a split file. Otherwise returns
/// `file` only.
fn parts(file: &str) -> Vec<String> {
    match split::parse(file) {
        Some((stem, 1, count)) => (1..=count).map(|number| split::name(stem, number, count)).collect(),
        _ => vec![file.to_owned()],
    }
}

fn safetensors(files: &[String]) -> Option<Selection> {
    let has = |name: &str| files.iter().any(|file| file == name);
    let mut chosen: Vec<String> = if has(INDEX) {
        let is_shard = |file: &&String| file.starts_with("model-") && file.ends_with(".safetensors");
        let mut shards: Vec<String> = files.iter().filter(is_shard).cloned().collect();
        shards.sort_unstable();
        shards.push(INDEX.to_owned());
        shards
    } else if has(SINGLE) {
        vec![SINGLE.to_owned()]
    } else {
        return None;
    };
    chosen.extend(BESIDE.into_iter().filter(|name| has(name)).map(str::to_owned));
    // Modules of sentence-transformers have folders such as `1_Pooling`.
    let is_module = |file: &&String| {
        file.split_once('/').is_some_and(|(folder, name)| {
            folder.starts_with(|first: char| first.is_ascii_digit())
                && matches!(name, "config.json" | "model.safetensors")
        })
    };
    if has("modules.json") {
        chosen.extend(files.iter().filter(is_module).cloned());
    }
    has(CONFIG).then(|| {
        chosen.push(CONFIG.to_owned());
        Selection::Folder(chosen)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Selection::of("o/n", None, &names)
            .map(|selection| selection.files().to_vec())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn one_file_of_a_repository_is_preferred() {
        assert_eq!(select(&["README.md", "x.gguf"]).unwrap(), ["x.gguf"]);
        assert_eq!(
            select(&["x-Q8_0.gguf", "x-Q4_K_M.gguf", "mmproj-q4_k_m.gguf"]).unwrap(),
            ["x-Q4_K_M.gguf"]
        );
        let error = select(&["a.gguf", "b.gguf"]).unwrap_err();
        assert!(error.contains("o/n:FILE") && error.contains("a.gguf, b.gguf"), "{error}");
    }

    #[test]
    fn selects_all_parts() {
        let parts = ["d/a-00001-of-00002.gguf", "d/a-00002-of-00002.gguf"];
        assert_eq!(select(&parts).unwrap(), parts);
        let given = Selection::of("o/n", Some(parts[0]), &[]).unwrap();
        assert_eq!(given.files(), parts);
        // A name that only resembles a part is treated as a whole file.
        assert_eq!(Selection::of("o/n", Some("a-1-of-2.gguf"), &[]).unwrap().files(), ["a-1-of-2.gguf"]);
    }

    #[test]
    fn selects_safetensors_with_companion_files() {
        let single = ["README.md", "config.json", "model.safetensors", "tokenizer.json", "pytorch_model.bin"];
        assert_eq!(select(&single).unwrap(), ["model.safetensors", "tokenizer.json", "config.json"]);
        let sharded = [
            "config.json",
            "generation_config.json",
            "model-00002-of-00002.safetensors",
            "model-00001-of-00002.safetensors",
            "model.safetensors.index.json",
        ];
        let expected = [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "generation_config.json",
            "config.json",
        ];
        assert_eq!(select(&sharded).unwrap(), expected);
        let modules = [
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "config.json",
            "model.safetensors",
            "modules.json",
            "onnx/config.json",
        ];
        let expected = [
            "model.safetensors",
            "modules.json",
            "1_Pooling/config.json",
            "2_Dense/model.safetensors",
            "config.json",
        ];
        assert_eq!(select(&modules).unwrap(), expected);
        let none = "o/n has neither a .gguf file nor safetensors with a config.json";
        assert_eq!(select(&["model.safetensors"]), Err(none.to_owned()));
        // A GGUF file takes precedence over safetensors.
        assert_eq!(select(&["config.json", "model.safetensors", "x.gguf"]).unwrap(), ["x.gguf"]);
    }
}
