//! C# identifiers, string literals and comments.

use std::collections::HashMap;
use std::fmt::Write;

/// Maximum number of characters that an identifier takes from one name.
const PART: usize = 60;

/// Maximum number of bytes of a type name with the names of its parents. The limit of C# is 511
/// characters.
const LONG: usize = 200;

/// Type names that the generated code uses itself.
const TYPES: [&str; 25] = [
    "Type",
    "List",
    "IReadOnlyList",
    "JsonConverter",
    "JsonConverterAttribute",
    "JsonElement",
    "JsonException",
    "JsonIgnore",
    "JsonIgnoreAttribute",
    "JsonIgnoreCondition",
    "JsonPropertyName",
    "JsonPropertyNameAttribute",
    "JsonSerializer",
    "JsonSerializerOptions",
    "JsonTokenType",
    "JsonUnmappedMemberHandling",
    "JsonUnmappedMemberHandlingAttribute",
    "JsonValueKind",
    "NotNullWhen",
    "NotNullWhenAttribute",
    "System",
    "UntaggedVariant",
    "Utf8JsonReader",
    "Utf8JsonWriter",
    "Value",
];

/// Names that a property of a record must not have, because every record has such a member.
const MEMBERS: [&str; 10] = [
    "Clone",
    "EqualityContract",
    "Equals",
    "Finalize",
    "GetHashCode",
    "GetType",
    "MemberwiseClone",
    "PrintMembers",
    "ReferenceEquals",
    "ToString",
];

/// Keywords, which are not valid parts of a namespace without `@`.
const KEYWORDS: [&str; 77] = [
    "abstract",
    "as",
    "base",
    "bool",
    "break",
    "byte",
    "case",
    "catch",
    "char",
    "checked",
    "class",
    "const",
    "continue",
    "decimal",
    "default",
    "delegate",
    "do",
    "double",
    "else",
    "enum",
    "event",
    "explicit",
    "extern",
    "false",
    "finally",
    "fixed",
    "float",
    "for",
    "foreach",
    "goto",
    "if",
    "implicit",
    "in",
    "int",
    "interface",
    "internal",
    "is",
    "lock",
    "long",
    "namespace",
    "new",
    "null",
    "object",
    "operator",
    "out",
    "override",
    "params",
    "private",
    "protected",
    "public",
    "readonly",
    "ref",
    "return",
    "sbyte",
    "sealed",
    "short",
    "sizeof",
    "stackalloc",
    "static",
    "string",
    "struct",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "uint",
    "ulong",
    "unchecked",
    "unsafe",
    "ushort",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
];

/// Identifiers in use. Each has the last number that was appended to it.
pub(super) struct Scope(HashMap<String, usize>);

impl Scope {
    /// Creates the scope of the types of a file.
    pub(super) fn types() -> Self {
        Self::of(&TYPES)
    }

    /// Creates the scope of the members of a record. A member cannot have the name of its type.
    pub(super) fn members(of: &str) -> Self {
        let mut scope = Self::of(&MEMBERS);
        scope.0.insert(of.to_owned(), 1);
        scope
    }

    /// Creates the scope of the members of an enum.
    pub(super) fn enumeration() -> Self {
        Self::of(&[])
    }

    fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| ((*name).to_owned(), 1)).collect())
    }

    /// Returns `name` if it is not in use, and otherwise `name` with the first free number.
    pub(super) fn fresh(&mut self, name: &str) -> String {
        let mut fresh = name.to_owned();
        while self.0.contains_key(&fresh) {
            let count = self.0.entry(name.to_owned()).or_insert(1);
            *count += 1;
            fresh = format!("{name}{count}");
        }
        self.0.insert(fresh.clone(), 1);
        fresh
    }
}

/// Returns the type name of a part of the type `parent`.
pub(super) fn within(parent: &str, name: &str) -> String {
    let name = pascal(name);
    if parent.len() + name.len() > LONG { name } else { format!("{parent}{}", name.trim_start_matches('_')) }
}

/// Converts a name to an identifier in Pascal case: `enemy_level` becomes `EnemyLevel`. The result
/// is no keyword, because all keywords start with a lowercase letter.
pub(super) fn pascal(name: &str) -> String {
    let mut identifier = String::new();
    let words = name.split(|c| !is_part(c)).filter(|word| !word.is_empty());
    for c in words.flat_map(|word| {
        let mut chars = word.chars();
        chars.next().into_iter().flat_map(char::to_uppercase).filter(|&c| is_part(c)).chain(chars)
    }) {
        if identifier.chars().count() == PART {
            break;
        }
        identifier.push(c);
    }
    match identifier.chars().next() {
        None => "Field".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{identifier}"),
        Some(first) if first.is_lowercase() && KEYWORDS.contains(&identifier.as_str()) => {
            format!("_{identifier}")
        }
        Some(_) => identifier,
    }
}

/// Reports whether an identifier may contain the character. `_` separates words instead. The
/// compiler reads no letters outside the basic plane, and circled letters are symbols.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || (!c.is_ascii() && c <= '\u{ffff}' && c.is_alphabetic() && !('Ⓐ'..='ⓩ').contains(&c))
}

/// Reports whether the text is a namespace: identifiers of ASCII letters, digits and `_`, with dots
/// in between, and without keywords.
pub(super) fn is_namespace(text: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !KEYWORDS.contains(&part)
    };
    text.len() <= LONG && text.split('.').all(is_name)
}

/// Returns a string literal. Characters other than printable ASCII and letters are escaped.
pub(crate) fn literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            ' '..='~' => literal.push(c),
            _ if c.is_alphanumeric() => literal.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a `String` cannot fail.
                    let _ = write!(literal, "\\u{unit:04X}");
                }
            }
        }
    }
    literal.push('"');
    literal
}

/// Returns text for a documentation comment: on one line, with the characters of XML escaped.
pub(super) fn comment(text: &str) -> String {
    let text = text.replace(|c: char| c.is_control(), " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        let cases = [
            ("enemy_level", "EnemyLevel"),
            ("enemyLevel", "EnemyLevel"),
            ("class", "Class"),
            ("Hit Points!", "HitPoints"),
            ("3d", "_3d"),
            ("--", "Field"),
            ("名前", "名前"),
            ("état", "État"),
            ("😀", "Field"),
            ("Ⓐb²", "B"),
            ("ßa", "SSa"),
        ];
        for (name, expected) in cases {
            assert_eq!(pascal(name), expected, "{name}");
        }
        assert_eq!(within("Game", "3d"), "Game3d");
        assert_eq!(pascal(&"x".repeat(500)).len(), PART);
        assert!(
            is_namespace("Game.Llm_2")
                && !is_namespace("Game.class")
                && !is_namespace("")
                && !is_namespace("a..b")
        );
        let mut scope = Scope::members("Character");
        assert_eq!(
            ["Character", "Character", "Equals", "Age"].map(|name| scope.fresh(name)),
            ["Character2", "Character3", "Equals2", "Age"]
        );
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(literal("a\"\\\n\u{2028}é😀\0"), r#""a\"\\\n\u2028é\uD83D\uDE00\u0000""#);
        assert_eq!(comment("a <b>\u{2028}\n & c\u{1}"), "a &lt;b&gt; &amp; c");
    }
}
