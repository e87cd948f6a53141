//! Loads the documents that schemas may refer to, from the files and folders on the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use formwork_grammar::Remotes;

use crate::args::Remote;
use crate::files::{read_json, read_json_option};

/// Maximum number of documents in a folder.
const DOCUMENTS: usize = 100_000;
/// Maximum depth of nested folders; deeper ones are skipped.
const DEPTH: usize = 32;

/// Reads all documents that the `--remote` options name.
pub(crate) fn read(given: &[Remote]) -> Result<Remotes> {
    let mut remotes = Remotes::new();
    let mut add = |name: String, document| {
        if remotes.contains_key(&name) {
            bail!("--remote names {name} twice");
        }
        remotes.insert(name, document);
        Ok(())
    };
    for Remote { uri, path } in given {
        match uri {
            Some(uri) if !path.is_dir() => add(uri.clone(), read_json_option("--remote", path)?)?,
            Some(uri) => {
                let base = uri.trim_end_matches('/');
                folder(path)
                    .context("--remote")?
                    .into_iter()
                    .try_for_each(|(name, document)| add(format!("{base}/{name}"), document))?;
            }
            None => folder(path)
                .context("--remote")?
                .into_iter()
                .try_for_each(|(name, document)| add(name, document))?,
        }
    }
    Ok(remotes)
}

/// Reads the `.json` files of a folder and its subfolders, keyed by their paths within the folder.
/// Skips hidden folders, and skips files that are not JSON with a warning.
pub(crate) fn folder(path: &Path) -> Result<Remotes> {
    let mut remotes = Remotes::new();
    let mut folders = vec![(path.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        let place = || folder.display().to_string();
        for entry in folder.read_dir().with_context(place)? {
            let file: PathBuf = entry.with_context(place)?.path();
            let Some(name) = file.file_name().and_then(|name| name.to_str()) else { continue };
            let name = format!("{prefix}{name}");
            if file.is_dir()
                && depth < DEPTH
                && !name.rsplit('/').next().is_some_and(|name| name.starts_with('.'))
            {
                folders.push((file, format!("{name}/"), depth + 1));
            } else if file.extension().is_some_and(|extension| extension == "json") {
                match read_json(&file) {
                    Ok(document) => drop(remotes.insert(name, document)),
                    Err(error) => eprintln!("formwork: warning: skipped {error:#}"),
                }
            }
            if remotes.len() > DOCUMENTS {
                bail!("{}: the folder has more than {DOCUMENTS} documents", path.display());
            }
        }
    }
    Ok(remotes)
}
