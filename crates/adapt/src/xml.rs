//! Reading of XML elements as JSON, with the types of the schema.
//!
//! ```text
//! <order><item>lamp</item><zip>01234</zip><tags><tag>new</tag></tags></order>
//! {"item":"lamp","zip":"01234","tags":["new"]}
//! ```
//!
//! Each element must be a property that the schema names, so that no text is dropped. A text
//! becomes the type of its property: a string keeps its leading zeros, and a number must be written
//! as in JSON. If several types are possible, or an element has attributes, nothing is read.
//!
//! A list is written as repeated elements, or as one element with an element for each item.

use roxmltree::{Document as Xml, Node, ParsingOptions};
use serde_json::{Map, Value};

use super::tape::{Document, Tape, number_length};
use super::{Adapter, schema, thoughts};

/// Maximum number of elements and texts.
const NODES: u32 = 1 << 17;

/// Reads the XML in a text. Returns `None` if the text has none, or if the value does not match the
/// schema.
pub(super) fn read(adapter: &Adapter, text: &str) -> Option<Document> {
    if !text.contains("</") {
        return None;
    }
    let body = thoughts::without_thoughts(text);
    let begins =
        |(at, _): &(usize, &str)| body[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let start = body.match_indices('<').find(begins)?.0;
    let end = body.rfind('>')? + 1;
    let before = body.get(..start)?.replace("<?xml ", "");
    if start >= end || [&before, body.get(end..)?].iter().any(|text| text.contains(['{', '[', '<'])) {
        return None;
    }
    let wrapped = format!("<all>{}</all>", &body[start..end]);
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES, ..ParsingOptions::default() };
    let xml = Xml::parse_with_options(&wrapped, options).ok()?;
    let all = xml.root_element();
    let depth = adapter.options().limits.max_depth;
    let reader = Reader { root: &adapter.schema };
    // The elements are the members, or the only element has the members.
    let inner = elements(all)?;
    let mut nodes = vec![all];
    nodes.extend(inner.first().filter(|_| inner.len() == 1));
    let mut read = nodes.into_iter().filter_map(|node| {
        let json = reader.object(&adapter.schema, node, depth)?;
        let tape = Tape::parse(&json, adapter.options().syntax()).ok()?;
        tape.is_valid(&adapter.on_tapes).then(|| tape.into_document())
    });
    let found = read.next()?;
    read.next().is_none().then_some(found)
}

struct Reader<'s> {
    root: &'s Value,
}

impl Reader<'_> {
    /// Renders the elements in a node as an object.
    fn object(&self, schema: &Value, node: Node<'_, '_>, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let properties: Map<String, Value> = schema::properties(self.root, schema)
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), schema.clone()))
            .collect();
        let mut members: Vec<(&str, Vec<Node<'_, '_>>)> = Vec::new();
        for element in elements(node)? {
            let name = element.tag_name().name();
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some((_, elements)) => elements.push(element),
                None => members.push((name, vec![element])),
            }
        }
        let members: Option<Vec<String>> = members
            .into_iter()
            .map(|(name, elements)| {
                let value = self.member(properties.get(name)?, &elements, depth)?;
                Some(format!("{}:{value}", Value::from(name)))
            })
            .collect();
        Some(format!("{{{}}}", members?.join(",")))
    }

    /// Renders the elements with the name of a property.
    fn member(&self, schema: &Value, elements: &[Node<'_, '_>], depth: usize) -> Option<String> {
        let schema = schema::resolved(self.root, schema);
        let depth = depth.checked_sub(1)?;
        if self.types(schema, depth)? != ["array"] {
            let [element] = elements else { return None };
            return self.value(schema, *element, depth);
        }
        let items = match elements {
            [list] => self::elements(*list).filter(|items| !items.is_empty())?,
            several => several.to_vec(),
        };
        let name = items.first()?.tag_name().name();
        if items.iter().any(|item| item.tag_name().name() != name) {
            return None;
        }
        let item = schema.get("items")?;
        let items: Option<Vec<String>> =
            items.into_iter().map(|node| self.value(item, node, depth)).collect();
        Some(format!("[{}]", items?.join(",")))
    }

    /// Renders an element that is no list.
    fn value(&self, schema: &Value, element: Node<'_, '_>, depth: usize) -> Option<String> {
        let schema = schema::resolved(self.root, schema);
        let types = self.types(schema, depth)?;
        if types == ["object"] {
            return self.object(schema, element, depth);
        }
        if element.children().any(|child| child.is_element()) {
            return None;
        }
        let text = element.text().unwrap_or_default();
        let word = text.trim();
        let is_number = number_length(word.as_bytes()).filter(|(length, _)| *length == word.len());
        let mut values = types.iter().filter_map(|name| match *name {
            "string" => Some(Value::from(content(text)).to_string()),
            "integer" => is_number.filter(|(_, is_integer)| *is_integer).map(|_| word.to_owned()),
            "number" => is_number.map(|_| word.to_owned()),
            "boolean" => Some(word.to_owned()).filter(|word| word == "true" || word == "false"),
            "null" => Some("null".to_owned()).filter(|_| word.is_empty() || word == "null"),
            _ => None,
        });
        let value = values.next()?;
        values.all(|other| other == value).then_some(value)
    }

    /// Returns the types that the schema names, without repetition. Returns `None` if it names none.
    fn types<'a>(&'a self, schema: &'a Value, depth: usize) -> Option<Vec<&'a str>> {
        let depth = depth.checked_sub(1)?;
        let schema = schema::resolved(self.root, schema);
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        let mut types: Vec<&str> = if let Some(kind) = schema.get("type") {
            match kind {
                Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
                kind => vec![kind.as_str()?],
            }
        } else if let Some(value) = schema.get("const") {
            vec![super::chain::type_of(value)]
        } else if let Some(values) = list("enum") {
            values.iter().map(super::chain::type_of).collect()
        } else if let Some(branches) = list("anyOf").or_else(|| list("oneOf")) {
            let types: Option<Vec<_>> = branches.iter().map(|branch| self.types(branch, depth)).collect();
            types?.concat()
        } else {
            vec![schema::kind(self.root, schema)?]
        };
        types.sort_unstable();
        types.dedup();
        Some(types)
    }
}

/// Returns the elements in a node. Returns `None` if there is other text or an attribute.
fn elements<'a, 'input>(node: Node<'a, 'input>) -> Option<Vec<Node<'a, 'input>>> {
    let is_part = |child: &Node<'_, '_>| {
        (child.is_element() && child.attributes().len() == 0)
            || child.is_comment()
            || child.text().is_some_and(|text| text.trim().is_empty())
    };
    node.children().all(|child| is_part(&child)).then(|| node.children().filter(Node::is_element).collect())
}

/// Returns the text of a string without the line breaks between its tags.
fn content(text: &str) -> &str {
    let inner = text.trim();
    let blanks = text.len() - text.trim_start().len();
    if text[..blanks].contains('\n') { inner } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AdaptOptions, Tolerance};

    fn adapter() -> Adapter {
        let schema = json!({
            "type": "object",
            "properties": {
                "item": { "type": "string" },
                "zip": { "type": "string" },
                "quantity": { "type": "integer" },
                "gift": { "type": "boolean" },
                "notes": { "type": ["string", "null"] },
                "tags": { "type": "array", "items": { "type": "string" } },
                "to": { "type": "object", "properties": { "name": { "type": "string" } } },
                "mixed": { "type": ["string", "integer"] },
            },
            "required": ["item"],
            "additionalProperties": false,
        });
        Adapter::new(&schema, AdaptOptions::full().with_tolerance(Tolerance::Json5)).expect("a schema")
    }

    #[test]
    fn elements_have_the_types_of_the_schema() {
        for (text, value) in [
            (
                "<order><item>lamp</item><zip>01234</zip><quantity> 2 </quantity></order>",
                json!({ "item": "lamp", "zip": "01234", "quantity": 2 }),
            ),
            (
                "Here is the order:\n<?xml version=\"1.0\"?>\n<order>\n  <item>salt &amp; pepper</item>\n  <gift>true</gift>\n</order>\nEnjoy!",
                json!({ "item": "salt & pepper", "gift": true }),
            ),
            ("```xml\n<item>a</item><quantity>1</quantity>\n```", json!({ "item": "a", "quantity": 1 })),
            (
                "<o><item>a</item><tags><tag>x</tag><tag>2</tag></tags><to><name>Emma</name></to></o>",
                json!({ "item": "a", "tags": ["x", "2"], "to": { "name": "Emma" } }),
            ),
            ("<o><item>a</item><tags>x</tags><tags>y</tags></o>", json!({ "item": "a", "tags": ["x", "y"] })),
            ("<o><item><![CDATA[a < {b}]]></item></o>", json!({ "item": "a < {b}" })),
            ("<think>so</think><o><item>\n  a\n  b\n</item></o>", json!({ "item": "a\n  b" })),
        ] {
            let adaptation = adapter().adapt(text);
            assert_eq!(adaptation.value(), Some(&value), "{text}: {:?}", adaptation.violations());
            assert_eq!(adaptation.transforms().collect::<Vec<_>>(), ["xml"], "{text}");
        }
    }

    #[test]
    fn reads_nothing_that_would_be_dropped_or_guessed() {
        let deep = format!("<o><item>{}x{}</item></o>", "<a>".repeat(1 << 16), "</a>".repeat(1 << 16));
        for text in [
            "<o><item>a</item><color>red</color></o>",
            "<o><item id=\"7\">a</item></o>",
            "<o>so <item>a</item></o>",
            "<o><item>a</item><quantity>2.5</quantity></o>",
            "<o><item>a</item><quantity>two</quantity></o>",
            "<o><item>a</item><item>b</item></o>",
            "<o><item>a</item><mixed>5</mixed></o>",
            "<o><item>a</item><notes></notes></o>",
            "<o><item>a</item><tags>x, y</tags></o>",
            "<o><item>a</item></p>",
            "<o><item>a",
            "<o><quantity>2</quantity></o>",
            &deep,
        ] {
            assert!(!adapter().adapt(text).is_valid(), "{}", &text[..40.min(text.len())]);
        }
        let strict = Adapter::new(adapter().schema(), AdaptOptions::full()).expect("a schema");
        assert!(!strict.adapt("<o><item>a</item></o>").is_valid());
    }
}
