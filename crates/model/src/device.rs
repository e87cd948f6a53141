use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Device on which a model computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// A GPU if this build supports it and one is found; otherwise the CPU.
    ///
    /// The GPU is that of the features `cuda` or `metal`, or else the first one with memory of its own, or
    /// Apple's, with Formwork's own kernels. The first layers of the model must have nearly the same results
    /// there as on the CPU, in less time. Such a GPU computes the layers that fit in its memory
    /// ([`GpuLayers::Auto`]).
    ///
    /// Logs a warning if a GPU is present but cannot be used. A build with CUDA does not start on a
    /// machine without the CUDA driver. If the model is too large for a GPU of the features `cuda` and
    /// `metal`, opening it fails.
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
    /// Several such GPUs, which compute the layers one after another.
    Gpus(GpuList),
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

/// Numbers of at least one and at most 8 GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuList([u8; 8]);

impl GpuList {
    const NOTHING: u8 = u8::MAX;
    const CPU: u8 = Self::NOTHING - 1;

    /// Creates a list. Returns `None` for an empty list, one of more than 8 numbers, or a number above 253.
    pub fn new(numbers: &[GpuNumber]) -> Option<Self> {
        let mut list = [Self::NOTHING; 8];
        let places = list.get_mut(..numbers.len()).filter(|places| !places.is_empty())?;
        for (place, number) in places.iter_mut().zip(numbers) {
            *place = match number {
                GpuNumber::Cpu => Self::CPU,
                GpuNumber::Hardware(number) => {
                    u8::try_from(*number).ok().filter(|number| *number < Self::CPU)?
                }
            };
        }
        Some(Self(list))
    }

    /// Returns the numbers.
    pub fn iter(&self) -> impl Iterator<Item = GpuNumber> + '_ {
        self.0.iter().filter(|number| **number != Self::NOTHING).map(|number| match *number {
            Self::CPU => GpuNumber::Cpu,
            number => GpuNumber::Hardware(usize::from(number)),
        })
    }
}

/// Layers of a model that a GPU computes. The CPU computes the others, and then also the output head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GpuLayers {
    /// All layers and the output head.
    #[default]
    All,
    /// This number of first layers. At least the number of the model's layers means all.
    Count(usize),
    /// As many layers as fit in the GPU's memory, beside the keys and values of a sequence of full length.
    Auto,
}

impl FromStr for GpuLayers {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        match given {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            _ => given
                .parse()
                .map(Self::Count)
                .map_err(|error| format!("{error}; expected a number, `auto` or `all`")),
        }
    }
}

impl fmt::Display for GpuLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => count.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
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
    /// Memory of the device, in bytes. `None` if the interface does not report it.
    pub memory_bytes: Option<u64>,
    /// Rows and columns of the blocks that matrix cores multiply. `None` if the device has none that the
    /// kernels can use.
    pub matrix_cores: Option<u32>,
}

/// Error for a text that is not the name of a device.
#[derive(Debug, Error)]
#[error(
    "unknown device {given:?}; expected auto, cpu, gpu, gpu:N, gpu:cpu, up to 8 of these with commas between \
     them, cuda, cuda:N, metal or reference"
)]
pub struct DeviceNameError {
    given: String,
}

impl FromStr for Device {
    type Err = DeviceNameError;

    fn from_str(name: &str) -> Result<Self, DeviceNameError> {
        if name.contains(',') {
            let numbers: Option<Vec<GpuNumber>> = name
                .split(',')
                .map(|one| match one.parse() {
                    Ok(Self::Gpu(number)) => Some(number),
                    _ => None,
                })
                .collect();
            let list = numbers.and_then(|numbers| GpuList::new(&numbers));
            return list.map(Self::Gpus).ok_or_else(|| DeviceNameError { given: name.to_owned() });
        }
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
            Self::Gpus(list) => {
                for (index, number) in list.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{}", Self::Gpu(number))?;
                }
                Ok(())
            }
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
            Device::Gpus(GpuList::new(&[GpuNumber::Hardware(1), GpuNumber::Cpu]).unwrap()),
            Device::Metal,
            Device::Reference,
        ] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        assert_eq!("gpu".parse::<Device>().unwrap(), Device::Gpu(GpuNumber::Hardware(0)));
        for name in [
            "",
            "gpu:",
            "cuda:",
            "cuda:x",
            "CPU",
            "gpu:0,",
            "gpu:0,cpu",
            "gpu,gpu,gpu,gpu,gpu,gpu,gpu,gpu,gpu",
        ] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("unknown device {name:?}")), "{error}");
        }
    }
}
