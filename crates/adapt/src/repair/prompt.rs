use super::{Reading, Shape, first_errors, format, hints, truncated};

/// Maximum number of characters of its own answer that a model is shown.
pub const SHOWN: usize = 2000;

/// Renders the prompt that asks a model to repair its own answer.
///
/// The prompt lists the errors, the answer, the required format and the rules of JSON. The last
/// argument holds the attempt's number and the maximum number of attempts.
///
/// ```
/// use formwork_adapt::repair::{Shape, repair_prompt};
/// let shape = Shape::tool_calls();
/// let text = r#"{"content": 123}"#;
/// let prompt = repair_prompt(&shape, text, &shape.read(text), (1, 2));
/// assert!(prompt.contains("- Field \"content\": Expected string, got number\n"));
/// assert!(prompt.ends_with("Attempt 1/2 - Please provide corrected JSON:"));
/// ```
pub fn repair_prompt(shape: &Shape, text: &str, reading: &Reading, (attempt, most): (u32, u32)) -> String {
    let errors = first_errors(&reading.errors).into_iter();
    let hints = hints::hints(text, reading.value.is_some()).into_iter().map(|hint| format!("HINT: {hint}"));
    let errors: Vec<String> = errors.chain(hints).map(|error| format!("- {error}")).collect();
    let value = format::name(shape);
    format!(
        "Your previous response had JSON formatting errors. Please fix and return ONLY valid JSON.\n\n\
         ## Errors Found\n{}\n\n\
         ## Your Original Response\n```\n{}\n```\n\n\
         ## Required Format\nReturn ONLY a {value} with this exact structure (no markdown, no explanation):\n{}\n\n\
         ## Rules\n\
         1. All property names must be in double quotes\n\
         2. String values must use double quotes (escape inner quotes as \\\")\n\
         3. No trailing commas\n\
         4. No comments in JSON\n\
         5. Return ONLY the {value}, nothing else\n\n\
         Attempt {attempt}/{most} - Please provide corrected JSON:",
        errors.join("\n"),
        truncated(text, SHOWN),
        format::required(shape.schema(), shape.is_envelope()),
    )
}
