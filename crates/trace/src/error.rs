use std::path::{Path, PathBuf};

#[cfg(feature = "sqlite")]
use rusqlite::ErrorCode;
use thiserror::Error;

/// Error of a trace database. The message contains the path of the database.
#[derive(Debug, Error)]
#[error("{}: {kind}", path.display())]
pub struct TraceError {
    path: PathBuf,
    kind: Box<Kind>,
}

#[derive(Debug, Error)]
#[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only databases fail"))]
pub(super) enum Kind {
    #[error("no such file")]
    Missing,
    #[error("the path is a folder")]
    Folder,
    #[error("not an SQLite database")]
    NoDatabase,
    #[cfg(feature = "sqlite")]
    #[error("cannot open the database: {0}")]
    Open(rusqlite::Error),
    #[error("not a trace database")]
    Foreign,
    #[error("created by a newer version (format {given}; supported up to {known})")]
    Newer { given: i64, known: i64 },
    #[cfg(feature = "sqlite")]
    #[error("cannot read the database: {0}")]
    Read(rusqlite::Error),
    #[cfg(feature = "sqlite")]
    #[error("{lost} records were lost: {first}")]
    Lost { lost: u64, first: rusqlite::Error },
    #[error("cannot start the writer thread: {0}")]
    Thread(std::io::Error),
    #[error("the writer thread has ended")]
    Ended,
}

impl TraceError {
    #[cfg(feature = "sqlite")]
    pub(super) fn new(path: &Path, kind: Kind) -> Self {
        let kind = match kind {
            Kind::Open(_) if path.is_dir() => Kind::Folder,
            Kind::Open(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
                Kind::NoDatabase
            }
            kind => kind,
        };
        Self { path: path.to_owned(), kind: Box::new(kind) }
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reports whether the database file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(*self.kind, Kind::Missing)
    }

    /// Reports whether the database was created by a newer version of this program, which this
    /// version cannot read.
    pub fn is_newer(&self) -> bool {
        matches!(*self.kind, Kind::Newer { .. })
    }
}
