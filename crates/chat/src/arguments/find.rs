//! Finds the layout of arguments from what a template renders for calls with chosen arguments.

use std::sync::Arc;

use formwork_grammar::{Notation, ValueType};
use formwork_vocab::TokenId;
use serde_json::{Value, json};

use super::write::{python, spaced};
use super::{Members, NestedForm, StringForm};

const KEY: &str = "probekey";
const MORE: &str = "probemore";
const VALUE: &str = "probevalue";
const OTHER: &str = "probeother";

/// The layout of a call whose arguments are not one JSON text.
pub(crate) struct Found {
    pub(crate) members: Members,
    /// Text between the name of the function and the arguments.
    pub(crate) between: String,
    /// Text after the call.
    pub(crate) close: String,
}

/// Finds the layout of arguments. `render` returns the text that a template writes for a call with the
/// given arguments, from the end of the function's name. Returns `None` if the layout cannot be found,
/// or if it does not write other arguments as the template does.
pub(crate) fn found(
    render: &dyn Fn(Value) -> Option<String>,
    controls: &[(TokenId, String)],
) -> Option<Found> {
    let one = render(json!({ KEY: VALUE }))?;
    let (before_name, rest) = one.split_once(KEY)?;
    let (before, end) = rest.split_once(VALUE)?;
    let two = render(json!({ KEY: VALUE, MORE: OTHER }))?;
    let (_, rest) = two.split_once(VALUE)?;
    let (middle, _) = rest.split_once(MORE)?;
    let none = render(json!({}))?;
    // A closing tag with the name of the member is a form of its own.
    let depends = [before, end, middle, none.as_str()].iter().any(|text| text.contains("probe"));
    if depends || before.is_empty() || none.is_empty() {
        return None;
    }
    let after = whole_tags(common_prefix(end, middle));
    let (end, middle) = (&end[after.len()..], &middle[after.len()..]);
    let name_open = common_suffix(before_name, middle);
    let separator = &middle[..middle.len() - name_open.len()];
    let open = &before_name[..before_name.len() - name_open.len()];
    let close = common_suffix(end, &none);
    // The arguments end where the text after the call begins, so it has no bracket of its own.
    if close.len() != end.len() {
        return None;
    }
    let empty = &none[..none.len() - close.len()];
    let between = common_prefix(open, empty);
    let (open, empty) = (&open[between.len()..], &empty[between.len()..]);
    let mut members = Members {
        open: open.to_owned(),
        separator: separator.to_owned(),
        empty: empty.to_owned(),
        name_open: name_open.to_owned(),
        around: std::array::from_fn(|_| (before.to_owned(), after.to_owned())),
        strings: StringForm::Python,
        literals: ["null", "false", "true"].map(str::to_owned),
        nested: NestedForm::Json,
        sorted: false,
        notation: Arc::new(placeholder()),
    };
    members.read_types(render, before_name, close)?;
    let sorted = render(json!({ MORE: VALUE, KEY: OTHER }))?;
    members.sorted = sorted.find(KEY)? < sorted.find(MORE)?;
    members.agrees(render, between, close).then(|| Found {
        members: members.with_notation(controls),
        between: between.to_owned(),
        close: close.to_owned(),
    })
}

impl Members {
    /// Finds the texts around values, and the forms of values, by type. `before_name` is the text
    /// before the name of a member, and `close` is the text after the arguments.
    fn read_types(
        &mut self,
        render: &dyn Fn(Value) -> Option<String>,
        before_name: &str,
        close: &str,
    ) -> Option<()> {
        let (string_before, string_after) = self.around(ValueType::String).clone();
        let value_text = |value: &Value| {
            let text = render(json!({ KEY: value }))?;
            let text = text.strip_prefix(before_name)?.strip_prefix(KEY)?;
            Some(text.strip_suffix(close)?.to_owned())
        };
        let around = |text: &str, forms: &[String]| {
            // The last occurrence, because a tag may name the type `null` before the value `null`.
            let (at, form) = forms.iter().find_map(|form| Some((text.rfind(form.as_str())?, form)))?;
            Some((form.clone(), (text[..at].to_owned(), text[at + form.len()..].to_owned())))
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let scalars = [
            (ValueType::Null, json!(null), texts(&["null", "None"])),
            (ValueType::Boolean, json!(false), texts(&["false", "False"])),
            (ValueType::Boolean, json!(true), texts(&["true", "True"])),
            (ValueType::Number, json!(48213), texts(&["48213"])),
        ];
        for (place, (kind, value, forms)) in scalars.into_iter().enumerate() {
            let (form, texts) = around(&value_text(&value)?, &forms)?;
            self.around[kind as usize] = texts;
            if let Some(literal) = self.literals.get_mut(place) {
                *literal = form;
            }
        }
        self.strings = {
            let (before, after) = self.around(ValueType::Number);
            let quotes =
                string_before.strip_prefix(before.as_str()).zip(string_after.strip_suffix(after.as_str()));
            match quotes {
                Some(("'", "'")) => StringForm::Python,
                Some((open, close)) if !open.is_empty() && !close.is_empty() => {
                    StringForm::Quoted { open: open.to_owned(), close: close.to_owned() }
                }
                _ => StringForm::Raw { end: end_of_value(&string_after)? },
            }
        };
        if !matches!(self.strings, StringForm::Raw { .. }) {
            // Nested values are compared next, so all types need these texts.
            let texts = self.around(ValueType::Number).clone();
            self.around = std::array::from_fn(|_| texts.clone());
        }
        let list = json!(["probeitem", 48213, true]);
        let object = json!({ "probeinner": "probedeep", "probetrue": [] });
        let (mut lists, mut objects) = (Vec::new(), Vec::new());
        for form in [NestedForm::Json, NestedForm::Same, NestedForm::Python] {
            self.nested = form;
            lists.push(self.value(&list));
            objects.push(self.value(&object));
        }
        lists.push(list.to_string());
        objects.push(object.to_string());
        let (list_form, list_texts) = around(&value_text(&list)?, &lists)?;
        let (object_form, object_texts) = around(&value_text(&object)?, &objects)?;
        self.around[ValueType::Array as usize] = list_texts;
        self.around[ValueType::Object as usize] = object_texts;
        self.nested = if object_form == spaced(&object) {
            NestedForm::Json
        } else if Some(&object_form) == objects.last() {
            NestedForm::CompactJson
        } else if object_form == python(&object) && list_form == python(&list) {
            NestedForm::Python
        } else {
            NestedForm::Same
        };
        Some(())
    }

    /// Reports whether the layout writes a call with all kinds of values as the template does.
    fn agrees(&self, render: &dyn Fn(Value) -> Option<String>, between: &str, close: &str) -> bool {
        let hard = match self.strings {
            // Some templates escape what others keep.
            StringForm::Python => json!("a <b> & c"),
            StringForm::Raw { .. } | StringForm::Quoted { .. } => json!("a <b> & \"c'\n\\d"),
        };
        let all = json!({
            "a_text": hard, "b_number": -2.5, "c_yes": true, "d_none": null, "e_text": "", "f_no": false,
            "g_deep": { "a_list": ["x", { "b": null }], "b_text": "y" },
        });
        [json!({}), json!({ "a": "b" }), json!({ "a": 1, "b": "2" }), all].into_iter().all(|arguments| {
            let written = format!("{between}{}{close}", self.written(&arguments));
            render(arguments).is_some_and(|rendered| rendered == written)
        })
    }
}

/// Returns the text that ends a raw value: the first tag of `after`, or its first word.
fn end_of_value(after: &str) -> Option<String> {
    let after = after.trim_start();
    let end = match after.find('>') {
        Some(at) if after.starts_with('<') => at + 1,
        _ => after.find(char::is_whitespace).unwrap_or(after.len()),
    };
    Some(after[..end].to_owned()).filter(|end| end.chars().count() > 1)
}

/// Returns `text` up to a tag that is not whole.
pub(crate) fn whole_tags(text: &str) -> &str {
    match (text.rfind('<'), text.rfind('>')) {
        (Some(open), close) if close.is_none_or(|close| close < open) => &text[..open],
        _ => text,
    }
}

pub(crate) fn common_prefix<'t>(a: &'t str, b: &str) -> &'t str {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    &a[..same.map(|(c, _)| c.len_utf8()).sum()]
}

fn common_suffix<'t>(a: &'t str, b: &str) -> &'t str {
    let same = a.chars().rev().zip(b.chars().rev()).take_while(|(a, b)| a == b);
    &a[a.len() - same.map(|(c, _)| c.len_utf8()).sum::<usize>()..]
}

/// Returns a notation that is replaced before use.
fn placeholder() -> Notation {
    super::python()
}
