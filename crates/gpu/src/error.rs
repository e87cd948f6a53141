use thiserror::Error;

/// Error of a GPU.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no adapter, or none with the given number.
    #[error("no GPU {number} found; the system has {found} (`formwork devices` lists them)")]
    NoAdapter {
        /// Number of the wanted adapter.
        number: usize,
        /// Number of adapters.
        found: usize,
    },
    /// The system has no driver that computes on the CPU.
    #[error("no Vulkan driver that computes on the CPU found (Debian: mesa-vulkan-drivers)")]
    NoSoftwareDriver,
    /// The workgroups of the device have too little memory.
    #[error("workgroups of the GPU have {limit} bytes of memory; the model needs {needed}")]
    WorkgroupMemory {
        /// Needed memory in bytes.
        needed: usize,
        /// Limit of the device in bytes.
        limit: usize,
    },
    /// The driver refused to open the device.
    #[error("cannot open the GPU {name}: {reason}")]
    Open {
        /// Name of the adapter.
        name: String,
        /// The driver's message.
        reason: String,
    },
    /// The device has no memory left.
    #[error(
        "the GPU is out of memory after {allocated} bytes: {reason}; a model can be divided between GPUs and the \
         CPU"
    )]
    Memory {
        /// Size of all buffers, including the one that failed.
        allocated: u64,
        /// The driver's message.
        reason: String,
    },
    /// A kernel cannot use as much memory at once.
    #[error(
        "{bytes} bytes of {what} exceed the limit of {limit} bytes that the GPU's kernels can use at once"
    )]
    Binding {
        /// Contents of the memory.
        what: &'static str,
        /// Needed memory in bytes.
        bytes: u64,
        /// Limit of the device in bytes.
        limit: u64,
    },
    /// The device stopped, for example because the driver was reset.
    #[error("the GPU was lost: {reason}")]
    Lost {
        /// The driver's message.
        reason: String,
    },
    /// The device refused an operation.
    #[error("the GPU reported an error: {reason}")]
    Device {
        /// The message of the device.
        reason: String,
    },
}
