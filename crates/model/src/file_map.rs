//! A read-only memory map of a file.
//!
//! Tensors are read straight from the page cache, and given back to it once they are packed. The file must not be changed or
//! shortened while it is mapped; a model file is written once and then replaced as a whole, by renaming, and a replaced file lives
//! on as long as its map.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::LoadError;
use crate::error::Kind;

/// The bytes of a file.
#[derive(Debug)]
pub(crate) struct FileMap {
    path: PathBuf,
    map: Mmap,
}

impl FileMap {
    /// Maps the whole file.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let fail = |error: std::io::Error| LoadError::new(path, error);
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.len() == 0 {
            return Err(LoadError::new(path, Kind::Empty));
        }
        // SAFETY: the map is private and read-only. Its one condition is that nobody shortens or rewrites the file in
        // place while it lives, which the module documentation asks of whoever handles model files.
        #[expect(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(fail)?;
        Ok(Self { path: path.to_owned(), map })
    }

    /// Where the file was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks the system to have the whole file in memory soon. Only a hint.
    pub(crate) fn will_need(&self) {
        #[cfg(unix)]
        if let Err(error) = self.map.advise(memmap2::Advice::WillNeed) {
            tracing::debug!(%error, "the read-ahead hint was refused");
        }
    }

    /// Takes some bytes out of this process's memory until they are read again. Only a hint.
    pub(crate) fn release(&self, bytes: Range<usize>) {
        #[cfg(unix)]
        {
            // SAFETY: the map is of a file and never written to, so what is read later comes from the file, unchanged.
            #[expect(unsafe_code)]
            let released = unsafe {
                self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, bytes.start, bytes.len())
            };
            if let Err(error) = released {
                tracing::debug!(%error, "pages were not given back");
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
