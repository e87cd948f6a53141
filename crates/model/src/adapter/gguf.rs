//! Adapters as GGUF files, which llama.cpp's `convert_lora_to_gguf.py` writes.
//!
//! `general.type` is `adapter`, and `adapter.type` is `lora`. The tensors of a matrix `X` are `X.lora_a`
//! and `X.lora_b`. The facts are those of llama.cpp's `llama-adapter.cpp`.

use std::path::Path;

use super::{AdapterFile, Side, pairs};
use crate::LoadError;
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::gguf::{Gguf, TensorInfo, Value};

const TYPE: &str = "general.type";
const ARCHITECTURE: &str = "general.architecture";
const METHOD: &str = "adapter.type";
const ALPHA: &str = "adapter.lora.alpha";
const ACTIVATION: &str = "adapter.alora.invocation_tokens";

pub(super) fn is_adapter(path: &Path) -> bool {
    Gguf::open(path).is_ok_and(|file| text(&file, TYPE).is_ok_and(|kind| kind == "adapter"))
}

pub(super) fn open(path: &Path) -> Result<AdapterFile, LoadError> {
    let file = Gguf::open(path)?;
    read(&file).map_err(|kind| LoadError::new(path, kind))
}

fn read(file: &Gguf) -> Result<AdapterFile, Kind> {
    expect(file, TYPE, "adapter", "expected \"adapter\"")?;
    expect(file, METHOD, "lora", "expected \"lora\"")?;
    if file.value(ACTIVATION).is_some() {
        let (key, given) = (ACTIVATION.to_owned(), "present".to_owned());
        return Err(Kind::KeyValue { key, given, rule: "activated LoRA is not supported" });
    }
    let alpha = match file.value(ALPHA) {
        None => 0.0,
        Some(Value::Float(alpha)) if alpha.is_finite() => *alpha,
        Some(other) => {
            let (key, given) = (ALPHA.to_owned(), other.kind_name());
            return Err(Kind::KeyType { key, given, expected: "a finite float" });
        }
    };
    let scale = |_: &str, b: &TensorInfo| {
        let rank = b.shape[0];
        // llama.cpp does not scale an adapter without this number.
        Ok((rank as usize, if alpha == 0.0 { 1.0 } else { alpha / rank as f64 }))
    };
    Ok(AdapterFile {
        architecture: Some(text(file, ARCHITECTURE)?.to_owned()),
        alpha,
        pairs: pairs(file.tensors(), side, scale)?,
        tensors: Checkpoint::Gguf(file.clone()),
    })
}

fn side(tensor: &TensorInfo) -> Result<(String, Side, bool), Kind> {
    let name = tensor.name.as_str();
    let sides = [(".weight.lora_a", Side::A), (".weight.lora_b", Side::B)];
    let found = sides.into_iter().find_map(|(end, side)| Some((name.strip_suffix(end)?.to_owned(), side)));
    let (module, side) = found.ok_or_else(|| Kind::AdapterTensor {
        tensor: name.to_owned(),
        reason: "expected a name that ends with .weight.lora_a or .weight.lora_b",
    })?;
    Ok((module, side, false))
}

fn text<'f>(file: &'f Gguf, key: &str) -> Result<&'f str, Kind> {
    match file.value(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => {
            let (key, given) = (key.to_owned(), other.kind_name());
            Err(Kind::KeyType { key, given, expected: "a string" })
        }
        None => Err(Kind::MissingKey { key: key.to_owned() }),
    }
}

fn expect(file: &Gguf, key: &str, expected: &str, rule: &'static str) -> Result<(), Kind> {
    let given = text(file, key)?;
    if given == expected {
        return Ok(());
    }
    Err(Kind::KeyValue { key: key.to_owned(), given: format!("{given:?}"), rule })
}
