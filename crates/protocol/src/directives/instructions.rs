//! Texts that tell the model how to answer and how to repair an answer.

use std::fmt::Write;

use super::{Mode, Problem, Registry, StructuredOutputOptions, Warning, shortened};

/// Maximum number of characters of all reasons together in a repair request.
const REASONS: usize = 1000;
/// Maximum number of characters of each reason in a repair request.
const REASON: usize = 300;

/// Returns the instructions for the system message of a request in `mode`. In [`Mode::JsonSchema`],
/// the shape of the envelope is shorter, because the server enforces it. All modes have the schemas
/// of the payloads: a server that enforces them does not show them to the model, and a small model
/// chooses better values if it knows them.
pub(super) fn of_request(options: &StructuredOutputOptions, mode: Mode) -> String {
    let shape = match mode {
        Mode::JsonSchema => {
            "Answer with one JSON object. \"assistant_text\" is what you say to the user, and \"directives\" what the app is to do; \
             both are always there, and either may be empty."
        }
        Mode::JsonObject | Mode::PromptOnly => {
            "Answer with one JSON object and nothing else: no Markdown, no code fences, no text around it. Its shape:\n\
             {\"assistant_text\": \"…\", \"directives\": [{\"type\": \"…\", \"payload\": {}}]}\n\
             - \"assistant_text\" is what you say to the user: a string, always there, which may be empty.\n\
             - \"directives\" is what the app is to do: an array, always there, which may be empty.\n\
             - Each directive has a \"type\", a string, and a \"payload\", an object."
        }
    };
    let types = of_types(options.registry(), options.allowed().as_deref(), true);
    let further = options.output_instructions.as_deref().map(str::trim).unwrap_or_default();
    let required = of_requirements(options);
    let parts = [shape, &types, &required, further];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Returns a sentence for each requirement of the options, or an empty text.
fn of_requirements(options: &StructuredOutputOptions) -> String {
    let required = options
        .required()
        .iter()
        .map(|required| format!("\"directives\" must have {}.", required.instruction()));
    let count = options.max_directives.map(|limit| format!("\"directives\" has at most {limit} in all."));
    let length =
        options.max_text_length.map(|limit| format!("\"assistant_text\" has at most {limit} characters."));
    required.chain(count).chain(length).collect::<Vec<_>>().join("\n")
}

/// Returns a text that describes each type in `allowed`, followed by the registry's general
/// instructions. If `allowed` is `None`, all types of the registry are described. `schemas` is true
/// to include the JSON Schemas of payloads.
pub(super) fn of_types(registry: &Registry, allowed: Option<&[String]>, schemas: bool) -> String {
    let defined = registry.types();
    let mut text = String::new();
    for kind in allowed.unwrap_or(&defined) {
        let lead = if text.is_empty() { "Types of directives:" } else { "" };
        let _ = write!(text, "{lead}\n- {kind}");
        let Some(definition) = registry.get(kind) else { continue };
        if !definition.description.trim().is_empty() {
            let _ = write!(text, ": {}", definition.description.trim());
        }
        if let Some(schema) =
            definition.payload_schema.as_ref().filter(|schema| schemas && schema.is_object())
        {
            let _ = write!(text, "\n  JSON Schema of the payload: {schema}");
        }
        for line in definition.instructions.iter().flat_map(|text| text.trim().lines()) {
            let _ = write!(text, "\n  {line}");
        }
    }
    if let Some(remarks) = registry.remarks().map(str::trim).filter(|remarks| !remarks.is_empty()) {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        let _ = write!(text, "{gap}{remarks}");
    }
    text
}

/// Returns the message that asks the model to repair an answer. The message states `problem` and,
/// as details, `reasons` (the caller's unmet requirements) and `warnings`.
pub(super) fn of_repair(problem: &Problem, reasons: &[String], warnings: &[Warning]) -> String {
    let told = warnings.iter().map(ToString::to_string);
    let reasons: Vec<String> =
        reasons.iter().cloned().chain(told).map(|line| shortened(&line, REASON)).collect();
    let reasons = shortened(&reasons.join("; "), REASONS);
    let mut text =
        format!("Your answer cannot be used ({}): {}.", problem.code, shortened(&problem.message, REASON));
    if !reasons.is_empty() {
        let _ = write!(text, "\nIn particular: {reasons}.");
    }
    let cut = [super::parser::TRUNCATED, super::CLOSED_BY_BUDGET];
    let is_cut = |code: &str| cut.contains(&code);
    if is_cut(&problem.code) || warnings.iter().any(|warning| is_cut(&warning.code)) {
        text.push_str("\nIt was cut off, so be brief.");
    }
    text.push_str(
        "\nFix the JSON only: answer again with the one JSON object, whole and corrected, and nothing else.",
    );
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::directives::Registry;

    fn options() -> StructuredOutputOptions {
        let registry = json!({
            "definitions": [
                { "type": "ui.toast", "description": " Shows a message. ", "payload_schema": { "required": ["message"] } },
                { "type": "ui.patch", "instructions": "Seldom.\nOne at most." },
                { "type": "ui.close" },
            ],
            "instructions": "Use as few as you can.",
        });
        StructuredOutputOptions::new(serde_json::from_value::<Registry>(registry).expect("a registry"))
    }

    #[test]
    fn output_instructions_come_last() {
        let options = options().with_output_instructions("Mind the tone.\n");
        let options = options.with_allowed_types(["ui.toast", "ui.patch"]).expect("types");
        insta::assert_snapshot!(of_request(&options, Mode::JsonSchema));
        insta::assert_snapshot!(of_request(&options, Mode::PromptOnly));
        assert_eq!(of_request(&options, Mode::JsonObject), of_request(&options, Mode::PromptOnly));
    }

    #[test]
    fn instructions_describe_the_types() {
        let told = "Types of directives:\n- ui.toast: Shows a message.\n- ui.patch\n  Seldom.\n  One at most.\n- ui.close\n\n\
                    Use as few as you can.";
        assert_eq!(options().registry().instructions(), told);
        assert_eq!(Registry::default().instructions(), "");
    }
}
