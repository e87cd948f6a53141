//! Finds the layout of arguments from what a template renders for calls with chosen arguments.

use formwork_grammar::ValueType;
use serde_json::{Value, json};

use super::write::{python, spaced};
use super::{Members, NestedForm, Section, StringForm};

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
pub(crate) fn found(render: &dyn Fn(Value) -> Option<String>) -> Option<Found> {
    let one = render(json!({ KEY: VALUE }))?;
    let (before_name, rest) = one.split_once(KEY)?;
    let (before, end) = rest.split_once(VALUE)?;
    let two = render(json!({ KEY: VALUE, MORE: OTHER }))?;
    let (_, rest) = two.split_once(VALUE)?;
    let (middle, _) = rest.split_once(MORE)?;
    let none = render(json!({}))?;
    let (after, name_close, end, middle) =
        if let Some(((after, end), (other, middle))) = end.split_once(KEY).zip(middle.split_once(KEY)) {
            // A closing tag has the name of the member.
            let close = end_of_tag(common_prefix(end, middle))?;
            if after != other || after.trim_start().chars().count() < 2 {
                return None;
            }
            (after, Some(close), &end[close.len()..], &middle[close.len()..])
        } else {
            let after = whole_tags(common_prefix(end, middle));
            (after, None, &end[after.len()..], &middle[after.len()..])
        };
    let depends = [before, end, middle, none.as_str()].iter().any(|text| text.contains("probe"));
    // Without a text between a value and the next name, a reader would not find the name.
    let joins = middle.is_empty() && name_close.is_none();
    if depends || joins || before.is_empty() || none.is_empty() {
        return None;
    }
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
    if name_close.is_some() && !(open.trim().is_empty() && separator.trim().is_empty()) {
        return None;
    }
    let mut members = Members {
        open: open.to_owned(),
        separator: separator.to_owned(),
        empty: empty.to_owned(),
        name_open: name_open.to_owned(),
        around: std::array::from_fn(|_| (before.to_owned(), after.to_owned())),
        name_close: name_close.map(str::to_owned),
        strings: StringForm::Python,
        literals: ["null", "false", "true"].map(str::to_owned),
        omits_null: false,
        nested: NestedForm::Json,
        item_name: String::new(),
        sorted: false,
    };
    members.read_types(&Calls { render, before_name, close, none: &none })?;
    let sorted = render(json!({ MORE: VALUE, KEY: OTHER }))?;
    members.sorted = sorted.find(KEY)? < sorted.find(MORE)?;
    members.agrees(render, between, close).then(|| Found {
        members,
        between: between.to_owned(),
        close: close.to_owned(),
    })
}

/// Calls of a template with one function.
struct Calls<'r> {
    render: &'r dyn Fn(Value) -> Option<String>,
    /// Text before the name of the first member.
    before_name: &'r str,
    /// Text after the arguments.
    close: &'r str,
    /// The whole text without arguments.
    none: &'r str,
}

impl Members {
    /// Finds the texts around values, and the forms of values, by type.
    fn read_types(&mut self, calls: &Calls<'_>) -> Option<()> {
        let (string_before, string_after) = self.around(ValueType::String).clone();
        // The text after a value that holds the name again.
        let tail = self.name_close.as_ref().map(|close| format!("{string_after}{KEY}{close}"));
        let tail = tail.unwrap_or_default();
        let kept = if tail.is_empty() { "" } else { string_after.as_str() };
        let value_text = |value: &Value| {
            let text = (calls.render)(json!({ KEY: value }))?;
            let text = text.strip_prefix(calls.before_name)?.strip_prefix(KEY)?;
            Some(text.strip_suffix(calls.close)?.strip_suffix(tail.as_str())?.to_owned())
        };
        let around = |text: &str, forms: &[String]| {
            // The last occurrence, because a tag may name the type `null` before the value `null`.
            let (at, form) = forms.iter().find_map(|form| Some((text.rfind(form.as_str())?, form)))?;
            let after = format!("{}{kept}", &text[at + form.len()..]);
            Some((form.clone(), (text[..at].to_owned(), after)))
        };
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let scalars = [
            (ValueType::Null, json!(null), texts(&["null", "None"])),
            (ValueType::Boolean, json!(false), texts(&["false", "False"])),
            (ValueType::Boolean, json!(true), texts(&["true", "True"])),
            (ValueType::Number, json!(48213), texts(&["48213"])),
        ];
        self.omits_null = (calls.render)(json!({ KEY: null }))? == calls.none;
        if self.omits_null {
            self.literals[0].clear();
        }
        for (place, (kind, value, forms)) in scalars.into_iter().enumerate() {
            if self.omits_null && kind == ValueType::Null {
                continue;
            }
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
                Some(("\"", "\"")) => StringForm::Json,
                Some((open, close)) if !open.is_empty() && !close.is_empty() => {
                    StringForm::Quoted { open: open.to_owned(), close: close.to_owned() }
                }
                _ if self.name_close.is_some() => {
                    StringForm::Raw { end: string_after.trim_start().to_owned(), section: None }
                }
                _ => {
                    let text = |text: &str| {
                        let text = value_text(&text.into())?;
                        let text = text.strip_prefix(string_before.as_str())?;
                        Some(text.strip_suffix(string_after.as_str())?.to_owned())
                    };
                    StringForm::Raw { end: end_of_value(&string_after)?, section: section(&text) }
                }
            }
        };
        let is_raw = matches!(self.strings, StringForm::Raw { .. });
        if !is_raw && self.name_close.is_some() {
            return None;
        }
        if !is_raw {
            // Nested values are compared next, so all types need these texts.
            let texts = self.around(ValueType::Number).clone();
            self.around = std::array::from_fn(|_| texts.clone());
        }
        let list = json!(["probeitem", 48213, true]);
        let object = json!({ "probeinner": "probedeep", "probetrue": [] });
        let (list_text, object_text) = (value_text(&list)?, value_text(&object)?);
        let (mut lists, mut objects) = (Vec::new(), Vec::new());
        let item_name = self.name_close.as_ref().and_then(|_| self.item_name(&list_text));
        let tags = item_name.is_some().then_some(NestedForm::Tags);
        self.item_name = item_name.unwrap_or_default();
        for form in [NestedForm::Json, NestedForm::Same, NestedForm::Python].into_iter().chain(tags) {
            self.nested = form;
            lists.push(self.value(&list));
            objects.push(self.value(&object));
        }
        lists.push(list.to_string());
        objects.push(object.to_string());
        let (list_form, list_texts) = around(&list_text, &lists)?;
        let (object_form, object_texts) = around(&object_text, &objects)?;
        self.around[ValueType::Array as usize] = list_texts;
        self.around[ValueType::Object as usize] = object_texts;
        let is_tagged = tags.is_some() && objects.get(3) == Some(&object_form);
        let has_python_lists = list_form == python(&list);
        self.nested = if is_tagged {
            NestedForm::Tags
        } else if object_form == spaced(&object) && has_python_lists {
            NestedForm::PythonArrays
        } else if object_form == spaced(&object) {
            NestedForm::Json
        } else if Some(&object_form) == objects.last() {
            NestedForm::CompactJson
        } else if object_form == python(&object) && has_python_lists {
            NestedForm::Python
        } else {
            NestedForm::Same
        };
        // Raw text in brackets of its own would not show where it ends.
        (self.nested != NestedForm::Same || !is_raw).then_some(())
    }

    /// Returns the name with which the items of an array are written. `list` is the text of an array.
    fn item_name(&self, list: &str) -> Option<String> {
        let (before, _) = self.around(ValueType::String);
        let (name, _) =
            list.strip_prefix(before.as_str())?.strip_prefix(&self.name_open)?.split_once(before)?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| name.to_owned())
    }

    /// Reports whether the layout writes a call with all kinds of values as the template does.
    fn agrees(&self, render: &dyn Fn(Value) -> Option<String>, between: &str, close: &str) -> bool {
        let hard = match self.strings {
            // Some templates escape what others keep.
            StringForm::Python => json!("a <b> & c"),
            StringForm::Raw { .. } | StringForm::Quoted { .. } | StringForm::Json => {
                json!("a <b> & \"c'\n\\d")
            }
        };
        let all = json!({
            "a_text": hard, "b_number": -2.5, "c_yes": true, "d_none": null, "e_text": "", "f_no": false,
            "g_deep": { "a_list": ["x", { "b": null }], "b_text": "y" }, "h_list": ["x", true, { "b": null }],
        });
        [json!({}), json!({ "a": "b" }), json!({ "a": 1, "b": "2" }), all].into_iter().all(|arguments| {
            let written = format!("{between}{}{close}", self.written(&arguments));
            render(arguments).is_some_and(|rendered| rendered == written)
        })
    }
}

/// Finds the form of strings with special characters. `render` returns the text of a string.
fn section(render: &dyn Fn(&str) -> Option<String>) -> Option<Section> {
    let text = |c: char| format!("{VALUE}{c}{OTHER}");
    let shown = render(&text('<'))?;
    let (open, close) = shown.split_once(&text('<'))?;
    if open.trim().is_empty() || close.trim().is_empty() {
        return None;
    }
    let special = ('\0'..='\x7f').filter(|c| c.is_ascii_punctuation() || c.is_ascii_whitespace());
    let special = special.filter(|&c| render(&text(c)) == Some(format!("{open}{}{close}", text(c))));
    Some(Section { open: open.to_owned(), close: close.to_owned(), special: special.collect() })
}

/// Returns `text` up to the end of its first tag and white space after it.
fn end_of_tag(text: &str) -> Option<&str> {
    let end = text.find('>')? + 1;
    let space = text[end..].len() - text[end..].trim_start().len();
    Some(&text[..end + space])
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
