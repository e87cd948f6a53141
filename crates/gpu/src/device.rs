//! Adapters, and the device that runs kernels.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{ThreadId, current};
use std::time::Duration;

use crate::kernel::{Access, Compiled, Layout};
use crate::{Buffer, GpuError, MatrixCores, memory};

/// Kind of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the memory of the CPU.
    Integrated,
    /// A GPU of a virtual machine, or one of unknown kind.
    Other,
    /// A driver that computes on the CPU.
    Cpu,
}

impl AdapterKind {
    const fn of(kind: wgpu::DeviceType) -> Self {
        match kind {
            wgpu::DeviceType::DiscreteGpu => Self::Discrete,
            wgpu::DeviceType::IntegratedGpu => Self::Integrated,
            wgpu::DeviceType::Cpu => Self::Cpu,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discrete => "discrete GPU",
            Self::Integrated => "integrated GPU",
            Self::Other => "GPU",
            Self::Cpu => "CPU",
        })
    }
}

/// Limits of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum size of the part of a buffer that a kernel can use, in bytes. Larger matrices are
    /// cut by rows.
    pub binding: u64,
    /// Maximum size of a buffer, in bytes.
    pub buffer: u64,
    /// Maximum memory of a workgroup, in bytes.
    pub workgroup_memory: u32,
}

/// A GPU of the system, or a driver that computes on the CPU.
#[derive(Clone, Debug)]
pub struct Adapter {
    inner: wgpu::Adapter,
    /// Name of the hardware.
    pub name: String,
    /// Kind of the hardware.
    pub kind: AdapterKind,
    /// Interface to the driver: `vulkan` or `metal`.
    pub interface: &'static str,
    /// Name and version of the driver.
    pub driver: String,
    /// Limits of the adapter.
    pub limits: Limits,
    /// Memory of the device, in bytes. `None` if the interface does not report it.
    pub memory: Option<u64>,
    /// Hardware that multiplies blocks of matrices. `None` without such hardware that the kernels support.
    pub matrix_cores: Option<MatrixCores>,
}

/// Returns the adapters of the system. Hardware comes first, and drivers on the CPU last. The list
/// is empty if the system has no Vulkan loader.
pub fn adapters() -> Vec<Adapter> {
    // Drivers fail after some dozens of instances, even if each is dropped before the next.
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    let instance = INSTANCE.get_or_init(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL;
        wgpu::Instance::new(descriptor)
    });
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let mut adapters: Vec<Adapter> = found.into_iter().map(Adapter::new).collect();
    adapters.sort_by_key(|adapter| match adapter.kind {
        AdapterKind::Discrete => 0,
        AdapterKind::Integrated => 1,
        AdapterKind::Other => 2,
        AdapterKind::Cpu => 3,
    });
    adapters
}

impl Adapter {
    fn new(inner: wgpu::Adapter) -> Self {
        let (info, limits) = (inner.get_info(), inner.limits());
        let driver = [info.driver, info.driver_info].join(" ").trim().to_owned();
        let limits = Limits {
            binding: limits.max_storage_buffer_binding_size,
            buffer: limits.max_buffer_size,
            workgroup_memory: limits.max_compute_workgroup_storage_size,
        };
        let interface = match info.backend {
            wgpu::Backend::Metal => "metal",
            _ => "vulkan",
        };
        let (kind, memory) = (AdapterKind::of(info.device_type), memory::of(&inner));
        let matrix_cores = MatrixCores::of(&inner);
        Self { inner, name: info.name, kind, interface, driver, limits, memory, matrix_cores }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// Returns an error if the driver refuses.
    pub fn open(&self) -> Result<Gpu, GpuError> {
        self.open_with(None)
    }

    /// Opens the device with a smaller limit for bindings, in bytes. Tests use it to cut small
    /// matrices.
    ///
    /// # Errors
    /// Returns an error if the driver refuses.
    pub fn open_with(&self, binding: Option<u64>) -> Result<Gpu, GpuError> {
        let (device, queue) = self
            .request(self.matrix_cores.is_some())
            .or_else(|error| if self.matrix_cores.is_some() { self.request(false) } else { Err(error) })
            .map_err(|error| GpuError::Open { name: self.name.clone(), reason: error.to_string() })?;
        let state = Arc::new(State::default());
        let seen = Arc::clone(&state);
        device.on_uncaptured_error(Arc::new(move |error| seen.report(&error)));
        let seen = Arc::clone(&state);
        device.set_device_lost_callback(move |_, reason| seen.lose(reason));
        let mut limits = self.limits;
        limits.binding = binding.map_or(limits.binding, |binding| binding.min(limits.binding));
        Ok(Gpu(Arc::new(Inner {
            adapter: self.clone(),
            device,
            queue,
            limits,
            state,
            uses_matrix_cores: AtomicBool::new(false),
            layouts: Mutex::default(),
            compiled: Mutex::default(),
            staging: Mutex::default(),
        })))
    }
}

impl Adapter {
    /// Requests the device, with the features for matrix cores if `has_cores` is true.
    fn request(&self, has_cores: bool) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
        let (features, experimental_features) = if has_cores {
            (MatrixCores::features(), MatrixCores::experimental())
        } else {
            (wgpu::Features::empty(), wgpu::ExperimentalFeatures::disabled())
        };
        pollster::block_on(self.inner.request_device(&wgpu::DeviceDescriptor {
            required_features: self.inner.features() & wgpu::Features::TIMESTAMP_QUERY | features,
            required_limits: self.inner.limits(),
            memory_hints: wgpu::MemoryHints::Performance,
            experimental_features,
            ..Default::default()
        }))
    }
}

/// An open device. Clones share it.
#[derive(Clone)]
pub struct Gpu(pub(crate) Arc<Inner>);

/// A device that may have been closed.
#[derive(Clone)]
pub struct WeakGpu(Weak<Inner>);

impl WeakGpu {
    /// Returns the device. `None` if it was closed or lost.
    pub fn open(&self) -> Option<Gpu> {
        self.0.upgrade().map(Gpu).filter(|gpu| gpu.0.state.lost.get().is_none())
    }
}

pub(crate) struct Inner {
    pub(crate) adapter: Adapter,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: Limits,
    pub(crate) state: Arc<State>,
    /// True if matrix cores multiply prompts.
    uses_matrix_cores: AtomicBool,
    pub(crate) layouts: Mutex<HashMap<Vec<Access>, Arc<Layout>>>,
    pub(crate) compiled: Mutex<HashMap<String, Arc<Compiled>>>,
    /// Idle buffers that the CPU can read.
    pub(crate) staging: Mutex<Vec<Buffer>>,
}

/// Errors that the device reported, and the sizes of buffers and writes.
#[derive(Default)]
pub(crate) struct State {
    /// Errors by the thread whose call failed. Threads that use one device do not see each other's.
    failures: Mutex<HashMap<ThreadId, GpuError>>,
    lost: OnceLock<GpuError>,
    allocated: AtomicU64,
    /// Bytes that were written since the last submission. They take memory of the host.
    pub(crate) written: AtomicU64,
}

impl State {
    fn failures(&self) -> MutexGuard<'_, HashMap<ThreadId, GpuError>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, reason: String) {
        // The first reason stays.
        let _ = self.lost.set(GpuError::Lost { reason });
    }

    /// Keeps the first error of this thread until it is taken. The device reports an error within the
    /// call that fails.
    fn report(&self, error: &wgpu::Error) {
        let reason = error.to_string();
        let error = match error {
            wgpu::Error::OutOfMemory { .. } => {
                GpuError::Memory { allocated: self.allocated.load(Ordering::Relaxed), reason }
            }
            _ => GpuError::Device { reason },
        };
        self.failures().entry(current().id()).or_insert(error);
    }

    /// Counts a new buffer.
    pub(crate) fn allocate(&self, bytes: u64) {
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a buffer that was dropped.
    pub(crate) fn free(&self, bytes: u64) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu").field("adapter", &self.0.adapter.name).finish_non_exhaustive()
    }
}

impl Gpu {
    /// Returns a reference that does not keep the device open.
    pub fn downgrade(&self) -> WeakGpu {
        WeakGpu(Arc::downgrade(&self.0))
    }

    /// Returns the adapter of the device.
    pub fn adapter(&self) -> &Adapter {
        &self.0.adapter
    }

    /// Returns the limits of the device.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Returns the matrix cores that multiply prompts. `None` if plain cores do.
    pub fn prompt_cores(&self) -> Option<MatrixCores> {
        self.0.adapter.matrix_cores.filter(|_| self.0.uses_matrix_cores.load(Ordering::Relaxed))
    }

    /// Sets whether matrix cores multiply prompts, if the device can use them. At first, they do not.
    pub fn use_matrix_cores(&self, uses_matrix_cores: bool) {
        let can = self.0.device.features().contains(MatrixCores::features());
        self.0.uses_matrix_cores.store(uses_matrix_cores && can, Ordering::Relaxed);
    }

    /// Returns the size of all buffers in bytes.
    pub fn allocated(&self) -> u64 {
        self.0.state.allocated.load(Ordering::Relaxed)
    }

    /// Returns the first error that the device reported to this thread since the last call. A lost
    /// device reports its loss again and again.
    ///
    /// # Errors
    /// Returns this error.
    pub fn check(&self) -> Result<(), GpuError> {
        if let Some(lost) = self.0.state.lost.get() {
            return Err(lost.clone());
        }
        self.0.state.failures().remove(&current().id()).map_or(Ok(()), Err)
    }

    /// Waits until the device has run all submitted steps.
    ///
    /// # Errors
    /// Returns an error if the device reported one, or if a GPU does not answer for a minute.
    pub fn wait(&self) -> Result<(), GpuError> {
        const TIMEOUT: Duration = Duration::from_secs(60);
        // A lost device may never answer.
        self.check()?;
        let timeout = (self.0.adapter.kind != AdapterKind::Cpu).then_some(TIMEOUT);
        let polled = self.0.device.poll(wgpu::PollType::Wait { submission_index: None, timeout });
        self.check()?;
        polled.map(|_| ()).map_err(|error| GpuError::Device { reason: error.to_string() })
    }

    /// Destroys the device, as the loss of a driver does. Later operations return an error.
    pub fn lose(&self) {
        self.0.device.destroy();
        self.0.state.lose("the device was destroyed".to_owned());
    }
}
