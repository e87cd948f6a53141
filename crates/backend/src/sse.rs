//! Decoding of server-sent events in a streamed chat answer.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::time::Instant;

use super::error::{Cause, Kind};
use super::remote::{ANSWER, broken, check, malformed};
use super::{BackendError, Chunks};

/// Body of the response to a request for a stream.
pub(super) enum Opened {
    /// A stream of chunks.
    Events(Chunks),
    /// A whole answer: the server ignores `stream`.
    Whole(Value),
}

/// Reads the beginning of a response. Returns the chunks of its events, or its whole body if the
/// body has no events. The body is limited to the size of a whole answer.
pub(super) async fn open(response: Response) -> Result<Opened, BackendError> {
    let mut left = ANSWER;
    let bytes = response.bytes_stream().map(move |piece| {
        let piece = piece.map_err(broken)?;
        match left.checked_sub(piece.len()) {
            Some(rest) => left = rest,
            None => return Err(Kind::TooLarge { limit: ANSWER }.into()),
        }
        Ok::<_, BackendError>(piece)
    });
    let mut bytes = bytes.boxed();
    let (mut beginning, mut pieces) = (Vec::new(), Vec::new());
    let has_events = loop {
        if let Some(has_events) = has_events(&beginning) {
            break has_events;
        }
        let Some(piece) = bytes.next().await else { break false };
        let piece = piece?;
        beginning.extend_from_slice(&piece);
        pieces.push(piece);
    };
    if has_events {
        let all = stream::iter(pieces.into_iter().map(Ok)).chain(bytes);
        return Ok(Opened::Events(chunks(SseStream::from_bytes_stream(all)).boxed()));
    }
    let mut body = beginning;
    while let Some(piece) = bytes.next().await {
        body.extend_from_slice(&piece?);
    }
    Ok(Opened::Whole(check(serde_json::from_slice(&body).map_err(malformed)?)?))
}

/// Reports whether a body that begins with `beginning` consists of events. Returns `None` if more of
/// the body is needed.
fn has_events(beginning: &[u8]) -> Option<bool> {
    let beginning = beginning.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(beginning).trim_ascii_start();
    let fields: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];
    if fields.iter().any(|field| beginning.starts_with(field)) {
        return Some(true);
    }
    fields.iter().all(|field| !field.starts_with(beginning)).then_some(false)
}

/// Returns the chunks in `events`, up to `[DONE]`, or up to the end of the body if each choice has
/// a `finish_reason` by then.
fn chunks(
    events: impl Stream<Item = Result<Sse, sse_stream::Error>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Value, BackendError>> + Send + 'static {
    stream::unfold(Some((events, Choices::default())), |state| async {
        let (mut events, mut choices) = state?;
        loop {
            let event = match events.next().await {
                Some(Ok(event)) => event,
                // Nothing of the answer is lost.
                None | Some(Err(_)) if choices.are_finished() => return None,
                None => return Some((Err(Kind::Unfinished.into()), None)),
                Some(Err(error)) => return Some((Err(failure(error)), None)),
            };
            match chunk(event.data.as_deref().unwrap_or_default()) {
                Ok(Piece::Chunk(chunk)) => {
                    choices.take(&chunk);
                    return Some((Ok(chunk), Some((events, choices))));
                }
                Ok(Piece::Nothing) => {}
                Ok(Piece::Done) => return None,
                Err(error) => return Some((Err(error), None)),
            }
        }
    })
}

/// Returns the error of the body, or of the form of its events.
fn failure(error: sse_stream::Error) -> BackendError {
    match error {
        sse_stream::Error::Body(error) => match error.downcast::<BackendError>() {
            Ok(error) => *error,
            Err(error) => Kind::Broken { source: Cause::new(sse_stream::Error::Body(error)) }.into(),
        },
        error => Kind::Broken { source: Cause::new(error) }.into(),
    }
}

/// The choices of an answer by index; true if the choice has ended.
#[derive(Default)]
struct Choices(BTreeMap<u64, bool>);

impl Choices {
    fn take(&mut self, chunk: &Value) {
        for choice in chunk["choices"].as_array().into_iter().flatten() {
            let has_ended = self.0.entry(choice["index"].as_u64().unwrap_or_default()).or_default();
            *has_ended |= choice["finish_reason"].is_string();
        }
    }

    fn are_finished(&self) -> bool {
        !self.0.is_empty() && self.0.values().all(|&has_ended| has_ended)
    }
}

/// Ends a stream with `error` when `limit` has passed since `started`.
pub(super) fn until(chunks: Chunks, started: Instant, limit: Duration, error: BackendError) -> Chunks {
    let Some(end) = started.checked_add(limit) else { return chunks };
    let next = move |(chunks, error): (Option<Chunks>, Option<BackendError>)| async move {
        let mut chunks = chunks?;
        match tokio::time::timeout_at(end, chunks.next()).await {
            Ok(chunk) => Some((chunk?, (Some(chunks), error))),
            Err(_) => Some((Err(error?), (None, None))),
        }
    };
    stream::unfold((Some(chunks), Some(error)), next).boxed()
}

enum Piece {
    Chunk(Value),
    Nothing,
    Done,
}

fn chunk(data: &str) -> Result<Piece, BackendError> {
    match data.trim() {
        "" => Ok(Piece::Nothing),
        "[DONE]" => Ok(Piece::Done),
        data => {
            let chunk: Value = serde_json::from_str(data).map_err(malformed)?;
            match BackendError::in_body(&chunk) {
                Some(error) => Err(error),
                None => Ok(Piece::Chunk(chunk)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_body_shows_whether_it_has_events() {
        for (beginning, expected) in [
            ("", None),
            (" \r\n", None),
            ("da", None),
            ("data", None),
            ("data:", Some(true)),
            (": hello", Some(true)),
            ("\n\nevent: x", Some(true)),
            ("\u{feff}id:1", Some(true)),
            ("default backend", Some(false)),
            ("{\"choices\"", Some(false)),
            ("<html>", Some(false)),
            ("retry after", Some(false)),
        ] {
            assert_eq!(has_events(beginning.as_bytes()), expected, "{beginning}");
        }
    }
}
