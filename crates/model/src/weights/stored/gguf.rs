//! Factors of NVFP4 matrices in GGUF files.

use crate::checkpoint::Checkpoint;
use crate::error::Kind;

/// Returns the factors of the matrices of the tensor `name`, one for each of `count` matrices. They
/// are 1 if the tensor has another type than NVFP4, or if the file has no factors.
///
/// # Errors
/// Returns an error if the factors have another shape, or if one is negative or not finite.
pub(in super::super) fn factors(checkpoint: &Checkpoint, name: &str, count: usize) -> Result<Vec<f32>, Kind> {
    let tensor = format!("{}.scale", name.trim_end_matches(".weight"));
    let is_nvfp4 = checkpoint.tensor(name).is_some_and(|info| info.dtype.name() == "NVFP4");
    if !is_nvfp4 || checkpoint.tensor(&tensor).is_none() {
        return Ok(vec![1.0; count]);
    }
    let factors = checkpoint.values(&tensor, &[count as u64])?;
    match factors.iter().position(|factor| !factor.is_finite() || *factor < 0.0) {
        Some(index) => Err(Kind::Scale { tensor, index, given: factors[index] }),
        None => Ok(factors),
    }
}
