use std::fmt::Write as _;

/// Returns `text` as a literal of Python between single quotes.
///
/// ```
/// assert_eq!(formwork_grammar::python_string("it's\n"), r"'it\'s\n'");
/// ```
pub fn python_string(text: &str) -> String {
    format!("'{}'", escaped(text))
}

/// Returns `text` with the escapes that it needs between single quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '\\' => written.extend(['\\', c]),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(written, "\\x{:02x}", u32::from(c));
            }
            c => written.push(c),
        }
    }
    written
}
