//! Folder of a model in Formwork's cache: `models/NAME/`.
//!
//! The folder contains the file `lock` and, during a fetch, the folder `.partial`. If the model
//! came from Python packages, the folder contains the model file too. For each file whose hash has
//! been verified, a note with the extension `.checked` records this.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Progress;
use super::error::{HubError, Kind};

/// Expected size and hash of a file. A value that is `None` is not checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Expected {
    /// Size in bytes.
    pub(crate) size: Option<u64>,
    /// SHA-256 in lowercase hexadecimal.
    pub(crate) sha256: Option<String>,
}

/// Folder of a model in Formwork's cache.
#[derive(Debug)]
pub(crate) struct ModelFolder {
    path: PathBuf,
}

/// Note that the hash of a file has been verified. The note is valid as long as the path, the size
/// and the modification time of the file are the same.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Checked {
    path: PathBuf,
    size: u64,
    /// Modification time in nanoseconds since 1970.
    modified_ns: u128,
    sha256: String,
}

impl ModelFolder {
    /// Returns the folder of `model`, which is a short name or a hub id. The folder is not created.
    pub(crate) fn new(cache: &Path, model: &str) -> Self {
        Self { path: cache.join("models").join(model.replace('/', "--")) }
    }

    /// Returns the path at which the folder stores the complete file called `file`.
    pub(crate) fn file(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Returns an error if the file at `path` does not have the expected size and hash.
    ///
    /// The hash is computed only once. A note then records that it was correct, with the size and
    /// modification time of the file. Later checks only compare the size and modification time with
    /// the note.
    pub(crate) fn check(
        &self,
        path: &Path,
        expected: &Expected,
        progress: &mut dyn Progress,
    ) -> Result<(), HubError> {
        let metadata = fs::metadata(path).map_err(Kind::io("read", path))?;
        if let Some(size) = expected.size
            && size != metadata.len()
        {
            return Err(
                Kind::WrongSize { path: path.to_owned(), given: metadata.len(), expected: size }.into()
            );
        }
        let Some(sha256) = &expected.sha256 else { return Ok(()) };
        let modified = metadata.modified().map_err(Kind::io("read", path))?;
        let checked = Checked {
            path: path.to_owned(),
            size: metadata.len(),
            modified_ns: modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos(),
            sha256: sha256.clone(),
        };
        let note = self.note(path);
        let remembered =
            fs::read(&note).ok().and_then(|bytes| serde_json::from_slice::<Checked>(&bytes).ok());
        if remembered.is_some_and(|remembered| remembered == checked) {
            return Ok(());
        }
        progress.message("checking");
        progress.total(metadata.len());
        let given = hash(path, progress).map_err(Kind::io("read", path))?;
        if given != *sha256 {
            return Err(Kind::WrongHash { path: path.to_owned(), given, expected: sha256.clone() }.into());
        }
        // An incomplete note fails to parse. If the note cannot be written, the next start computes
        // the hash again.
        let written = fs::create_dir_all(&self.path)
            .and_then(|()| fs::write(&note, serde_json::to_vec(&checked).unwrap_or_default()));
        if let Err(error) = written {
            tracing::warn!(note = %note.display(), %error, "cannot record the verified hash");
        }
        Ok(())
    }

    fn note(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default().display().to_string();
        self.path.join(format!("{name}.checked"))
    }

    /// Acquires the exclusive permission to fetch this model. Waits while another process fetches
    /// the model. Removes the unfinished files of an interrupted fetch.
    pub(crate) fn lock(&self, progress: &mut dyn Progress) -> Result<FetchLock, HubError> {
        fs::create_dir_all(&self.path).map_err(Kind::io("create", &self.path))?;
        let path = self.path.join("lock");
        let file = File::create(&path).map_err(Kind::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.message("waiting for another process that downloads the same model");
                file.lock().map_err(Kind::io("lock", &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(Kind::io("lock", &path)(error).into()),
        }
        let lock = FetchLock { partial: self.path.join(".partial"), _file: file };
        lock.clear()?;
        Ok(lock)
    }
}

/// Exclusive permission to fetch a model. When dropped, removes unfinished files and releases the
/// permission.
#[derive(Debug)]
pub(crate) struct FetchLock {
    partial: PathBuf,
    _file: File,
}

impl FetchLock {
    /// Creates an empty folder for unfinished files and returns its path. Files that are in the
    /// folder come from a process that has been killed, and are removed.
    pub(crate) fn partial(&self) -> Result<&Path, HubError> {
        self.clear()?;
        fs::create_dir_all(&self.partial).map_err(Kind::io("create", &self.partial))?;
        Ok(&self.partial)
    }

    fn clear(&self) -> Result<(), HubError> {
        match fs::remove_dir_all(&self.partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Kind::io("remove", &self.partial)(error).into())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for FetchLock {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            tracing::warn!(%error, "cannot remove an unfinished file; the next download removes it");
        }
    }
}

/// A file that is written under a temporary name. The hash of its content is computed during
/// writing.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    file: File,
    hash: Sha256,
    size: u64,
    limit: u64,
}

impl NewFile {
    /// Creates a file at `path` with an expected size of `limit` bytes. It is an error to write
    /// more.
    pub(crate) fn create(path: PathBuf, limit: u64) -> Result<Self, HubError> {
        let file = File::create(&path).map_err(Kind::io("create", &path))?;
        Ok(Self { path, file, hash: Sha256::new(), size: 0, limit })
    }

    /// Returns the number of bytes written so far.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Verifies the size and the hash of the written file, then renames it to `place`. The content
    /// is synced to disk before the file is renamed.
    pub(crate) fn place(self, place: &Path, sha256: &str) -> Result<(), HubError> {
        let path = place.to_owned();
        if self.size != self.limit {
            return Err(Kind::WrongSize { path, given: self.size, expected: self.limit }.into());
        }
        let given = hex(self.hash);
        if given != sha256 {
            return Err(Kind::WrongHash { path, given, expected: sha256.to_owned() }.into());
        }
        self.file.sync_all().map_err(Kind::io("write", &self.path))?;
        fs::rename(&self.path, place).map_err(Kind::io("create", place))?;
        // Some file systems cannot sync a folder. The content of the file is safe without it.
        if let Some(Ok(folder)) = place.parent().map(File::open) {
            folder.sync_all().ok();
        }
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size + bytes.len() as u64 > self.limit {
            return Err(io::Error::other(format!(
                "the file exceeds the expected size of {} bytes",
                self.limit
            )));
        }
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Computes the SHA-256 of a file, in lowercase hexadecimal. Reports the bytes read to `progress`.
fn hash(path: &Path, progress: &mut dyn Progress) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(hash));
        }
        hash.update(&buffer[..read]);
        progress.advance(read as u64);
    }
}

fn hex(hash: Sha256) -> String {
    use std::fmt::Write as _;
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}
