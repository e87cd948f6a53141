//! The device, its buffers, its kernels, and the timing of passes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// A device, with the timestamp queries of one pass.
pub(crate) struct Gpu {
    pub(crate) adapter: wgpu::Adapter,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    /// True if every subgroup has 32 threads. A subgroup can then hold the partial sums of a row.
    pub(crate) has_subgroups_of_32: bool,
    /// True to try only a few arrangements.
    pub(crate) quick: bool,
    /// True to compile kernels without naga's bounds checks and loop checks.
    pub(crate) unchecked: Cell<bool>,
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
}

/// A compiled kernel with its bind group layout.
pub(crate) struct Kernel {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// One dispatch of a pass.
pub(crate) struct Step<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) bindings: &'a wgpu::BindGroup,
    pub(crate) workgroups: u32,
}

/// Durations of one pass, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    /// Time on the GPU between the first and the last dispatch, by timestamps.
    pub(crate) gpu: f64,
    /// CPU time to record the commands.
    pub(crate) record: f64,
    /// CPU time to submit the commands.
    pub(crate) submit: f64,
}

impl Gpu {
    /// Opens the first Vulkan adapter that is not a CPU, or the first one if all are.
    pub(crate) fn open(quick: bool) -> Result<Self> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        let instance = wgpu::Instance::new(descriptor);
        let mut adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
        adapters.sort_by_key(|adapter| adapter.get_info().device_type == wgpu::DeviceType::Cpu);
        let adapter = adapters.into_iter().next().context("no Vulkan adapter found")?;
        let optional = wgpu::Features::SUBGROUP | wgpu::Features::SHADER_F16;
        let features = adapter.features() & optional | wgpu::Features::TIMESTAMP_QUERY;
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: adapter.limits(),
            ..Default::default()
        }))?;
        let info = adapter.get_info();
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let resolved = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Ok(Self {
            has_subgroups_of_32: features.contains(wgpu::Features::SUBGROUP)
                && info.subgroup_min_size == 32
                && info.subgroup_max_size == 32,
            quick,
            unchecked: Cell::new(false),
            adapter,
            device,
            queue,
            queries,
            resolved,
        })
    }

    /// Compiles `entry_point` of `source`.
    ///
    /// Binding 0 is a uniform; a storage binding per item of `writable` follows.
    pub(crate) fn kernel(&self, source: &str, entry_point: &str, writable: &[bool]) -> Kernel {
        let entry = |binding, ty| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform)];
        for (place, writable) in (1..).zip(writable) {
            entries.push(entry(place, wgpu::BufferBindingType::Storage { read_only: !writable }));
        }
        let layout = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = self.module(source);
        // Every kernel writes its workgroup memory before reading it.
        let compilation_options = wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(entry_point),
            compilation_options,
            cache: None,
        });
        Kernel { pipeline, layout }
    }

    #[allow(unsafe_code)]
    fn module(&self, source: &str) -> wgpu::ShaderModule {
        let source = wgpu::ShaderSource::Wgsl(source.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        if self.unchecked.get() {
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            // SAFETY: these kernels are correct even without checks: their loops end and their
            // indices are in bounds.
            unsafe { self.device.create_shader_module_trusted(descriptor, checks) }
        } else {
            self.device.create_shader_module(descriptor)
        }
    }

    /// Binds a uniform and storage buffers to a kernel's bindings, in order.
    pub(crate) fn bind(
        &self,
        kernel: &Kernel,
        shape: &wgpu::Buffer,
        storage: &[wgpu::BindingResource],
    ) -> wgpu::BindGroup {
        let resources = std::iter::once(shape.as_entire_binding()).chain(storage.iter().cloned());
        let entries: Vec<_> = (0..)
            .zip(resources)
            .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
            .collect();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &kernel.layout,
            entries: &entries,
        })
    }

    /// Creates an uninitialized storage buffer of `size` bytes.
    pub(crate) fn buffer(&self, size: u64) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// Creates a buffer that the CPU can read.
    pub(crate) fn staging(&self, size: u64) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    }

    /// Creates a buffer that contains `values`, usable as a uniform and as storage.
    pub(crate) fn upload<T: bytemuck::NoUninit>(&self, values: &[T]) -> wgpu::Buffer {
        self.device.create_buffer_init(&BufferInitDescriptor {
            label: None,
            contents: bytemuck::cast_slice(values),
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::UNIFORM
                | wgpu::BufferUsages::COPY_SRC
                | wgpu::BufferUsages::COPY_DST,
        })
    }

    /// Waits until the device has finished all submitted work.
    pub(crate) fn wait(&self) -> Result<()> {
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(())
    }

    /// Maps `staging`, waits for the device, and returns a copy of the bytes.
    pub(crate) fn map(&self, staging: &wgpu::Buffer) -> Result<Vec<u8>> {
        let (sender, receiver) = std::sync::mpsc::channel();
        staging.map_async(wgpu::MapMode::Read, .., move |result| {
            let _ = sender.send(result);
        });
        self.wait()?;
        receiver.recv()??;
        let bytes = staging.get_mapped_range(..)?.to_vec();
        staging.unmap();
        Ok(bytes)
    }

    /// Returns the first `size` bytes of a buffer.
    pub(crate) fn read(&self, buffer: &wgpu::Buffer, size: u64) -> Result<Vec<u8>> {
        let staging = self.staging(size);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, size);
        self.queue.submit([encoder.finish()]);
        self.map(&staging)
    }

    /// Records `steps` into one pass.
    pub(crate) fn record(
        encoder: &mut wgpu::CommandEncoder,
        steps: &[Step],
        timestamps: Option<wgpu::ComputePassTimestampWrites>,
    ) {
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes: timestamps };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        for step in steps {
            pass.set_pipeline(&step.kernel.pipeline);
            pass.set_bind_group(0, step.bindings, &[]);
            pass.dispatch_workgroups(step.workgroups, 1, 1);
        }
    }

    /// Runs `before` untimed, then times `steps` as one pass.
    pub(crate) fn time(&self, before: &[Step], steps: &[Step]) -> Result<Timing> {
        if !before.is_empty() {
            let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            Self::record(&mut encoder, before, None);
            self.queue.submit([encoder.finish()]);
        }
        let began = Instant::now();
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let timestamps = wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        };
        Self::record(&mut encoder, steps, Some(timestamps));
        encoder.resolve_query_set(&self.queries, 0..2, &self.resolved, 0);
        let commands = encoder.finish();
        let record = seconds(began.elapsed());
        let began = Instant::now();
        self.queue.submit([commands]);
        let submit = seconds(began.elapsed());
        self.wait()?;
        let stamps: Vec<u64> = bytemuck::pod_collect_to_vec(&self.read(&self.resolved, 16)?);
        let ticks = stamps[1].saturating_sub(stamps[0]);
        let gpu = ticks as f64 * f64::from(self.queue.get_timestamp_period()) * 1e-9;
        Ok(Timing { gpu, record, submit })
    }

    /// Returns the timing with the median GPU time of `repeats` runs, after an uncounted warm-up
    /// run.
    pub(crate) fn median(&self, repeats: usize, before: &[Step], steps: &[Step]) -> Result<Timing> {
        self.time(before, steps)?;
        let mut timings = (0..repeats).map(|_| self.time(before, steps)).collect::<Result<Vec<_>>>()?;
        timings.sort_by(|a, b| a.gpu.total_cmp(&b.gpu));
        Ok(timings[timings.len() / 2])
    }
}

/// Converts a duration to seconds.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
