//! File that remembers what was found out about servers: `servers.json` in Formwork's cache folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use formwork_model::hub::HubOptions;
use formwork_protocol::{ModelSupport, SupportMemory};
use serde::{Deserialize, Serialize};

/// Time after which an entry is no longer used, in seconds: one day, because servers change.
const AGE: u64 = 24 * 60 * 60;
/// Maximum number of entries; the oldest are dropped.
const ENTRIES: usize = 200;
/// Maximum size of the file that is read, in bytes.
const BYTES: u64 = 1 << 20;

/// Maximum time to wait for another process that writes the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// Memory of servers in a JSON file. A file that cannot be read or written is ignored, because
/// everything in it can be found out again.
pub(crate) struct FileMemory {
    path: PathBuf,
}

/// Content of the file: entries by endpoint and model.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    version: u32,
    models: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    /// Time of the last change, in seconds since 1970.
    at: u64,
    support: ModelSupport,
}

impl Entry {
    fn is_recent(&self) -> bool {
        now().saturating_sub(self.at) < AGE
    }
}

/// Version of the file. A file of another version is replaced.
const VERSION: u32 = 1;

impl FileMemory {
    /// Returns the memory in the user's cache folder. Returns `None` if there is no such folder.
    pub(crate) fn of_user() -> Option<Self> {
        // Unit tests must not change files of the user.
        if cfg!(test) {
            return None;
        }
        Self::path_of(|name| std::env::var_os(name)).map(Self::new)
    }

    /// Returns the path of the file in the folder that models are cached in.
    fn path_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        Some(HubOptions::cache_folder(variable)?.join("servers.json"))
    }

    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Waits until no other process or thread writes the file. The lock is free again when the
    /// returned file is closed.
    fn lock(&self) -> std::io::Result<File> {
        std::fs::create_dir_all(self.path.parent().unwrap_or(Path::new("")))?;
        let file = File::options().create(true).append(true).open(self.path.with_extension("lock"))?;
        let end = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                // Some network drives have no locks.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::new(ErrorKind::TimedOut, "another process keeps the file locked"));
                }
            }
        }
    }

    fn read(&self) -> Content {
        let is_small = std::fs::metadata(&self.path).is_ok_and(|file| file.len() <= BYTES);
        let text = if is_small { std::fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
        let content: Content = serde_json::from_slice(&text).unwrap_or_default();
        if content.version == VERSION { content } else { Content { version: VERSION, ..Content::default() } }
    }

    fn change(&self, key: &str, change: &dyn Fn(&mut ModelSupport)) -> std::io::Result<()> {
        let _lock = self.lock()?;
        let mut content = self.read();
        let kept = content.models.remove(key).filter(Entry::is_recent);
        let mut support = kept.map(|entry| entry.support).unwrap_or_default();
        change(&mut support);
        content.models.insert(key.to_owned(), Entry { at: now(), support });
        while content.models.len() > ENTRIES {
            let oldest = content.models.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            content.models.remove(&oldest);
        }
        self.write(&content)
    }

    /// Replaces the file at once, so that other processes never read a part of it.
    fn write(&self, content: &Content) -> std::io::Result<()> {
        let new = self.path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&new, serde_json::to_vec_pretty(content)?)?;
        std::fs::rename(&new, &self.path)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn key(endpoint: &str, model: &str) -> String {
    format!("{endpoint} {model}")
}

impl SupportMemory for FileMemory {
    fn load(&self, endpoint: &str, model: &str) -> Option<ModelSupport> {
        let entry = self.read().models.remove(&key(endpoint, model)).filter(Entry::is_recent);
        entry.map(|entry| entry.support)
    }

    fn update(&self, endpoint: &str, model: &str, change: &dyn Fn(&mut ModelSupport)) {
        if let Err(error) = self.change(&key(endpoint, model), change) {
            eprintln!("formwork: warning: {}: not written: {error}", self.path.display());
        }
    }

    fn place(&self) -> Option<String> {
        Some(self.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use formwork_protocol::Feature;

    use super::*;

    #[test]
    fn remembers_models_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache").join("servers.json");
        let enforces = |support: &mut ModelSupport| {
            support.features.insert(Feature::JsonSchema, true);
        };
        let mut support = ModelSupport::default();
        enforces(&mut support);
        FileMemory::new(&path).update("http://x/v1", "m", &enforces);
        let memory = FileMemory::new(&path);
        assert_eq!(memory.load("http://x/v1", "m"), Some(support.clone()));
        assert_eq!(memory.load("http://x/v1", "n"), None);
        // An old entry is not used.
        let old = std::fs::read_to_string(&path).unwrap();
        let at =
            serde_json::from_str::<serde_json::Value>(&old).unwrap()["models"]["http://x/v1 m"]["at"].clone();
        std::fs::write(&path, old.replace(&at.to_string(), "1")).unwrap();
        assert_eq!(memory.load("http://x/v1", "m"), None);
        // A damaged file is replaced, and the number of entries is bounded.
        std::fs::write(&path, "{").unwrap();
        assert_eq!(memory.load("http://x/v1", "m"), None);
        for number in 0..ENTRIES + 5 {
            memory.update("http://x/v1", &number.to_string(), &enforces);
        }
        assert_eq!(memory.read().models.len(), ENTRIES);
    }

    #[test]
    fn concurrent_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    // Each writer has its own memory, as each process has.
                    let memory = FileMemory::new(path);
                    for (number, feature) in Feature::ALL.into_iter().enumerate() {
                        let model = format!("m{}", (writer + number) % 4);
                        memory.update("http://x", &model, &|support| {
                            support.features.insert(feature, true);
                        });
                    }
                });
            }
        });
        let memory = FileMemory::new(&path);
        for model in 0..4 {
            let support = memory.load("http://x", &format!("m{model}")).unwrap();
            assert_eq!(support.features.len(), 4, "m{model}");
        }
    }

    #[test]
    fn a_lock_that_is_never_released_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let memory = FileMemory::new(folder.path().join("servers.json"));
        let held = memory.lock().unwrap();
        let started = Instant::now();
        memory.update("http://x", "m", &|_| {});
        assert!(started.elapsed() >= PATIENCE && started.elapsed() < 5 * PATIENCE);
        drop(held);
        assert!(memory.load("http://x", "m").is_none());
    }

    #[test]
    fn the_file_is_in_the_cache_folder() {
        let path = |given: &[(&str, &str)]| {
            FileMemory::path_of(|name| {
                given.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).into())
            })
        };
        assert_eq!(path(&[("FORMWORK_CACHE", "/f"), ("HOME", "/h")]), Some("/f/servers.json".into()));
        assert_eq!(path(&[("XDG_CACHE_HOME", "/x")]), Some("/x/formwork/servers.json".into()));
        assert_eq!(path(&[("HOME", "/h")]), Some("/h/.cache/formwork/servers.json".into()));
        assert_eq!(path(&[]), None);
    }
}
