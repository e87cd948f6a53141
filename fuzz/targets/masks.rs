//! Compares every bit of a grammar's masks with the token's bytes tried one by one. The input is a
//! byte for the notation, a byte for the options, and the text.
#![no_main]

use formwork_fuzz::{compare_masks, limits, may_name_tokens, options, seed_of};
use formwork_grammar::Grammar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [kind, first, text @ ..] = data else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let grammar = match kind % 4 {
        0 if may_name_tokens(text) => return,
        0 => Grammar::gbnf(text, &limits()),
        1 => Grammar::regex(text, &limits()),
        _ => match serde_json::from_str(text) {
            Ok(schema) => Grammar::json_schema(&schema, &options(*first), &limits()),
            Err(_) => return,
        },
    };
    if let Ok(grammar) = grammar {
        compare_masks(&grammar, seed_of(data));
    }
});
