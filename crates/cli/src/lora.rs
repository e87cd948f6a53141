//! The option `--lora`: adapters of the models that a command uses.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use formwork_model::{AdapterFile, Model};

/// Value of `--lora`: `[NAME=]PATH[:SCALE]`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LoraArg {
    /// Name of the adapter, or `MODEL:NAME`. `None` if only a path is given.
    pub(crate) name: Option<String>,
    pub(crate) path: PathBuf,
    /// Factor of the adapter's effect.
    pub(crate) scale: f32,
}

impl LoraArg {
    /// Parses a value whose name is optional.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        // The path of an adapter may contain the sign, too.
        let without_scale = text.rsplit_once(':').map_or(text, |(path, _)| path);
        let is_path = [text, without_scale].into_iter().any(|path| Path::new(path).exists());
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !is_path => (Some(name.to_owned()), rest),
            _ => (None, text),
        };
        // A number after the last colon is the scale, and any other text is a part of the path.
        let scaled = rest.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse::<f32>().ok()?)));
        let (path, scale) = scaled.unwrap_or((rest, 1.0));
        if path.is_empty() || name.as_ref().is_some_and(String::is_empty) {
            return Err("expected a name and the path of an adapter");
        }
        if !scale.is_finite() {
            return Err("the scale must be finite");
        }
        Ok(Self { name, path: path.into(), scale })
    }

    /// Parses a value that must have a name.
    pub(crate) fn parse_named(text: &str) -> Result<Self, &'static str> {
        Self::parse(text).and_then(|lora| match lora.name {
            Some(_) => Ok(lora),
            None => Err("expected NAME=PATH or NAME=PATH:SCALE"),
        })
    }

    /// Returns the model that the name contains, and the name of the adapter.
    pub(crate) fn model_and_name(&self) -> (Option<&str>, &str) {
        match self.name.as_deref().unwrap_or("adapter") {
            name if name.contains(':') => {
                let (model, name) = name.rsplit_once(':').unwrap_or_default();
                (Some(model), name)
            }
            name => (None, name),
        }
    }

    /// Opens the adapter.
    pub(crate) fn open(&self) -> Result<Adapter> {
        let file = AdapterFile::open(&self.path)?;
        Ok(Adapter { name: self.model_and_name().1.to_owned(), file, scale: self.scale })
    }
}

/// An opened adapter and its settings.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub(crate) name: String,
    file: AdapterFile,
    scale: f32,
}

impl Adapter {
    /// Adds the adapter to a model.
    pub(crate) fn add_to(&self, model: &mut Model) -> Result<()> {
        Ok(model.add_adapter(self.name.clone(), &self.file, self.scale)?)
    }

    /// Returns the approximate size of the adapter in memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.parameters() * size_of::<f32>() as u64
    }
}

/// Describes the adapter at `path` if there is one.
pub(crate) fn describe(path: &Path, as_json: bool) -> Result<Option<String>> {
    if !path.exists() || !AdapterFile::is_at(path) {
        return Ok(None);
    }
    let file = AdapterFile::open(path)?;
    let modules: Vec<(&str, usize)> = file.modules().collect();
    let mut ranks: Vec<usize> = modules.iter().map(|(_, rank)| *rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if as_json {
        let modules = modules.iter().map(|(name, rank)| serde_json::json!({ "name": name, "rank": rank }));
        let object = serde_json::json!({
            "path": file.path(),
            "format": file.format(),
            "kind": "lora",
            "alpha": file.alpha(),
            "parameters": file.parameters(),
            "modules": modules.collect::<Vec<_>>(),
        });
        return Ok(Some(format!("{object}\n")));
    }
    let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
    let mut text = format!(
        "{}: LoRA adapter, {}\nrank {}, alpha {}, {} parameters\n\n{} matrices\n",
        file.path().display(),
        file.format(),
        ranks.join(", "),
        file.alpha(),
        file.parameters(),
        modules.len(),
    );
    for (name, rank) in modules {
        writeln!(text, "  {name:<60} rank {rank}")?;
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_a_name_a_path_and_a_scale() {
        let parsed = |text| {
            LoraArg::parse_named(text).map(|lora| {
                let (model, name) = lora.model_and_name();
                (model.map(str::to_owned), name.to_owned(), lora.path.display().to_string(), lora.scale)
            })
        };
        let expected = |model: Option<&str>, path: &str, scale| {
            Ok((model.map(str::to_owned), "sql".to_owned(), path.to_owned(), scale))
        };
        assert_eq!(parsed("sql=a/b"), expected(None, "a/b", 1.0));
        assert_eq!(parsed("sql=a.gguf:0.5"), expected(None, "a.gguf", 0.5));
        assert_eq!(parsed("sql=a:b"), expected(None, "a:b", 1.0));
        assert_eq!(parsed("org/m:q4:sql=a:-2"), expected(Some("org/m:q4"), "a", -2.0));
        assert_eq!(parsed("a/b"), Err("expected NAME=PATH or NAME=PATH:SCALE"));
        assert!(parsed("=a").is_err() && parsed("sql=").is_err() && parsed("sql=a:inf").is_err());
        assert_eq!(LoraArg::parse("a/b:2"), Ok(LoraArg { name: None, path: "a/b".into(), scale: 2.0 }));
    }
}
