//! Matrices that a checkpoint stores quantised, in several tensors.
//!
//! The field `quantization_config` of a `config.json` names a [`Method`]. Each method stores a
//! matrix as a tensor of small elements, and further tensors with scales and zero points. [`read`]
//! combines them into one matrix of a type that the kernels compute with:
//!
//! | Stored | Computed | Difference |
//! |---|---|---|
//! | 4-bit floats (NVFP4, MXFP4) | the same type | none |
//! | 4-bit integers without zero points | `Q4_0` | none for 16-bit scales |
//! | 2- and 4-bit integers with zero points | `Q4_1` | offsets are rounded to 11 bits |
//! | 8-bit integers without zero points | `Q8_0` | none for 16-bit scales |
//! | 8-bit floats, and everything else | `Q8_0` | elements are rounded again |
//!
//! Integers with an order of columns, or with groups that are not multiples of 32, count as
//! everything else. The tensors of a layer decide how it is read, not the lists of names in the
//! configuration. A layer whose weight is a plain float tensor is therefore never converted.
//!
//! The facts about the formats are those of the libraries that write them: compressed-tensors
//! 0.20, `AutoGPTQ`, `AutoAWQ`, and NVIDIA's Model Optimizer.

mod awq;
mod convert;
mod float4;
mod float8;
mod gguf;
mod gptq;
mod integers;
mod method;
mod packed;
mod scales;
mod source;
#[cfg(test)]
mod tests;

pub(super) use self::float4::halves;
pub(super) use self::gguf::factors;
pub(crate) use self::method::Method;
use self::source::Source;
use super::matrix::{Matrix, Purpose};
use crate::checkpoint::Checkpoint;
use crate::error::Kind;

/// Reads the matrix `name` of shape `shape` if it is stored quantised. Returns `None` if it is a
/// tensor of a type that the kernels read.
///
/// A shape with three dimensions stands for the matrices of several experts, one after the other.
pub(super) fn read(
    checkpoint: &Checkpoint,
    (method, purpose): (Method, Purpose),
    name: &str,
    shape: &[u64],
) -> Result<Option<Matrix>, Kind> {
    let is_plain = checkpoint.tensor(name).is_some_and(|tensor| tensor.dtype.compute().is_some());
    let Some(source) = Source::new(checkpoint, purpose, name, shape).filter(|_| !is_plain) else {
        return Ok(None);
    };
    let matrix = match method {
        Method::None => return Ok(None),
        Method::Float8 { block } => float8::read(&source, "weight_scale_inv", block)?,
        Method::CompressedTensors { block } => match source.dtype("weight_packed") {
            Some("I32") => packed::read(&source)?,
            Some(_) if source.has("weight_global_scale") => float4::nvfp4(&source, float4::Layout::PACKED)?,
            Some(_) => float4::mxfp4(&source)?,
            None if source.dtype("weight") == Some("I8") => integers::bytes(&source)?,
            None => float8::read(&source, "weight_scale", block)?,
        },
        Method::ModelOpt if source.dtype("weight") == Some("U8") => {
            float4::nvfp4(&source, float4::Layout::MODEL_OPT)?
        }
        Method::ModelOpt => float8::read(&source, "weight_scale", None)?,
        Method::Gptq { group, version } => gptq::read(&source, group, version)?,
        Method::Awq { group } => awq::read(&source, group)?,
    };
    Ok(Some(matrix))
}

/// Returns the number of rows of the matrix `module`, plain or quantised. Returns `None` if the
/// checkpoint does not have the matrix.
pub(super) fn rows(checkpoint: &Checkpoint, module: &str) -> Option<u64> {
    let dim = |part: &str, dim: usize| {
        checkpoint.tensor(&format!("{module}.{part}")).and_then(|tensor| tensor.shape.get(dim).copied())
    };
    // GPTQ and AWQ store one column of scales per row.
    dim("weight", 1).or_else(|| dim("weight_packed", 1)).or_else(|| dim("scales", 0))
}
