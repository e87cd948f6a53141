//! Generates JSON that matches a JSON Schema, and reads it into a struct.
//!
//! ```sh
//! cargo run --release -p formwork-examples --bin constrain -- MODEL "Describe a sailor."
//! ```

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::sync::Arc;

use anyhow::{Context, Result};
use formwork_engine::prompt::{self, Shape};
use formwork_engine::{Engine, EngineOptions, Request};
use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_lm::{ChatInput, Message};
use formwork_model::{Model, OpenOptions};
use serde_json::json;

#[derive(serde::Deserialize)]
struct Character {
    name: String,
    age: u8,
    hobbies: Vec<String>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("usage: constrain MODEL [PROMPT]")?;
    let question = arguments.next().unwrap_or_else(|| "Describe a sailor.".to_owned());

    let hobby = json!({ "type": "string", "minLength": 1, "maxLength": 20 });
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 40 },
            "age": { "type": "integer", "minimum": 18, "maximum": 99 },
            "hobbies": { "type": "array", "items": hobby, "minItems": 1, "maxItems": 3 },
        },
        "required": ["name", "age", "hobbies"],
    });
    // A schema that cannot be enforced exactly is an error here, before the model is loaded.
    let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default())?;
    let model = Model::open(path, OpenOptions::default())?;
    let tokenizer = Arc::new(model.tokenizer()?);
    let template = model.compile_template(&tokenizer, None)?;
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());

    // The model sees the schema, so that it knows what to fill in.
    let mut messages = vec![Message::new("user", question)];
    Shape::Schema(&schema).add_to(&mut messages);
    let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
    let mut request = Request::new(prompt::encode(engine.tokenizer(), &template.render(&input)?)?);
    request.constraint = Some(Constraint::new(&grammar, Arc::clone(engine.tokenizer().vocabulary()))?);
    // The JSON is complete within this limit. A limit that is too small is refused.
    request.max_tokens = Some(150);

    let (json, _) = engine.generate(request)?.collect()?;
    println!("{json}");
    let character: Character = serde_json::from_str(&json)?;
    println!("{}, {}, likes {}", character.name, character.age, character.hobbies.join(" and "));
    Ok(())
}
