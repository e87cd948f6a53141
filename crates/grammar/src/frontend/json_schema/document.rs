use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::read::Keyword;
use super::{Problem, child_pointer};
use crate::error::SchemaProblem;
use crate::ledger::Ledger;

/// A draft of JSON Schema. Later ones compare greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

impl Draft {
    /// What `$schema` names it by.
    pub(super) const fn uri(self) -> &'static str {
        match self {
            Self::D4 => "http://json-schema.org/draft-04/schema#",
            Self::D6 => "http://json-schema.org/draft-06/schema#",
            Self::D7 => "http://json-schema.org/draft-07/schema#",
            Self::D2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::D2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    /// The draft that a `$schema` names, if it is a known one.
    fn named(uri: &str) -> Option<Self> {
        let uri = uri.trim_end_matches('#');
        let rest = uri.strip_prefix("http://").or_else(|| uri.strip_prefix("https://"))?;
        match rest.strip_prefix("json-schema.org/")? {
            "draft-04/schema" => Some(Self::D4),
            "draft-06/schema" => Some(Self::D6),
            "draft-07/schema" => Some(Self::D7),
            "draft/2019-09/schema" => Some(Self::D2019),
            "draft/2020-12/schema" | "schema" => Some(Self::D2020),
            _ => None,
        }
    }
}

/// Schema documents by the URI that they are found at.
pub type Remotes = BTreeMap<String, Value>;

/// A schema document and those that it refers to, with their identifiers, so that references can be followed.
///
/// A place is a JSON pointer from the root of the document, or of another one after its URI and a `#`.
pub(super) struct Document<'a> {
    root: &'a Value,
    remotes: &'a Remotes,
    /// By absolute URI without fragment.
    resources: FxHashMap<String, String>,
    /// By the URI of the resource and the name.
    anchors: FxHashMap<(String, String), String>,
    /// By the URI of a resource, the names of its dynamic anchors; [`RECURSIVE`] for `$recursiveAnchor`.
    dynamic: FxHashMap<String, Vec<String>>,
    /// At the root and wherever an identifier changes them.
    scopes: FxHashMap<String, (String, Draft)>,
    /// Whether some keyword depends on what others have evaluated.
    unevaluated: bool,
    nesting: usize,
    ledger: Rc<Ledger>,
}

/// The dynamic anchor that `$recursiveAnchor` is; it has the name that no other has.
const RECURSIVE: &str = "";

/// The resources with dynamic anchors that evaluation has come through, the outermost first; of those with the same
/// anchors only the first.
pub(super) type DynamicScope = Rc<[String]>;

const IN_SCHEMA: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const IN_LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const IN_MAP: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];

impl<'a> Document<'a> {
    pub(super) fn new(
        root: &'a Value,
        remotes: &'a Remotes,
        nesting: usize,
        ledger: &Rc<Ledger>,
    ) -> Result<Self, Problem> {
        let mut document = Self {
            root,
            remotes,
            resources: FxHashMap::from_iter([(String::new(), String::new())]),
            anchors: FxHashMap::default(),
            dynamic: FxHashMap::default(),
            scopes: FxHashMap::from_iter([(String::new(), (String::new(), Draft::D2020))]),
            unevaluated: false,
            nesting,
            ledger: Rc::clone(ledger),
        };
        document.index(root, "", (String::new(), Draft::D2020), 0)?;
        Ok(document)
    }

    /// Notes the identifiers in a subschema. `scope` is the base URI and the draft that it is in.
    fn index(
        &mut self,
        schema: &Value,
        pointer: &str,
        mut scope: (String, Draft),
        depth: usize,
    ) -> Result<(), Problem> {
        if depth > self.nesting {
            return Err(Problem::new(pointer, "schema", SchemaProblem::Nesting { limit: self.nesting }));
        }
        let Value::Object(map) = schema else { return Ok(()) };
        self.ledger.note(32 + 16 * map.len() + pointer.len() / 8);
        self.ledger.hold(2 * pointer.len() + scope.0.len() + 160)?;
        let is_resource = depth == 0 || map.contains_key("$id");
        if let Some(uri) = map.get("$schema").and_then(Value::as_str).filter(|_| is_resource) {
            scope.1 = draft(pointer, uri)?;
        }
        self.identify(map, pointer, &mut scope);
        self.unevaluated |= map.contains_key("unevaluatedItems") || map.contains_key("unevaluatedProperties");
        self.scopes.insert(pointer.to_owned(), scope.clone());
        for (key, value) in map {
            let pointer = child_pointer(pointer, key);
            match value {
                Value::Object(members) if IN_MAP.contains(&key.as_str()) => {
                    for (name, member) in members {
                        self.index(member, &child_pointer(&pointer, name), scope.clone(), depth + 1)?;
                    }
                }
                Value::Array(items) if IN_LIST.contains(&key.as_str()) => {
                    for (at, item) in items.iter().enumerate() {
                        self.index(item, &format!("{pointer}/{at}"), scope.clone(), depth + 1)?;
                    }
                }
                _ if IN_SCHEMA.contains(&key.as_str()) => {
                    self.index(value, &pointer, scope.clone(), depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn identify(&mut self, map: &Map<String, Value>, pointer: &str, scope: &mut (String, Draft)) {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let hidden = scope.1 <= Draft::D7 && map.contains_key("$ref");
        let id = text(if scope.1 == Draft::D4 { "id" } else { "$id" }).filter(|_| !hidden);
        if let Some(id) = id {
            let (uri, fragment) = id.split_once('#').unwrap_or((id, ""));
            if !uri.is_empty() {
                scope.0 = resolve(&scope.0, uri);
                self.resources.insert(scope.0.clone(), pointer.to_owned());
            }
            if !fragment.is_empty() && scope.1 <= Draft::D7 {
                self.anchors.insert((scope.0.clone(), fragment.to_owned()), pointer.to_owned());
            }
        }
        if scope.1 >= Draft::D2019 {
            for name in [text("$anchor"), text("$dynamicAnchor")].into_iter().flatten() {
                self.anchors.insert((scope.0.clone(), name.to_owned()), pointer.to_owned());
            }
        }
        let recursive = scope.1 == Draft::D2019 && map.get("$recursiveAnchor") == Some(&Value::Bool(true));
        let name = text("$dynamicAnchor").filter(|_| scope.1 >= Draft::D2020);
        if let Some(name) = name.or(recursive.then_some(RECURSIVE)) {
            self.dynamic.entry(scope.0.clone()).or_default().push(name.to_owned());
        }
    }

    pub(super) fn get(&self, place: &str) -> Option<&'a Value> {
        if place.is_empty() || place.starts_with('/') {
            return self.root.pointer(place);
        }
        let (uri, pointer) = place.split_once('#')?;
        self.remotes.get(uri)?.pointer(pointer)
    }

    fn scope(&self, pointer: &str) -> (&str, Draft) {
        let mut place = pointer;
        loop {
            if let Some((base, draft)) = self.scopes.get(place) {
                return (base, *draft);
            }
            place = place.rfind('/').map_or("", |slash| &place[..slash]);
        }
    }

    pub(super) fn draft(&self, pointer: &str) -> Draft {
        self.scope(pointer).1
    }

    /// Whether some keyword depends on what others have evaluated.
    pub(super) const fn has_unevaluated(&self) -> bool {
        self.unevaluated
    }

    /// The place that the reference in a keyword of the subschema at `place` leads to.
    pub(super) fn follow(&mut self, place: &str, keyword: &Keyword<'_>) -> Result<String, Problem> {
        let reference = keyword.value.as_str().ok_or_else(|| keyword.malformed("a URI reference"))?;
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.scope(place).0;
        let uri = if uri.is_empty() { base.to_owned() } else { resolve(base, uri) };
        let target = || reference.to_owned();
        if !self.resources.contains_key(&uri) {
            self.load(&uri, self.draft(""))?;
        }
        let Some(resource) = self.resources.get(&uri) else {
            return Err(keyword.problem(SchemaProblem::RemoteRef { target: target() }));
        };
        let fragment = percent_decoded(fragment);
        let place = if fragment.is_empty() {
            Some(resource.clone())
        } else if fragment.starts_with('/') {
            Some(format!("{resource}{fragment}"))
        } else {
            self.anchors.get(&(self.scope(resource).0.to_owned(), fragment.into_owned())).cloned()
        };
        let place = place.filter(|place| self.get(place).is_some());
        place.ok_or_else(|| keyword.problem(SchemaProblem::UnresolvedRef { target: target() }))
    }

    /// Reads the identifiers of a remote document, if there is one at that URI.
    fn load(&mut self, uri: &str, draft: Draft) -> Result<(), Problem> {
        let Some(schema) = self.remotes.get(uri) else { return Ok(()) };
        let place = format!("{uri}#");
        self.resources.insert(uri.to_owned(), place.clone());
        self.scopes.insert(place.clone(), (uri.to_owned(), draft));
        self.index(schema, &place, (uri.to_owned(), draft), 0)
    }

    /// The place that a `$dynamicRef` or `$recursiveRef` leads to where evaluation has come through `scope`.
    pub(super) fn follow_dynamic(
        &mut self,
        place: &str,
        keyword: &Keyword<'_>,
        scope: &DynamicScope,
    ) -> Result<String, Problem> {
        let target = self.follow(place, keyword)?;
        let name = match self.get(&target) {
            Some(Value::Object(schema)) if keyword.name == "$recursiveRef" => {
                (schema.get("$recursiveAnchor") == Some(&Value::Bool(true))).then_some(RECURSIVE)
            }
            Some(Value::Object(schema)) => {
                let name = schema.get("$dynamicAnchor").and_then(Value::as_str);
                name.filter(|name| keyword.value.as_str().is_some_and(|uri| ends_with_anchor(uri, name)))
            }
            _ => None,
        };
        let Some(name) = name else { return Ok(target) };
        let outermost = scope.iter().find(|resource| self.has_dynamic(resource, name));
        let found = outermost.and_then(|resource| match name {
            RECURSIVE => self.resources.get(resource),
            name => self.anchors.get(&(resource.clone(), name.to_owned())),
        });
        Ok(found.cloned().unwrap_or(target))
    }

    fn has_dynamic(&self, resource: &str, name: &str) -> bool {
        self.dynamic.get(resource).is_some_and(|names| names.iter().any(|known| known == name))
    }

    /// The dynamic scope of a subschema that evaluation comes to from `scope`.
    pub(super) fn enter(&self, scope: &DynamicScope, place: &str) -> DynamicScope {
        if self.dynamic.is_empty() {
            return Rc::clone(scope);
        }
        let resource = self.scope(place).0;
        let names = self.dynamic.get(resource).into_iter().flatten();
        let mut new = names.filter(|name| !scope.iter().any(|outer| self.has_dynamic(outer, name)));
        if new.next().is_none() {
            return Rc::clone(scope);
        }
        scope.iter().cloned().chain([resource.to_owned()]).collect()
    }
}

/// Whether the fragment of a URI reference is the name of an anchor.
fn ends_with_anchor(reference: &str, name: &str) -> bool {
    reference.split_once('#').is_some_and(|(_, fragment)| percent_decoded(fragment) == name)
}

fn draft(pointer: &str, uri: &str) -> Result<Draft, Problem> {
    let reason = "this dialect is not supported; drafts 4, 6, 7, 2019-09 and 2020-12 are";
    let place = child_pointer(pointer, "$schema");
    Draft::named(uri)
        .ok_or_else(|| Problem::new(&place, "$schema", SchemaProblem::UnsupportedForm { reason }))
}

/// A URI reference without fragment against a base (RFC 3986, section 5.2).
fn resolve(base: &str, reference: &str) -> String {
    let scheme_of = |uri: &str| {
        let colon = uri.find(':')?;
        let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        (colon > 0 && uri.bytes().take(colon).all(valid)).then_some(colon + 1)
    };
    if scheme_of(reference).is_some() {
        return reference.to_owned();
    }
    let scheme = scheme_of(base).unwrap_or(0);
    if reference.starts_with("//") {
        return format!("{}{reference}", &base[..scheme]);
    }
    let path = match base[scheme..].strip_prefix("//") {
        Some(rest) => scheme + 2 + rest.find('/').unwrap_or(rest.len()),
        None => scheme,
    };
    let root = &base[..path];
    if reference.starts_with('/') {
        return format!("{root}{}", without_dots(reference));
    }
    let folder = base[path..].rfind('/').map_or("", |slash| &base[path..=path + slash]);
    let slash = if folder.is_empty() && path > scheme { "/" } else { "" };
    format!("{root}{}", without_dots(&format!("{slash}{folder}{reference}")))
}

fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let parts: Vec<_> = path.split('/').collect();
    for (at, &part) in parts.iter().enumerate() {
        let last = at + 1 == parts.len();
        match part {
            "." | ".." => {
                if part == ".." && segments.len() > 1 {
                    segments.pop();
                }
                if last {
                    segments.push("");
                }
            }
            _ => segments.push(part),
        }
    }
    segments.join("/")
}

fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        if let Some(value) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            decoded.push(value);
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_against_their_base() {
        let cases = [
            ("", "item.json", "item.json"),
            ("http://a.example/b/c.json", "d.json", "http://a.example/b/d.json"),
            ("http://a.example/b/c.json", "../d.json", "http://a.example/d.json"),
            ("http://a.example/b/c.json", "/d.json", "http://a.example/d.json"),
            ("http://a.example", "d.json", "http://a.example/d.json"),
            ("http://a.example/b", "//e.example/f", "http://e.example/f"),
            ("http://a.example/b", "urn:x:y", "urn:x:y"),
        ];
        for (base, reference, expected) in cases {
            assert_eq!(resolve(base, reference), expected, "{base} {reference}");
        }
    }
}
