//! The built-in metaschemas of the drafts. References can reach them without remote documents.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

/// The parsed metaschemas, by URI without fragment.
static DOCUMENTS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
    let read = |&(uri, text): &(&'static str, &str)| Some((uri, serde_json::from_str(text).ok()?));
    SOURCES.iter().filter_map(read).collect()
});

macro_rules! documents {
    ($($uri:literal: $file:literal,)*) => {
        [$(($uri, include_str!(concat!("metaschemas/", $file, ".json")))),*]
    };
}

const SOURCES: [(&str, &str); 19] = documents! {
    "http://json-schema.org/draft-04/schema": "draft-04",
    "http://json-schema.org/draft-06/schema": "draft-06",
    "http://json-schema.org/draft-07/schema": "draft-07",
    "https://json-schema.org/draft/2019-09/schema": "2019-09/schema",
    "https://json-schema.org/draft/2019-09/meta/core": "2019-09/meta/core",
    "https://json-schema.org/draft/2019-09/meta/applicator": "2019-09/meta/applicator",
    "https://json-schema.org/draft/2019-09/meta/validation": "2019-09/meta/validation",
    "https://json-schema.org/draft/2019-09/meta/meta-data": "2019-09/meta/meta-data",
    "https://json-schema.org/draft/2019-09/meta/format": "2019-09/meta/format",
    "https://json-schema.org/draft/2019-09/meta/content": "2019-09/meta/content",
    "https://json-schema.org/draft/2020-12/schema": "2020-12/schema",
    "https://json-schema.org/draft/2020-12/meta/core": "2020-12/meta/core",
    "https://json-schema.org/draft/2020-12/meta/applicator": "2020-12/meta/applicator",
    "https://json-schema.org/draft/2020-12/meta/unevaluated": "2020-12/meta/unevaluated",
    "https://json-schema.org/draft/2020-12/meta/validation": "2020-12/meta/validation",
    "https://json-schema.org/draft/2020-12/meta/meta-data": "2020-12/meta/meta-data",
    "https://json-schema.org/draft/2020-12/meta/format-annotation": "2020-12/meta/format-annotation",
    "https://json-schema.org/draft/2020-12/meta/format-assertion": "2020-12/meta/format-assertion",
    "https://json-schema.org/draft/2020-12/meta/content": "2020-12/meta/content",
};

/// Returns the built-in metaschema with the URI `uri`, which must have no fragment. Returns `None`
/// if no built-in metaschema has this URI. `http://json-schema.org/schema` names the latest draft.
pub(super) fn metaschema(uri: &str) -> Option<&'static Value> {
    let latest = "https://json-schema.org/draft/2020-12/schema";
    let uri = if uri == "http://json-schema.org/schema" { latest } else { uri };
    DOCUMENTS.get(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metaschema_is_found_by_its_own_identifier() {
        for (uri, _) in SOURCES {
            let document = metaschema(uri).expect(uri);
            let id = document.get("$id").or_else(|| document.get("id")).and_then(Value::as_str);
            assert_eq!(id.map(|id| id.trim_end_matches('#')), Some(uri));
        }
    }
}
