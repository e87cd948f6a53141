//! Lists that a template can change, as in Python.
//!
//! minijinja's values are immutable, and it shares a literal such as `[]` between renderings. Some
//! templates call `append` or `pop` on a list that they keep. In such a template, [`with_lists`] wraps
//! each list literal in a call of a function, which makes a new [`List`] each time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Enumerator, Object, ObjectRepr, from_args};
use minijinja::{Environment, Error, ErrorKind, State, Value};

/// Name of the function that makes a list.
const MAKE: &str = "__list";

/// Methods of Python that change a list.
const METHODS: [&str; 7] = [".append(", ".extend(", ".insert(", ".pop(", ".remove(", ".clear(", ".reverse("];

/// Words after which a bracket starts a list instead of an index.
const BEFORE_LISTS: [&str; 12] =
    ["and", "do", "elif", "else", "if", "in", "is", "not", "or", "print", "recursive", "with"];

/// Maximum number of items in one list.
const MAX_ITEMS: usize = 1 << 20;

/// Maximum number of items that one rendering moves or inspects to change lists. This number takes less
/// than a second.
const MAX_WORK: usize = 2_000_000;

/// Maximum nesting depth of an item of a list.
const MAX_DEPTH: usize = 100;

/// A list of Python. Clones of a value share the list.
///
/// Unlike in Python, a loop over a list does not see the items that its body appends.
#[derive(Debug, Default)]
struct List(Mutex<VecDeque<Value>>);

/// Items that the current rendering has moved or inspected.
#[derive(Default)]
struct Work(usize);

/// Wraps the list literals of `source` if it calls a method that changes a list. Returns `None` if it
/// calls none.
pub(super) fn with_lists(source: &str) -> Option<String> {
    if !METHODS.iter().any(|method| source.contains(method)) {
        return None;
    }
    let mut out = String::with_capacity(source.len() + 64);
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let (tag, end) =
            (rest.get(..2).unwrap_or_default(), if rest.starts_with("{%") { "%}" } else { "}}" });
        let copied = match tag {
            "{#" => rest.find("#}").map_or(rest.len(), |at| at + 2),
            "{%" if is_raw(rest) => end_of_raw(rest),
            "{%" | "{{" => {
                out.push_str(tag);
                rest = &rest[2..];
                rest = &rest[wrap(rest, end, &mut out)..];
                0
            }
            _ => 1,
        };
        out.push_str(&rest[..copied]);
        rest = &rest[copied..];
    }
    out.push_str(rest);
    Some(out)
}

/// Adds the function that makes lists, and lets the filter `list` make such lists.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function(MAKE, make);
    environment.add_filter("list", make);
}

/// Returns an error for a method of Python's lists that `value` does not have.
pub(super) fn unknown_method(value: &Value, name: &str) -> Option<Error> {
    let is_change = METHODS.iter().any(|method| &method[1..method.len() - 1] == name);
    (is_change && value.kind() == minijinja::value::ValueKind::Seq).then(|| {
        let message =
            format!("cannot call {name} on this list; only lists that the template makes can change");
        Error::new(ErrorKind::UnknownMethod, message)
    })
}

fn make(state: &mut State, items: &Value) -> Result<Value, Error> {
    let items: VecDeque<Value> = items.try_iter()?.take(MAX_ITEMS + 1).collect();
    check_len(items.len())?;
    work(state, items.len())?;
    Ok(Value::from_object(List(Mutex::new(items))))
}

impl List {
    fn items(&self) -> MutexGuard<'_, VecDeque<Value>> {
        // A panic elsewhere leaves the list consistent, because each change is a single operation.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of an index, which counts from the end if it is negative.
    fn place(&self, index: i64) -> Option<usize> {
        let len = self.items().len();
        let index = if index < 0 { index.checked_add_unsigned(len as u64)? } else { index };
        usize::try_from(index).ok().filter(|place| *place < len)
    }

    /// Adds a value at `place`, or at the end if the list is shorter.
    fn insert(self: &Arc<Self>, state: &mut State, place: usize, value: &Value) -> Result<(), Error> {
        self.check_item(state, value, MAX_DEPTH)?;
        let len = self.items().len();
        check_len(len + 1)?;
        let place = place.min(len);
        work(state, place.min(len - place))?;
        self.items().insert(place, value.clone());
        Ok(())
    }

    fn remove(&self, state: &mut State, place: usize) -> Result<Value, Error> {
        let len = self.items().len();
        work(state, place.min(len.saturating_sub(place)))?;
        let removed = self.items().remove(place);
        removed.ok_or_else(|| invalid("cannot remove an item that a list does not have"))
    }

    /// Checks that `value` does not contain this list, because such a list has no end.
    fn check_item(self: &Arc<Self>, state: &mut State, value: &Value, depth: usize) -> Result<(), Error> {
        work(state, 1)?;
        let Some(object) = value.as_object() else { return Ok(()) };
        let Some(depth) = depth.checked_sub(1) else {
            return Err(invalid("an item of a list is nested too deeply"));
        };
        if object.downcast_ref::<Self>().is_some_and(|list| std::ptr::eq(list, &raw const **self)) {
            return Err(invalid("cannot put a list into itself"));
        }
        if object.type_name().ends_with("::Namespace") {
            // The list could be assigned to the namespace later.
            return Err(invalid("cannot put a namespace into a list"));
        }
        match object.repr() {
            ObjectRepr::Seq | ObjectRepr::Iterable => {
                for item in object.try_iter().into_iter().flatten() {
                    self.check_item(state, &item, depth)?;
                }
            }
            ObjectRepr::Map => {
                for (_, item) in object.try_iter_pairs().into_iter().flatten() {
                    self.check_item(state, &item, depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let place = self.place(key.as_i64()?)?;
        self.items().get(place).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items().len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "append" => {
                let (value,): (&Value,) = from_args(args)?;
                self.insert(state, MAX_ITEMS, value)?;
            }
            "extend" => {
                let (values,): (&Value,) = from_args(args)?;
                // Copied before the first change, because the values may be those of this list.
                let values: Vec<Value> = values.try_iter()?.take(MAX_ITEMS + 1).collect();
                for value in &values {
                    self.insert(state, MAX_ITEMS, value)?;
                }
            }
            "insert" => {
                let (index, value): (i64, &Value) = from_args(args)?;
                let len = self.items().len();
                let place = if index < 0 { index.saturating_add_unsigned(len as u64).max(0) } else { index };
                self.insert(state, usize::try_from(place).unwrap_or(MAX_ITEMS), value)?;
            }
            "pop" => {
                let (index,): (Option<i64>,) = from_args(args)?;
                let place = self.place(index.unwrap_or(-1));
                return self.remove(state, place.ok_or_else(|| invalid("pop index out of range"))?);
            }
            "remove" => {
                let (value,): (&Value,) = from_args(args)?;
                let place = self.items().iter().position(|item| item == value);
                let place = place.ok_or_else(|| invalid("the list has no such item to remove"))?;
                work(state, place)?;
                self.remove(state, place)?;
            }
            "clear" => {
                let () = from_args(args)?;
                self.items().clear();
            }
            "reverse" => {
                let () = from_args(args)?;
                work(state, self.items().len())?;
                self.items().make_contiguous().reverse();
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(Value::from(()))
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn check_len(len: usize) -> Result<(), Error> {
    if len <= MAX_ITEMS {
        return Ok(());
    }
    let message = format!("a list would have {len} items, more than the limit of {MAX_ITEMS}");
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Counts items that are moved or inspected.
fn work(state: &mut State, items: usize) -> Result<(), Error> {
    let Work(done) = state.get_or_insert_extension(Work::default());
    *done = done.saturating_add(items);
    if *done <= MAX_WORK {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfFuel, "changing lists takes too much work"))
}

/// Copies the expressions of one tag up to and including `end`, and wraps their list literals. Returns
/// the number of bytes read.
fn wrap(text: &str, end: &str, out: &mut String) -> usize {
    /// A bracket, and the text that closes it.
    const CLOSED: [(char, &str); 4] = [('(', ")"), ('{', "}"), ('[', "]"), ('\0', "])")];
    let mut open: Vec<char> = Vec::new();
    // True if a bracket would index the text before it.
    let mut indexes = false;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if open.is_empty() && text[at..].starts_with(end) {
            out.push_str(end);
            return at + end.len();
        }
        let len = match c {
            '\'' | '"' => string_len(&text[at..], c),
            c if c.is_alphanumeric() || c == '_' => {
                let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
                text[at..].chars().take_while(is_word).map(char::len_utf8).sum()
            }
            c => c.len_utf8(),
        };
        let token = &text[at..at + len];
        match c {
            '[' if !indexes => {
                out.push_str(MAKE);
                out.push_str("([");
                open.push('\0');
            }
            '(' | '{' | '[' => {
                out.push(c);
                open.push(c);
            }
            ')' | '}' | ']' => {
                let closed = open.pop();
                let close = CLOSED.iter().find(|(bracket, _)| Some(*bracket) == closed);
                out.push_str(
                    close.map(|(_, close)| *close).filter(|close| close.starts_with(c)).unwrap_or(token),
                );
            }
            _ => out.push_str(token),
        }
        indexes = match c {
            c if c.is_whitespace() => indexes,
            '\'' | '"' | ')' | ']' | '}' => true,
            c if c.is_alphanumeric() || c == '_' => !BEFORE_LISTS.contains(&token),
            _ => false,
        };
        at += len;
    }
    at
}

/// Returns the length of the string at the start of `text`.
fn string_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

/// Returns true if `text` starts with the tag of a raw block.
fn is_raw(text: &str) -> bool {
    let inside = text.strip_prefix("{%").and_then(|tag| tag.split_once("%}"));
    inside.is_some_and(|(inside, _)| inside.trim_matches(['-', '+']).trim() == "raw")
}

/// Returns the length of the raw block at the start of `text`.
fn end_of_raw(text: &str) -> usize {
    let mut at = 2;
    while let Some(found) = text[at..].find("{%") {
        at += found + 2;
        let end = text[at..].find("%}").map_or(text.len(), |end| at + end);
        if text[at..end].trim_matches(['-', '+']).trim() == "endraw" {
            return (end + 2).min(text.len());
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_only_list_literals() {
        let cases = [
            ("{% set a = [] %}", "{% set a = __list([]) %}"),
            ("{{ [1, [2]] + a[0] }}", "{{ __list([1, __list([2])]) + a[0] }}"),
            ("{{ m['a'][-1] in ['x]', \"\\\"]\"] }}", "{{ m['a'][-1] in __list(['x]', \"\\\"]\"]) }}"),
            ("{{ {'a': [1]}['a'] }}[x]", "{{ {'a': __list([1])}['a'] }}[x]"),
            ("{%- for x in [f(y)[0]] -%}", "{%- for x in __list([f(y)[0]]) -%}"),
            ("{# [] #}{% raw %}{{ [] }}{% endraw %}[]{", "{# [] #}{% raw %}{{ [] }}{% endraw %}[]{"),
            ("{{ a[1:] }}{{ (a)[0] }}", "{{ a[1:] }}{{ (a)[0] }}"),
            ("{{ '%}' }}{% if '}}' %}", "{{ '%}' }}{% if '}}' %}"),
            ("{{ [", "{{ __list(["),
            ("{{ ]) }}", "{{ ]) }}"),
        ];
        for (source, wrapped) in cases {
            let call = "{% set _ = a.append(1) %}";
            assert_eq!(
                with_lists(&format!("{source}{call}")).unwrap(),
                format!("{wrapped}{call}"),
                "{source}"
            );
            assert_eq!(with_lists(source), None);
        }
    }
}
