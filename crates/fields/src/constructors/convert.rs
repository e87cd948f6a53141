//! Conversion of constructor expressions to the tree that other formats have in common.

use super::parser::{Field, Value, ValueKind};
use super::{Place, Wrong};
use crate::node::Node;
use crate::path::Path;

/// Class of a field.
pub(super) struct Class {
    pub(super) names: &'static [&'static str],
    /// Value of the key `type`.
    pub(super) kind: &'static str,
    /// Parameters of the constructor, in order.
    pub(super) parameters: &'static [&'static str],
    /// Number of parameters that must be given.
    pub(super) required: usize,
    /// Parameter that takes all further arguments.
    pub(super) rest: Option<&'static str>,
    /// Properties that only an initializer can set.
    pub(super) properties: &'static [&'static str],
}

pub(super) const CLASSES: [Class; 10] = [
    Class {
        names: &["CompositeField"],
        kind: "composite",
        parameters: &["Name"],
        required: 1,
        rest: Some("Fields"),
        properties: &[],
    },
    Class {
        names: &["IntField"],
        kind: "int",
        parameters: &["Name", "Min", "Max"],
        required: 3,
        rest: None,
        properties: &[],
    },
    Class {
        names: &["FloatField"],
        kind: "float",
        parameters: &["Name", "Min", "Max", "Decimals"],
        required: 3,
        rest: None,
        properties: &[],
    },
    Class {
        names: &["StringField"],
        kind: "string",
        parameters: &["Name", "MinLength", "MaxLength"],
        required: 3,
        rest: None,
        properties: &["Characters"],
    },
    Class {
        names: &["ChoiceField"],
        kind: "choice",
        parameters: &["Name"],
        required: 1,
        rest: Some("Options"),
        properties: &["Weights"],
    },
    Class {
        names: &["VariantField"],
        kind: "variant",
        parameters: &["Name"],
        required: 1,
        rest: Some("Variants"),
        properties: &["Untagged", "Weights"],
    },
    Class {
        names: &["TemplateStringField"],
        kind: "template",
        parameters: &["Name", "Template", "MinGenLength", "MaxGenLength"],
        required: 4,
        rest: None,
        properties: &["Characters"],
    },
    Class {
        names: &["ArrayField", "ListField"],
        kind: "array",
        parameters: &["Name", "Element", "MinItems", "MaxItems"],
        required: 2,
        rest: None,
        properties: &[],
    },
    Class {
        names: &["BoolField", "BooleanField"],
        kind: "boolean",
        parameters: &["Name"],
        required: 1,
        rest: None,
        properties: &[],
    },
    Class {
        names: &["ConstantField"],
        kind: "constant",
        parameters: &["Name", "Value"],
        required: 2,
        rest: None,
        properties: &[],
    },
];

/// Properties of every field.
pub(super) const PROPERTIES: [&str; 3] = ["Description", "Optional", "Probability"];

/// Names of parameters and properties, each with its key.
pub(super) const KEYS: [(&str, &str); 21] = [
    ("Name", "name"),
    ("Min", "min"),
    ("Max", "max"),
    ("Decimals", "decimals"),
    ("MinLength", "min_length"),
    ("MaxLength", "max_length"),
    ("MinGenLength", "min_length"),
    ("MaxGenLength", "max_length"),
    ("Characters", "characters"),
    ("Options", "options"),
    ("Weights", "weights"),
    ("Fields", "fields"),
    ("Variants", "variants"),
    ("Untagged", "untagged"),
    ("Template", "template"),
    ("Element", "element"),
    ("MinItems", "min_items"),
    ("MaxItems", "max_items"),
    ("Description", "description"),
    ("Optional", "optional"),
    ("Probability", "probability"),
];

/// Places of all fields by path, as error messages write the path.
pub(super) type Places = Vec<(String, Place)>;

/// Returns the tree of a whole definition.
pub(super) fn definition(root: Value) -> Result<(Node, Places), Wrong> {
    let mut places = Places::new();
    let node = field(root, &Path::root(), &mut places)?;
    Ok((node, places))
}

/// Parameters that have been given, in the order of the text.
type Given = Vec<(&'static str, Place, Value)>;

fn field(value: Value, path: &Path<'_>, places: &mut Places) -> Result<Node, Wrong> {
    let place = value.place;
    let ValueKind::Field(field) = value.kind else {
        return Err(Wrong::new(place, format!("expected a field, found {}", value.kind.what())));
    };
    places.push((path.to_string(), place));
    let Some(class) = CLASSES.iter().find(|class| class.names.contains(&field.class.as_str())) else {
        let known: Vec<&str> = CLASSES.iter().map(|class| class.names[0]).collect();
        let message = format!("unknown type `{}`; expected one of {}", field.class, known.join(", "));
        return Err(Wrong::new(place, message));
    };
    let given = given(class, field, place)?;
    let mut map = vec![("type".to_owned(), Node::String(class.kind.to_owned()))];
    for (parameter, _, value) in given {
        let key = KEYS.iter().find(|(name, _)| *name == parameter).map_or("value", |(_, key)| key);
        let node = match parameter {
            "Name" => {
                let ValueKind::String(name) = value.kind else {
                    return Err(Wrong::new(
                        value.place,
                        format!("Name: expected a string, found {}", value.kind.what()),
                    ));
                };
                Node::String(name)
            }
            "Fields" | "Variants" => fields(value, path, places)?,
            // The name of an element has no use, because items of lists have no names.
            "Element" => without_name(self::field(value, &path.element(), places)?),
            _ => {
                expect(&value, parameter, class)?;
                literal(value, parameter)?
            }
        };
        map.push((key.to_owned(), node));
    }
    Ok(Node::Map(map))
}

/// Assigns the arguments and properties of a field to parameters.
fn given(class: &Class, field: Field, place: Place) -> Result<Given, Wrong> {
    let mut given = Given::new();
    let mut rest = Vec::new();
    for (index, (name, value)) in field.arguments.into_iter().enumerate() {
        let parameter = match &name {
            Some(name) => {
                let known =
                    class.parameters.iter().chain(&class.rest).find(|known| known.eq_ignore_ascii_case(name));
                let known = known.ok_or_else(|| unknown(class, &field.class, name, value.place))?;
                Some(*known)
            }
            None => class.parameters.get(index).copied(),
        };
        match (parameter, class.rest) {
            (Some(parameter), _) => add(&mut given, parameter, value.place, value)?,
            (None, Some(_)) => rest.push(value),
            (None, None) => {
                let message =
                    format!("too many arguments; {} has {}", field.class, class.parameters.join(", "));
                return Err(Wrong::new(value.place, message));
            }
        }
    }
    for (name, place, value) in field.properties {
        let known = class.parameters.iter().chain(&class.rest).chain(class.properties).chain(&PROPERTIES);
        let known = known.copied().find(|known| *known == name);
        let known = known.ok_or_else(|| unknown(class, &field.class, &name, place))?;
        add(&mut given, known, place, value)?;
    }
    if let Some(list) = class.rest
        && (!rest.is_empty() || given.iter().all(|(name, _, _)| *name != list))
    {
        // All further arguments are the items, or the only one is a list of the items.
        let value = match rest.len() {
            1 if matches!(rest[0].kind, ValueKind::List(_)) => rest.remove(0),
            _ => Value::list(place, rest),
        };
        add(&mut given, list, value.place, value)?;
    }
    let missing = class.parameters[..class.required]
        .iter()
        .find(|name| given.iter().all(|(known, _, _)| known != *name));
    match missing {
        Some(name) => Err(Wrong::new(place, format!("{} needs the argument {name}", field.class))),
        None => Ok(given),
    }
}

fn add(given: &mut Given, parameter: &'static str, place: Place, value: Value) -> Result<(), Wrong> {
    if given.iter().any(|(known, _, _)| *known == parameter) {
        return Err(Wrong::new(place, format!("{parameter} is given twice")));
    }
    given.push((parameter, place, value));
    Ok(())
}

fn unknown(class: &Class, name: &str, given: &str, place: Place) -> Wrong {
    let known = class.parameters.iter().chain(&class.rest).chain(class.properties).chain(&PROPERTIES);
    let known: Vec<&str> = known.copied().collect();
    Wrong::new(place, format!("unknown property `{given}`; {name} has {}", known.join(", ")))
}

fn fields(value: Value, path: &Path<'_>, places: &mut Places) -> Result<Node, Wrong> {
    let ValueKind::List(items) = value.kind else {
        return Err(Wrong::new(
            value.place,
            format!("expected a list of fields, found {}", value.kind.what()),
        ));
    };
    let mut nodes = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let name = name_of(&item);
        nodes.push(field(item, &path.name_or_index(name.as_deref(), index), places)?);
    }
    Ok(Node::List(nodes))
}

/// Returns the name of a field, which is its first argument or the argument or property `Name`.
fn name_of(value: &Value) -> Option<String> {
    let ValueKind::Field(field) = &value.kind else { return None };
    let named = |name: &str| name.eq_ignore_ascii_case("Name");
    let first = field.arguments.first().filter(|(name, _)| name.is_none()).map(|(_, value)| value);
    let argument = || {
        field.arguments.iter().find(|(name, _)| name.as_deref().is_some_and(named)).map(|(_, value)| value)
    };
    let property = || field.properties.iter().find(|(name, _, _)| named(name)).map(|(_, _, value)| value);
    match &first.or_else(argument).or_else(property)?.kind {
        ValueKind::String(name) if !name.is_empty() => Some(name.clone()),
        _ => None,
    }
}

/// Checks the type of a literal.
fn expect(value: &Value, parameter: &str, class: &Class) -> Result<(), Wrong> {
    let is_integer = matches!(value.kind, ValueKind::Integer(_));
    let (is_right, expected) = match parameter {
        "Min" | "Max" if class.kind == "int" => (is_integer, "an integer"),
        "Min" | "Max" | "Probability" => {
            (is_integer || matches!(value.kind, ValueKind::Number(_)), "a number")
        }
        "Decimals" | "MinLength" | "MaxLength" | "MinGenLength" | "MaxGenLength" | "MinItems"
        | "MaxItems" => (is_integer, "an integer"),
        "Template" | "Description" | "Characters" => (matches!(value.kind, ValueKind::String(_)), "a string"),
        "Optional" | "Untagged" => (matches!(value.kind, ValueKind::Boolean(_)), "a boolean"),
        _ => (true, ""),
    };
    if is_right {
        return Ok(());
    }
    Err(Wrong::new(value.place, format!("{parameter}: expected {expected}, found {}", value.kind.what())))
}

fn without_name(node: Node) -> Node {
    let Node::Map(map) = node else { return node };
    Node::Map(map.into_iter().filter(|(key, _)| key != "name").collect())
}

fn literal(value: Value, parameter: &str) -> Result<Node, Wrong> {
    Ok(match value.kind {
        ValueKind::String(text) => Node::String(text),
        ValueKind::Integer(value) => Node::Integer(value),
        ValueKind::Number(value) => Node::Number(value),
        ValueKind::Boolean(value) => Node::Boolean(value),
        ValueKind::List(items) => {
            Node::List(items.into_iter().map(|item| literal(item, parameter)).collect::<Result<_, _>>()?)
        }
        ValueKind::Field(_) => {
            return Err(Wrong::new(value.place, format!("{parameter}: expected a literal, found a field")));
        }
    })
}
