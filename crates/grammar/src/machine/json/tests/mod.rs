//! Tests through the interface [`Machine`]: tables for each keyword, laws on random schemas, and
//! public test suites.

mod arrays;
mod choices;
mod counts;
mod dialects;
mod gbnf;
mod joins;
mod keywords;
mod laws;
mod llama;
mod names;
mod oracle;
mod suites;
mod tables;
mod undeclared;
mod unique;

use serde_json::Value;

use super::JsonMachine;
use crate::error::GrammarError;
use crate::frontend::json_schema::{Remotes, compile};
use crate::limits::Limits;
use crate::machine::{Config, Machine};
use crate::options::SchemaOptions;

fn machine(schema: &Value, options: SchemaOptions) -> Result<JsonMachine, GrammarError> {
    machine_among(schema, &Remotes::new(), options)
}

fn machine_among(
    schema: &Value,
    remotes: &Remotes,
    options: SchemaOptions,
) -> Result<JsonMachine, GrammarError> {
    Ok(compile(schema, remotes, options, &Limits::default())?.program.machine())
}

/// Returns the config after the longest accepted prefix of `text`, and the length of this prefix.
fn run(machine: &mut JsonMachine, text: &[u8]) -> (Config, usize) {
    let mut config = machine.start();
    for (at, &byte) in text.iter().enumerate() {
        config = machine.step(config, byte);
        if config == Config::DEAD {
            return (config, at);
        }
    }
    (config, text.len())
}

/// Returns the shortest completion of `config`. Checks that it is no longer than the machine's
/// `closing_len`.
fn close(machine: &mut JsonMachine, mut config: Config) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = machine.closing_len(config);
    assert!(len < 1 << 20, "too long to follow: {len}");
    let mut left = len;
    while !machine.accepting(config) {
        let byte = machine.closing_byte(config);
        bytes.push(byte);
        config = machine.step(config, byte);
        assert_ne!(config, Config::DEAD, "dead after {:?}", String::from_utf8_lossy(&bytes));
        let closing = machine.closing_len(config);
        assert!(closing < left, "{closing} after {:?}, {left} before", String::from_utf8_lossy(&bytes));
        left = closing;
    }
    bytes
}

fn accepts(machine: &mut JsonMachine, text: impl AsRef<[u8]>) -> bool {
    let (config, _) = run(machine, text.as_ref());
    config != Config::DEAD && machine.accepting(config)
}
