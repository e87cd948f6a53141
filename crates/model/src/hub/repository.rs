//! Access to a repository of the Hugging Face hub through the crate hf-hub.
//!
//! The requests of hf-hub have no timeout. They run on a separate thread, and this module stops
//! waiting for the thread after a timeout. If the hub's name cannot be resolved or the hub does not
//! respond, this takes `HubOptions::patience` instead of a minute.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};
use serde::Deserialize;

use super::cache::Expected;
use super::error::{HubError, Kind};
use super::{HubOptions, Progress};

/// Maximum time without new data in a running transfer.
const STALL: Duration = Duration::from_secs(30);

/// A repository at one revision.
pub(crate) struct Repository<'a> {
    options: &'a HubOptions,
    name: &'a str,
    revision: &'a str,
}

/// A file in the repository, as the hub describes it.
#[derive(Clone, Deserialize)]
pub(crate) struct RemoteFile {
    #[serde(rename = "rfilename")]
    pub(crate) name: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Clone, Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

impl RemoteFile {
    /// Returns the size and the hash of the file as the hub states them. Only large files have a
    /// hash.
    pub(crate) fn expected(&self) -> Expected {
        let size = self.lfs.as_ref().and_then(|lfs| lfs.size).or(self.size);
        Expected { size, sha256: self.lfs.as_ref().and_then(|lfs| lfs.sha256.clone()) }
    }
}

/// The hub's description of a repository, reduced to the fields that are used here.
#[derive(Deserialize)]
struct Description {
    siblings: Vec<RemoteFile>,
}

enum Event {
    Total(u64),
    Advance(u64),
    Done(Result<PathBuf, ApiError>),
}

impl<'a> Repository<'a> {
    pub(crate) fn new(options: &'a HubOptions, name: &'a str, revision: &'a str) -> Self {
        Self { options, name, revision }
    }

    fn repo(&self) -> Repo {
        Repo::with_revision(self.name.to_owned(), RepoType::Model, self.revision.to_owned())
    }

    fn folder(&self) -> PathBuf {
        self.options.hub_cache.join(self.repo().folder_name())
    }

    /// Returns the folder of this revision in the hub's cache, or `None` if the folder does not
    /// exist.
    fn snapshot(&self) -> Option<PathBuf> {
        let folder = self.folder();
        let commit = fs::read_to_string(folder.join("refs").join(self.revision));
        let commit = commit.map_or(self.revision.to_owned(), |commit| commit.trim().to_owned());
        Some(folder.join("snapshots").join(commit)).filter(|snapshot| snapshot.is_dir())
    }

    /// Returns the path of `file` in the hub's cache and its expected hash. The hash is known for
    /// large files, which the cache stores under their SHA-256. Returns `None` if the file is not
    /// in the cache.
    pub(crate) fn cached(&self, file: &str) -> Option<(PathBuf, Expected)> {
        let path = self.snapshot()?.join(file);
        let blob = fs::canonicalize(&path).ok()?;
        let name = blob.file_name()?.to_str()?;
        let is_hash = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some((path, Expected { size: None, sha256: is_hash.then(|| name.to_ascii_lowercase()) }))
    }

    /// Returns the names of the files of this revision that are in the hub's cache, at the top
    /// level.
    pub(crate) fn cached_files(&self) -> Vec<String> {
        let entries = self.snapshot().and_then(|snapshot| fs::read_dir(snapshot).ok());
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name().into_string());
        names.filter_map(Result::ok).collect()
    }

    /// Requests the descriptions of all files from the hub. Returns an error if the hub does not
    /// respond within `HubOptions::patience`.
    pub(crate) fn files(&self) -> Result<Vec<RemoteFile>, HubError> {
        if !self.options.use_hub {
            return Err(Kind::HubOff.into());
        }
        let request = self.api()?.repo(self.repo()).info_request().query("blobs", "true");
        let (sender, answer) = mpsc::channel();
        thread::spawn(move || {
            let answer = match request.call() {
                Ok(response) => response.into_json::<Description>().map_err(Kind::HubAnswer),
                Err(error) => Err(refusal(ApiError::from(Box::new(error)))),
            };
            sender.send(answer).ok();
        });
        match answer.recv_timeout(self.options.patience) {
            Ok(answer) => Ok(answer?.siblings),
            Err(RecvTimeoutError::Timeout) => {
                Err(Kind::NoAnswer { seconds: self.options.patience.as_secs_f32() }.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(Kind::HubClient.into()),
        }
    }

    /// Downloads `file` to the hub's cache and returns its path. An interrupted download is
    /// resumed.
    pub(crate) fn download(&self, file: &str, progress: &mut dyn Progress) -> Result<PathBuf, HubError> {
        match self.try_download(file, progress)? {
            Err(error) if cannot_resume(&error) => {
                self.remove_parts();
                Ok(self.try_download(file, progress)?.map_err(refusal)?)
            }
            done => Ok(done.map_err(refusal)?),
        }
    }

    fn try_download(
        &self,
        file: &str,
        progress: &mut dyn Progress,
    ) -> Result<Result<PathBuf, ApiError>, HubError> {
        let repo = self.api()?.repo(self.repo());
        let file = file.to_owned();
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            let done = repo.download_with_progress(&file, Relay(sender.clone()));
            sender.send(Event::Done(done)).ok();
        });
        loop {
            match events.recv_timeout(STALL) {
                Ok(Event::Total(bytes)) => progress.total(bytes),
                Ok(Event::Advance(bytes)) => progress.advance(bytes),
                Ok(Event::Done(done)) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Kind::Stalled { seconds: STALL.as_secs() }.into());
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Kind::HubClient.into()),
            }
        }
    }

    /// Removes a file with wrong content from the hub's cache.
    pub(crate) fn discard(&self, path: &Path) {
        let blob = fs::canonicalize(path).ok().filter(|blob| blob.starts_with(&self.options.hub_cache));
        for path in [blob.as_deref(), Some(path)].into_iter().flatten() {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove an invalid file");
            }
        }
    }

    /// Removes partial downloads that cannot be resumed. hf-hub locks a file during its download,
    /// so no other process uses these parts.
    fn remove_parts(&self) {
        let entries = fs::read_dir(self.folder().join("blobs")).into_iter().flatten().flatten();
        for path in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "part"))
        {
            fs::remove_file(path).ok();
        }
    }

    fn api(&self) -> Result<Api, HubError> {
        let mut builder = ApiBuilder::from_cache(Cache::new(self.options.hub_cache.clone()))
            .with_progress(false)
            .with_token(self.options.token.as_ref().map(|token| token.0.clone()))
            .with_user_agent("formwork", env!("CARGO_PKG_VERSION"));
        if let Some(endpoint) = &self.options.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        Ok(builder.build().map_err(|error| Kind::Hub(Box::new(error)))?)
    }
}

/// Forwards the progress reports of hf-hub to the thread that waits for the download.
struct Relay(Sender<Event>);

impl hf_hub::api::Progress for Relay {
    fn init(&mut self, size: usize, _: &str) {
        self.0.send(Event::Total(size as u64)).ok();
    }

    fn update(&mut self, size: usize) {
        self.0.send(Event::Advance(size as u64)).ok();
    }

    fn finish(&mut self) {}
}

fn refusal(error: ApiError) -> Kind {
    match status(&error) {
        Some(code) => Kind::HubStatus { code },
        None => Kind::Hub(Box::new(error)),
    }
}

fn status(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::RequestError(error) => match **error {
            ureq::Error::Status(code, _) => Some(code),
            ureq::Error::Transport(_) => None,
        },
        _ => None,
    }
}

/// Reports whether a partial download cannot be resumed because it is at least as long as the
/// complete file.
fn cannot_resume(error: &ApiError) -> bool {
    matches!(error, ApiError::InvalidResume) || status(error) == Some(416)
}
