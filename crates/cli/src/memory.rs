//! The memory that models take, and the memory that is free.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use formwork_model::spec::ModelSpec;
use formwork_model::{Checkpoint, MemoryUse, OpenOptions};
use indicatif::HumanBytes;
use serde_json::{Value, json};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Returns the memory in bytes that models can take without driving others out: the memory of the
/// machine, or of the container if that is less. Returns `None` if the system does not tell.
pub(crate) fn free() -> Option<usize> {
    let only_memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(only_memory);
    // Without /proc nothing is known, and `cgroup_limits` panics.
    if system.total_memory() == 0 {
        return None;
    }
    // Cached files count as free, because the system drops them first.
    let in_container = system
        .cgroup_limits()
        .filter(|limits| limits.total_memory < system.total_memory())
        .map(|limits| limits.total_memory.saturating_sub(limits.rss));
    let free = in_container.into_iter().chain([system.available_memory()]).min()?;
    // A tenth is left to caches and to other programs.
    Some(usize::try_from(free - free / 10).unwrap_or(usize::MAX))
}

/// Returns the free memory in bytes that a model may take beside its draft model, if both have the same
/// context. Returns `None` if the system does not tell, or if Formwork's own decoder does not run both.
pub(crate) fn beside(model: &Path, draft: &Path, how: OpenOptions) -> Result<Option<usize>> {
    let checkpoint = Checkpoint::open(model)?;
    let (Ok(spec), Some(free)) = (ModelSpec::of(&checkpoint), free()) else { return Ok(None) };
    let draft = Checkpoint::open(draft).context("--draft")?;
    let Ok(of_draft) = MemoryUse::of(&draft, OpenOptions { quantize: None, ..how }) else { return Ok(None) };
    let both = MemoryUse::of(&checkpoint, how)?.beside(of_draft);
    let context = how.context.unwrap_or(spec.context).min(both.context_within(free).unwrap_or(0));
    Ok(Some(free.saturating_sub(of_draft.with_context(context))))
}

/// The memory that a model takes on the CPU with a context.
pub(crate) struct Needs {
    memory: MemoryUse,
    /// Number of tokens of the context: the wanted number, or as many as fit, at most as the model was
    /// trained for.
    context: usize,
    /// Memory that is free, in bytes. `None` if the system does not tell.
    free: Option<usize>,
}

impl Needs {
    /// Returns `None` for a model that Formwork's own decoder does not run.
    pub(crate) fn of(checkpoint: &Checkpoint, how: OpenOptions) -> Option<Self> {
        let trained = ModelSpec::of(checkpoint).ok()?.context;
        let memory = MemoryUse::of(checkpoint, how).ok()?;
        let free = free();
        let fits = free.map_or(trained, |free| memory.context_within(free).unwrap_or(trained));
        Some(Self { memory, context: how.context.unwrap_or(fits).min(trained), free })
    }

    fn total(&self) -> usize {
        self.memory.with_context(self.context)
    }

    pub(crate) fn as_object(&self) -> Value {
        let MemoryUse { weights, mapped, converted, per_token, per_sequence } = self.memory;
        json!({
            "weights": weights,
            "mapped": mapped,
            "converted": converted,
            "per_token": per_token,
            "per_sequence": per_sequence,
            "context": self.context,
            "total": self.total(),
            "free": self.free,
        })
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, context, free } = self;
        let total = HumanBytes(self.total() as u64);
        write!(f, "memory on the CPU: {memory}; {total} with a context of {context} tokens")?;
        free.map_or(Ok(()), |free| write!(f, "; {} are free", HumanBytes(free as u64)))
    }
}
