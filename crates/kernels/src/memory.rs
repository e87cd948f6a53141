//! Memory of the system's own.

use std::io;

use memmap2::MmapMut;

/// The bytes of a huge page on most machines.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Memory of zeros, of huge pages where the system has them.
///
/// # Errors
/// When the system has no more memory.
pub fn zeroed_memory(bytes: usize) -> io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes)?;
    // Where there are none, small ones do.
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    Ok(memory)
}
