//! A JSON Schema: one byte for the options, then the text.
#![no_main]

use formwork_fuzz::{limits, options, seed_of, walk};
use formwork_grammar::Grammar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, text)) = data.split_first() else { return };
    let Ok(schema) = serde_json::from_slice(text) else { return };
    if let Ok(grammar) = Grammar::json_schema(&schema, &options(first), &limits()) {
        walk(&grammar, seed_of(data));
    }
});
