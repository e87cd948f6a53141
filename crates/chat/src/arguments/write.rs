use formwork_grammar::{ValueType, python_string};
use serde_json::Value;

use super::{Members, NestedForm, Section, StringForm};

impl Members {
    /// Returns the text of arguments. The result is the text that a template with this layout writes.
    pub(crate) fn written(&self, arguments: &Value) -> String {
        let none = serde_json::Map::new();
        let members = arguments.as_object().unwrap_or(&none);
        let is_written = |(_, value): &(&String, &Value)| !(self.omits_null && value.is_null());
        let mut members: Vec<(&String, &Value)> = members.iter().filter(is_written).collect();
        if self.sorted {
            members.sort_by_key(|(name, _)| name.to_lowercase());
        }
        if members.is_empty() {
            return self.empty.clone();
        }
        let members = members.into_iter().map(|(name, value)| self.member(name, value));
        let members: Vec<String> = members.collect();
        format!("{}{}", self.open, members.join(&self.separator))
    }

    fn member(&self, name: &str, value: &Value) -> String {
        let (before, after) = self.around(ValueType::of(value));
        let member = format!("{}{name}{before}{}{after}", self.name_open, self.value(value));
        match &self.name_close {
            Some(close) => format!("{member}{name}{close}"),
            None => member,
        }
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
                NestedForm::PythonArrays if value.is_object() => spaced(value),
                NestedForm::Python | NestedForm::PythonArrays => python(value),
                NestedForm::Same => self.nested_value(value),
                NestedForm::Tags => self.tags(value),
            },
        }
    }

    fn string(&self, text: &str) -> String {
        match &self.strings {
            StringForm::Raw { section: Some(Section { open, close, special }), .. }
                if text.contains(special.as_slice()) =>
            {
                format!("{open}{text}{close}")
            }
            StringForm::Raw { .. } => text.to_owned(),
            StringForm::Quoted { open, close } => format!("{open}{text}{close}"),
            StringForm::Json => Value::from(text).to_string(),
            StringForm::Python => python_string(text),
        }
    }

    /// Returns an array or object as tags.
    fn tags(&self, value: &Value) -> String {
        let is_written = |(_, value): &(&String, &Value)| !(self.omits_null && value.is_null());
        let parts: Vec<String> = match value {
            Value::Array(items) => items.iter().map(|item| self.member(&self.item_name, item)).collect(),
            Value::Object(members) => {
                let members = members.iter().filter(is_written);
                members.map(|(name, value)| self.member(name, value)).collect()
            }
            _ => Vec::new(),
        };
        parts.join(&self.separator)
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
pub(crate) fn spaced(value: &Value) -> String {
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
