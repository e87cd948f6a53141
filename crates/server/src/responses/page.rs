//! Lists of stored items, page by page.

use std::sync::Arc;

use formwork_openai::ItemList;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::turn::Item;

/// Default number of items of a page.
const ITEMS: usize = 20;
/// Maximum number of items of a page.
const MAX_ITEMS: usize = 100;

/// Part of a list that a request asks for.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Page {
    is_ascending: bool,
    limit: usize,
    /// Id of the item that precedes the page.
    after: Option<String>,
}

impl Page {
    /// Parses the query of a URL. Parameters other than `order`, `limit` and `after` have no effect.
    pub(super) fn parse(query: Option<&str>) -> Result<Self, StoreError> {
        let mut page = Self { is_ascending: false, limit: ITEMS, after: None };
        let wrong = |name, problem: String| Err(StoreError::Query { name, problem });
        for (name, value) in parameters(query) {
            match name.as_str() {
                "order" => match value.as_str() {
                    "asc" => page.is_ascending = true,
                    "desc" => page.is_ascending = false,
                    _ => {
                        return wrong("order", format!("unknown order `{value}`; expected one of asc, desc"));
                    }
                },
                "limit" => match value.parse() {
                    Ok(limit) if (1..=MAX_ITEMS).contains(&limit) => page.limit = limit,
                    _ => {
                        return wrong(
                            "limit",
                            format!("`{value}` is out of range; expected 1..={MAX_ITEMS}"),
                        );
                    }
                },
                "after" => page.after = Some(value),
                "before" => {
                    return wrong("before", "not supported; use `after` with the other `order`".into());
                }
                _ => {}
            }
        }
        Ok(page)
    }

    /// Returns the page of `items`, which are sorted from the oldest to the newest.
    pub(super) fn list(&self, mut items: Vec<Arc<Item>>) -> Result<ItemList, StoreError> {
        if !self.is_ascending {
            items.reverse();
        }
        let start = match &self.after {
            None => 0,
            Some(after) => match items.iter().position(|item| *item.id == **after) {
                Some(index) => index + 1,
                None => {
                    return Err(StoreError::Query {
                        name: "after",
                        problem: format!("unknown item `{after}`"),
                    });
                }
            },
        };
        let rest = &items[start..];
        list(&rest[..self.limit.min(rest.len())], rest.len() > self.limit)
    }
}

/// Returns a list of items.
pub(super) fn list(items: &[Arc<Item>], has_more: bool) -> Result<ItemList, StoreError> {
    let id = |item: Option<&Arc<Item>>| item.map(|item| item.id.to_string()).unwrap_or_default();
    Ok(ItemList {
        object: "list".to_owned(),
        data: items.iter().map(|item| parsed(&item.json)).collect::<Result<_, _>>()?,
        first_id: id(items.first()),
        last_id: id(items.last()),
        has_more,
    })
}

/// Parses a JSON text of the store, which may be nested as deeply as the body of a request.
pub(super) fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, StoreError> {
    Ok(formwork_json::from_str(json)?)
}

/// Returns the names and values of a query.
pub(super) fn parameters(query: Option<&str>) -> impl Iterator<Item = (String, String)> {
    let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty());
    parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (decoded(name), decoded(value))
    })
}

/// Decodes `%` escapes and `+`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, escaped) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            (&byte, _) => bytes.push(byte),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_query_of_a_list() {
        let page = |query| Page::parse(query).map_err(|error| error.to_string());
        let default = Page { is_ascending: false, limit: 20, after: None };
        assert_eq!(page(None), Ok(default));
        let expected = Page { is_ascending: true, limit: 100, after: Some("a b%c".to_owned()) };
        assert_eq!(page(Some("order=asc&limit=100&after=a+b%25c&include%5B%5D=x&&y")), Ok(expected));
        assert_eq!(
            page(Some("order=up")).unwrap_err(),
            "`order`: unknown order `up`; expected one of asc, desc"
        );
        for query in ["limit=0", "limit=101", "limit=x", "limit=", "limit"] {
            assert!(page(Some(query)).unwrap_err().ends_with("is out of range; expected 1..=100"), "{query}");
        }
        assert!(page(Some("before=x")).is_err());
    }

    #[test]
    fn decodes_escapes() {
        for (text, expected) in
            [("%41%c3%A9", "Aé"), ("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%ff", "\u{fffd}")]
        {
            assert_eq!(decoded(text), expected);
        }
    }
}
