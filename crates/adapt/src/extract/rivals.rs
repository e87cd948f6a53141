//! Search for parts of a text that may be the answer instead of the value that was found.
//!
//! A valid value may be an example, a draft or a format. The answer may be in another notation, cut
//! off or invalid. This module finds such parts, so that extraction fails instead of returning the
//! example.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::names::{Label, Mention, Named, Quotes, begins_separator, labels, words};
use super::region::{Fit, Region, begins_member};
use crate::Adapter;
use crate::chain::Deadline;
use crate::cues::{self, Placed};
use crate::options::{OutputProcessing, Prefer, Tolerance};
use crate::report::Violation;

/// Maximum number of rivals that are collected.
const MOST: usize = 64;

/// Maximum number of bytes before the text of a list item.
const LIST_MARK: usize = 16;

/// The value that was found.
pub(super) struct Chosen<'r, 't> {
    /// Source text of the value. If the value occurs several times, this is the last occurrence.
    pub(super) text: &'t str,
    /// Value of the text, if known.
    pub(super) value: Option<Value>,
    /// Regions with this value, and regions that the options do not prefer.
    pub(super) settled: HashSet<usize>,
    pub(super) regions: &'r [Region<'t>],
}

/// Returns the parts of `body` that may be the answer instead of the chosen value, ordered. Runs in
/// linear time.
///
/// # Errors
/// Returns a violation if the time limit is exceeded.
pub(super) fn rivals<'t>(
    adapter: &Adapter,
    body: &'t str,
    chosen: &Chosen<'_, 't>,
    deadline: Deadline,
) -> Result<Vec<&'t str>, Violation> {
    let named = Named::new(adapter.labels());
    let start = super::offset_in(body, chosen.text);
    let span = start..start + chosen.text.len();
    let is_example = cues::is_example(body, &span, chosen.regions);
    let search = Search { adapter, named, body, chosen, span, is_example };
    let mut found = Vec::new();
    for region in chosen.regions {
        deadline.check()?;
        if found.len() < MOST && search.is_rival(region) {
            found.push(region.text);
        }
    }
    found.extend(search.between());
    if found.is_empty() && search.is_example && !prefers(adapter, Prefer::First) {
        found.extend(cues::announcement(body, search.span.end));
    }
    found.retain(|part| {
        let start = super::offset_in(body, part);
        match adapter.options().prefer {
            Prefer::Only => true,
            Prefer::First => start < search.span.start,
            Prefer::Last => start > search.span.start,
            Prefer::Largest => part.len() > chosen.text.len(),
        }
    });
    found.sort_by_key(|part| super::offset_in(body, part));
    found.dedup_by_key(|part| super::offset_in(body, part));
    Ok(found)
}

fn prefers(adapter: &Adapter, prefer: Prefer) -> bool {
    adapter.options().prefer == prefer
}

struct Search<'r, 't> {
    adapter: &'r Adapter,
    named: Named<'r>,
    body: &'t str,
    chosen: &'r Chosen<'r, 't>,
    /// Span of the chosen text in the body.
    span: Range<usize>,
    /// True if the text calls the chosen value an example or a format.
    is_example: bool,
}

impl<'t> Search<'_, 't> {
    /// Reports whether a region may be the answer instead of the chosen value.
    fn is_rival(&self, region: &Region<'t>) -> bool {
        let is_later = region.start >= self.span.end;
        if !is_later && region.end() > self.span.start
            || region.text == self.chosen.text
            || (self.chosen.settled.contains(&region.start) && !region.is_open)
        {
            return false;
        }
        let anywhere = self.named.mention(labels(region.text).map(|label| label.name));
        match (region.fit, is_later) {
            (Fit::Wanted, true) => self.is_rival_after(region, anywhere),
            (Fit::Wanted, false) => self.is_rival_before(region, anywhere),
            (Fit::Other | Fit::Broken, true) => {
                (anywhere.has_any
                    || (region.is_open && is_list_cut_early(region.text))
                    || (region.fit == Fit::Broken && self.named.is_empty()))
                    && !self.is_equal(region)
            }
            (Fit::Other, false) => {
                let wraps_one = || self.items(region) == Some(1) && !region.text.starts_with('{');
                anywhere.has_required
                    && (self.items(region).is_none() || wraps_one() || self.is_beside(region))
                    && !self.is_equal(region)
                    && !self.is_format(region)
            }
            (Fit::Broken, false) => anywhere.has_required && !self.is_format(region),
        }
    }

    /// Reports whether a region of the wanted kind after the chosen value may be the answer.
    fn is_rival_after(&self, region: &Region<'t>, anywhere: Mention) -> bool {
        if region.is_open || region.has_required || self.is_example {
            return true;
        }
        match self.value(region) {
            None => {
                anywhere.has_any
                    || self.names_any_word(region)
                    || self.named.is_empty()
                    || region.text.starts_with('[')
            }
            Some(Value::Array(items)) => !is_citation(&items),
            Some(value) => {
                self.has_inner(&value, false)
                    || region.has_named && (self.is_beside(region) || self.adds(&value, true))
            }
        }
    }

    /// Reports whether a region of the wanted kind before the chosen value may be the answer. A
    /// draft with wrong types or without a required property is not the answer.
    fn is_rival_before(&self, region: &Region<'t>, anywhere: Mention) -> bool {
        match self.value(region) {
            None => {
                (anywhere.has_required || (self.is_example && self.names_any_word(region)))
                    && !self.is_format(region)
            }
            Some(value) => {
                self.has_inner(&value, true)
                    || (self.is_example && region.has_required && !self.is_format(region))
                    || ((region.has_named || value.is_array())
                        && self.is_answer(region.start..region.end())
                        && !self.is_answer(self.span.clone()))
                    || (region.has_named && self.is_beside(region) && self.adds(&value, false))
            }
        }
    }

    /// Reports whether the text announces a span as the answer.
    fn is_answer(&self, span: Range<usize>) -> bool {
        cues::is_answer(self.body, &span, self.chosen.regions)
    }

    /// Reports whether a region has a property as a word, in any notation.
    fn names_any_word(&self, region: &Region<'_>) -> bool {
        words(region.text).any(|word| self.named.has(word))
    }

    /// Reports whether an object or array contains an object with all required properties, at any
    /// depth. The schema must require a property. The properties of a schema do not count. If `is_valid`, the inner object must be
    /// valid.
    fn has_inner(&self, value: &Value, is_valid: bool) -> bool {
        let mut open = vec![value];
        while let Some(next) = open.pop() {
            let Value::Object(members) = next else {
                open.extend(next.as_array().into_iter().flatten());
                continue;
            };
            let is_inner = !std::ptr::eq(next, value)
                && self.named.has_required()
                && self.named.mention(members.keys().map(String::as_str)).has_required
                && (!is_valid || self.adapter.on_values.is_valid(next));
            if is_inner && self.chosen.value.as_ref() != Some(next) {
                return true;
            }
            open.extend(members.iter().filter(|(name, _)| *name != "properties").map(|(_, inner)| inner));
        }
        false
    }

    /// Decodes a region with all mends. The value may be invalid.
    fn value(&self, region: &Region<'_>) -> Option<Value> {
        let document = self.adapter.decoded(region.text, OutputProcessing::Full, Tolerance::Repair)?;
        Some(document.value())
    }

    /// Returns the number of items of a region that is a readable array, or 1 for an object.
    fn items(&self, region: &Region<'_>) -> Option<usize> {
        self.value(region).map(|value| value.as_array().map_or(1, Vec::len))
    }

    /// Reports whether a region is an array whose only item is the chosen value.
    fn is_equal(&self, region: &Region<'_>) -> bool {
        let value = self.value(region);
        let item = value.as_ref().and_then(Value::as_array).and_then(|items| items.first());
        item.is_some() && item == self.chosen.value.as_ref() && self.items(region) == Some(1)
    }

    /// Reports whether the text calls a region an example, or the region has placeholders such as
    /// `<string>`.
    fn is_format(&self, region: &Region<'_>) -> bool {
        let is_placeholder = |(at, _)| {
            let after = &region.text[at + 1..];
            let word = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            word > 0 && after[word..].starts_with('>')
        };
        let is_xml = region.text.contains("</");
        let has_placeholder = !is_xml && region.text.match_indices('<').any(is_placeholder);
        let span = region.start..region.end();
        has_placeholder || cues::is_example(self.body, &span, self.chosen.regions)
    }

    /// Reports whether no word and no fence is between a region and the chosen value.
    fn is_beside(&self, region: &Region<'_>) -> bool {
        let between = if region.start < self.span.start {
            self.body.get(region.end()..self.span.start)
        } else {
            self.body.get(self.span.end..region.start)
        };
        between.is_some_and(|between| !between.contains(|c: char| c.is_alphanumeric() || "`:{[".contains(c)))
    }

    /// Reports whether an object adds members to the chosen value so that the result is valid and
    /// differs. A later object may also replace members.
    fn adds(&self, value: &Value, is_later: bool) -> bool {
        let (Some(Value::Object(chosen)), Value::Object(members)) = (&self.chosen.value, value) else {
            return false;
        };
        let mut whole = chosen.clone();
        for (name, member) in members {
            if is_later || !chosen.contains_key(name) {
                whole.insert(name.clone(), member.clone());
            }
        }
        whole != *chosen && self.adapter.on_values.is_valid(&Value::Object(whole))
    }

    /// Returns the text outside of regions that names all required properties, before and after the
    /// chosen value. Also returns a member directly after the value.
    fn between(&self) -> impl Iterator<Item = &'t str> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut at = 0;
        let own = (self.span.start, self.span.end);
        let mut spans: Vec<(usize, usize)> =
            self.chosen.regions.iter().map(|region| (region.start, region.end())).chain([own]).collect();
        spans.sort_unstable();
        for (start, end) in spans.into_iter().chain([(self.body.len(), self.body.len())]) {
            if at < start {
                let found = if at < self.span.start { &mut before } else { &mut after };
                self.names_in(at..start, found);
            }
            at = at.max(end);
        }
        let part = |found: Vec<(usize, &'t str)>| {
            let has_required = self.named.mention(found.iter().map(|(_, name)| *name)).has_required;
            let first = found.iter().map(|(at, _)| *at).min().filter(|_| has_required)?;
            Some(&self.body[first..])
        };
        let part_before = part(before).and_then(|part| part.lines().next());
        part_before.into_iter().chain(part(after)).chain(self.member_after())
    }

    /// Returns the text directly after the chosen value if the text begins with a name in quotes and
    /// a colon, or with a property and a colon.
    fn member_after(&self) -> Option<&'t str> {
        // Further closing brackets and punctuation may be in between.
        let is_between = |c: char| c.is_whitespace() || "}]),;.+/\u{ff0c}\u{ff1b}".contains(c);
        let rest = self.body[self.span.end..].trim_start_matches(is_between);
        let name = rest.find(|c: char| !c.is_alphanumeric() && !"_$-".contains(c)).map(|end| &rest[..end]);
        let is_bare = name
            .is_some_and(|name| self.named.has(name) && begins_separator(rest[name.len()..].trim_start()));
        (is_bare || begins_member(rest)).then_some(rest)
    }

    /// Adds the properties in brackets that do not begin like JSON, such as `{item -> "lamp"}`, and
    /// in tables after an example.
    fn names_in_brackets(&self, text: &'t str, offset: usize, found: &mut Vec<(usize, &'t str)>) {
        let mut at = 0;
        while let Some(start) = text[at..].find('{').map(|start| at + start) {
            at = text[start..].find('}').map_or(text.len(), |end| start + end);
            let inside = &text[start..at];
            if inside.contains(['"', '\'', '`', '=', ':', '>', '&', '%', ';']) {
                let named = words(inside).filter(|word| self.named.has(word));
                found.extend(named.map(|word| (offset + start, word)));
            }
        }
        if self.is_example {
            let rows = text.lines().filter(|line| line.contains('|'));
            let named = rows.flat_map(words).filter(|word| self.named.has(word));
            found.extend(named.map(|word| (super::offset_in(self.body, word), word)));
        }
    }

    /// Adds the properties that the text between two regions names, with their offsets.
    fn names_in(&self, span: Range<usize>, found: &mut Vec<(usize, &'t str)>) {
        let (text, offset) = (&self.body[span.clone()], span.start);
        let is_after = span.start >= self.span.end;
        let counts = |label: &Label<'_>| {
            let is_assigned = text[label.separator..]
                .strip_prefix('=')
                .is_some_and(|value| value.starts_with(|c: char| "\"'".contains(c) || c.is_alphanumeric()));
            match label.quotes {
                Quotes::Escaped => true,
                Quotes::None if is_assigned => is_after || self.is_example,
                Quotes::None => is_after && self.is_example,
                Quotes::Plain => self.is_example || (is_after && !is_list_item(&text[..label.start])),
            }
        };
        let named = labels(text).filter(|label| self.named.has(label.name)).filter(counts);
        found.extend(named.map(|label| (offset + label.start, label.name)));
        if is_after || self.is_example {
            self.names_in_brackets(text, offset, found);
        }
        let mut opened: HashMap<&str, usize> = HashMap::new();
        for (at, _) in text.match_indices('<') {
            let tag = &text[at + 1..];
            let (name, is_end) = tag.strip_prefix('/').map_or((tag, false), |name| (name, true));
            let end = name.find(|c: char| !c.is_alphanumeric() && !"_-.:".contains(c));
            let Some(name) = end.map(|end| &name[..end]).filter(|name| self.named.has(name)) else {
                continue;
            };
            match opened.get(name) {
                Some(start) if is_end => found.push((offset + start, name)),
                None if !is_end => _ = opened.insert(name, at),
                _ => {}
            }
        }
    }
}

/// Reports whether the last line of `before` is the mark of a list item.
fn is_list_item(before: &str) -> bool {
    let end = &before[cues::boundary(before, before.len().saturating_sub(LIST_MARK))..];
    let line = match end.rsplit_once('\n') {
        Some((_, line)) => line.trim(),
        None if end.len() == before.len() => end.trim(),
        None => return false,
    };
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["-", "*", "+", "\u{2022}"].contains(&line) || (number.len() < line.len() && [".", ")"].contains(&number))
}

/// Reports whether a region without an end has nothing after its brackets.
fn is_list_cut_early(text: &str) -> bool {
    text.trim_matches(|c: char| c.is_whitespace() || "[{\"'".contains(c)).is_empty()
}

/// Reports whether an array is a reference such as `[1]` or `[2, 3]`.
fn is_citation(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(Value::is_u64)
}
