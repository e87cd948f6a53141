//! File that remembers what was found out about servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use formwork_protocol::{ModelSupport, SupportMemory};
use serde::{Deserialize, Serialize};

/// Time after which an entry is no longer used, in seconds: one day, because servers change.
const AGE: u64 = 24 * 60 * 60;
/// Maximum number of entries; the oldest are dropped.
const ENTRIES: usize = 200;
/// Maximum size of the file that is read, in bytes.
const BYTES: u64 = 1 << 20;

/// Memory of servers in a JSON file. A file that cannot be read or written is ignored, because
/// everything in it can be found out again.
pub(crate) struct FileMemory {
    path: PathBuf,
    writing: Mutex<()>,
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

/// Version of the file. A file of another version is replaced.
const VERSION: u32 = 1;

impl FileMemory {
    /// Returns the memory in the user's cache folder. Returns `None` if there is no such folder.
    pub(crate) fn of_user() -> Option<Self> {
        // Unit tests must not change files of the user.
        if cfg!(test) {
            return None;
        }
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let cache = folder("XDG_CACHE_HOME")
            .or_else(|| folder("LOCALAPPDATA"))
            .or_else(|| Some(folder("HOME")?.join(".cache")))?;
        Some(Self::new(cache.join("formwork").join("servers.json")))
    }

    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), writing: Mutex::default() }
    }

    fn read(&self) -> Content {
        let is_small = std::fs::metadata(&self.path).is_ok_and(|file| file.len() <= BYTES);
        let text = if is_small { std::fs::read(&self.path).unwrap_or_default() } else { Vec::new() };
        let content: Content = serde_json::from_slice(&text).unwrap_or_default();
        if content.version == VERSION { content } else { Content { version: VERSION, ..Content::default() } }
    }

    /// Replaces the file at once, so that other processes never read a part of it.
    fn write(&self, content: &Content) -> std::io::Result<()> {
        std::fs::create_dir_all(self.path.parent().unwrap_or(Path::new("")))?;
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
        let entry = self.read().models.remove(&key(endpoint, model))?;
        (now().saturating_sub(entry.at) < AGE).then_some(entry.support)
    }

    fn save(&self, endpoint: &str, model: &str, support: &ModelSupport) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut content = self.read();
        content.models.insert(key(endpoint, model), Entry { at: now(), support: support.clone() });
        while content.models.len() > ENTRIES {
            let oldest = content.models.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            content.models.remove(&oldest);
        }
        if let Err(error) = self.write(&content) {
            eprintln!("formwork: warning: {}: {error}", self.path.display());
        }
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
        let mut support = ModelSupport::default();
        support.features.insert(Feature::JsonSchema, true);
        FileMemory::new(&path).save("http://x/v1", "m", &support);
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
            memory.save("http://x/v1", &number.to_string(), &support);
        }
        assert_eq!(memory.read().models.len(), ENTRIES);
    }
}
