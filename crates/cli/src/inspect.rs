//! `formwork inspect`

use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Result;
use formwork_model::gguf::{Gguf, TensorInfo};
use formwork_model::spec::ModelSpec;
use serde_json::json;

use crate::load;

/// Values longer than this many characters are cut in the listing.
const PREVIEW: usize = 100;

pub(crate) fn inspect(model: &str, as_json: bool) -> Result<bool> {
    let file = Gguf::open(load::resolve(model)?.path)?;
    let spec = ModelSpec::from_gguf(&file);
    let runs = match &spec {
        Ok(_) => "Formwork's own definition".to_owned(),
        Err(error) => format!("nothing: {error}"),
    };
    if as_json {
        let metadata: serde_json::Map<String, serde_json::Value> = file
            .metadata()
            .iter()
            .map(|(key, value)| (key.clone(), file.preview(value, usize::MAX).into()))
            .collect();
        let tensors: Vec<_> = file
            .tensors()
            .iter()
            .map(|tensor| {
                json!({
                    "name": tensor.name,
                    "type": tensor.dtype.to_string(),
                    "shape": tensor.shape,
                    "offset": tensor.offset,
                    "bytes": tensor.byte_len,
                })
            })
            .collect();
        let result = json!({
            "path": file.path(),
            "version": file.version(),
            "bytes": file.byte_len(),
            "runs_with": runs,
            "metadata": metadata,
            "tensors": tensors,
        });
        writeln!(std::io::stdout(), "{result}")?;
        return Ok(true);
    }
    std::io::stdout().write_all(listing(&file, &runs)?.as_bytes())?;
    Ok(true)
}

fn listing(file: &Gguf, runs: &str) -> Result<String> {
    let mut out = String::new();
    let parameters: u64 = file.tensors().iter().map(TensorInfo::elements).sum();
    writeln!(out, "{}: GGUF v{}, {} bytes", file.path().display(), file.version(), file.byte_len())?;
    writeln!(out, "{} tensors, {parameters} parameters, run by {runs}", file.tensors().len())?;
    writeln!(out, "\nmetadata")?;
    for (key, value) in file.metadata() {
        let text = file.preview(value, PREVIEW).replace('\n', "\\n");
        writeln!(out, "  {key} = {text}")?;
    }
    writeln!(out, "\ntensors")?;
    for tensor in file.tensors() {
        let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        writeln!(
            out,
            "  {:<40} {:<6} {:<20} {:>12} bytes",
            tensor.name,
            tensor.dtype.to_string(),
            shape.join(" × "),
            tensor.byte_len,
        )?;
    }
    Ok(out)
}
