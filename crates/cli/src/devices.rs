//! `formwork devices`

use std::io::Write;

use anyhow::{Result, ensure};
use formwork_model::gpus;
use serde_json::json;

/// Lists the GPUs. Returns false if there is none.
pub(crate) fn list(as_json: bool) -> Result<bool> {
    ensure!(
        cfg!(feature = "gpu"),
        "this build has no code for GPUs; build with the feature \"gpu\" (cargo build --release --features gpu)"
    );
    let gpus = gpus();
    let mut out = std::io::stdout().lock();
    if as_json {
        let gpus: Vec<_> = gpus
            .iter()
            .map(|gpu| {
                json!({
                    "device": gpu.device.to_string(),
                    "name": gpu.name,
                    "kind": gpu.kind,
                    "interface": gpu.interface,
                    "driver": gpu.driver,
                    "binding_bytes": gpu.binding_bytes,
                    "buffer_bytes": gpu.buffer_bytes,
                    "memory_bytes": gpu.memory_bytes,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::Value::from(gpus))?;
    } else if gpus.is_empty() {
        eprintln!(
            "no GPU found; NVIDIA's and other drivers also need the Vulkan loader (Debian: libvulkan1)"
        );
    } else {
        for gpu in &gpus {
            let megabytes = |bytes: u64| bytes >> 20;
            let memory = gpu.memory_bytes.map(|bytes| format!("{} MiB of memory, ", megabytes(bytes)));
            writeln!(
                out,
                "{:<8} {} ({}), {} over {}, {}at most {} MiB per binding and {} MiB per buffer",
                gpu.device.to_string(),
                gpu.name,
                gpu.kind,
                gpu.driver,
                gpu.interface,
                memory.unwrap_or_default(),
                megabytes(gpu.binding_bytes),
                megabytes(gpu.buffer_bytes),
            )?;
        }
    }
    Ok(!gpus.is_empty())
}
