//! Replacement for the module `gpu` in builds without the feature of this name.

use std::sync::Arc;

use crate::backend::Backend;
use crate::device::{GpuInfo, GpuNumber};
use crate::error::Kind;
use crate::spec::ModelSpec;
use crate::weights::Weights;
use crate::{Device, OpenOptions};

/// True if this build has kernels for GPUs: the feature `gpu`.
pub const HAS_GPU_KERNELS: bool = false;

/// An open GPU. This build has none.
pub(crate) enum Gpu {}

/// Returns no GPU, because this build has no code for them.
pub const fn gpus() -> Vec<GpuInfo> {
    Vec::new()
}

/// Returns no GPU, for the same reason.
pub(crate) const fn found() -> Option<Device> {
    None
}

pub(crate) const fn device(number: GpuNumber) -> Result<Gpu, Kind> {
    Err(Kind::DeviceFeature { device: Device::Gpu(number), feature: "gpu" })
}

pub(crate) fn open(
    _: ModelSpec,
    _: Weights,
    _: (usize, OpenOptions),
    gpus: Vec<(GpuNumber, Gpu)>,
) -> Result<Arc<dyn Backend>, Kind> {
    match gpus.into_iter().next() {
        Some((_, gpu)) => match gpu {},
        None => Err(Kind::DeviceFeature { device: Device::Gpu(GpuNumber::Hardware(0)), feature: "gpu" }),
    }
}
