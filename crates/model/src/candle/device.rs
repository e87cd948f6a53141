//! Selection of candle's devices.

use candle_core::utils::{cuda_is_available, metal_is_available};
use candle_core::{DeviceLocation, Error, Result};

use crate::Device;
use crate::error::Kind;

pub(crate) type TensorDevice = candle_core::Device;

/// Returns the candle device for `wanted`, or `None` for the native CPU kernels.
pub(crate) fn device(wanted: Device) -> std::result::Result<Option<TensorDevice>, Kind> {
    let fail = |error: Error| Kind::device(wanted, error);
    let missing = |feature| Kind::DeviceFeature { device: wanted, feature };
    match wanted {
        Device::Cpu | Device::Gpu(_) | Device::Gpus(_) => Ok(None),
        Device::Reference => Ok(Some(TensorDevice::Cpu)),
        Device::Cuda(_) if !cuda_is_available() => Err(missing("cuda")),
        Device::Cuda(number) => TensorDevice::new_cuda(number).map(Some).map_err(fail),
        Device::Metal if !metal_is_available() => Err(missing("metal")),
        Device::Metal => metal().map(Some).map_err(fail),
        Device::Auto => Ok([Device::Cuda(0), Device::Metal].into_iter().find_map(found)),
    }
}

/// Returns the candle device for `wanted` if this build supports it and it is present.
fn found(wanted: Device) -> Option<TensorDevice> {
    match device(wanted) {
        Ok(device) => device,
        Err(Kind::DeviceFeature { .. }) => None,
        Err(error) => {
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::warn!(device = %wanted, error, "cannot use the device; trying the next one");
            None
        }
    }
}

/// Opens the first Metal device. candle panics if there is none; the panic becomes an error here.
fn metal() -> Result<TensorDevice> {
    let none = || Err(Error::msg("no Metal device found"));
    std::panic::catch_unwind(|| TensorDevice::new_metal(0)).unwrap_or_else(|_| none())
}

/// Returns the name of a device. `on_cpu` is the name for the CPU.
pub(super) fn name(device: &TensorDevice, on_cpu: &str) -> String {
    match device.location() {
        DeviceLocation::Cpu => on_cpu.to_owned(),
        DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        DeviceLocation::Metal { .. } => "metal".to_owned(),
    }
}

/// Returns the device named by `FORMWORK_TEST_DEVICE`, by default the CPU.
#[cfg(test)]
pub(super) fn tested() -> TensorDevice {
    let name = std::env::var("FORMWORK_TEST_DEVICE").unwrap_or_else(|_| "reference".to_owned());
    device(name.parse().unwrap()).unwrap().unwrap_or(TensorDevice::Cpu)
}
