//! Kernels against plain Rust, on the device that `FORMWORK_TEST_GPU` names, such as `gpu:0`. Without
//! this variable, the tests use a driver on the CPU, and pass without one.

mod products;
mod top;
mod translations;

use std::ops::Deref;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::{AdapterKind, Gpu, GpuError, adapters};

/// Held for reading by tests that use a device. NVIDIA's driver 580 stops answering if a device is
/// destroyed while another compiles kernels, so the test that does holds it for writing.
static DEVICES: RwLock<()> = RwLock::new(());

/// The tested device.
struct Tested {
    gpu: Gpu,
    _others: RwLockReadGuard<'static, ()>,
}

impl Deref for Tested {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        &self.gpu
    }
}

/// Opens the tested device for a test.
fn gpu() -> Option<Tested> {
    let others = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    Some(Tested { gpu: open(None)?, _others: others })
}

/// Opens the tested device. `binding` is its limit for bindings, in bytes.
fn open(binding: Option<u64>) -> Option<Gpu> {
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

#[test]
fn a_lost_device_is_an_error_and_no_panic() {
    let _alone = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
    let Some(gpu) = open(None) else { return };
    let buffer = gpu.upload(&[1u32, 2, 3, 4]).unwrap();
    assert_eq!(gpu.read::<u32>(&buffer, 1..3).unwrap(), [2, 3]);
    gpu.lose();
    for _ in 0..2 {
        assert!(matches!(gpu.read::<u32>(&buffer, 0..4), Err(GpuError::Lost { .. })));
        assert!(matches!(gpu.upload(&[1u32]), Err(GpuError::Lost { .. })));
    }
}

#[test]
fn a_buffer_that_is_too_large_is_an_error() {
    let Some(gpu) = gpu() else { return };
    gpu.buffer(gpu.limits().buffer * 2);
    let error = gpu.check().unwrap_err();
    assert!(matches!(error, GpuError::Memory { .. } | GpuError::Device { .. }), "{error:?}");
    // The next operation succeeds.
    let buffer = gpu.upload(&[7u32; 4]).unwrap();
    assert_eq!(gpu.read::<u32>(&buffer, 0..1).unwrap(), [7]);
}
