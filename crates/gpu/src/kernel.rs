//! Kernels, their bindings, and passes of steps.

use std::hash::Hash;
use std::sync::{Arc, PoisonError};

use bytemuck::{AnyBitPattern, NoUninit};

use crate::{Buffer, Gpu, GpuError};

/// Use of a buffer by a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// A small buffer of parameters.
    Uniform,
    /// The kernel reads the buffer.
    Read,
    /// The kernel writes the buffer, and may read it.
    Write,
}

pub(crate) struct Layout {
    groups: wgpu::BindGroupLayout,
    pipelines: wgpu::PipelineLayout,
}

pub(crate) struct Compiled {
    pipeline: wgpu::ComputePipeline,
}

/// A compiled kernel. Clones share it.
#[derive(Clone)]
pub struct Kernel {
    compiled: Arc<Compiled>,
}

/// Buffers that are bound to the bindings of kernels with equal [`Access`].
#[derive(Clone)]
pub struct Bindings(Arc<wgpu::BindGroup>);

/// A kernel with its buffers, and the number of its workgroups.
#[derive(Clone)]
pub struct Step {
    /// The kernel.
    pub kernel: Kernel,
    /// The kernel's buffers.
    pub bindings: Bindings,
    /// Number of workgroups in the three dimensions.
    pub workgroups: [u32; 3],
}

/// Steps that were recorded, but not submitted.
pub struct Recorded {
    commands: wgpu::CommandBuffer,
    staging: Buffer,
}

/// Steps that were submitted, and whose result was not read yet.
pub struct Submitted {
    gpu: Gpu,
    staging: Buffer,
}

impl Submitted {
    /// Waits for the steps, and returns the first `count` elements of their result.
    ///
    /// # Errors
    /// Returns an error if the device reported one.
    pub fn wait<T: AnyBitPattern + NoUninit>(self, count: usize) -> Result<Vec<T>, GpuError> {
        let values = self.gpu.mapped(&self.staging, count)?;
        self.gpu.recycle(self.staging);
        Ok(values)
    }
}

impl Gpu {
    fn layout(&self, accesses: &[Access]) -> Arc<Layout> {
        let mut layouts = self.0.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = layouts.get(accesses) {
            return Arc::clone(known);
        }
        let entry = |(binding, access): (usize, &Access)| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match access {
                    Access::Uniform => wgpu::BufferBindingType::Uniform,
                    Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                    Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = accesses.iter().enumerate().map(entry).collect();
        let device = &self.0.device;
        let groups = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let pipelines = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&groups)],
            immediate_size: 0,
        });
        let layout = Arc::new(Layout { groups, pipelines });
        layouts.insert(accesses.to_vec(), Arc::clone(&layout));
        layout
    }

    /// Compiles the entry point `main` of `source`. Binding `i` has the access `accesses[i]`. Equal
    /// sources are compiled once.
    ///
    /// If the source is invalid, [`Gpu::check`] returns an error.
    pub fn kernel(&self, source: &str, accesses: &[Access]) -> Kernel {
        let layout = self.layout(accesses);
        let mut known = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(source) {
            return Kernel { compiled: Arc::clone(compiled) };
        }
        let module = self.0.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        // Every kernel writes its workgroup memory before it reads it.
        let compilation_options = wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        };
        let pipeline = self.0.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&layout.pipelines),
            module: &module,
            entry_point: Some("main"),
            compilation_options,
            cache: None,
        });
        let compiled = Arc::new(Compiled { pipeline });
        known.insert(source.to_owned(), Arc::clone(&compiled));
        Kernel { compiled }
    }

    /// Binds buffers to the bindings of a kernel, in order.
    pub fn bind(&self, buffers: &[(Access, &Buffer)]) -> Bindings {
        let accesses: Vec<Access> = buffers.iter().map(|(access, _)| *access).collect();
        let layout = self.layout(&accesses);
        let entries: Vec<_> = (0..)
            .zip(buffers)
            .map(|(binding, (_, buffer))| wgpu::BindGroupEntry {
                binding,
                resource: buffer.inner().as_entire_binding(),
            })
            .collect();
        let group = self.0.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout.groups,
            entries: &entries,
        });
        Bindings(Arc::new(group))
    }

    fn record(encoder: &mut wgpu::CommandEncoder, steps: impl IntoIterator<Item = Step>) {
        Self::record_timed(encoder, steps, None);
    }

    fn record_timed(
        encoder: &mut wgpu::CommandEncoder,
        steps: impl IntoIterator<Item = Step>,
        timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
    ) {
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        for step in steps.into_iter().filter(|step| !step.workgroups.contains(&0)) {
            pass.set_pipeline(&step.kernel.compiled.pipeline);
            pass.set_bind_group(0, &*step.bindings.0, &[]);
            let [x, y, z] = step.workgroups;
            pass.dispatch_workgroups(x, y, z);
        }
    }

    /// Submits steps. Each sees what the steps before it wrote.
    ///
    /// # Errors
    /// Returns an error if the device reported one.
    pub fn run(&self, steps: impl IntoIterator<Item = Step>) -> Result<(), GpuError> {
        self.check()?;
        let mut encoder = self.0.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        Self::record(&mut encoder, steps);
        self.0.queue.submit([encoder.finish()]);
        self.check()
    }

    /// Runs steps, and returns the first `count` elements of `result`.
    ///
    /// # Errors
    /// Returns an error if the device reported one.
    pub fn run_and_read<T: AnyBitPattern + NoUninit>(
        &self,
        steps: impl IntoIterator<Item = Step>,
        result: &Buffer,
        count: usize,
    ) -> Result<Vec<T>, GpuError> {
        let recorded = self.record_and_read(steps, result, (count * size_of::<T>()) as u64);
        self.submit(recorded)?.wait(count)
    }

    /// Records steps that are submitted later, and the reading of the first `bytes` bytes of `result`
    /// after them. A device can run other steps meanwhile.
    pub fn record_and_read(
        &self,
        steps: impl IntoIterator<Item = Step>,
        result: &Buffer,
        bytes: u64,
    ) -> Recorded {
        let staging = self.staging(bytes);
        let mut encoder = self.0.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        Self::record(&mut encoder, steps);
        encoder.copy_buffer_to_buffer(result.inner(), 0, staging.inner(), 0, bytes);
        Recorded { commands: encoder.finish(), staging }
    }

    /// Submits recorded steps.
    ///
    /// # Errors
    /// Returns an error if the device reported one.
    pub fn submit(&self, recorded: Recorded) -> Result<Submitted, GpuError> {
        self.check()?;
        self.0.queue.submit([recorded.commands]);
        self.check()?;
        Ok(Submitted { gpu: self.clone(), staging: recorded.staging })
    }

    /// Runs steps, and returns the time that the device took, in seconds. Returns `None` if the device
    /// has no clock.
    ///
    /// # Errors
    /// Returns an error if the device reported one.
    pub fn time(&self, steps: impl IntoIterator<Item = Step>) -> Result<Option<f64>, GpuError> {
        let device = &self.0.device;
        if !device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        let queries = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let stamps = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: &queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        };
        Self::record_timed(&mut encoder, steps, Some(writes));
        encoder.resolve_query_set(&queries, 0..2, &stamps, 0);
        let staging = self.staging(16);
        encoder.copy_buffer_to_buffer(&stamps, 0, staging.inner(), 0, 16);
        self.0.queue.submit([encoder.finish()]);
        self.check()?;
        let stamps = self.mapped::<u64>(&staging, 2)?;
        let ticks = stamps[1].saturating_sub(stamps[0]) as f64;
        Ok(Some(ticks * f64::from(self.0.queue.get_timestamp_period()) * 1e-9))
    }
}
