use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Device on which a model computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// A GPU if this build supports it and one is found; otherwise the CPU.
    ///
    /// Logs a warning if a GPU is present but cannot be used. A build with CUDA does not start on a
    /// machine without the CUDA driver. If the model is too large for the GPU, opening it fails;
    /// there is no fallback to the CPU.
    Auto,
    /// The CPU, with native kernels that compute on quantised weights.
    #[default]
    Cpu,
    /// The NVIDIA GPU with this index. Needs the feature `cuda`.
    Cuda(usize),
    /// Apple's GPU. Needs the feature `metal`.
    Metal,
    /// A GPU with Formwork's own kernels, over Vulkan or Metal. Needs the feature `gpu`.
    Gpu(GpuNumber),
    /// The CPU, with the same code as on GPUs and all weights expanded to `f32`. Needs the feature
    /// `candle`.
    ///
    /// A reference for the other devices: slow, with a large memory footprint, and without rounding
    /// of activations.
    Reference,
}

/// Number of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GpuNumber {
    /// Hardware, counted from 0.
    Hardware(usize),
    /// A driver that computes on the CPU, for tests.
    Cpu,
}

/// A GPU of the system, or a driver that computes on the CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuInfo {
    /// Device to open.
    pub device: Device,
    /// Name of the hardware.
    pub name: String,
    /// Kind of the hardware: `discrete GPU`, `integrated GPU`, `GPU` or `CPU`.
    pub kind: String,
    /// Interface to the driver: `vulkan` or `metal`.
    pub interface: &'static str,
    /// Name and version of the driver.
    pub driver: String,
    /// Maximum size of the part of a buffer that a kernel can use, in bytes. Larger matrices are cut.
    pub binding_bytes: u64,
    /// Maximum size of a buffer, in bytes.
    pub buffer_bytes: u64,
}

/// Error for a text that is not the name of a device.
#[derive(Debug, Error)]
#[error(
    "unknown device {given:?}; expected auto, cpu, gpu, gpu:N, gpu:cpu, cuda, cuda:N, metal or reference"
)]
pub struct DeviceNameError {
    given: String,
}

impl FromStr for Device {
    type Err = DeviceNameError;

    fn from_str(name: &str) -> Result<Self, DeviceNameError> {
        let numbered = |prefix| name.strip_prefix(prefix).and_then(|number| number.parse().ok());
        if let Some(number) = numbered("gpu:") {
            return Ok(Self::Gpu(GpuNumber::Hardware(number)));
        }
        Ok(match name {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda(0),
            "gpu" => Self::Gpu(GpuNumber::Hardware(0)),
            "gpu:cpu" => Self::Gpu(GpuNumber::Cpu),
            "metal" => Self::Metal,
            "reference" => Self::Reference,
            _ => Self::Cuda(numbered("cuda:").ok_or_else(|| DeviceNameError { given: name.to_owned() })?),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Gpu(GpuNumber::Hardware(number)) => write!(f, "gpu:{number}"),
            Self::Gpu(GpuNumber::Cpu) => f.write_str("gpu:cpu"),
            Self::Metal => f.write_str("metal"),
            Self::Reference => f.write_str("reference"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for device in [
            Device::Auto,
            Device::Cpu,
            Device::Cuda(0),
            Device::Cuda(3),
            Device::Gpu(GpuNumber::Hardware(2)),
            Device::Gpu(GpuNumber::Cpu),
            Device::Metal,
            Device::Reference,
        ] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        assert_eq!("gpu".parse::<Device>().unwrap(), Device::Gpu(GpuNumber::Hardware(0)));
        for name in ["", "gpu:", "cuda:", "cuda:x", "CPU"] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown device {name:?}")), "{error}");
        }
    }
}
