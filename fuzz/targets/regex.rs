//! A regular expression.
#![no_main]

use formwork_fuzz::{limits, seed_of, walk};
use formwork_grammar::Grammar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    if let Ok(grammar) = Grammar::regex(source, &limits()) {
        walk(&grammar, seed_of(source.as_bytes()));
    }
});
