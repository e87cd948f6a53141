//! The memory that is free for models.

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Returns the memory in bytes that processes can take without driving others out: the memory of the
/// machine, or of the container if that is less. Returns `None` if the system does not tell.
pub(crate) fn free() -> Option<usize> {
    let only_memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(only_memory);
    // Cached files count as free, because the system drops them first.
    let in_container = system
        .cgroup_limits()
        .filter(|limits| limits.total_memory < system.total_memory())
        .map(|limits| limits.total_memory.saturating_sub(limits.rss));
    let of_machine = Some(system.available_memory()).filter(|_| system.total_memory() > 0);
    let free = [of_machine, in_container].into_iter().flatten().min()?;
    Some(usize::try_from(free).unwrap_or(usize::MAX))
}
