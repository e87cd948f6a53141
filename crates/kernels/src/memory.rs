//! Memory that is mapped from the operating system.

use std::io;

use memmap2::MmapMut;

/// Size of a huge page on most machines, in bytes.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Maps `bytes` bytes of zeroed memory, on huge pages if the system has them.
///
/// # Errors
/// Returns an error if the system has no more memory.
pub fn zeroed_memory(bytes: usize) -> io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes)?;
    // Without huge pages, ordinary pages work too.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    Ok(memory)
}
