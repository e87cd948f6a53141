//! The memory that models take, computed before they are opened.

use formwork_model::{Checkpoint, KvCacheType, MemoryUse, Model, OpenOptions, Quantization};
use indicatif::HumanBytes;

use crate::published::{Golden, goldens};
use crate::tiny;

fn golden(wanted: &str) -> Golden {
    goldens().into_iter().find(|(name, _)| name == wanted).unwrap().1
}

#[test]
fn computed_memory_is_what_models_take() {
    for (name, golden) in goldens() {
        for (quantize, kv_cache) in [
            (None, KvCacheType::Auto),
            (Some(Quantization::Q8_0), KvCacheType::Auto),
            (None, KvCacheType::Q8),
        ] {
            let folder = golden.checkpoint();
            let options = OpenOptions { quantize, kv_cache, ..OpenOptions::default() };
            let needed = MemoryUse::of(&Checkpoint::open(folder.path()).unwrap(), options).unwrap();
            let model = Model::open(folder.path(), options).unwrap();
            assert_eq!(needed.per_token, model.language_model().kv_bytes_per_token(), "{name}");
            assert_eq!(needed.per_sequence > 0, model.spec().unwrap().has_state(), "{name}");
            // A converted embedding is in memory too, but not among the packed matrices.
            if let Some(packed) = model.read_weights().filter(|_| quantize.is_none()) {
                assert_eq!(needed.weights, packed, "{name}");
            }
            let is_converted = quantize.is_some() || name.starts_with("gpt-oss");
            assert!(needed.converted > 0 || !is_converted, "{name}");
        }
    }
}

#[test]
fn the_context_is_what_fits_and_what_does_not_fit_is_refused() {
    let folder = golden("llama-64").checkpoint();
    let open = |memory: usize, context: Option<usize>| {
        let options = OpenOptions { memory: Some(memory), context, ..OpenOptions::default() };
        Model::open(folder.path(), options).map(|model| model.context_len())
    };
    let needed = MemoryUse::of(&Checkpoint::open(folder.path()).unwrap(), OpenOptions::default()).unwrap();
    let trained = open(usize::MAX, None).unwrap();
    let least = 512.min(trained);
    assert_eq!(open(needed.with_context(trained), None).unwrap(), trained);
    assert_eq!(open(needed.with_context(least), None).unwrap(), least);
    assert_eq!(open(needed.with_context(7), Some(7)).unwrap(), 7);
    let message = |memory: usize, context: Option<usize>| {
        let error = open(memory, context).unwrap_err().to_string();
        error.split_once(": ").unwrap().1.to_owned()
    };
    let limit = needed.with_context(6);
    let free = HumanBytes(limit as u64);
    assert_eq!(
        message(limit, Some(7)),
        format!("a context of 7 tokens takes {free}, but {free} are free ({needed}); 6 tokens fit")
    );
    let limit = needed.with_context(0) - 1;
    let [wanted, free] = [needed.with_context(least), limit].map(|count| HumanBytes(count as u64));
    assert_eq!(
        message(limit, None),
        format!("a context of {least} tokens takes {wanted}, but {free} are free ({needed})")
    );
}

#[test]
fn other_devices_ignore_the_limit_and_refuse_types_of_keys_and_values() {
    let folder = golden("llama-64").checkpoint();
    let device = tiny::tested();
    let options = OpenOptions { device, memory: Some(0), ..OpenOptions::default() };
    assert!(Model::open(folder.path(), options).is_ok());
    let options = OpenOptions { device, kv_cache: KvCacheType::Q8, ..OpenOptions::default() };
    let error = Model::open(folder.path(), options).unwrap_err().to_string();
    assert!(error.contains("keys and values of 8 bits"), "{error}");
}
