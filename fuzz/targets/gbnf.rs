//! A GBNF grammar.
#![no_main]

use formwork_fuzz::{limits, may_name_tokens, seed_of, walk};
use formwork_grammar::Grammar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    if let Ok(grammar) = Grammar::gbnf(source, &limits())
        && !may_name_tokens(source)
    {
        walk(&grammar, seed_of(source.as_bytes()));
    }
});
