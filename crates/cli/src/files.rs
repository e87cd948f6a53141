//! Reads the files that the command line names.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Reads a text file and strips the byte order mark that some editors write.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(without_mark(text))
}

/// Strips the byte order mark at the start of a text.
pub(crate) fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    let text = read_text(path)?;
    formwork_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Reads the bytes of a file; reads standard input for `-` or if no path is given.
pub(crate) fn read_input(path: Option<&Path>) -> Result<Vec<u8>> {
    match path {
        Some(path) if path != Path::new("-") => {
            std::fs::read(path).with_context(|| path.display().to_string())
        }
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("standard input")?;
            Ok(bytes)
        }
    }
}

/// Reads UTF-8 text from the same sources as [`read_input`].
pub(crate) fn read_input_text(path: Option<&Path>) -> Result<String> {
    match String::from_utf8(read_input(path)?) {
        Ok(text) => Ok(text),
        Err(error) => bail!("the input is not UTF-8 at byte {}", error.utf8_error().valid_up_to()),
    }
}
