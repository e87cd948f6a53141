//! Conversion of a parsed tree to a definition. Unknown keys are rejected.

use crate::builder::DefinitionBuilder;
use crate::characters;
use crate::decimal::DECIMALS;
use crate::error::{FieldsError, Problem};
use crate::field::{
    Array, Branch, Choice, Composite, Float, Int, Kind, Member, Scalar, Template, Text, Variant,
};
use crate::node::Node;
use crate::path::Path;

/// Maximum nesting depth of fields.
///
/// A level of fields takes up to two levels of JSON, and `definitions` takes two more. A definition
/// therefore stays within the default limit of `serde_json`, which is 127 levels. References can
/// lead deeper, so code that follows references has separate limits.
pub(crate) const NESTING: usize = 60;

/// Values of the key `type`. Each is followed by the other keys that a field of this type accepts.
const TYPES: [(&str, &[&str]); 11] = [
    ("int", &["min", "max"]),
    ("float", &["min", "max", "decimals"]),
    ("string", &["min_length", "max_length", "characters"]),
    ("choice", &["options", "weights"]),
    ("boolean", &[]),
    ("constant", &["value"]),
    ("composite", &["fields"]),
    ("variant", &["variants", "untagged", "weights"]),
    ("template", &["template", "min_length", "max_length", "characters"]),
    ("array", &["element", "min_items", "max_items"]),
    ("ref", &["to"]),
];

type Read<T> = Result<T, FieldsError>;

/// Converts the tree of a whole definition file.
pub(crate) fn definition(node: Node) -> Read<DefinitionBuilder> {
    let path = Path::root();
    let mut keys = Keys::new(node, &path)?;
    let name = keys.string("name")?;
    let definitions = match keys.take("definitions") {
        None => Vec::new(),
        Some(Node::Map(map)) => map,
        Some(other) => return Err(keys.expected("definitions", "a map", &other)),
    };
    let root = keys.kind(&["name", "definitions"])?;
    let definition = |(name, node): (String, Node)| -> Read<(String, Kind)> {
        let kind = Keys::new(node, &Path::definition(&name))?.kind(&[])?;
        Ok((name, kind))
    };
    let definitions = definitions.into_iter().map(definition).collect::<Read<_>>()?;
    Ok(DefinitionBuilder { name, root, definitions })
}

/// Keys of a map that have not been read yet.
struct Keys<'p> {
    path: &'p Path<'p>,
    map: Vec<(String, Node)>,
}

impl<'p> Keys<'p> {
    fn new(node: Node, path: &'p Path<'p>) -> Read<Self> {
        if path.depth() > NESTING {
            return Err(path.error(Problem::Nesting { limit: NESTING }));
        }
        match node {
            Node::Map(map) => Ok(Self { path, map }),
            other => {
                let found = other.what();
                let expected = "a map with the keys of a field";
                Err(path.error(Problem::NoField { expected, found }))
            }
        }
    }

    /// Reads a kind from the remaining keys. `besides` lists keys that the caller reads itself, so
    /// that error messages can name all accepted keys.
    fn kind(mut self, besides: &[&str]) -> Read<Kind> {
        let description = self.string("description")?;
        let given = match self.string("type")? {
            Some(given) => given,
            // The type may be omitted if there is a `fields` key.
            None if self.map.iter().any(|(key, _)| key == "fields") => "composite".to_owned(),
            None => return Err(self.path.error(Problem::Missing { key: "type" })),
        };
        let Some(&(name, keys)) = TYPES.iter().find(|(name, _)| *name == given) else {
            let known = listed(TYPES.iter().map(|(name, _)| *name));
            return Err(self.path.error(Problem::UnknownType { given, known }));
        };
        let unknown = self.map.iter().find(|(key, _)| !keys.contains(&key.as_str()));
        if let Some((key, _)) = unknown {
            let known = listed(["type", "description"].iter().chain(besides).chain(keys).copied());
            return Err(self.path.error(Problem::UnknownKey { key: key.clone(), owner: name, known }));
        }
        let kind = self.of_type(name)?;
        Ok(match description {
            Some(description) => kind.describe(description),
            None => kind,
        })
    }

    fn of_type(mut self, name: &str) -> Read<Kind> {
        Ok(match name {
            "int" => Int { min: self.integer("min")?, max: self.integer("max")? }.into(),
            "float" => {
                let (min, max) = (self.number("min")?, self.number("max")?);
                let decimals = self.count("decimals")?.map(|count| self.decimals(count)).transpose()?;
                Float { min, max, decimals }.into()
            }
            "string" => self.text()?.into(),
            "choice" => self.choice()?.into(),
            "boolean" => Kind::Boolean,
            "constant" => {
                let value = self.required("value")?;
                self.scalar("value", value)?.into()
            }
            "composite" => self.composite()?.into(),
            "variant" => self.variant()?.into(),
            "template" => {
                let template = self.string("template")?;
                let template =
                    template.ok_or_else(|| self.path.error(Problem::Missing { key: "template" }))?;
                Template { template, text: self.text()? }.into()
            }
            "array" => {
                let element = self.required("element")?;
                let element = Keys::new(element, &self.path.element())?.kind(&[])?;
                let (min, max) = (self.count("min_items")?, self.count("max_items")?);
                Array { element: Box::new(element), min_items: min.unwrap_or(0), max_items: max }.into()
            }
            _ => {
                let to = self.string("to")?;
                Kind::Ref(to.ok_or_else(|| self.path.error(Problem::Missing { key: "to" }))?)
            }
        })
    }

    fn decimals(&self, given: usize) -> Read<u32> {
        let given = given as u64;
        let too_many = |_| self.path.error(Problem::Decimals { given, limit: DECIMALS });
        u32::try_from(given).map_err(too_many)
    }

    fn text(&mut self) -> Read<Text> {
        let characters = self.string("characters")?;
        let characters = characters.map(|source| characters::parse(&source)).transpose();
        let characters = characters.map_err(|problem| self.path.error(Problem::Characters(problem)))?;
        let min_length = self.count("min_length")?.unwrap_or(0);
        Ok(Text { min_length, max_length: self.count("max_length")?, characters })
    }

    fn choice(&mut self) -> Read<Choice> {
        let options =
            self.list("options")?.ok_or_else(|| self.path.error(Problem::Missing { key: "options" }))?;
        let options =
            options.into_iter().map(|option| self.scalar("options", option)).collect::<Read<Vec<_>>>()?;
        let weights = self.weights(|weights| Problem::Weights { weights, options: options.len() })?;
        Ok(Choice { options, weights })
    }

    /// Reads the key `weights`. An empty list is an error, because it would not be written again.
    fn weights(&mut self, wrong_count: impl Fn(usize) -> Problem) -> Read<Vec<f64>> {
        let Some(weights) = self.list("weights")? else { return Ok(Vec::new()) };
        if weights.is_empty() {
            return Err(self.path.error(wrong_count(0)));
        }
        weights.into_iter().map(|weight| self.to_number("weights", weight)).collect()
    }

    fn composite(&mut self) -> Read<Composite> {
        let fields =
            self.list("fields")?.ok_or_else(|| self.path.error(Problem::Missing { key: "fields" }))?;
        let member = |(index, node): (usize, Node)| {
            let name = name_of(&node);
            let path = self.path.name_or_index(name.as_deref(), index);
            let mut keys = Keys::new(node, &path)?;
            let name = keys.string("name")?.ok_or_else(|| path.error(Problem::Missing { key: "name" }))?;
            let optional = keys.boolean("optional")?;
            let probability = keys.number("probability")?;
            let kind = keys.kind(&["name", "optional", "probability"])?;
            Ok(Member { name, kind, optional, probability })
        };
        Ok(Composite { fields: fields.into_iter().enumerate().map(member).collect::<Read<_>>()? })
    }

    fn variant(&mut self) -> Read<Variant> {
        let variants =
            self.list("variants")?.ok_or_else(|| self.path.error(Problem::Missing { key: "variants" }))?;
        let branch = |(index, node): (usize, Node)| {
            let name = name_of(&node);
            let path = self.path.name_or_index(name.as_deref(), index);
            let mut keys = Keys::new(node, &path)?;
            Ok(Branch { name: keys.string("name")?, kind: keys.kind(&["name"])? })
        };
        let variants = variants.into_iter().enumerate().map(branch).collect::<Read<Vec<_>>>()?;
        let structures = variants.len();
        let weights = self.weights(|weights| Problem::StructureWeights { weights, structures })?;
        Ok(Variant { variants, untagged: self.boolean("untagged")?, weights })
    }

    fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.map.iter().position(|(known, _)| known == key)?;
        Some(self.map.remove(at).1)
    }

    fn required(&mut self, key: &'static str) -> Read<Node> {
        self.take(key).ok_or_else(|| self.path.error(Problem::Missing { key }))
    }

    fn string(&mut self, key: &'static str) -> Read<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Node::String(value)) => Ok(Some(value)),
            Some(other) => Err(self.expected(key, "a string", &other)),
        }
    }

    fn boolean(&mut self, key: &'static str) -> Read<bool> {
        match self.take(key) {
            None => Ok(false),
            Some(Node::Boolean(value)) => Ok(value),
            Some(other) => Err(self.expected(key, "a boolean", &other)),
        }
    }

    fn integer(&mut self, key: &'static str) -> Read<Option<i64>> {
        match self.take(key) {
            None => Ok(None),
            Some(Node::Integer(value)) => Ok(Some(value)),
            Some(other) => Err(self.expected(key, "a 64-bit integer", &other)),
        }
    }

    /// Reads an optional integer that must not be negative.
    fn count(&mut self, key: &'static str) -> Read<Option<usize>> {
        let given = self.integer(key)?;
        let count = |given: i64| {
            usize::try_from(given).map_err(|_| self.path.error(Problem::Negative { key, given }))
        };
        given.map(count).transpose()
    }

    fn number(&mut self, key: &'static str) -> Read<Option<f64>> {
        self.take(key).map(|node| self.to_number(key, node)).transpose()
    }

    fn to_number(&self, key: &'static str, node: Node) -> Read<f64> {
        match node {
            // An integer that is rounded here has too many digits and is rejected later.
            Node::Integer(value) => Ok(value as f64),
            Node::Number(value) => Ok(value),
            other => Err(self.expected(key, "a number", &other)),
        }
    }

    fn list(&mut self, key: &'static str) -> Read<Option<Vec<Node>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Node::List(items)) => Ok(Some(items)),
            Some(other) => Err(self.expected(key, "a list", &other)),
        }
    }

    fn scalar(&self, key: &'static str, node: Node) -> Read<Scalar> {
        match node {
            Node::Boolean(value) => Ok(value.into()),
            Node::Integer(value) => Ok(value.into()),
            Node::Number(value) => Ok(value.into()),
            Node::String(value) => Ok(value.into()),
            other => Err(self.expected(key, "a string, a number or a boolean", &other)),
        }
    }

    fn expected(&self, key: &'static str, expected: &'static str, found: &Node) -> FieldsError {
        self.path.error(Problem::Expected { key, expected, found: found.what() })
    }
}

/// Returns the value of the key `name` in the map of a member or structure, for use in paths.
/// Returns `None` if the key is missing or its value is not a string.
fn name_of(node: &Node) -> Option<String> {
    let Node::Map(map) = node else { return None };
    map.iter().find_map(|(key, value)| match value {
        Node::String(name) if key == "name" && !name.is_empty() => Some(name.clone()),
        _ => None,
    })
}

/// Formats names as a list in backquotes for an error message.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
