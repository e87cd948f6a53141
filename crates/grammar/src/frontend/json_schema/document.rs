//! Schema documents, their identifiers, and references between them.

use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::dialect::{Dialect, Draft};
use super::metaschema::metaschema;
use super::read::Keyword;
use super::uri::{percent_decoded, resolve, scheme_of, with_other_scheme};
use super::{Problem, child_pointer};
use crate::Warning;
use crate::error::SchemaProblem;
use crate::ledger::Ledger;

/// Schema documents that references may reach, by name. A name is a URI without fragment, as
/// references give it, or a relative name such as `types/base.json`. References also find a
/// document by its own `$id`.
pub type Remotes = BTreeMap<String, Value>;

/// A schema document, the documents that it refers to, and their identifiers.
///
/// A *place* is a JSON pointer from the root of the main document. For any other document, the URI
/// of that document and a `#` precede the pointer.
pub(super) struct Document<'a> {
    root: &'a Value,
    remotes: &'a Remotes,
    /// The loaded documents that references reach, by absolute URI without fragment. Each entry
    /// holds the document's key in `remotes` and its content. The key of a built-in metaschema is
    /// empty.
    documents: FxHashMap<String, (&'a str, &'a Value)>,
    /// The key in `remotes` of each document that has an `$id`, by the absolute URI of this `$id`.
    /// Filled on the first lookup.
    by_id: Option<FxHashMap<String, &'a str>>,
    /// The place of each resource, by absolute URI without fragment. A resource is a document, or a
    /// subschema with its own `$id`.
    resources: FxHashMap<String, String>,
    /// The place of each anchor, by the URI of its resource and the name of the anchor.
    anchors: FxHashMap<(String, String), String>,
    /// The names of the dynamic anchors of each resource, by the resource's URI. [`RECURSIVE`]
    /// stands for `$recursiveAnchor`.
    dynamic: FxHashMap<String, Vec<String>>,
    /// The base URI and the dialect of each indexed subschema, by place.
    scopes: FxHashMap<String, (String, Dialect)>,
    warnings: Vec<Warning>,
    /// True if some subschema has `unevaluatedItems` or `unevaluatedProperties`.
    unevaluated: bool,
    /// Maximum nesting depth of a schema.
    nesting: usize,
    ledger: Rc<Ledger>,
}

/// The name of `$recursiveAnchor` among the dynamic anchors. Real anchors are never empty.
const RECURSIVE: &str = "";

/// URIs of the resources that evaluation has entered and that have dynamic anchors, the outermost
/// first. A resource is omitted if outer resources already have all its dynamic anchors.
pub(super) type DynamicScope = Rc<[String]>;

/// Keywords whose value is a schema.
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
/// Keywords whose value may be an array of schemas.
const IN_LIST: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value maps names to schemas.
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
            documents: FxHashMap::default(),
            by_id: None,
            resources: FxHashMap::from_iter([(String::new(), String::new())]),
            anchors: FxHashMap::default(),
            dynamic: FxHashMap::default(),
            scopes: FxHashMap::from_iter([(String::new(), (String::new(), Dialect::DEFAULT))]),
            warnings: Vec::new(),
            unevaluated: false,
            nesting,
            ledger: Rc::clone(ledger),
        };
        document.index(root, "", (String::new(), Dialect::DEFAULT), 0)?;
        Ok(document)
    }

    /// Records the identifiers and anchors of the subschema at `pointer` and of all subschemas
    /// inside. `scope` is the base URI and the dialect of the surrounding schema. `depth` is the
    /// number of surrounding subschemas.
    fn index(
        &mut self,
        schema: &Value,
        pointer: &str,
        mut scope: (String, Dialect),
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
            scope.1 = self.dialect(pointer, uri, scope.1)?;
        }
        if map.keys().any(|key| key.starts_with('$') || key == "id") {
            self.identify(map, pointer, &mut scope, depth == 0);
        }
        self.unevaluated |= map.keys().any(|key| key == "unevaluatedItems" || key == "unevaluatedProperties");
        self.scopes.insert(pointer.to_owned(), scope.clone());
        for (key, value) in map {
            match value {
                Value::Object(members) if IN_MAP.contains(&key.as_str()) => {
                    let pointer = child_pointer(pointer, key);
                    for (name, member) in members {
                        self.index(member, &child_pointer(&pointer, name), scope.clone(), depth + 1)?;
                    }
                }
                Value::Array(items) if IN_LIST.contains(&key.as_str()) => {
                    let pointer = child_pointer(pointer, key);
                    for (at, item) in items.iter().enumerate() {
                        self.index(item, &format!("{pointer}/{at}"), scope.clone(), depth + 1)?;
                    }
                }
                _ if IN_SCHEMA.contains(&key.as_str()) => {
                    self.index(value, &child_pointer(pointer, key), scope.clone(), depth + 1)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the dialect that the `$schema` of the subschema at `pointer` names. `uri` is the
    /// value of `$schema`. If `uri` leads to a known metaschema of another dialect, follows that
    /// metaschema's own `$schema`. If the dialect is unknown, warns and returns `outer`, the
    /// dialect around the subschema.
    fn dialect(&mut self, pointer: &str, uri: &str, outer: Dialect) -> Result<Dialect, Problem> {
        let place = child_pointer(pointer, "$schema");
        let mut uri = uri.to_owned();
        for _ in 0..METASCHEMAS {
            if let Some(dialect) = Dialect::named(&uri) {
                if dialect.draft == Draft::D3 {
                    self.warn(&place, "$schema", "draft 3 is read as draft 4 with the keywords of draft 3");
                }
                return Ok(dialect);
            }
            let Some((_, Value::Object(metaschema))) = self.find(uri.trim_end_matches('#')) else { break };
            check_vocabularies(metaschema).map_err(|problem| Problem::new(&place, "$schema", problem))?;
            match metaschema.get("$schema").and_then(Value::as_str) {
                Some(next) => next.clone_into(&mut uri),
                None => break,
            }
        }
        self.warn(&place, "$schema", "this dialect is unknown; without its metaschema it is read as 2020-12");
        Ok(Dialect { stated: false, ..outer })
    }

    /// Records the `$id` and the anchors of the subschema `map` at `pointer`. Updates the base URI
    /// in `scope` if the subschema has an `$id`.
    fn identify(
        &mut self,
        map: &Map<String, Value>,
        pointer: &str,
        scope: &mut (String, Dialect),
        is_root: bool,
    ) {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        let Dialect { draft, stated } = scope.1;
        let hidden = draft <= Draft::D7 && map.contains_key("$ref");
        // Accept `id` in a draft that spells it `$id`, if the value cannot be an annotation.
        let old =
            || text("id").filter(|id| !stated && (id.starts_with('#') || is_root && scheme_of(id).is_some()));
        let id = match draft {
            Draft::D3 | Draft::D4 => text("id").or_else(|| text("$id").filter(|_| is_root)),
            _ => text("$id").or_else(old),
        };
        if let Some(id) = id.filter(|_| !hidden) {
            let (uri, fragment) = id.split_once('#').unwrap_or((id, ""));
            if !uri.is_empty() {
                scope.0 = resolve(&scope.0, uri);
                self.resources.insert(scope.0.clone(), pointer.to_owned());
            }
            if !fragment.is_empty() && (draft <= Draft::D7 || !stated) {
                self.anchors.insert((scope.0.clone(), fragment.to_owned()), pointer.to_owned());
            }
        }
        if draft >= Draft::D2019 {
            for name in [text("$anchor"), text("$dynamicAnchor")].into_iter().flatten() {
                self.anchors.insert((scope.0.clone(), name.to_owned()), pointer.to_owned());
            }
        }
        let recursive = draft == Draft::D2019 && map.get("$recursiveAnchor") == Some(&Value::Bool(true));
        let name = text("$dynamicAnchor").filter(|_| draft >= Draft::D2020);
        if let Some(name) = name.or(recursive.then_some(RECURSIVE)) {
            self.dynamic.entry(scope.0.clone()).or_default().push(name.to_owned());
        }
    }

    /// Returns the value at `place`, or `None` if the place leads nowhere.
    pub(super) fn get(&self, place: &str) -> Option<&'a Value> {
        if place.is_empty() || place.starts_with('/') {
            return self.root.pointer(place);
        }
        let (uri, pointer) = place.split_once('#')?;
        self.documents.get(uri)?.1.pointer(pointer)
    }

    /// Returns the base URI and the dialect that apply at the place `pointer`. They belong to the
    /// innermost indexed subschema at or around the place.
    fn scope(&self, pointer: &str) -> (&str, Dialect) {
        let mut place = pointer;
        loop {
            if let Some((base, dialect)) = self.scopes.get(place) {
                return (base, *dialect);
            }
            place = place.rfind('/').map_or("", |slash| &place[..slash]);
        }
    }

    pub(super) fn dialect_at(&self, pointer: &str) -> Dialect {
        self.scope(pointer).1
    }

    /// Removes and returns the warnings about identifiers and references found so far.
    pub(super) fn warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    fn warn(&mut self, pointer: &str, keyword: &str, reason: &'static str) {
        let (pointer, keyword) = (pointer.to_owned(), keyword.to_owned());
        self.warnings.push(Warning::Keyword { pointer, keyword, reason: reason.into() });
    }

    /// Returns the maximum nesting depth of a schema.
    pub(super) const fn nesting(&self) -> usize {
        self.nesting
    }

    /// Returns true if some subschema has `unevaluatedItems` or `unevaluatedProperties`.
    pub(super) const fn has_unevaluated(&self) -> bool {
        self.unevaluated
    }

    /// Returns the place that the reference in `keyword` leads to. `place` is the subschema with
    /// the keyword. Loads the document of the target if needed, and warns if the target is a guess.
    pub(super) fn follow(&mut self, place: &str, keyword: &Keyword<'_>) -> Result<String, Problem> {
        let reference = keyword.value.as_str().ok_or_else(|| keyword.malformed("a URI reference"))?;
        let (written, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = self.scope(place).0;
        let uri = if written.is_empty() { base.to_owned() } else { resolve(base, written) };
        let target = || reference.to_owned();
        if !self.resources.contains_key(&uri) {
            self.load(&uri, written, place)?;
        }
        let Some(resource) = self.resources.get(&uri).cloned() else {
            return Err(keyword.problem(SchemaProblem::RemoteRef { target: target(), uri }));
        };
        if let Some(found) = self.locate(&resource, &percent_decoded(fragment)) {
            return Ok(found);
        }
        let Some((found, reason)) = self.locate_meant(&resource, fragment) else {
            return Err(keyword.problem(SchemaProblem::UnresolvedRef { target: target() }));
        };
        self.warn(&keyword.pointer, keyword.name, reason);
        Ok(found)
    }

    /// Returns the place that `fragment` names in the resource at the place `resource`. A fragment
    /// is a JSON pointer or the name of an anchor. Returns `None` if the fragment leads nowhere.
    fn locate(&self, resource: &str, fragment: &str) -> Option<String> {
        let place = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{resource}{fragment}")
        } else {
            let scope = self.scope(resource).0.to_owned();
            self.anchors.get(&(scope, fragment.to_owned()))?.clone()
        };
        self.get(&place).is_some().then_some(place)
    }

    /// Guesses the intended place of a fragment that leads nowhere in the resource at the place
    /// `resource`. Returns the place and the reason for the warning, or `None` if no guess leads
    /// anywhere.
    fn locate_meant(&self, resource: &str, fragment: &str) -> Option<(String, &'static str)> {
        let decoded = percent_decoded(fragment);
        let root = root_of(resource);
        let guesses = [
            (
                root,
                decoded.to_string(),
                "the pointer is resolved from the root of the document, not from the nearest `$id`",
            ),
            (
                resource,
                fragment.to_owned(),
                "the pointer is resolved without percent-decoding, because the decoded pointer leads nowhere",
            ),
            (resource, format!("/{decoded}"), "the pointer is resolved with the missing `/` at its start"),
            (root, format!("/{decoded}"), "the pointer is resolved with the missing `/` at its start"),
            (
                resource,
                decoded.trim_end_matches('/').to_owned(),
                "the `/` at the end of the pointer is ignored",
            ),
        ];
        let found =
            |(from, fragment, reason): (&str, String, _)| Some((self.locate(from, &fragment)?, reason));
        guesses.into_iter().find_map(found)
    }

    /// Loads and indexes the document with the absolute URI `uri`. The subschema at `place` refers
    /// to the document as `written`. Does nothing if no such document was given.
    fn load(&mut self, uri: &str, written: &str, place: &str) -> Result<(), Problem> {
        let Some((name, schema)) = self.find(uri).or_else(|| self.find_named(written, place)) else {
            return Ok(());
        };
        // Places in the root document start with a slash, so the key of any other document must not.
        let key = if uri.starts_with('/') { format!("file:{uri}") } else { uri.to_owned() };
        let place = format!("{key}#");
        self.documents.insert(key, (name, schema));
        let dialect = self.dialect_at("");
        self.resources.insert(uri.to_owned(), place.clone());
        self.scopes.insert(place.clone(), (uri.to_owned(), dialect));
        self.index(schema, &place, (uri.to_owned(), dialect), 0)
    }

    /// Finds a document by its absolute URI among the given documents and the built-in metaschemas.
    /// Returns the document's key in `remotes` and its content. The key of a built-in metaschema is
    /// empty. Returns `None` if there is no such document.
    fn find(&mut self, uri: &str) -> Option<(&'a str, &'a Value)> {
        let remotes = self.remotes;
        let by_id = self.by_id.get_or_insert_with(|| {
            let id = |(name, schema): (&'a String, &'a Value)| {
                let id = schema.get("$id").or_else(|| schema.get("id"))?.as_str()?;
                let id = resolve(name, id.split_once('#').map_or(id, |(uri, _)| uri));
                Some((id, name.as_str()))
            };
            remotes.iter().filter_map(id).collect()
        });
        // Some documents use the URI of their metaschema as identifier, so metaschemas take
        // precedence over identifiers.
        let at = |uri: &str| {
            let given =
                |name: &str| remotes.get_key_value(name).map(|(name, schema)| (name.as_str(), schema));
            let built_in = || Some(("", metaschema(uri)?));
            given(uri).or_else(built_in).or_else(|| given(by_id.get(uri)?))
        };
        let extended = format!("{uri}.json");
        at(uri).or_else(|| at(&with_other_scheme(uri)?)).or_else(|| at(&extended))
    }

    /// Finds a given document by the relative reference `written`. The reference is resolved
    /// against the name of the document that contains the place `from`. Returns the document's key
    /// in `remotes` and its content. Returns `None` if the reference is absolute or names no given
    /// document.
    fn find_named(&self, written: &str, from: &str) -> Option<(&'a str, &'a Value)> {
        if written.is_empty() || scheme_of(written).is_some() {
            return None;
        }
        let document = root_of(from).trim_end_matches('#');
        let folder = self.documents.get(document).map_or("", |&(name, _)| name);
        let name = resolve(folder, written);
        let given = |name: &str| self.remotes.get_key_value(name);
        let found = given(&name).or_else(|| given(&percent_decoded(&name))).or_else(|| given(written));
        found.map(|(name, schema)| (name.as_str(), schema))
    }

    /// Returns the place that the `$dynamicRef` or `$recursiveRef` in `keyword` leads to. If the
    /// first target has the matching dynamic anchor, the outermost resource of `scope` with this
    /// anchor is the target.
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

    /// Returns the dynamic scope inside the subschema at `place`, if evaluation enters the
    /// subschema from a schema with the dynamic scope `scope`.
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

/// Returns true if the fragment of the URI reference is the anchor `name`.
fn ends_with_anchor(reference: &str, name: &str) -> bool {
    reference.split_once('#').is_some_and(|(_, fragment)| percent_decoded(fragment) == name)
}

/// Returns the place of the root of the document that contains `place`.
fn root_of(place: &str) -> &str {
    if place.is_empty() || place.starts_with('/') {
        return "";
    }
    place.find('#').map_or("", |at| &place[..=at])
}

/// Maximum number of metaschemas followed from one `$schema`.
const METASCHEMAS: usize = 8;

/// Rejects a metaschema that requires an unknown vocabulary or lacks the applicator or validation
/// vocabulary.
fn check_vocabularies(metaschema: &Map<String, Value>) -> Result<(), SchemaProblem> {
    let Some(Value::Object(listed)) = metaschema.get("$vocabulary") else { return Ok(()) };
    let known = |uri: &str| {
        let ours = ["2019-09", "2020-12"].iter().any(|draft| {
            uri.strip_prefix("https://json-schema.org/draft/")
                .and_then(|rest| rest.strip_prefix(draft))
                .is_some_and(|rest| rest.starts_with("/vocab/"))
        });
        ours || uri.starts_with("https://spec.openapis.org/oas/3.1/vocab/")
    };
    if listed.iter().any(|(uri, required)| required == &Value::Bool(true) && !known(uri)) {
        let reason = "the metaschema requires a vocabulary that is unknown";
        return Err(SchemaProblem::UnsupportedForm { reason });
    }
    let has = |name: &str| listed.keys().any(|uri| known(uri) && uri.ends_with(name));
    if !["/applicator", "/validation"].into_iter().all(has) {
        let reason = "a metaschema without the vocabularies `applicator` and `validation` is not supported";
        return Err(SchemaProblem::UnsupportedForm { reason });
    }
    Ok(())
}
