//! A read-only memory map of a file.
//!
//! Tensors are read directly from the page cache. Once they are packed, their pages are released.
//!
//! The file must not be changed or shortened while it is mapped. Model files follow this rule: they
//! are written once and later replaced as a whole, by renaming. The old content of a replaced file
//! remains available as long as its map.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::LoadError;
use crate::error::Kind;

/// The mapped bytes of a file.
#[derive(Debug)]
pub(crate) struct FileMap {
    path: PathBuf,
    map: Mmap,
}

impl FileMap {
    /// Maps the whole file. Returns an error if the file cannot be opened or is empty.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let fail = |error: std::io::Error| LoadError::new(path, error);
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.len() == 0 {
            return Err(LoadError::new(path, Kind::Empty));
        }
        // SAFETY: the map is private and read-only. The remaining condition is that the file is not
        // shortened or rewritten in place during the map's lifetime. The module documentation
        // states this requirement for model files.
        #[expect(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(fail)?;
        Ok(Self { path: path.to_owned(), map })
    }

    /// Returns the path under which the file was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Advises the operating system to read the whole file ahead. Only a hint.
    pub(crate) fn will_need(&self) {
        #[cfg(unix)]
        if let Err(error) = self.map.advise(memmap2::Advice::WillNeed) {
            tracing::debug!(%error, "read-ahead hint rejected");
        }
    }

    /// Releases the pages of a byte range from this process's memory. A later access reads them
    /// again. Only a hint.
    pub(crate) fn release(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        {
            // SAFETY: the map is backed by a file and never written to, so a later access reads the
            // same bytes from the file.
            #[expect(unsafe_code)]
            let released = unsafe {
                self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, bytes.start, bytes.len())
            };
            if let Err(error) = released {
                tracing::debug!(%error, "cannot release pages");
            }
        }
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
