//! Object keywords of several schemas.

use serde_json::{Map, Value};

use super::counts;

/// The object keywords of several schemas that must all hold.
pub(super) struct Object<'a> {
    maps: &'a [Map<String, Value>],
    pub(super) names: Vec<String>,
    pub(super) required: Vec<String>,
    pub(super) min: usize,
    pub(super) max: usize,
}

impl<'a> Object<'a> {
    pub(super) fn new(maps: &'a [Map<String, Value>]) -> Self {
        let required = maps.iter().filter_map(|map| map.get("required").and_then(Value::as_array)).flatten();
        let required: Vec<String> = required.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        let properties = maps.iter().filter_map(|map| map.get("properties").and_then(Value::as_object));
        let mut names: Vec<String> = Vec::new();
        for name in properties.flat_map(Map::keys).chain(&required) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let min = counts(maps, "minProperties").max().unwrap_or(0) as usize;
        let max = counts(maps, "maxProperties").min().map_or(usize::MAX, |max| max as usize);
        Self { maps, names, required, min, max }
    }

    pub(super) fn schemas(&self, name: &str) -> Vec<Value> {
        let of = |map: &Map<String, Value>| {
            let declared = map.get("properties").and_then(|properties| properties.get(name));
            declared.or(map.get("additionalProperties")).cloned()
        };
        self.maps.iter().filter_map(of).collect()
    }

    /// Returns a name that no schema declares. It stands for all undeclared names.
    pub(super) fn other_name(&self) -> String {
        self.names.iter().fold("z".to_owned(), |longer, name| longer + name)
    }
}
