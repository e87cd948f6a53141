//! Replacement for the module `candle` in builds without the feature of this name.

use std::sync::Arc;

use crate::Device;
use crate::backend::Backend;
use crate::checkpoint::Checkpoint;
use crate::error::Kind;
use crate::spec::ModelSpec;
use crate::weights::Weights;

/// A device of candle. This build has none.
pub(crate) enum TensorDevice {}

pub(crate) const fn device(wanted: Device) -> Result<Option<TensorDevice>, Kind> {
    let feature = match wanted {
        Device::Auto | Device::Cpu | Device::Gpu(_) | Device::Gpus(_) => return Ok(None),
        Device::Cuda(_) => "cuda",
        Device::Metal => "metal",
        Device::Reference => "candle",
    };
    Err(Kind::DeviceFeature { device: wanted, feature })
}

pub(crate) fn open(
    _: ModelSpec,
    _: &Weights,
    _: usize,
    (_, device): (Device, TensorDevice),
) -> Result<Arc<dyn Backend>, Kind> {
    match device {}
}

/// Returns the error `unknown`, because this build has none of candle's own models.
pub(crate) fn check_model(_: &Checkpoint, unknown: Kind) -> Result<(), Kind> {
    Err(unknown)
}

pub(crate) fn open_model(
    checkpoint: &Checkpoint,
    _: Option<TensorDevice>,
) -> Result<(Arc<dyn Backend>, usize), Kind> {
    let given = checkpoint.architecture()?.to_owned();
    Err(Kind::Architecture { given, known: Vec::new() })
}
