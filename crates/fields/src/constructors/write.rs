//! Definitions as constructor expressions.

use std::fmt::Write;

use super::convert::{CLASSES, Class, KEYS, PROPERTIES};
use crate::csharp::literal;
use crate::node::Node;

type Map = [(String, Node)];

/// Returns the statement that constructs a definition, given its tree.
///
/// # Errors
/// Returns a message for a definition that the constructors cannot express.
pub(crate) fn definition(node: &Node) -> Result<String, String> {
    let Node::Map(map) = node else { return Err("the definition is not a field".to_owned()) };
    if get(map, "definitions").is_some() {
        return Err("no constructor defines structures for references".to_owned());
    }
    let Some(Node::String(name)) = get(map, "name") else {
        return Err("the definition has no name, which every constructor needs".to_owned());
    };
    let mut out = String::from("var schema = ");
    field(map, name, 0, &mut out)?;
    out.push_str(";\n");
    Ok(out)
}

fn get<'n>(map: &'n Map, key: &str) -> Option<&'n Node> {
    map.iter().find(|(known, _)| known == key).map(|(_, node)| node)
}

fn key_of(parameter: &str) -> &'static str {
    KEYS.iter().find(|(name, _)| *name == parameter).map_or("value", |(_, key)| key)
}

fn class_of(map: &Map, name: &str) -> Result<&'static Class, String> {
    let kind = match get(map, "type") {
        Some(Node::String(kind)) => kind,
        _ => "composite",
    };
    let class = CLASSES.iter().find(|class| class.kind == kind);
    class.ok_or_else(|| format!("{name}: no constructor creates a field of the type `{kind}`"))
}

fn field(map: &Map, name: &str, indent: usize, out: &mut String) -> Result<(), String> {
    let class = class_of(map, name)?;
    out.push_str("new ");
    out.push_str(class.names[0]);
    match class.kind {
        "choice" => out.push_str(type_argument(get(map, "options"))),
        "constant" => out.push_str(type_argument(get(map, "value"))),
        _ => {}
    }
    out.push('(');
    out.push_str(&literal(name));
    for (index, parameter) in class.parameters.iter().enumerate().skip(1) {
        let key = key_of(parameter);
        let value = match get(map, key) {
            Some(Node::Map(element)) => {
                out.push_str(", ");
                field(element, "item", indent, out)?;
                continue;
            }
            Some(node) => value(node),
            None if key == "min_length" || key == "min_items" => "0".to_owned(),
            None if index < class.required => {
                return Err(format!("{name}: the constructor of {} needs `{key}`", class.names[0]));
            }
            None => break,
        };
        out.push_str(", ");
        out.push_str(&value);
    }
    if let Some(Node::List(items)) = class.rest.and_then(|rest| get(map, key_of(rest))) {
        list(items, name, class.kind == "choice", indent, out)?;
    }
    out.push(')');
    let properties = PROPERTIES.iter().chain(class.properties);
    let properties = properties
        .filter_map(|property| Some(format!("{property} = {}", value(get(map, key_of(property))?))));
    let properties: Vec<String> = properties.collect();
    if !properties.is_empty() {
        let _ = write!(out, " {{ {} }}", properties.join(", "));
    }
    Ok(())
}

/// Writes the options of a choice, or the fields of a composite or variant.
fn list(items: &[Node], name: &str, is_choice: bool, indent: usize, out: &mut String) -> Result<(), String> {
    if is_choice {
        for item in items {
            let _ = write!(out, ", {}", value(item));
        }
        return Ok(());
    }
    if items.is_empty() {
        return Ok(());
    }
    let margin = "    ".repeat(indent);
    let _ = writeln!(out, ", new JsonField[]\n{margin}{{");
    for item in items {
        let Node::Map(map) = item else { continue };
        let Some(Node::String(inner)) = get(map, "name") else {
            return Err(format!("{name}: a structure has no name, which every constructor needs"));
        };
        let _ = write!(out, "{margin}    ");
        field(map, inner, indent + 1, out)?;
        out.push_str(",\n");
    }
    let _ = write!(out, "{margin}}}");
    Ok(())
}

/// Returns the type argument for an option or for the options of a choice.
fn type_argument(values: Option<&Node>) -> &'static str {
    let values = match values {
        Some(Node::List(items)) => items.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    };
    let all = |is_type: fn(&Node) -> bool| values.iter().all(is_type);
    if all(|value| matches!(value, Node::String(_))) {
        "<string>"
    } else if all(|value| matches!(value, Node::Boolean(_))) {
        "<bool>"
    } else if all(|value| matches!(value, Node::Integer(_))) {
        "<long>"
    } else if all(|value| matches!(value, Node::Integer(_) | Node::Number(_))) {
        "<double>"
    } else {
        "<object>"
    }
}

fn value(node: &Node) -> String {
    match node {
        Node::String(text) => literal(text),
        Node::Boolean(value) => value.to_string(),
        Node::Integer(value) => value.to_string(),
        Node::Number(value) => value.to_string(),
        // Weights are the only list that reaches this place.
        Node::List(items) => {
            let items: Vec<String> = items.iter().map(value).collect();
            format!("new double[] {{ {} }}", items.join(", "))
        }
        Node::Null | Node::Map(_) => String::new(),
    }
}
