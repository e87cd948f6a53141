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

/// Reports that no GPU was tried.
pub(crate) const fn is_slower(_: &Kind) -> bool {
    false
}

pub(crate) const fn device(number: GpuNumber) -> Result<Gpu, Kind> {
    Err(Kind::DeviceFeature { device: Device::Gpu(number), feature: "gpu" })
}

/// Requests that decide on the devices of a model's layers.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) context: usize,
    pub(crate) options: OpenOptions,
    pub(crate) is_found: bool,
}

/// Refuses every model, because this build has no code for GPUs.
pub(crate) const fn check(_: &ModelSpec) -> Result<(), Kind> {
    Err(Kind::DeviceFeature { device: Device::Gpu(GpuNumber::Hardware(0)), feature: "gpu" })
}

pub(crate) fn open(
    _: ModelSpec,
    _: Weights,
    request: Request,
    gpus: Vec<(GpuNumber, Gpu)>,
) -> Result<(Arc<dyn Backend>, usize), Kind> {
    let Request { context: _context, options: _options, is_found: _is_found } = request;
    match gpus.into_iter().next() {
        Some((_, gpu)) => match gpu {},
        None => Err(Kind::DeviceFeature { device: Device::Gpu(GpuNumber::Hardware(0)), feature: "gpu" }),
    }
}
