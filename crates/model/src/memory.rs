//! Memory of the system's own.

use std::io;

use memmap2::MmapMut;

/// The bytes of a huge page on most machines.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Memory of zeros, of huge pages where the system has them.
pub(crate) fn zeros(bytes: usize) -> io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes)?;
    #[cfg(target_os = "linux")]
    if let Err(error) = memory.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "huge pages were refused");
    }
    Ok(memory)
}
