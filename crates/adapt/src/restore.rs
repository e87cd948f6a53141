//! Restoration of texts in which every line or every quote was changed.

use std::borrow::Cow;

/// Returns the text with its changes undone, and the name of the transform. Returns `None` if the
/// text has no such changes.
pub(super) fn restored(text: &str) -> Option<(String, &'static str)> {
    without_diff_marks(text)
        .map(|text| (text, "diff"))
        .or_else(|| without_entities(text).map(|text| (text, "entities")))
}

/// Returns the new version of a text in the form of a diff: lines with `+`, and lines without a
/// mark. Lines with `-` belong to the old version.
///
/// Each line of the diff must begin with a mark or a blank, and a mark must not begin a number.
fn without_diff_marks(text: &str) -> Option<String> {
    let is_part = |line: &&str| {
        let mut chars = line.chars();
        let mark = chars.next();
        let is_apart = !chars.next().is_some_and(|c| c.is_ascii_digit() || c == '.');
        matches!(mark, Some('+' | '-') if is_apart) || matches!(mark, None | Some(' ' | '\t'))
    };
    let is_head = |line: &str| ["+++", "---", "@@", "diff "].iter().any(|head| line.starts_with(head));
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| {
        line.starts_with(['+', '-', ' ']) && line[1..].trim_start().starts_with(['{', '[']) && !is_head(line)
    })?;
    let block: Vec<&str> = lines[first..].iter().copied().take_while(is_part).collect();
    let has_marks = block.iter().any(|line| line.starts_with('+'));
    let kept = block.iter().filter(|line| !line.starts_with('-'));
    has_marks.then(|| kept.map(|line| line.get(1..).unwrap_or_default()).collect::<Vec<_>>().join("\n"))
}

/// Replaces entities with their characters, if all double quotes of the text are entities.
fn without_entities(text: &str) -> Option<String> {
    if text.contains('"') || !text.contains("&quot;") && !text.contains("&#34;") {
        return None;
    }
    // `&amp;` is last, so that `&amp;quot;` becomes `&quot;`.
    let entities = [
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    let plain = entities.iter().fold(Cow::Borrowed(text), |text, (entity, character)| {
        if text.contains(entity) { Cow::Owned(text.replace(entity, character)) } else { text }
    });
    Some(plain.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_new_version_of_a_diff() {
        for text in [
            "+ {\n+   \"a\": 1\n+ }",
            "Here:\n```diff\n {\n-  \"a\": 2\n+  \"a\": 1\n }\n```\nDone.",
            "--- a\n+++ b\n@@ -1 +1 @@\n+{\"a\": 1}",
        ] {
            let (text, name) = restored(text).expect("a diff");
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!((value, name), (serde_json::json!({ "a": 1 }), "diff"), "{text}");
        }
        for text in ["[\n+1,\n-2\n]", " [\n+1,\n-2\n ]", "{\n  \"a\": 1\n}", "- {\"a\": 1}\n- {\"a\": 2}"] {
            assert_eq!(restored(text), None, "{text}");
        }
    }

    #[test]
    fn replaces_entities_if_all_quotes_are_entities() {
        let text = "{&quot;a&quot;: &quot;x &amp;amp; y&quot;}";
        assert_eq!(restored(text), Some(("{\"a\": \"x &amp; y\"}".to_owned(), "entities")));
        assert_eq!(restored("{\"a\": \"&quot;b&quot;\"}"), None);
    }
}
