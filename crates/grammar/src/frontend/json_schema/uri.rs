//! URI references (RFC 3986).

use std::borrow::Cow;

/// Resolves the URI reference `reference`, which has no fragment, against the URI `base` (RFC 3986,
/// section 5.2).
pub(super) fn resolve(base: &str, reference: &str) -> String {
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

/// Returns the length of the scheme of `uri` with its colon, in bytes. Returns `None` for a
/// relative reference, which has no scheme.
pub(super) fn scheme_of(uri: &str) -> Option<usize> {
    let colon = uri.find(':')?;
    let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    (colon > 0 && uri.bytes().take(colon).all(valid)).then_some(colon + 1)
}

/// Returns `uri` with the other of the schemes `http` and `https`. Returns `None` if `uri` has
/// another scheme.
pub(super) fn with_other_scheme(uri: &str) -> Option<String> {
    let secure = uri.strip_prefix("https://").map(|rest| format!("http://{rest}"));
    secure.or_else(|| uri.strip_prefix("http://").map(|rest| format!("https://{rest}")))
}

/// Removes the segments `.` and `..` from a path.
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

/// Decodes percent-encoded bytes. Invalid UTF-8 becomes U+FFFD.
pub(super) fn percent_decoded(text: &str) -> Cow<'_, str> {
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
