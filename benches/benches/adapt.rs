//! Cost of adaptation: negligible for correct outputs, and small for others.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench adapt
//! ```
//!
//! Outputs are arrays of records with eight fields, some of them nested, of about 1, 10 and 100 KB.
//! *Verdict* is the whole cost for a correct output. *Value* adds building the value for callers
//! that need one. *Parse, validate* is the usual code without adaptation. Times are in
//! microseconds.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use formwork_adapt::{AdaptOptions, Adapter, Tolerance, from_text};
use formwork_benches::Distribution;
use serde::Deserialize;
use serde_json::{Value, json};

/// Number of runs of each measurement.
const RUNS: usize = 300;

#[derive(Deserialize)]
#[allow(dead_code, reason = "only decoding it is measured")]
struct Order {
    id: u64,
    customer: String,
    email: String,
    total: f64,
    paid: bool,
    note: Option<String>,
    tags: Vec<String>,
    address: Address,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only decoding it is measured")]
struct Address {
    street: String,
    city: String,
    zip: String,
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Result<()> {
    let schema = schema();
    let minimal = Adapter::new(&schema, AdaptOptions::minimal())?;
    let full = Adapter::new(&schema, AdaptOptions::full().with_tolerance(Tolerance::Repair))?;
    let validator = jsonschema::validator_for(&schema)?;
    println!("{}", Distribution::header());
    for records in [3, 37, 370] {
        let text = orders(records);
        let fenced = format!("Sure, here you are:\n\n```json\n{text}\n```\nAnything else?");
        let encoded = Value::from(text.as_str()).to_string();
        let broken = text.replace("}, {", "},\n {").replace("\"]", "\",]").replace("true", "True");
        let strings = text.replace("true", "\"true\"").replace("false", "\"false\"");
        ensure!(minimal.adapt(&text).is_valid() && minimal.adapt(&fenced).is_valid());
        println!("{} bytes", text.len());
        measure("  verdict", || minimal.adapt(&text));
        measure("  verdict, value", || minimal.adapt(&text).into_value());
        measure("  parse, validate", || {
            let value: Value = serde_json::from_str(&text).unwrap_or_default();
            (validator.is_valid(&value), value)
        });
        measure("  fenced", || minimal.adapt(&fenced).into_value());
        measure("  double-encoded", || minimal.adapt(&encoded).into_value());
        measure("  stringified booleans", || minimal.adapt(&strings).into_value());
        measure("  repaired", || full.adapt(&broken).into_value());
        measure("  typed, the type alone", || from_text::<Vec<Order>>(&text));
        measure("  typed, validated", || minimal.decode::<Vec<Order>>(&text).is_ok());
        measure("  decode, then validate", || {
            let value: Value = serde_json::from_str(&text).unwrap_or_default();
            (validator.is_valid(&value), serde_json::from_value::<Vec<Order>>(value))
        });
    }
    let text = braces();
    println!("{} bytes with 10,000 braces", text.len());
    measure("  extraction", || minimal.adapt(&text));
    let hostile = "{".repeat(1 << 20);
    println!("{} bytes of nothing but braces", hostile.len());
    measure("  extraction, repair", || full.adapt(&hostile));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn measure<T>(label: &str, mut run: impl FnMut() -> T) {
    let time = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e6
    };
    println!("{}", Distribution::of((0..RUNS).map(time)).row(label));
}

fn schema() -> Value {
    let string = json!({ "type": "string" });
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "id": { "type": "integer", "minimum": 1 },
                "customer": { "type": "string", "minLength": 1, "maxLength": 80 },
                "email": string,
                "total": { "type": "number", "minimum": 0 },
                "paid": { "type": "boolean" },
                "note": { "type": ["string", "null"] },
                "tags": { "type": "array", "items": { "enum": ["new", "gift", "express", "return"] }, "maxItems": 4 },
                "address": {
                    "type": "object",
                    "properties": { "street": string, "city": string, "zip": { "type": "string", "maxLength": 10 } },
                    "required": ["street", "city", "zip"],
                    "additionalProperties": false,
                },
            },
            "required": ["id", "customer", "email", "total", "paid", "note", "tags", "address"],
            "additionalProperties": false,
        },
    })
}

fn orders(count: usize) -> String {
    let order = |n: usize| {
        let tags = &["new", "gift", "express"][..n % 4];
        json!({
            "id": n + 1,
            "customer": format!("Customer Number {n}"),
            "email": format!("customer.{n}@example.com"),
            "total": n as f64 * 1.25 + 0.99,
            "paid": n.is_multiple_of(3),
            "note": if n.is_multiple_of(4) { Value::Null } else { format!("Leave it \"at the door\" of house {n}, please.").into() },
            "tags": tags,
            "address": { "street": format!("{n} Long Street"), "city": "Springfield", "zip": format!("{:05}", n * 7) },
        })
        .to_string()
    };
    format!("[{}]", (0..count).map(order).collect::<Vec<_>>().join(", "))
}

/// Returns a megabyte of text with 10,000 braces and brackets, and an array at its end.
fn braces() -> String {
    let mut text = String::new();
    for n in 0..2_500 {
        let _ = write!(
            text,
            "The {n}th call {{see [this], or }} that, as it is said there; and then nothing for a while. "
        );
        text.push_str(&"More words of no use. ".repeat(15));
    }
    text + "\n[]"
}
