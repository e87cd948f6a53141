//! Kernels against plain Rust, on the device that `FORMWORK_TEST_GPU` names, such as `gpu:0`. Without
//! this variable, the tests use a driver on the CPU, and pass without one.

mod products;
mod translations;

use crate::{AdapterKind, Gpu, adapters};

/// Returns the tested device. `binding` is its limit for bindings, in bytes.
fn gpu(binding: Option<u64>) -> Option<Gpu> {
    let adapters = adapters();
    let name = std::env::var("FORMWORK_TEST_GPU").unwrap_or_else(|_| "gpu:cpu".to_owned());
    let adapter = match name.strip_prefix("gpu:").unwrap().parse::<usize>() {
        Ok(number) => adapters.get(number),
        Err(_) => adapters.iter().find(|adapter| adapter.kind == AdapterKind::Cpu),
    };
    let Some(adapter) = adapter else {
        eprintln!("not tested: no driver computes on the CPU; Debian has one in mesa-vulkan-drivers");
        return None;
    };
    Some(adapter.open_with(binding).unwrap())
}

/// Returns random numbers from -1 to 1.
fn noise(len: usize, mut state: u64) -> Vec<f32> {
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}
