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
    /// The CPU, with the same code as on GPUs and all weights expanded to `f32`. Needs the feature
    /// `candle`.
    ///
    /// A reference for the other devices: slow, with a large memory footprint, and without rounding
    /// of activations.
    Reference,
}

/// Error for a text that is not the name of a device.
#[derive(Debug, Error)]
#[error("unknown device {given:?}; expected auto, cpu, cuda, cuda:N, metal or reference")]
pub struct DeviceNameError {
    given: String,
}

impl FromStr for Device {
    type Err = DeviceNameError;

    fn from_str(name: &str) -> Result<Self, DeviceNameError> {
        let numbered = || name.strip_prefix("cuda:").and_then(|number| number.parse().ok());
        Ok(match name {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "cuda" => Self::Cuda(0),
            "metal" => Self::Metal,
            "reference" => Self::Reference,
            _ => Self::Cuda(numbered().ok_or_else(|| DeviceNameError { given: name.to_owned() })?),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
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
        for device in
            [Device::Auto, Device::Cpu, Device::Cuda(0), Device::Cuda(3), Device::Metal, Device::Reference]
        {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        for name in ["", "gpu", "cuda:", "cuda:x", "CPU"] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown device {name:?}")), "{error}");
        }
    }
}
