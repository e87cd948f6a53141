//! Checks of the command line's values, with the limits of the HTTP API.

use std::path::Path;

use anyhow::{Result, bail};
use formwork_openai::DirectivesRequest;
use formwork_protocol::Body;
use formwork_protocol::directives::{Mode, repeated};
use serde_json::{Value, json};

use super::args::RunArgs;

/// Options of the command line by their fields in the HTTP API.
const OPTIONS: [(&str, &str); 8] = [
    ("max_tokens", "--max-tokens"),
    ("temperature", "--temperature"),
    ("top_p", "--top-p"),
    ("top_k", "--top-k"),
    ("min_p", "--min-p"),
    ("seed", "--seed"),
    ("repair_retries", "--repairs"),
    ("max_requests", "--max-requests"),
];

/// Refuses what `POST /v1/directives` refuses: earlier messages, sampling values and counts out of
/// range.
pub(super) fn check(args: &RunArgs, is_local: bool, history: &[Value], sampling: &Body) -> Result<()> {
    let mut messages = history.to_vec();
    messages.push(json!({ "role": "user", "content": "x" }));
    let registry = json!({ "definitions": [{ "type": "x" }] });
    let mut body = json!({ "model": "m", "messages": messages, "registry": registry });
    if !is_local {
        body["provider"] = "remote".into();
    }
    let counts = [
        ("repair_retries", args.repairs.map(Value::from)),
        ("max_requests", args.max_requests.map(|most| most.get().into())),
    ];
    let counts = counts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    for (name, value) in sampling.clone().into_iter().chain(counts) {
        body[name] = value;
    }
    let Err(error) = DirectivesRequest::from_json(body.to_string().as_bytes()) else { return Ok(()) };
    let (param, told) = (error.param().unwrap_or_default().to_owned(), error.to_string());
    if let Some((_, option)) = OPTIONS.iter().find(|(field, _)| *field == param) {
        let reason = told.strip_prefix(&format!("`{param}`: ")).unwrap_or(&told);
        bail!("{option}: {reason}");
    }
    let path = args.history.as_deref().map(Path::display);
    match path.filter(|_| param.starts_with("messages")) {
        Some(path) => bail!("--history: {path}: {told}"),
        None => bail!("{told}"),
    }
}

/// Refuses a list with a mode twice, and options that have no effect: a name of the schema if no mode sends
/// the schema, and a decision about the type if nothing would be decided.
pub(super) fn check_modes(args: &RunArgs, modes: &[Mode]) -> Result<()> {
    if let Some(mode) = args.modes.as_deref().and_then(repeated) {
        bail!("--modes: `{}` occurs twice", mode.name());
    }
    let has_required = !args.rules.require.is_empty() || !args.rules.require_one.is_empty();
    if args.type_by_decision && has_required {
        bail!("--type-by-decision has no effect: types that are required leave nothing to decide");
    }
    if args.type_by_decision && args.max_requests.is_some_and(|most| most.get() == 1) {
        bail!("--type-by-decision has no effect: the only request of --max-requests 1 is for the answer");
    }
    if args.schema_name.is_some() && !modes.contains(&Mode::JsonSchema) {
        bail!("--schema-name has no effect: only the mode json_schema sends a schema with a name");
    }
    Ok(())
}
