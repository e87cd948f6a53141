//! Memory of an adapter.
//!
//! `wgpu` does not report it, so this module asks the interface below `wgpu`.

/// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
#[cfg(not(target_vendor = "apple"))]
const LOCAL: u32 = 1;

/// Returns the size of the largest heap on the device, in bytes. `None` if the interface does not report
/// it.
#[cfg(not(target_vendor = "apple"))]
#[allow(unsafe_code, reason = "Vulkan's functions are not safe")]
pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: The adapter outlives its interior, which is not changed.
    let vulkan = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: The device is one of this instance, which is alive.
    let properties = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = &properties.memory_heaps[..properties.memory_heap_count as usize];
    heaps.iter().filter(|heap| heap.flags.as_raw() & LOCAL != 0).map(|heap| heap.size).max()
}

#[cfg(target_vendor = "apple")]
pub(crate) const fn of(_: &wgpu::Adapter) -> Option<u64> {
    None
}
