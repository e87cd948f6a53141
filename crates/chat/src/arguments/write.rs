use std::fmt::Write as _;

use formwork_grammar::ValueType;
use serde_json::Value;

use super::{Members, NestedForm, StringForm};

impl Members {
    /// Returns the text of arguments. The result is the text that a template with this layout writes.
    pub(crate) fn written(&self, arguments: &Value) -> String {
        let none = serde_json::Map::new();
        let members = arguments.as_object().unwrap_or(&none);
        let mut members: Vec<(&String, &Value)> = members.iter().collect();
        if self.sorted {
            members.sort_by_key(|(name, _)| name.to_lowercase());
        }
        if members.is_empty() {
            return self.empty.clone();
        }
        let members = members.into_iter().map(|(name, value)| {
            let (before, after) = self.around(ValueType::of(value));
            format!("{}{name}{before}{}{after}", self.name_open, self.value(value))
        });
        let members: Vec<String> = members.collect();
        format!("{}{}", self.open, members.join(&self.separator))
    }

    pub(super) fn value(&self, value: &Value) -> String {
        let [null, no, yes] = &self.literals;
        match value {
            Value::Null => null.clone(),
            Value::Bool(false) => no.clone(),
            Value::Bool(true) => yes.clone(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => self.string(text),
            Value::Array(_) | Value::Object(_) => match self.nested {
                NestedForm::Json => spaced(value),
                NestedForm::CompactJson => value.to_string(),
                NestedForm::Python => python(value),
                NestedForm::Same => self.nested_value(value),
            },
        }
    }

    fn string(&self, text: &str) -> String {
        match &self.strings {
            StringForm::Raw { .. } => text.to_owned(),
            StringForm::Quoted { open, close } => format!("{open}{text}{close}"),
            StringForm::Python => python_string(text),
        }
    }

    fn nested_value(&self, value: &Value) -> String {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.nested_value(item)).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(members) => {
                let mut members: Vec<(&String, &Value)> = members.iter().collect();
                if self.sorted {
                    members.sort_by_key(|(name, _)| name.to_lowercase());
                }
                let before = |value| &self.around(ValueType::of(value)).0;
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(name, value)| format!("{name}{}{}", before(value), self.nested_value(value)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            Value::Null => self.literals[0].clone(),
            Value::Bool(is_true) => self.literals[1 + usize::from(*is_true)].clone(),
            Value::Number(number) => number.to_string(),
        }
    }
}

/// Returns `value` as JSON with a space after each comma and colon, as templates write it.
pub(super) fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> = members
                .map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns `value` as a literal of Python.
pub(super) fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => python_string(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(python).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> =
                members.map(|(name, value)| format!("{}: {}", python_string(name), python(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

fn python_string(text: &str) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('\'');
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
    written.push('\'');
    written
}
