//! Compares the kernels for GPUs with transformers and with the CPU.
//!
//! `FORMWORK_TEST_GPU` names the device. Without it, the tests use a driver that computes on the
//! CPU, and pass without one.

use candle_core::quantized::GgmlDType;
use formwork_model::{Device, Model, OpenOptions};
use formwork_vocab::TokenId;

use crate::pair::{LEAST_VOCABULARY, Pair};
use crate::published::goldens;
use crate::converted;
use crate::tiny::{self, CONTEXT, open_with, tokens};

/// Returns the tested device, or `None` if the system has no driver for it.
pub(crate) fn tested() -> Option<Device> {
    let name = std::env::var("FORMWORK_TEST_GPU").unwrap_or_else(|_| "gpu:cpu".to_owned());
    let device = name.parse().unwrap();
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    match open_with(&tiny.file, OpenOptions { device, ..OpenOptions::default() }) {
        Ok(_) => Some(device),
        Err(error) => {
            let error = format!("{error:?}");
            assert!(error.contains("NoAdapter"), "{error}");
            eprintln!("not tested: no driver for {name}; Debian has one in mesa-vulkan-drivers");
            None
        }
    }
}

/// Opens a model, or returns `None` if GPUs cannot compute it.
pub(crate) fn open_on(device: Device, file: &[u8]) -> Option<Model> {
    match open_with(file, OpenOptions { device, ..OpenOptions::default() }) {
        Ok(model) => Some(model),
        Err(error) => {
            assert!(error.to_string().contains("GPUs cannot compute"), "{error}");
            None
        }
    }
}

#[test]
fn gpus_compute_what_transformers_does() {
    let Some(device) = tested() else { return };
    let (mut failed, mut computed) = (Vec::new(), 0);
    for (name, golden) in goldens() {
        let folder = golden.checkpoint();
        let options = OpenOptions { device, ..OpenOptions::default() };
        let model = match Model::open(folder.path(), options) {
            Ok(model) => model,
            Err(error) => {
                assert!(error.to_string().contains("GPUs cannot compute"), "{name}: {error}");
                continue;
            }
        };
        computed += 1;
        let error = golden.largest_error(&model);
        eprintln!("{name}: {error:.1e}");
        if error.is_nan() || error > 1e-4 {
            failed.push(format!("{name}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
    assert!(computed > 20, "{computed}");
}

#[test]
fn random_calls_give_the_results_of_the_cpu() {
    let Some(device) = tested() else { return };
    let small = |name: &str| name.ends_with("-64");
    for (name, golden) in goldens().iter().filter(|(name, _)| small(name)) {
        for dtype in [GgmlDType::F32, GgmlDType::Q8_0] {
            let file = converted::gguf_with(golden, dtype, Some(CONTEXT as u32));
            if open_on(device, &file).is_none() {
                continue;
            }
            // Both sides store keys and values of quantised models in 16 bits, but in different forms.
            // A small difference can round an activation to the next of 8 bits.
            let bound = if dtype == GgmlDType::F32 { 1e-4 } else { 5e-2 };
            let mut pair = Pair::new(&file, device, bound);
            for _ in 0..30 {
                pair.step(&format!("{name} {dtype:?}"));
            }
            let text: Vec<TokenId> = tokens(40, 3).iter().map(|t| TokenId(t.0 % LEAST_VOCABULARY)).collect();
            let [cpu, gpu] = [0, 1].map(|side| {
                let sequence = pair.models[side].open();
                pair.models[side].hidden_states(sequence, &text).unwrap()
            });
            assert_eq!(cpu.len(), gpu.len());
            let largest = cpu.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
            let error = cpu.iter().zip(&gpu).fold(0f32, |most, (x, y)| most.max((x - y).abs()));
            assert!(error <= bound * largest, "{name} {dtype:?}: {error}");
        }
    }
}
