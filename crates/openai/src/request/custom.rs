//! Custom tools, which take a text instead of arguments.

use formwork_chat::CustomInput;
use formwork_grammar::Part;

use super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// Notation of a grammar.
struct Notation {
    /// Creates the part for a definition.
    part: fn(String) -> Part,
    /// Name of the notation for the model.
    name: &'static str,
}

/// Returns the notation with this syntax. Returns `None` for a syntax that is not supported; [`SYNTAXES`]
/// lists the supported ones.
fn notation(syntax: &str) -> Option<Notation> {
    match syntax {
        "lark" => Some(Notation { part: Part::Lark, name: "Lark grammar" }),
        "regex" => Some(Notation { part: Part::Regex, name: "regular expression" }),
        _ => None,
    }
}

/// The syntaxes that [`notation`] knows, for error messages.
const SYNTAXES: &str = "lark and regex";

/// Parses `format`. If `nested` is true, the grammar is in an object of its own, as in a chat request.
pub(super) fn read_input(fields: &mut Fields, nested: bool) -> Result<CustomInput, RequestError> {
    let Some(at) = fields.take("format") else { return Ok(CustomInput::Text) };
    let mut format = at.fields()?;
    let known = |name: &str| ["text", "grammar"].into_iter().find(|known| *known == name);
    let input = match format.required("type")?.one_of(known, "text and grammar")? {
        "text" => CustomInput::Text,
        _ if nested => {
            let mut grammar = format.required("grammar")?.fields()?;
            let input = read_grammar(&mut grammar)?;
            grammar.finish_strictly()?;
            input
        }
        _ => read_grammar(&mut format)?,
    };
    format.finish_strictly()?;
    Ok(input)
}

fn read_grammar(fields: &mut Fields) -> Result<CustomInput, RequestError> {
    let Notation { part, name } = fields.required("syntax")?.one_of(notation, SYNTAXES)?;
    let definition = fields.required("definition")?.string()?;
    Ok(CustomInput::Grammar { part: part(definition.clone()), notation: name, definition })
}

/// Parses the fields of a tool that do not change what the model writes.
pub(super) fn read_hints(fields: &mut Fields) -> Result<(), RequestError> {
    // Calls always follow the grammar or the schema, whether `strict` is true or false.
    fields.read("strict", Place::bool)?;
    if let Some(at) = fields.take("allowed_callers") {
        // Programs of other hosts call tools without the model.
        let is_direct =
            at.value().as_array().is_some_and(|all| all.is_empty() || all.iter().any(|one| one == "direct"));
        if !is_direct {
            let accepted = "a list with `direct`";
            return Err(at.error(Problem::NotNeutral { accepted, hint: "" }));
        }
        at.ignore();
    }
    // These save tokens of the prompt or describe what hosts do.
    for name in ["async", "cache_control", "defer_loading"] {
        fields.ignore(name);
    }
    Ok(())
}
