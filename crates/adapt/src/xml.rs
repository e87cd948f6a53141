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
//! A list is written as repeated elements, or as one element with an element for each item. Members
//! without a common element around them must be the whole text, except for a fence.

use std::collections::{HashMap, HashSet};

use roxmltree::{Document as Xml, Node, ParsingOptions};
use serde_json::Value;

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
    if !has_plain_tags(&body[start..end]) {
        return None;
    }
    let is_alone = is_fence(body.get(..start)?) && is_fence(body.get(end..)?);
    let wrapped = format!("<all>{}</all>", &body[start..end]);
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES, ..ParsingOptions::default() };
    let xml = Xml::parse_with_options(&wrapped, options).ok()?;
    let all = xml.root_element();
    let depth = adapter.options().limits.max_depth;
    let reader = Reader { root: &adapter.schema };
    // The elements are the members, or the only element has the members.
    let inner = elements(all)?;
    let mut nodes: Vec<Node<'_, '_>> = Vec::new();
    nodes.extend(is_alone.then_some(all));
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

impl<'s> Reader<'s> {
    /// Renders the elements in a node as an object.
    fn object(&self, schema: &'s Value, node: Node<'_, '_>, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let properties: HashMap<&str, &Value> = schema::properties(self.root, schema).into_iter().collect();
        let mut members: Vec<(&str, &Value, Vec<Node<'_, '_>>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for element in elements(node)? {
            let (&name, &schema) = properties.get_key_value(element.tag_name().name())?;
            let place = *places.entry(name).or_insert(members.len());
            match members.get_mut(place) {
                Some((.., elements)) => elements.push(element),
                None => members.push((name, schema, vec![element])),
            }
        }
        let members: Option<Vec<String>> = members
            .into_iter()
            .map(|(name, schema, elements)| {
                let value = self.member(schema, &elements, depth)?;
                Some(format!("{}:{value}", Value::from(name)))
            })
            .collect();
        Some(format!("{{{}}}", members?.join(",")))
    }

    /// Renders the elements with the name of a property.
    fn member(&self, schema: &'s Value, elements: &[Node<'_, '_>], depth: usize) -> Option<String> {
        let schema = schema::resolved(self.root, schema);
        let depth = depth.checked_sub(1)?;
        if self.types(schema)? != ["array"] {
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
    fn value(&self, schema: &'s Value, element: Node<'_, '_>, depth: usize) -> Option<String> {
        let schema = schema::resolved(self.root, schema);
        let types = self.types(schema)?;
        if types == ["object"] {
            return self.object(schema, element, depth);
        }
        // A comment between two texts would hide the second one.
        let mut children = element.children();
        let text = match (children.next(), children.next()) {
            (None, _) => "",
            (Some(child), None) if child.is_text() => child.text()?,
            _ => return None,
        };
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
    fn types(&self, schema: &'s Value) -> Option<Vec<&'s str>> {
        let (mut types, mut known, mut open) = (Vec::new(), HashSet::new(), vec![schema]);
        while let Some(schema) = open.pop() {
            let schema = schema::resolved(self.root, schema);
            if !known.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            let list = |name: &str| schema.get(name).and_then(Value::as_array);
            if let Some(kind) = schema.get("type") {
                match kind {
                    Value::Array(kinds) => types.extend(kinds.iter().filter_map(Value::as_str)),
                    kind => types.push(kind.as_str()?),
                }
            } else if let Some(value) = schema.get("const") {
                types.push(super::chain::type_of(value));
            } else if let Some(values) = list("enum") {
                for value in values {
                    types.push(super::chain::type_of(value));
                }
            } else if let Some(branches) = list("anyOf").or_else(|| list("oneOf")) {
                open.extend(branches);
            } else {
                types.push(schema::kind(self.root, schema)?);
            }
        }
        types.sort_unstable();
        types.dedup();
        Some(types)
    }
}

/// Reports whether no tag has attributes or namespaces. They belong to no property, and many of them
/// would take long to parse.
fn has_plain_tags(xml: &str) -> bool {
    let mut rest = xml;
    while let Some((_, tag)) = rest.split_once('<') {
        let sections = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>")];
        let section = sections.iter().find(|(begin, _)| tag.starts_with(begin));
        let end = section.map_or(">", |(_, end)| end);
        let Some((inside, after)) = tag.split_once(end) else { return false };
        if section.is_none() && inside.contains(['=', '<', ':']) {
            return false;
        }
        rest = after;
    }
    true
}

/// Reports whether the text beside XML is blank or a line of a fence.
fn is_fence(text: &str) -> bool {
    let text = text.trim();
    text.strip_prefix("```").unwrap_or(text).chars().all(char::is_alphanumeric)
        && (text.is_empty() || text.starts_with("```"))
}

/// Returns the elements in a node. Returns `None` if there is other text or an attribute.
fn elements<'a, 'input>(node: Node<'a, 'input>) -> Option<Vec<Node<'a, 'input>>> {
    let is_part = |child: &Node<'_, '_>| {
        (child.is_element() && child.attributes().len() == 0)
            || child.is_comment()
            || (child.is_text() && child.text().is_some_and(|text| text.trim().is_empty()))
    };
    node.children().all(|child| is_part(&child)).then(|| node.children().filter(Node::is_element).collect())
}

/// Returns the text of a string without the line breaks after its opening tag and before its closing
/// tag. Several lines keep their indentation, a single line does not.
fn content(text: &str) -> &str {
    let blanks = text.len() - text.trim_start().len();
    let Some(line) = text[..blanks].rfind('\n') else { return text };
    match text.trim() {
        several if several.contains('\n') => text[line + 1..].trim_end(),
        single => single,
    }
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
            ("<think>so</think><o><item>\n  a\n  b\n</item></o>", json!({ "item": "  a\n  b" })),
            ("<o><!-- b --><item>a</item><!-- c --></o>", json!({ "item": "a" })),
            ("<o><item>\n  a\n</item></o>", json!({ "item": "a" })),
            ("<item>a</item>", json!({ "item": "a" })),
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
            "<o><item>lamp<!-- the --> shade</item></o>",
            "<o><item><!-- the -->lamp</item></o>",
            "<o><item>lamp<?x y?> shade</item></o>",
            "<o><?x y?><item>lamp</item></o>",
            "<o><item>a</item><quantity>2<!-- 3 -->0</quantity></o>",
            "<o><item>a</item><tags><tag>x<!-- y -->z</tag></tags></o>",
            "<o><item>a</item><to id=\"7\"> </to></o>",
            "<o xmlns=\"u\"><item>a</item></o>",
            "<o xmlns:x=\"u\"><x:item>a</x:item></o>",
            "I thought of <item>lamp</item><quantity>2</quantity> but the answer is: chair",
            "I thought of <item>lamp</item> but the answer is: chair",
            "<item>lamp</item> is too dear",
            "```\nIt is\n```\n<item>lamp</item>",
            &deep,
        ] {
            assert!(!adapter().adapt(text).is_valid(), "{}", &text[..40.min(text.len())]);
        }
        let strict = Adapter::new(adapter().schema(), AdaptOptions::full()).expect("a schema");
        assert!(!strict.adapt("<o><item>a</item></o>").is_valid());
    }

    #[test]
    fn reads_hostile_xml_in_linear_time() {
        let many = |count: usize, part: &dyn Fn(usize) -> String| (0..count).map(part).collect::<String>();
        let spaces = many(4000, &|at| format!("<a xmlns:n{at}=\"u{at}\">"));
        let attributes = many(40_000, &|at| format!(" a{at}=\"\""));
        let elements = many(40_000, &|at| format!("<e{at}></e{at}>"));
        let items = many(40_000, &|_| "<tags>x</tags>".to_owned());
        let sections = "<![CDATA[ <!-- ".repeat(40_000);
        for text in [
            format!("<item>{spaces}{}</item>", "</a>".repeat(4000)),
            format!("<o><item{attributes}>x</item></o>"),
            format!("<o>{elements}</o>"),
            format!("<o>{items}</o>"),
            format!("<o><item>{sections}</item></o>"),
            format!("<o>{}</o>", "<!--".repeat(40_000)),
        ] {
            let start = std::time::Instant::now();
            assert!(!adapter().adapt(&text).is_valid());
            assert!(start.elapsed().as_secs() < 2, "{}: {:?}", &text[..40], start.elapsed());
        }
    }

    #[test]
    fn types_of_recursive_branches_take_linear_time() {
        let schema = json!({
            "type": "object",
            "properties": { "item": { "$ref": "#/$defs/any" } },
            "$defs": { "any": { "anyOf": [
                { "$ref": "#/$defs/any" }, { "$ref": "#/$defs/any" }, { "type": "string" },
            ] } },
        });
        assert_eq!(Reader { root: &schema }.types(&schema["$defs"]["any"]), Some(vec!["string"]));
    }
}
