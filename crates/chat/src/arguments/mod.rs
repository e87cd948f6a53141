//! Arguments of calls that are not one JSON text: their layout, and texts of values.

mod find;
mod write;

use std::sync::Arc;

use formwork_grammar::{
    Around, Brackets, Literals, Names, Nested, Notation, Part, RawSection, Strings, ValueType,
};
use formwork_vocab::TokenId;
use serde_json::Value;

pub(crate) use find::{common_prefix, found, whole_tags};
pub(crate) use write::spaced;

use crate::tags::Marked;
use crate::tool::Tool;

/// Layout of the arguments of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Arguments {
    /// One JSON object.
    Json,
    /// Members with texts around them.
    Members {
        /// The layout for the reader.
        layout: Arc<Members>,
        /// The layout for the grammar.
        notation: Arc<Notation>,
    },
}

/// Layout of arguments as members with texts around them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Members {
    /// Text before the first member.
    pub(crate) open: String,
    /// Text between two members.
    pub(crate) separator: String,
    /// The whole text without members.
    pub(crate) empty: String,
    /// Text before a member's name.
    pub(crate) name_open: String,
    /// Texts between the name and the value, and after the value, by [`ValueType`]. The quotes of
    /// strings do not belong to these texts.
    pub(crate) around: [(String, String); 6],
    /// Text after the name that is repeated after the value. `None` if names are not repeated.
    pub(crate) name_close: Option<String>,
    pub(crate) strings: StringForm,
    /// The template's texts of `null`, `false` and `true`.
    pub(crate) literals: [String; 3],
    /// True if the template leaves out members that are `null`.
    pub(crate) omits_null: bool,
    pub(crate) nested: NestedForm,
    /// Name with which items of arrays are written, for [`NestedForm::Tags`].
    pub(crate) item_name: String,
    /// True if the template sorts members by name.
    pub(crate) sorted: bool,
}

/// Form of strings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StringForm {
    /// Raw text that does not contain `end`, the start of the text after the value.
    Raw { end: String, section: Option<Section> },
    /// Raw text between two quotes.
    Quoted { open: String, close: String },
    /// A JSON string.
    Json,
    /// A literal of Python.
    Python,
}

/// A form of raw text for strings with special characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Section {
    pub(crate) open: String,
    pub(crate) close: String,
    /// The special characters.
    pub(crate) special: Vec<char>,
}

/// Form of arrays and objects inside of the arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NestedForm {
    Json,
    /// JSON without spaces between its tokens.
    CompactJson,
    /// Like the arguments, with a comma between items.
    Same,
    /// Literals of Python.
    Python,
    /// Arrays are literals of Python, objects are JSON.
    PythonArrays,
    /// Like the arguments, with items as members of one name.
    Tags,
}

impl Arguments {
    /// Creates arguments with a layout. `controls` are the control tokens of the vocabulary.
    pub(crate) fn of(layout: Members, controls: &[(TokenId, String)]) -> Self {
        Self::Members { notation: Arc::new(layout.notation(controls)), layout: Arc::new(layout) }
    }
}

/// Returns arguments as members. `texts` are the text before a name, between two members, and before and
/// after a value.
pub(crate) fn layout(
    [name_open, separator, before, after]: [&str; 4],
    strings: StringForm,
    literals: [&str; 3],
    nested: NestedForm,
    controls: &[(TokenId, String)],
) -> Arguments {
    let members = Members {
        open: String::new(),
        separator: separator.to_owned(),
        empty: String::new(),
        name_open: name_open.to_owned(),
        around: std::array::from_fn(|_| (before.to_owned(), after.to_owned())),
        name_close: None,
        strings,
        literals: literals.map(str::to_owned),
        omits_null: false,
        nested,
        item_name: String::new(),
        sorted: nested == NestedForm::Same,
    };
    Arguments::of(members, controls)
}

impl Members {
    /// Returns the grammar of the arguments of `tool` in `notation`, which is that of this layout.
    pub(crate) fn part(&self, notation: &Arc<Notation>, tool: &Tool) -> Part {
        let mut schema = Arc::clone(&tool.parameters);
        if self.sorted {
            sort_properties(Arc::make_mut(&mut schema));
        }
        let part = Part::Arguments { schema: schema.into(), notation: Arc::clone(notation) };
        Part::at(tool.place.as_str(), part)
    }

    /// Returns true if the arguments are a dictionary of Python.
    pub(crate) fn is_python_dict(&self) -> bool {
        self.strings == StringForm::Python && self.name_open == "'"
    }

    /// Returns the texts around a value of the type `kind`.
    pub(crate) const fn around(&self, kind: ValueType) -> &(String, String) {
        &self.around[kind as usize]
    }

    /// Returns the text that ends raw strings. Empty if strings are not raw.
    pub(crate) fn end_of_text(&self) -> &str {
        match &self.strings {
            StringForm::Raw { end, .. } => end,
            StringForm::Quoted { .. } | StringForm::Json | StringForm::Python => "",
        }
    }

    /// Returns the layout for the grammar, with the control tokens of the vocabulary.
    fn notation(&self, controls: &[(TokenId, String)]) -> Notation {
        let part = |text: &str| Marked::new(text, controls).part();
        let around =
            self.around.clone().map(|(before, after)| Around { before: part(&before), after: part(&after) });
        let strings = match &self.strings {
            StringForm::Raw { end, section } => {
                let special = section.iter().flat_map(|section| &section.special).map(char::to_string);
                let section = section.clone().map(|Section { open, close, .. }| RawSection { open, close });
                Strings::Raw {
                    avoid: std::iter::once(end.clone()).chain(special).collect(),
                    nested_open: (self.nested == NestedForm::Tags).then(|| self.name_open.clone()),
                    section,
                }
            }
            StringForm::Quoted { open, close } => {
                Strings::Quoted { open: part(open), close: part(close), avoid: vec![close.clone()] }
            }
            StringForm::Json => Strings::Json,
            StringForm::Python => Strings::Python,
        };
        let texts = |found: &String, json: &str| {
            let mut texts = vec![found.clone()];
            texts.extend((found != json).then(|| json.to_owned()));
            texts
        };
        let [null, no, yes] = &self.literals;
        let literals =
            Literals { null: texts(null, "null"), no: texts(no, "false"), yes: texts(yes, "true") };
        let names = match self.strings {
            StringForm::Json | StringForm::Python => Names::Identifiers,
            _ if self.name_close.is_some() => Names::Tags,
            _ => Names::Without(self.reserved()),
        };
        let brackets = |open: &str, separator: &str, close: &str, empty: &str| Brackets {
            open: part(open),
            separator: part(separator),
            close: part(close),
            empty: part(empty),
        };
        let nested = match self.nested {
            NestedForm::Json | NestedForm::CompactJson => Nested::Json,
            NestedForm::Same | NestedForm::Tags => Nested::Same,
            NestedForm::Python => Nested::Other(Box::new(python())),
            NestedForm::PythonArrays => Nested::OtherArrays(Box::new(python())),
        };
        let mut notation = Notation {
            object: brackets(&self.open, &self.separator, "", &self.empty),
            array: brackets("[", ",", "]", "[]"),
            name_open: part(&self.name_open),
            name_close: self.name_close.as_deref().map(part),
            item_name: None,
            names,
            around,
            strings,
            literals,
            nested,
        };
        let inside = match self.nested {
            NestedForm::Same => Notation { object: brackets("{", ",", "}", "{}"), ..notation.clone() },
            NestedForm::Tags => {
                let texts = || brackets("", &self.separator, "", "");
                let item_name = Some(self.item_name.clone());
                Notation { object: texts(), array: texts(), item_name, ..notation.clone() }
            }
            NestedForm::Json | NestedForm::CompactJson | NestedForm::Python | NestedForm::PythonArrays => {
                return notation;
            }
        };
        notation.nested = Nested::Other(Box::new(inside));
        notation
    }

    /// Returns the characters that a name must not contain, because they may end the name.
    fn reserved(&self) -> String {
        let first = self.around.iter().filter_map(|(before, _)| before.chars().next());
        let mut reserved: String = first.collect::<std::collections::BTreeSet<char>>().into_iter().collect();
        if self.nested == NestedForm::Same {
            reserved.push_str(":,{}[]<\"'");
        }
        reserved
    }
}

/// Sorts the declared properties of all subschemas by name, as the filter `dictsort` of templates does.
fn sort_properties(schema: &mut Value) {
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                if let Some(Value::Object(properties)) = members.get_mut("properties") {
                    let mut sorted: Vec<_> = std::mem::take(properties).into_iter().collect();
                    sorted.sort_by_key(|(name, _)| name.to_lowercase());
                    *properties = sorted.into_iter().collect();
                }
                // Values are no schemas.
                let is_schema = |name: &str| !["const", "default", "enum", "examples"].contains(&name);
                open.extend(members.iter_mut().filter(|(name, _)| is_schema(name)).map(|(_, value)| value));
            }
            _ => {}
        }
    }
}

/// Returns the notation of dictionaries and lists of Python.
fn python() -> Notation {
    let text = |text: &str| Part::literal(text);
    let brackets = |open: &str, close: &str| Brackets {
        open: text(open),
        separator: text(", "),
        close: text(close),
        empty: text(&format!("{open}{close}")),
    };
    let one = |text: &str| vec![text.to_owned()];
    Notation {
        object: brackets("{", "}"),
        array: brackets("[", "]"),
        name_open: text("'"),
        name_close: None,
        item_name: None,
        names: Names::Without("'\\".to_owned()),
        around: std::array::from_fn(|_| Around { before: text("': "), after: text("") }),
        strings: Strings::Python,
        literals: Literals { null: one("None"), no: one("False"), yes: one("True") },
        nested: Nested::Same,
    }
}
