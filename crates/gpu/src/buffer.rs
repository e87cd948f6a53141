//! Memory of the device.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};

use bytemuck::{AnyBitPattern, NoUninit};

use crate::device::State;
use crate::{Gpu, GpuError};

/// Memory of the device. Clones share it.
#[derive(Clone)]
pub struct Buffer(Arc<Owned>);

struct Owned {
    buffer: wgpu::Buffer,
    state: Arc<State>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.state.free(self.buffer.size());
    }
}

/// Number of bytes that uploads write before they wait for the device. Written bytes take memory of
/// the host until then.
const MOST_WRITTEN: usize = 64 << 20;

impl Gpu {
    /// Creates a buffer of `bytes` zeros, rounded up to whole words.
    ///
    /// If the device has no memory, [`Gpu::check`] returns an error.
    pub fn buffer(&self, bytes: u64) -> Buffer {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::UNIFORM
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.create(bytes, usage)
    }

    fn create(&self, bytes: u64, usage: wgpu::BufferUsages) -> Buffer {
        let size = bytes.next_multiple_of(16).max(16);
        self.0.state.allocate(size);
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let buffer = self.0.device.create_buffer(&descriptor);
        Buffer(Arc::new(Owned { buffer, state: Arc::clone(&self.0.state) }))
    }

    /// Creates a buffer that contains `values`.
    ///
    /// # Errors
    /// Returns an error if the device has no memory.
    ///
    /// # Panics
    /// Panics if the size of the values is not a multiple of 4.
    pub fn upload<T: NoUninit>(&self, values: &[T]) -> Result<Buffer, GpuError> {
        self.check()?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let buffer = self.buffer(bytes.len() as u64);
        self.check()?;
        for (index, piece) in bytes.chunks(MOST_WRITTEN).enumerate() {
            self.write(&buffer, (index * MOST_WRITTEN) as u64, piece);
            let written = self.0.state.written.fetch_add(piece.len() as u64, Ordering::Relaxed);
            if written + piece.len() as u64 > MOST_WRITTEN as u64 {
                self.0.state.written.store(0, Ordering::Relaxed);
                self.0.queue.submit([]);
                self.wait()?;
            }
        }
        Ok(buffer)
    }

    /// Writes `values` at `offset`, in bytes, before the steps that are submitted later.
    ///
    /// # Panics
    /// Panics if the offset or the size is not a multiple of 4.
    pub fn write<T: NoUninit>(&self, buffer: &Buffer, offset: u64, values: &[T]) {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        assert!(offset.is_multiple_of(4) && bytes.len().is_multiple_of(4), "writes have whole words");
        if !bytes.is_empty() {
            self.0.queue.write_buffer(buffer.inner(), offset, bytes);
        }
    }

    /// Copies `bytes` bytes between buffers, after the steps that were submitted earlier.
    pub fn copy(&self, from: (&Buffer, u64), to: (&Buffer, u64), bytes: u64) {
        let mut encoder = self.0.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(from.0.inner(), from.1, to.0.inner(), to.1, bytes);
        self.0.queue.submit([encoder.finish()]);
    }

    /// Returns a buffer of at least `bytes` bytes that the CPU can read.
    pub(crate) fn staging(&self, bytes: u64) -> Buffer {
        let mut idle = self.0.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &Buffer| (bytes..=4 * bytes.max(1 << 12)).contains(&buffer.bytes());
        match idle.iter().position(fits) {
            Some(index) => idle.swap_remove(index),
            None => self.create(bytes, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
        }
    }

    /// Keeps a staging buffer for later use.
    pub(crate) fn recycle(&self, staging: Buffer) {
        const MOST: usize = 8;
        let mut idle = self.0.staging.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST {
            idle.push(staging);
        }
    }

    /// Waits for the device, and returns the values of the first `count` elements of a staging
    /// buffer.
    pub(crate) fn mapped<T: AnyBitPattern + NoUninit>(
        &self,
        staging: &Buffer,
        count: usize,
    ) -> Result<Vec<T>, GpuError> {
        let buffer = staging.inner();
        let (sender, receiver) = channel();
        buffer.map_async(wgpu::MapMode::Read, .., move |result| {
            // The receiver is gone only if waiting failed.
            let _ = sender.send(result);
        });
        self.wait()?;
        let failed = |reason: String| GpuError::Device { reason };
        let result = receiver.recv().map_err(|error| failed(error.to_string()))?;
        result.map_err(|error| failed(error.to_string()))?;
        let range = buffer.get_mapped_range(..).map_err(|error| failed(error.to_string()))?;
        let values = bytemuck::pod_collect_to_vec(&range[..count * size_of::<T>()]);
        drop(range);
        buffer.unmap();
        Ok(values)
    }

    /// Returns `range` of the elements of a buffer, after all submitted steps.
    ///
    /// # Errors
    /// Returns an error if the device reported one.
    pub fn read<T: AnyBitPattern + NoUninit>(
        &self,
        buffer: &Buffer,
        range: Range<usize>,
    ) -> Result<Vec<T>, GpuError> {
        self.check()?;
        let size = (range.len() * size_of::<T>()) as u64;
        let staging = self.staging(size);
        self.copy((buffer, (range.start * size_of::<T>()) as u64), (&staging, 0), size);
        let values = self.mapped(&staging, range.len())?;
        self.recycle(staging);
        Ok(values)
    }
}

impl Buffer {
    pub(crate) fn inner(&self) -> &wgpu::Buffer {
        &self.0.buffer
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.inner().size()
    }
}
