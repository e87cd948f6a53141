//! Compares the likelihood of outputs with forced tokens and of outputs for which the model chose
//! every token.
//!
//! Uses the standard schemas, greedy decoding and at most 128 tokens. Runs if `FORMWORK_MASKBENCH`
//! names a folder of `MaskBench` files and `FORMWORK_TEST_MODELS` a folder with the models.

use std::sync::Arc;

use formwork_engine::prompt::{self, Shape};
use formwork_engine::{EngineHandle, Request};
use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use serde_json::Value;

use super::real_models::{engine, model_files};
use super::standard_budgets::standard_schemas;

/// Maximum loss of log-probability per token, in nats, averaged over all outputs of a model.
const ALLOWED: f64 = 0.05;

/// Returns the sum of the tokens' log-probabilities, from the model's own logits without masks, and
/// the number of tokens.
fn likelihood(engine: &EngineHandle, schema: &Value, forced_tokens: bool) -> (f64, usize) {
    let tokenizer = engine.tokenizer();
    let grammar =
        Grammar::json_schema(schema, &SchemaOptions::default(), &Limits::default()).expect("supported");
    let instruction = Shape::Schema(schema).instruction();
    let mut request = Request::new(prompt::encode(tokenizer, &instruction).expect("text"));
    let constraint = Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary()));
    request.constraint = Some(constraint.expect("without terminals"));
    request.max_tokens = Some(128);
    request.logprobs = Some(0);
    request.forced_tokens = forced_tokens;
    let (_, finish) = engine.generate(request).expect("accepted").collect().expect("no failure");
    (finish.cumulative_logprob.expect("asked for"), finish.usage.completion_tokens)
}

#[test]
fn forced_tokens_are_as_likely_as_those_asked_for() {
    for path in model_files() {
        let engine = engine(&path);
        for group in ["Glaiveai2K---", "Github_easy---"] {
            let mut totals = [(0.0, 0); 2];
            for (_, schema) in standard_schemas().into_iter().filter(|(name, _)| name.starts_with(group)) {
                for (total, forced) in totals.iter_mut().zip([true, false]) {
                    let (sum, tokens) = likelihood(&engine, &schema, forced);
                    *total = (total.0 + sum, total.1 + tokens);
                }
            }
            let [forced, asked] = totals.map(|(sum, tokens)| sum / tokens as f64);
            if totals[0].1 > 0 {
                eprintln!(
                    "{}, {group}: {forced:.4} a token with forced ones, {asked:.4} asked for, of {} and {} tokens",
                    path.display(),
                    totals[0].1,
                    totals[1].1
                );
                assert!(forced >= asked - ALLOWED, "{}", path.display());
            }
        }
    }
}
