//! `formwork pull` and `formwork models`

use std::io::Write;

use anyhow::Result;
use serde_json::json;

use crate::load;

pub(crate) fn pull(model: &str, as_json: bool) -> Result<bool> {
    let local = load::resolve(model)?;
    if as_json {
        writeln!(std::io::stdout(), "{}", json!({ "name": local.name, "path": local.path }))?;
    } else {
        writeln!(std::io::stdout(), "{}", local.path.display())?;
    }
    Ok(true)
}

pub(crate) fn list(as_json: bool) -> Result<bool> {
    let models = load::hub().list();
    if as_json {
        let models: Vec<_> = models
            .iter()
            .map(|model| {
                json!({
                    "name": model.manifest.name,
                    "file": model.manifest.file,
                    "size": model.manifest.size,
                    "licence": model.manifest.licence,
                    "default": model.manifest.is_default,
                    "path": model.cached,
                })
            })
            .collect();
        writeln!(std::io::stdout(), "{}", serde_json::Value::from(models))?;
        return Ok(true);
    }
    for model in &models {
        let manifest = &model.manifest;
        let place = model
            .cached
            .as_ref()
            .map_or_else(|| "not downloaded".to_owned(), |path| path.display().to_string());
        writeln!(
            std::io::stdout(),
            "{:<24} {:>6} MB  {:<12} {place}{}",
            manifest.name,
            manifest.size / 1_000_000,
            manifest.licence,
            if manifest.is_default { "  (default)" } else { "" },
        )?;
    }
    Ok(true)
}
