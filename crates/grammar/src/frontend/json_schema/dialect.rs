//! The drafts of JSON Schema, and the dialects that `$schema` names.

/// A draft of JSON Schema. Later drafts compare greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Draft {
    /// Read as draft 4, plus the keywords that only draft 3 has.
    D3,
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

impl Draft {
    /// Returns the URI that names the draft in `$schema`.
    pub(super) const fn uri(self) -> &'static str {
        match self {
            Self::D3 => "http://json-schema.org/draft-03/schema#",
            Self::D4 => "http://json-schema.org/draft-04/schema#",
            Self::D6 => "http://json-schema.org/draft-06/schema#",
            Self::D7 => "http://json-schema.org/draft-07/schema#",
            Self::D2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::D2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }
}

/// The draft by which a subschema is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Dialect {
    pub(super) draft: Draft,
    /// True if a `$schema` names exactly this draft. If false, spellings of other drafts are
    /// accepted with their original meaning.
    pub(super) stated: bool,
}

impl Dialect {
    /// The dialect of a schema whose root names no dialect or an unknown one.
    pub(super) const DEFAULT: Self = Self { draft: Draft::D2020, stated: false };

    /// Returns the dialect that `uri`, the value of a `$schema`, names. Ignores the difference of
    /// `http` and `https`, and an empty fragment. Returns `None` if the URI names no known dialect.
    pub(super) fn named(uri: &str) -> Option<Self> {
        let uri = uri.trim().trim_end_matches(['#', '/']);
        let rest = uri.strip_prefix("http://").or_else(|| uri.strip_prefix("https://"))?;
        let rest = rest.strip_prefix("www.").unwrap_or(rest);
        // The dialect of OpenAPI 3.1 is 2020-12 with additional annotations.
        if rest.starts_with("spec.openapis.org/oas/3.1/dialect/") {
            return Some(Self { draft: Draft::D2020, stated: true });
        }
        let path = rest.strip_prefix("json-schema.org/")?;
        let name = ["/schema", "/hyper-schema"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let draft = match name {
            "draft-03" => Draft::D3,
            // Draft 5 uses the metaschema of draft 4.
            "draft-04" | "draft-05" => Draft::D4,
            "draft-06" => Draft::D6,
            "draft-07" => Draft::D7,
            "draft/2019-09" | "draft-2019-09" => Draft::D2019,
            "draft/2020-12" | "draft-2020-12" => Draft::D2020,
            // These URIs name the latest draft at the time when the schema was written.
            "schema" | "hyper-schema" | "draft/next" => return Some(Self::DEFAULT),
            _ => return None,
        };
        Some(Self { draft, stated: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_known_by_every_spelling_of_their_uris() {
        let cases = [
            ("http://json-schema.org/draft-07/schema#", Some((Draft::D7, true))),
            ("https://json-schema.org/draft-07/schema", Some((Draft::D7, true))),
            ("https://json-schema.org/draft-07/schema#/", Some((Draft::D7, true))),
            ("http://www.json-schema.org/draft-04/hyper-schema#", Some((Draft::D4, true))),
            ("http://json-schema.org/draft-03/schema#", Some((Draft::D3, true))),
            ("http://json-schema.org/draft/2019-09/schema#", Some((Draft::D2019, true))),
            ("https://spec.openapis.org/oas/3.1/dialect/base", Some((Draft::D2020, true))),
            ("http://json-schema.org/schema#", Some((Draft::D2020, false))),
            ("http://json-schema-org/draft-07/schema#", None),
            ("https://example.com/draft-07/schema", None),
        ];
        for (uri, expected) in cases {
            let given = Dialect::named(uri).map(|dialect| (dialect.draft, dialect.stated));
            assert_eq!(given, expected, "{uri}");
        }
    }
}
