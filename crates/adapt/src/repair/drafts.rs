//! Removal of reasoning that contains drafts of calls in XML.

use std::borrow::Cow;

use super::shape::Problem;
use super::xml::{Opening, WRAPPERS, closed, opening};
use crate::thoughts;

/// Removes the reasoning from a text with calls in XML. Tags of reasoning inside a call are text.
///
/// The opening tag of the reasoning may be missing. The time is linear in the length of the text.
///
/// # Errors
/// Returns an error if the reasoning has no end or no beginning, so that calls may be drafts or not.
pub(super) fn without_drafts(text: &str) -> Result<Cow<'_, str>, Problem> {
    let unclear = || Problem::unread("the reasoning beside the calls in XML has no clear end");
    let last = text.rfind(['{', '[']).max(last_wrapper(text));
    let mut kept = String::new();
    // Offset up to which the text was read, and first call after that.
    let (mut at, mut next) = (0, opening(text, 0, &WRAPPERS));
    // End of the last call before the mark, and true if there are calls.
    let (mut call_end, mut has_calls) = (0, false);
    let mut marks = thoughts::marks(text);
    while let Some((start, end, is_closing)) = marks.next() {
        while let Some(call) = next.take_if(|call| call.start < start) {
            (call_end, has_calls) = (end_of(text, &call), true);
            next = opening(text, call_end, &WRAPPERS);
        }
        if start < call_end {
            continue;
        }
        let has_more = last.is_some_and(|last| last >= end);
        let after = if is_closing {
            if !has_more {
                if has_calls {
                    return Err(unclear());
                }
                break;
            }
            kept.clear();
            has_calls = false;
            end
        } else {
            kept.push_str(&text[at..start]);
            let closing = marks.find(|(.., is_closing)| *is_closing);
            match closing {
                Some((_, end, _)) => end,
                None if has_calls && has_more => return Err(unclear()),
                None if has_calls => {
                    at = start;
                    break;
                }
                None => text.len(),
            }
        };
        (at, call_end) = (after, after);
        if next.as_ref().is_some_and(|call| call.start < at) {
            next = opening(text, at, &WRAPPERS);
        }
    }
    if at == 0 {
        return Ok(Cow::Borrowed(text));
    }
    kept.push_str(&text[at..]);
    Ok(Cow::Owned(kept))
}

/// Returns the offset behind a call that begins with a tag.
fn end_of(text: &str, call: &Opening<'_>) -> usize {
    if call.is_empty {
        return call.end;
    }
    closed(&text[call.end..], call.name).map_or(text.len(), |(_, after)| text.len() - after.len())
}

/// Returns the offset of the last name of a wrapper, which may be a tag.
fn last_wrapper(text: &str) -> Option<usize> {
    WRAPPERS.iter().filter_map(|name| text.rfind(&format!("<{name}"))).max()
}
