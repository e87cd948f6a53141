use std::fmt;
use std::str::FromStr;

use candle_core::utils::{cuda_is_available, metal_is_available};
use thiserror::Error;

use crate::error::Kind;

/// Where a model computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// A GPU where this build can use one and finds one, else the CPU, with a warning where a GPU is there and cannot be used.
    /// A build for CUDA does not start on a machine without its driver. A model that does not fit the GPU is an error.
    Auto,
    /// The CPU, by kernels that work on the weights as they lie in the file.
    #[default]
    Cpu,
    /// The NVIDIA GPU of this number; needs the feature `cuda`.
    Cuda(usize),
    /// Apple's GPU; needs the feature `metal`.
    Metal,
    /// The CPU, by the code that runs on GPUs, with all weights expanded to `f32`: slow, large, and without the rounding
    /// of activations, for comparing the others with.
    Reference,
}

/// A text that names no device.
#[derive(Debug, Error)]
#[error("unknown device {given:?}: expected auto, cpu, cuda, cuda:N, metal or reference")]
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

impl Device {
    /// The candle device to compute on; `None` for the CPU by kernels of our own.
    pub(crate) fn tensors(self) -> Result<Option<candle_core::Device>, Kind> {
        let fail = |error| Kind::Device { device: self, error: Box::new(error) };
        let missing = |feature| Kind::DeviceFeature { device: self, feature };
        match self {
            Self::Cpu => Ok(None),
            Self::Reference => Ok(Some(candle_core::Device::Cpu)),
            Self::Cuda(_) if !cuda_is_available() => Err(missing("cuda")),
            Self::Cuda(number) => candle_core::Device::new_cuda(number).map(Some).map_err(fail),
            Self::Metal if !metal_is_available() => Err(missing("metal")),
            Self::Metal => metal().map(Some).map_err(fail),
            Self::Auto => Ok([Self::Cuda(0), Self::Metal].into_iter().find_map(Self::found)),
        }
    }

    /// The device, if this build can use it and it is there.
    fn found(self) -> Option<candle_core::Device> {
        match self.tensors() {
            Ok(device) => device,
            Err(Kind::DeviceFeature { .. }) => None,
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(device = %self, error, "not used");
                None
            }
        }
    }
}

/// The library takes for granted that there is one.
fn metal() -> candle_core::Result<candle_core::Device> {
    let none = || Err(candle_core::Error::msg("there is none"));
    std::panic::catch_unwind(|| candle_core::Device::new_metal(0)).unwrap_or_else(|_| none())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The device that `FORMWORK_TEST_DEVICE` names, by default the CPU.
    pub(crate) fn tested() -> candle_core::Device {
        let name = std::env::var("FORMWORK_TEST_DEVICE").unwrap_or_else(|_| "reference".to_owned());
        name.parse::<Device>().unwrap().tensors().unwrap().unwrap_or(candle_core::Device::Cpu)
    }

    #[test]
    fn names_are_read_as_they_are_written() {
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
