//! Restoration of texts in which every line or every quote was changed.

/// Returns the text with its changes undone, and the name of the transform. Returns `None` if the
/// text has no such changes.
pub(super) fn restored(text: &str) -> Option<(String, &'static str)> {
    without_diff_marks(text)
        .map(|text| (text, "diff"))
        .or_else(|| without_entities(text).map(|text| (text, "entities")))
}

/// Replaces each diff in a text by its new version: lines with `+`, and lines without a mark. Lines
/// with `-` belong to the old version. All other text is kept.
///
/// A diff begins at a bracket. Each of its lines must begin with a mark or a blank, and a mark must
/// not begin a number. An old line outside of brackets may also be an item of a list. It is refused
/// unless the text is marked as a diff.
fn without_diff_marks(text: &str) -> Option<String> {
    let mut lines = text.lines().peekable();
    let (mut kept, mut is_diff, mut has_diffs) = (Vec::new(), false, false);
    while let Some(line) = lines.peek() {
        if !begins_diff(line) {
            // Any other text ends what is marked as a diff.
            is_diff = (is_head(line) && !line.starts_with("---")) || (is_diff && is_part(line));
            kept.extend(lines.next());
            continue;
        }
        let mut block = Vec::new();
        while let Some(line) = lines.next_if(|line| is_part(line)) {
            block.push(line);
        }
        if block.iter().any(|line| line.starts_with('+')) {
            kept.extend(new_version(&block, is_diff)?);
            has_diffs = true;
        } else {
            kept.extend(block);
        }
    }
    has_diffs.then(|| kept.join("\n"))
}

/// Returns the new version of the lines of a diff. Returns `None` if an old line may be an item of a
/// list.
fn new_version<'t>(block: &[&'t str], is_diff: bool) -> Option<Vec<&'t str>> {
    let mut lines = Vec::new();
    let mut depth = 0_usize;
    for line in block {
        if line.starts_with('-') {
            if depth == 0 && !is_diff {
                return None;
            }
            continue;
        }
        let line = line.get(1..).unwrap_or_default();
        let (mut is_string, mut is_escaped) = (false, false);
        for byte in line.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = is_string,
                b'"' => is_string = !is_string,
                b'{' | b'[' if !is_string => depth += 1,
                b'}' | b']' if !is_string => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        lines.push(line);
    }
    Some(lines)
}

/// Reports whether a line may belong to a diff.
fn is_part(line: &str) -> bool {
    let mut chars = line.chars();
    let mark = chars.next();
    let is_apart = !chars.next().is_some_and(|c| c.is_ascii_digit() || c == '.');
    !is_head(line) && (matches!(mark, Some('+' | '-')) && is_apart || matches!(mark, None | Some(' ' | '\t')))
}

/// Reports whether a line announces a diff.
fn is_head(line: &str) -> bool {
    ["+++", "---", "@@", "diff ", "```diff"].iter().any(|head| line.starts_with(head))
}

/// Reports whether a line of a diff begins a value.
fn begins_diff(line: &str) -> bool {
    is_part(line) && line.starts_with(['+', '-', ' ']) && line[1..].trim_start().starts_with(['{', '['])
}

/// Maximum length of an entity without its `&` and `;`, in bytes.
const LONGEST_ENTITY: usize = 32;

/// Replaces entities with their characters, if all double quotes of the text are entities. Returns
/// `None` if an entity is unknown.
fn without_entities(text: &str) -> Option<String> {
    if text.contains('"') {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // A replaced `&amp;` begins no further entity.
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let entity = entity(after);
        plain.push(entity.map_or(Some('&'), |(name, _)| character(name))?);
        rest = entity.map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    plain.contains('"').then_some(plain)
}

/// Returns the name of the entity whose `&` is before `text`, and the text after its `;`. Returns
/// `None` if the `&` begins no entity.
fn entity(text: &str) -> Option<(&str, &str)> {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    let length = text.bytes().take(LONGEST_ENTITY).take_while(is_name).count();
    let after = text[length..].strip_prefix(';').filter(|_| length > 0)?;
    Some((&text[..length], after))
}

/// Returns the character of an entity in HTML. Returns `None` if the entity is unknown or has no
/// visible meaning.
fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        let is_text = |c: &char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        return code.ok().and_then(char::from_u32).filter(is_text);
    }
    let known = [
        ("quot", '"'),
        ("apos", '\''),
        ("lt", '<'),
        ("gt", '>'),
        ("amp", '&'),
        ("nbsp", '\u{a0}'),
        ("ndash", '\u{2013}'),
        ("mdash", '\u{2014}'),
        ("lsquo", '\u{2018}'),
        ("rsquo", '\u{2019}'),
        ("ldquo", '\u{201c}'),
        ("rdquo", '\u{201d}'),
        ("laquo", '\u{ab}'),
        ("raquo", '\u{bb}'),
        ("bull", '\u{2022}'),
        ("middot", '\u{b7}'),
        ("hellip", '\u{2026}'),
        ("times", '\u{d7}'),
        ("deg", '\u{b0}'),
        ("euro", '\u{20ac}'),
        ("pound", '\u{a3}'),
        ("copy", '\u{a9}'),
        ("reg", '\u{ae}'),
        ("trade", '\u{2122}'),
    ];
    known.iter().find(|(known, _)| *known == name).map(|(_, c)| *c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdaptOptions, Adapter, Tolerance};

    /// Returns the value that adaptation reads at tolerance 2.
    fn adapted(text: &str) -> Option<serde_json::Value> {
        let schema = serde_json::json!({
            "type": "object",
            "properties": { "item": { "type": "string" }, "quantity": { "type": "integer" } },
            "required": ["item", "quantity"],
            "additionalProperties": false,
        });
        let options = AdaptOptions::full().with_tolerance(Tolerance::Repair);
        let adaptation = Adapter::new(&schema, options).expect("a schema").adapt(text);
        adaptation.is_valid().then(|| adaptation.into_value().unwrap_or_default())
    }

    #[test]
    fn reads_the_new_version_of_a_diff() {
        for text in [
            "+ {\n+   \"a\": 1\n+ }",
            " {\n-  \"a\": 2\n+  \"a\": 1\n }",
            "--- a\n+++ b\n@@ -1 +1 @@\n+{\"a\": 1}",
            "@@ -1 +1 @@\n-{\"a\": 2}\n+{\"a\": 1}",
        ] {
            let (text, name) = restored(text).expect("a diff");
            let json = text.lines().filter(|line| !is_head(line)).collect::<String>();
            let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            assert_eq!((value, name), (serde_json::json!({ "a": 1 }), "diff"), "{text}");
        }
        let fenced = restored("Here:\n```diff\n {\n-  \"a\": 2\n+  \"a\": 1\n }\n```\nDone.");
        let expected = "Here:\n```diff\n{\n  \"a\": 1\n}\n```\nDone.";
        assert_eq!(fenced, Some((expected.to_owned(), "diff")));
        for text in ["[\n+1,\n-2\n]", " [\n+1,\n-2\n ]", "{\n  \"a\": 1\n}", "- {\"a\": 1}\n- {\"a\": 2}"] {
            assert_eq!(restored(text), None, "{text}");
        }
    }

    #[test]
    fn keeps_the_text_around_a_diff() {
        let object =
            |item: &str, quantity: u32| format!("{{\"item\": \"{item}\", \"quantity\": {quantity}}}");
        let (old, new, other) = (object("lamp", 2), object("lamp", 3), object("desk", 9));
        let diff = format!("- {old}\n+ {new}");
        let expected = serde_json::json!({ "item": "lamp", "quantity": 3 });
        for text in [
            format!("```diff\n{diff}\n```"),
            format!("Done:\n```diff\n{diff}\n```\nEnjoy!"),
            format!("--- a\n+++ b\n@@ -1 +1 @@\n{diff}"),
            format!("```diff\n{diff}\n```\nFinal: {new}"),
            " {\n-  \"item\": \"desk\",\n+  \"item\": \"lamp\",\n   \"quantity\": 3\n }".to_owned(),
        ] {
            assert_eq!(adapted(&text).as_ref(), Some(&expected), "{text}");
        }
        for text in [
            diff.clone(),
            format!("{diff}\n\nFinal: {other}"),
            format!("A {other}\n{diff}"),
            format!("```diff\n{diff}\n```\nFinal: {other}"),
            format!("```diff\n{diff}\n```\n```diff\n- {new}\n+ {other}\n```"),
            format!("Pros and cons:\n+ {new}\n- {old}\n"),
            format!("Pros and cons:\n+ {new}\n- maybe {other}\n"),
            format!("```diff\n-a\n+b\n```\nPros and cons:\n- {old}\n+ {new}"),
        ] {
            assert_eq!(adapted(&text), None, "{text}");
        }
    }

    #[test]
    fn replaces_entities_if_all_quotes_are_entities() {
        let text = "{&quot;a&quot;: &quot;x &amp;amp; y&quot;}";
        assert_eq!(restored(text), Some(("{\"a\": \"x &amp; y\"}".to_owned(), "entities")));
        assert_eq!(restored("{\"a\": \"&quot;b&quot;\"}"), None);
        for (entity, character) in [
            ("&#x27;", "'"),
            ("&#39;", "'"),
            ("&#8217;", "\u{2019}"),
            ("&#X2019;", "\u{2019}"),
            ("&nbsp;", "\u{a0}"),
            ("&mdash;", "\u{2014}"),
            ("&amp;copy;", "&copy;"),
            ("&amp;#39;", "&#39;"),
            (" & ", " & "),
            ("AT&T", "AT&T"),
        ] {
            let text = format!("{{&#34;item&#x22;: &quot;baker{entity}s&quot;, &quot;quantity&quot;: 2}}");
            let expected = serde_json::json!({ "item": format!("baker{character}s"), "quantity": 2 });
            assert_eq!(adapted(&text), Some(expected), "{text}");
        }
        for entity in ["&bogus;", "&Eacute;", "&#xD800;", "&#0;", "&#;", "&#x110000;"] {
            let text = format!("{{&quot;item&quot;: &quot;{entity}&quot;, &quot;quantity&quot;: 2}}");
            assert_eq!(restored(&text), None, "{text}");
        }
    }
}
