use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use formwork_vocab::Tokenizer;

use super::{Case, Spelling};

/// A file that contains a case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CaseFile {
    /// Name of the case: the file's path relative to the searched folder, or the file name if the
    /// file was given directly.
    pub id: String,
    /// Path of the file.
    pub path: PathBuf,
}

impl CaseFile {
    /// Reads the case and tokenizes its instances.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, and the errors of [`Case::parse`].
    pub fn read(&self, tokenizer: &Tokenizer, spelling: Spelling) -> Result<Case> {
        let json = std::fs::read(&self.path).with_context(|| self.path.display().to_string())?;
        Case::parse(&self.id, &json, tokenizer, spelling)
    }
}

/// Returns the case files in `paths`, in order. A path to a file stands for itself. A path to a
/// folder stands for all `.json` files inside it, at any depth, sorted by path. Symbolic links to
/// folders within a folder are not followed.
///
/// # Errors
/// Returns an error if a path cannot be read or if there are no files.
pub fn find(paths: &[PathBuf]) -> Result<Vec<CaseFile>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.append(&mut under(path)?);
        } else {
            let id = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            files.push(CaseFile { id, path: path.clone() });
        }
    }
    if files.is_empty() {
        bail!("no .json files there");
    }
    Ok(files)
}

fn under(root: &Path) -> Result<Vec<CaseFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let place = || folder.display().to_string();
        for entry in std::fs::read_dir(&folder).with_context(place)? {
            let entry = entry.with_context(place)?;
            let path = entry.path();
            if entry.file_type().with_context(place)?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                let id = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
                files.push(CaseFile { id, path });
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_to_the_bottom_and_sorted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("m")).unwrap();
        for name in ["z.json", "a.json", "m/k.json", "m/readme.txt"] {
            std::fs::write(folder.path().join(name), "{}").unwrap();
        }
        let paths = [folder.path().join("z.json"), folder.path().to_owned()];
        let ids: Vec<_> = find(&paths).unwrap().into_iter().map(|file| file.id).collect();
        assert_eq!(ids, ["z.json", "a.json", "m/k.json", "z.json"]);
    }

    #[test]
    fn no_files_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find(&[folder.path().to_owned()]).is_err());
        assert!(find(&[folder.path().join("missing")]).unwrap()[0].path.ends_with("missing"));
    }
}
