use std::path::{Path, PathBuf};

use super::error::{HubError, Kind};
use super::manifest::Manifest;
use crate::checkpoint::safetensors::CONFIG;

/// Parsed name of a model, as given on the command line.
#[derive(Debug)]
pub(crate) enum ModelName<'a> {
    File(PathBuf),
    Known(&'a Manifest),
    Repo(RepoName),
}

/// Parsed hub id: the repository `org/name`, a revision, and the file if the id contains one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RepoName {
    pub(crate) repo: String,
    pub(crate) revision: String,
    pub(crate) file: Option<String>,
}

impl<'a> ModelName<'a> {
    /// Parses the name of a model. The path of an existing model takes precedence over a short
    /// name, and a short name takes precedence over a hub id.
    pub(crate) fn parse(given: &str, manifests: &'a [Manifest]) -> Result<Self, HubError> {
        let path = Path::new(given);
        if path.is_file() || path.join(CONFIG).is_file() {
            return Ok(Self::File(path.to_owned()));
        }
        if let Some(manifest) = manifests.iter().find(|manifest| manifest.name == given) {
            return Ok(Self::Known(manifest));
        }
        if let Some(name) = RepoName::parse(given) {
            return Ok(Self::Repo(name));
        }
        if path.is_dir() {
            return Err(Kind::Folder { path: path.to_owned() }.into());
        }
        if given.starts_with(['.', '/', '~']) || is_gguf(given) {
            return Err(Kind::NoFile { path: path.to_owned() }.into());
        }
        let known = manifests.iter().map(|manifest| manifest.name.clone()).collect();
        Err(Kind::UnknownName { given: given.to_owned(), known }.into())
    }
}

impl RepoName {
    /// Parses a hub id: `org/name[:file.gguf][@revision]`. The revision may also precede the file.
    /// The default revision is `main`. Returns `None` if `given` is not a hub id.
    fn parse(given: &str) -> Option<Self> {
        let (front, file) = match given.split_once(':') {
            Some((front, file)) => (front, Some(file)),
            None => (given, None),
        };
        let (repo, front_revision) = split_revision(front);
        let (file, file_revision) = match file.map(split_revision) {
            Some((file, revision)) => (Some(file), revision),
            None => (None, None),
        };
        let revision = match (front_revision, file_revision) {
            (Some(_), Some(_)) => return None,
            (front, file) => front.or(file),
        };
        let (organisation, name) = repo.split_once('/')?;
        let whole = is_segment(organisation)
            && is_segment(name)
            && revision.is_none_or(is_relative)
            && file.is_none_or(|file| is_relative(file) && is_gguf(file))
            && !(file.is_none() && is_gguf(name));
        whole.then(|| Self {
            repo: repo.to_owned(),
            revision: revision.unwrap_or("main").to_owned(),
            file: file.map(ToOwned::to_owned),
        })
    }
}

fn split_revision(text: &str) -> (&str, Option<&str>) {
    match text.split_once('@') {
        Some((front, revision)) => (front, Some(revision)),
        None => (text, None),
    }
}

pub(crate) fn is_gguf(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Reports whether all segments of a path are plain names. Such a path cannot lead out of a folder,
/// and can be inserted into a URL unchanged.
pub(crate) fn is_relative(path: &str) -> bool {
    path.split('/').all(is_segment)
}

fn is_segment(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(repo: &str, file: Option<&str>, revision: &str) -> RepoName {
        RepoName { repo: repo.into(), file: file.map(Into::into), revision: revision.into() }
    }

    fn parse(given: &str) -> Result<ModelName<'static>, HubError> {
        ModelName::parse(given, crate::hub::manifests())
    }

    #[test]
    fn hub_ids_have_a_file_and_a_revision() {
        assert_eq!(RepoName::parse("org/name"), Some(repo("org/name", None, "main")));
        assert_eq!(RepoName::parse("org/name@v1.0"), Some(repo("org/name", None, "v1.0")));
        assert_eq!(RepoName::parse("org/name:a/b.gguf"), Some(repo("org/name", Some("a/b.gguf"), "main")));
        assert_eq!(
            RepoName::parse("org/name:b.gguf@refs/pr/5"),
            Some(repo("org/name", Some("b.gguf"), "refs/pr/5"))
        );
        assert_eq!(RepoName::parse("org/name@v1:b.GGUF"), Some(repo("org/name", Some("b.GGUF"), "v1")));
    }

    #[test]
    fn rejects_ids_that_escape_the_cache() {
        for given in [
            "name",
            "a/b/c",
            "../name",
            "org/..",
            "org/name:../x.gguf",
            "org/name:/x.gguf",
            "org/name:a//b.gguf",
            "org/name:x.bin",
            "org/name@../x",
            "org/name@a:b.gguf@c",
            "org/name?x",
            "org/file.gguf",
            "org/",
            "/name",
            "org/name:",
            "org/name@",
            "org/na me",
        ] {
            assert_eq!(RepoName::parse(given), None, "{given}");
        }
    }

    #[test]
    fn an_unknown_name_lists_known_models() {
        let error = parse("llama").unwrap_err();
        assert!(error.is_unknown_name());
        let text = error.to_string();
        for part in ["`llama`", "smollm2-135m-instruct", "gemma3-270m", ".gguf", "org/name:file.gguf"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(parse("missing.gguf").unwrap_err().to_string(), "file not found: missing.gguf");
        assert!(parse(env!("CARGO_MANIFEST_DIR")).unwrap_err().to_string().contains("is a folder"));
    }
}
