//! Places in a text where calls may begin.

use super::super::super::registry::ToolSource;
use super::formats::TextCallFormat;
use super::markers::{self, MARKERS};
use super::{Call, WRAPPERS, are_named, is_known, json, python, short, tagged, wrapped};

/// Beginning of a fence that has calls, such as ` ```tool_code ` of Gemma.
const FENCE: &str = "```tool_c";

/// Place where calls may begin.
#[derive(Clone, Copy)]
pub(super) struct Mark<'a> {
    pub(super) at: usize,
    kind: Kind<'a>,
}

#[derive(Clone, Copy)]
enum Kind<'a> {
    Marker(&'static markers::Marker),
    /// `<invoke …>` or `<function…>`.
    Element,
    /// An element of [`WRAPPERS`], with the length of its opening tag.
    Wrapper(&'a str, usize),
    /// A fence with the info string `tool_call` or `tool_code`.
    Fence,
}

/// Finds marks from left to right.
pub(super) struct Marks<'a> {
    text: &'a str,
    format: TextCallFormat,
    /// Next mark of each marker, of elements and of fences. The place of a mark that is passed is
    /// searched again.
    next: Vec<(Search, Option<Mark<'a>>)>,
}

#[derive(Clone, Copy)]
enum Search {
    Marker(&'static markers::Marker),
    Element,
    Fence,
}

impl<'a> Marks<'a> {
    pub(super) fn new(text: &'a str, format: TextCallFormat) -> Self {
        // Of markers at one place, the first of the list is the longest.
        let searches = MARKERS.iter().map(Search::Marker).chain([Search::Element, Search::Fence]);
        let next = searches.filter_map(|search| Some((search, Some(search.find(text, 0, format)?))));
        Self { text, format, next: next.collect() }
    }

    /// Returns the first mark at `from` or after it. `from` never decreases.
    pub(super) fn next(&mut self, from: usize) -> Option<Mark<'a>> {
        for (search, next) in &mut self.next {
            if next.is_some_and(|mark| mark.at < from) {
                *next = search.find(self.text, from, self.format);
            }
        }
        self.next.iter().filter_map(|(_, mark)| *mark).min_by_key(|mark| mark.at)
    }
}

impl Search {
    fn find(self, text: &str, from: usize, format: TextCallFormat) -> Option<Mark<'_>> {
        let rest = &text[from..];
        let opens = |at: &usize| format.opens(&text[*at..]);
        match self {
            Self::Marker(marker) => {
                rest.match_indices(marker.open).map(|(at, _)| from + at).filter(opens).find_map(|at| {
                    // `functools` is also a word.
                    let is_call =
                        marker.open != "functools" || text[at + marker.open.len()..].starts_with('[');
                    is_call.then_some(Mark { at, kind: Kind::Marker(marker) })
                })
            }
            Self::Element => rest.match_indices('<').map(|(at, _)| from + at).filter(opens).find_map(|at| {
                let tag = tagged::tag(&text[at..])?;
                if tag.opens_call() {
                    return Some(Mark { at, kind: Kind::Element });
                }
                let is_wrapper = !tag.is_closing && WRAPPERS.contains(&tag.name);
                is_wrapper.then_some(Mark { at, kind: Kind::Wrapper(tag.name, tag.len) })
            }),
            Self::Fence => rest.match_indices(FENCE).map(|(at, _)| from + at).filter(opens).find_map(|at| {
                let is_line = at == 0 || text[..at].trim_end_matches([' ', '\t']).ends_with(['\n', '>']);
                is_line.then_some(Mark { at, kind: Kind::Fence })
            }),
        }
    }
}

impl Mark<'_> {
    /// Parses the calls at the start of `text`, which begins with the mark. Returns the calls and the
    /// number of bytes read.
    pub(super) fn read(&self, text: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, usize)> {
        match self.kind {
            Kind::Marker(marker) => {
                let (calls, end) = marker.read(&text[marker.open.len()..], tools)?;
                are_named(tools, &calls).then(|| (calls, marker.open.len() + end))
            }
            Kind::Element => {
                let (call, end) = tagged::element(text, tools)?;
                let calls = vec![call];
                are_named(tools, &calls).then_some((calls, end))
            }
            Kind::Wrapper(name, len) => {
                let (calls, end) = wrapped(&text[len..], name, tools, 0)?;
                Some((calls, len + end))
            }
            Kind::Fence => fenced(text, tools),
        }
    }

    pub(super) const fn is_fence(&self) -> bool {
        matches!(self.kind, Kind::Fence)
    }

    /// Returns the length of the text to keep if the mark has no call.
    pub(super) fn skipped(&self, text: &str) -> usize {
        match self.kind {
            Kind::Marker(marker) => marker.open.len(),
            Kind::Element => 1,
            Kind::Wrapper(name, len) => tagged::closing(&text[len..], name)
                .filter(|(end, _)| tagged::next_open(&text[len..len + end]).is_none())
                .map_or(len, |(end, close)| len + end + close),
            Kind::Fence => FENCE.len(),
        }
    }
}

/// Parses the calls in a fence at the start of `text`. Code in `tool_code` is a call only if it names
/// a known tool.
fn fenced(text: &str, tools: &dyn ToolSource) -> Option<(Vec<Call>, usize)> {
    let (info, rest) = text.strip_prefix("```")?.split_once('\n')?;
    let end = rest.find("```")?;
    let inside = rest[..end].trim();
    let calls = match info.trim() {
        "tool_call" | "tool_calls" => json::whole(inside, tools)?,
        "tool_code" => {
            let printed = inside.strip_prefix("print(").and_then(|inside| inside.strip_suffix(')'));
            let inside = printed.unwrap_or(inside);
            let listed = python::calls(inside).filter(|(_, end)| *end == inside.len()).map(|read| read.0);
            let calls = listed.or_else(|| python::bare_calls(inside))?;
            calls.iter().all(|call| is_known(tools, short(&call.name))).then_some(calls)?
        }
        _ => return None,
    };
    Some((calls, text.len() - rest.len() + end + "```".len()))
}
