//! `formwork inspect`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use formwork_lm::Pooling;
use formwork_model::gguf::TensorInfo;
use formwork_model::spec::ModelSpec;
use formwork_model::{Checkpoint, Definition};
use serde_json::{Map, Value, json};

use crate::args::InspectArgs;
use crate::memory::Needs;
use crate::{load, lora};

/// Maximum number of characters of a value in the listing; longer values are cut.
const PREVIEW: usize = 100;

pub(crate) fn inspect(command: &InspectArgs, as_json: bool) -> Result<bool> {
    let model = &command.model;
    if let Some(text) = lora::describe(Path::new(model), as_json)? {
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(true);
    }
    let checkpoint = Checkpoint::open(load::resolve(model)?.path)?;
    let runs = match Definition::of(&checkpoint) {
        Ok(Definition::Own) => "Formwork's own implementation".to_owned(),
        Ok(Definition::Candle) => "candle's own implementation".to_owned(),
        Err(error) => format!("no implementation: {error}"),
    };
    let needs = Needs::of(&checkpoint, command.options());
    let purpose = ModelSpec::of(&checkpoint).ok().map(|spec| purpose(&spec));
    let out = if as_json {
        let mut object = as_object(&checkpoint, &runs);
        object["purpose"] = purpose.into();
        object["memory"] = needs.as_ref().map(Needs::as_object).into();
        format!("{object}\n")
    } else {
        listing(&checkpoint, &runs, [purpose, needs.as_ref().map(Needs::to_string)])?
    };
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(true)
}

/// Describes what a model is for. For embeddings, the description has the pooling, the width of the
/// vectors and the names of the prompts.
fn purpose(spec: &ModelSpec) -> String {
    let abilities = &spec.abilities;
    let mut text = abilities.describe().to_owned();
    if let Some(profile) = abilities.embedding.as_ref().filter(|_| !abilities.generates) {
        let pooling = match profile.pooling {
            Pooling::Mean => "mean",
            Pooling::First => "cls",
            Pooling::Last => "last",
        };
        let width = profile.width.unwrap_or(spec.hidden);
        let length = if profile.normalizes { ", normalised" } else { "" };
        // Writing to a string cannot fail.
        let _ =
            write!(text, ": pooling {pooling}, {width} dimensions{length}, at most {} tokens", spec.context);
        if !profile.prompts.is_empty() {
            let names: Vec<&str> = profile.prompts.keys().map(String::as_str).collect();
            let _ = write!(text, ", prompts {}", names.join(", "));
        }
    }
    text
}

/// Returns the number of tensors and their total bytes by tensor type.
fn types(checkpoint: &Checkpoint) -> BTreeMap<&'static str, (usize, usize)> {
    let mut types = BTreeMap::new();
    for tensor in checkpoint.tensors() {
        let (count, bytes) = types.entry(tensor.dtype.name()).or_insert((0, 0));
        *count += 1;
        *bytes += tensor.byte_len;
    }
    types
}

fn format(checkpoint: &Checkpoint) -> String {
    match checkpoint {
        Checkpoint::Gguf(file) => format!("GGUF v{}", file.version()),
        Checkpoint::Safetensors(_) => "safetensors".to_owned(),
    }
}

/// Returns the metadata as text; arrays of a GGUF file are cut after `elements` elements.
fn metadata(checkpoint: &Checkpoint, elements: usize) -> Vec<(String, String)> {
    match checkpoint {
        Checkpoint::Gguf(file) => {
            file.metadata().iter().map(|(key, value)| (key.clone(), file.preview(value, elements))).collect()
        }
        Checkpoint::Safetensors(model) => {
            model.config().iter().map(|(key, value)| (key.clone(), value.to_string())).collect()
        }
    }
}

fn as_object(checkpoint: &Checkpoint, runs: &str) -> Value {
    let metadata: Map<String, Value> = match checkpoint {
        Checkpoint::Gguf(_) => {
            metadata(checkpoint, usize::MAX).into_iter().map(|(key, text)| (key, text.into())).collect()
        }
        Checkpoint::Safetensors(model) => model.config().clone(),
    };
    let tensor = |tensor: &TensorInfo| {
        json!({
            "name": tensor.name,
            "type": tensor.dtype.to_string(),
            "shape": tensor.shape,
            "file": tensor.file,
            "offset": tensor.offset,
            "bytes": tensor.byte_len,
        })
    };
    let types = types(checkpoint).into_iter();
    let types =
        types.map(|(name, (count, bytes))| (name.to_owned(), json!({ "tensors": count, "bytes": bytes })));
    let mut object = json!({
        "path": checkpoint.path(),
        "format": format(checkpoint),
        "bytes": checkpoint.byte_len(),
        "parameters": checkpoint.parameters(),
        "runs_with": runs,
        "types": types.collect::<Map<_, _>>(),
        "chat_template": checkpoint.chat_template(),
        "metadata": metadata,
        "tensors": checkpoint.tensors().iter().map(tensor).collect::<Vec<_>>(),
    });
    if let Checkpoint::Gguf(file) = checkpoint {
        object["version"] = file.version().into();
    }
    object
}

fn listing(checkpoint: &Checkpoint, runs: &str, lines: [Option<String>; 2]) -> Result<String> {
    let mut out = String::new();
    let (path, format, bytes) = (checkpoint.path().display(), format(checkpoint), checkpoint.byte_len());
    writeln!(out, "{path}: {format}, {bytes} bytes")?;
    let (tensors, parameters) = (checkpoint.tensors(), checkpoint.parameters());
    writeln!(out, "{} tensors, {parameters} parameters, runs with {runs}", tensors.len())?;
    for line in lines.into_iter().flatten() {
        writeln!(out, "{line}")?;
    }
    for (name, (count, bytes)) in types(checkpoint) {
        writeln!(out, "  {name:<8} {count:>5} tensors {bytes:>14} bytes")?;
    }
    writeln!(out, "\nmetadata")?;
    for (key, text) in metadata(checkpoint, PREVIEW) {
        writeln!(out, "  {key} = {}", text.replace('\n', "\\n"))?;
    }
    if let (Checkpoint::Safetensors(_), Some(template)) = (checkpoint, checkpoint.chat_template()) {
        writeln!(out, "  chat template = {}", template.replace('\n', "\\n"))?;
    }
    writeln!(out, "\ntensors")?;
    for tensor in tensors {
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
