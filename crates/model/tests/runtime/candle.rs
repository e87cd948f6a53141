//! Compares the GPU code, on the tested device, with the CPU kernels. The same calls must give the
//! same results.

use candle_core::quantized::GgmlDType;
use formwork_lm::{Role, Wanted};
use formwork_model::{Device, Model, OpenOptions};
use formwork_vocab::TokenId;

use crate::pair::{LEAST_VOCABULARY, Pair};
use crate::published::goldens;
use crate::tiny::{self, CONTEXT, tokens};
use crate::{converted, tiny::open_with};

/// Returns the maximum difference, relative to the largest number in the row.
fn bound() -> f32 {
    if tiny::tested() == Device::Reference { 1e-4 } else { tiny::HALF_KEYS }
}

#[test]
fn tensors_and_kernels_agree() {
    let small = |name: &str| name.ends_with("-64");
    for (name, golden) in goldens().iter().filter(|(name, golden)| small(name) && !golden.is_native_only()) {
        let file = converted::gguf_with(golden, GgmlDType::F32, Some(CONTEXT as u32));
        let mut pair = Pair::new(&file, tiny::tested(), bound());
        for _ in 0..50 {
            pair.step(name);
        }
    }
}

#[test]
fn hidden_states_are_alike() {
    let small = |name: &str| name.ends_with("-64");
    for (name, golden) in goldens().iter().filter(|(name, golden)| small(name) && !golden.is_native_only()) {
        let file = converted::gguf_with(golden, GgmlDType::F32, Some(CONTEXT as u32));
        let mut pair = Pair::new(&file, tiny::tested(), bound());
        let text: Vec<TokenId> = tokens(40, 3).iter().map(|t| TokenId(t.0 % LEAST_VOCABULARY)).collect();
        let [cpu, tensors] = [0, 1].map(|side| {
            let sequence = pair.models[side].open();
            pair.models[side].hidden_states(sequence, &text).unwrap()
        });
        assert_eq!(cpu.len(), tensors.len());
        let largest = cpu.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
        assert!(cpu.iter().zip(&tensors).all(|(x, y)| (x - y).abs() <= bound() * largest), "{name}");
    }
}

#[test]
fn quantised_weights_are_expanded_for_the_reference() {
    for dtype in [GgmlDType::Q8_0, GgmlDType::Q4_0] {
        let text = tokens(30, 3);
        let row = |tiny: &tiny::Tiny, device| {
            let options = OpenOptions { device, ..OpenOptions::default() };
            let mut model = open_with(&tiny.file, options).unwrap().language_model();
            let sequence = model.open();
            tiny::append(&mut *model, sequence, &text, Role::Prompt, Wanted::All).unwrap()
        };
        let expanded = tiny::expanded("llama", dtype);
        let given = row(&tiny::tiny("llama", dtype), Device::Reference);
        assert_eq!(given, row(&expanded, Device::Reference), "{dtype:?}");
        let exact = row(&expanded, Device::Cpu);
        let error =
            given.iter().zip(&exact).fold(0f32, |most, (given, exact)| most.max((given - exact).abs()));
        assert!(error < 1e-4, "{dtype:?}: {error}");
    }
}

#[test]
fn errors_of_devices_name_them() {
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    let open = |device| -> Result<Model, _> {
        open_with(&tiny.file, OpenOptions { device, ..OpenOptions::default() })
    };
    if cfg!(not(feature = "cuda")) {
        let error = open(Device::Cuda(1)).unwrap_err().to_string();
        assert!(error.contains("the device cuda:1 needs a build with the feature \"cuda\""), "{error}");
        assert!(open(Device::Auto).is_ok());
    }
    if cfg!(not(feature = "metal")) {
        let error = open(Device::Metal).unwrap_err().to_string();
        assert!(error.contains("the device metal needs a build with the feature \"metal\""), "{error}");
    }
    let mut model = open(tiny::tested()).unwrap().language_model();
    let sequence = model.open();
    let mut try_run = |tokens: &[TokenId]| {
        tiny::append(&mut *model, sequence, tokens, Role::Prompt, Wanted::All).unwrap_err().to_string()
    };
    assert_eq!(try_run(&tokens(CONTEXT + 1, 1)), "601 tokens exceed the context length of 600");
    assert_eq!(try_run(&[TokenId(200)]), "token 200 is out of range (vocabulary size 200)");
}
