//! Sets up tracing for the commands.

use std::path::Path;

use anyhow::Result;
use formwork_protocol::config::Config;
use formwork_trace::{SqliteOptions, SqliteSink, Tracer, TracingSink};

/// Creates a tracer that writes log lines and, if a database is named, `SQLite` rows. The named
/// database takes precedence over the configuration's, whose path is relative to the configuration
/// file.
pub(crate) fn tracer(named: Option<&Path>, (path, config): (Option<&Path>, &Config)) -> Result<Tracer> {
    let of_config = config.traces.database.as_ref().map(|database| {
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        folder.join(database)
    });
    let tracer = Tracer::default().with_sink(TracingSink::default());
    let Some(database) = named.map(Path::to_owned).or(of_config) else { return Ok(tracer) };
    let options = SqliteOptions {
        correction_ledger: config.aros.correction_ledger_enabled,
        ..SqliteOptions::default()
    };
    Ok(tracer.with_sink(SqliteSink::open(&database, options)?))
}

/// Waits until all traces are written. A failure is only a warning, so that the command's result is
/// not lost with its traces.
pub(crate) fn flush(tracer: &Tracer) {
    if let Err(error) = tracer.flush() {
        eprintln!("formwork: warning: {error}");
    }
}
