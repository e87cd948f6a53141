//! Decoding of server-sent events in a streamed chat answer.

use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;
use sse_stream::SseStream;

use super::BackendError;
use super::error::{Cause, Kind};
use super::remote::malformed;

/// Returns the chunks of a streamed answer up to `[DONE]`. The stream fails if no event arrives
/// within `patience`.
pub(super) fn chunks(
    response: Response,
    patience: Duration,
) -> impl Stream<Item = Result<Value, BackendError>> + Send + 'static {
    let events = SseStream::from_bytes_stream(response.bytes_stream());
    stream::unfold(Some(events), move |events| async move {
        let mut events = events?;
        loop {
            let Ok(next) = tokio::time::timeout(patience, events.next()).await else {
                return Some((Err(Kind::Timeout { limit: patience }.into()), None));
            };
            let Some(event) = next else {
                return Some((Err(Kind::Unfinished.into()), None));
            };
            let event = event.map_err(|error| Kind::Broken { source: Cause::new(error) }.into());
            match event.and_then(|event| chunk(event.data.as_deref().unwrap_or_default())) {
                Ok(Piece::Chunk(chunk)) => return Some((Ok(chunk), Some(events))),
                Ok(Piece::Nothing) => {}
                Ok(Piece::Done) => return None,
                Err(error) => return Some((Err(error), None)),
            }
        }
    })
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
            match chunk.get("error") {
                Some(error) if !error.is_null() => Err(BackendError::from_status(502, data)),
                _ => Ok(Piece::Chunk(chunk)),
            }
        }
    }
}
