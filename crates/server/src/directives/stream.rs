//! A run as server-sent events.
//!
//! | event | data |
//! |---|---|
//! | `attempt` | `{"mode", "kind"}`; a request is sent, perhaps again, and earlier text and directives are void |
//! | `text` | `{"delta"}`; further text of `assistant_text` |
//! | `directive` | `{"index", "type", "payload"}`; a whole and valid directive |
//! | `result` | the result of the run, as without streaming; the last event |
//! | `error` | `{"error"}`, as in the body of a failed request; the last event |

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_protocol::directives::RunEvent;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::Prepared;

/// Streams the run. Dropping the response ends the run.
pub(super) fn respond(prepared: Prepared) -> Response {
    // The answers of a run are bounded, so the channel is, too.
    let (sender, events) = unbounded_channel();
    let run = async move {
        let report = move |event| {
            // Sending fails if the response was dropped, and then so is the run.
            let _ = sender.send(frame(event));
        };
        match prepared.run(Some(&report)).await {
            Ok(result) => named("result", &result),
            Err(error) => named("error", &error.body()),
        }
    };
    let running = Running { run: Some(run.boxed()), events, last: None };
    let events = stream::unfold(running, |mut running| async {
        let event = running.next().await?;
        Some((Ok::<_, Infallible>(event), running))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn frame(given: RunEvent) -> Event {
    match given {
        RunEvent::Attempt { mode, kind } => named("attempt", &json!({ "mode": mode, "kind": kind })),
        RunEvent::Text(delta) => named("text", &json!({ "delta": delta })),
        RunEvent::Directive { index, directive } => {
            let data = json!({ "index": index, "type": directive.kind, "payload": directive.payload });
            named("directive", &data)
        }
    }
}

/// Creates an event with a name and JSON data. The data is plain, so serialization cannot fail.
fn named(name: &str, data: &impl Serialize) -> Event {
    Event::default().event(name).data(serde_json::to_string(data).unwrap_or_default())
}

struct Running {
    /// The run. `None` after its end.
    run: Option<BoxFuture<'static, Event>>,
    events: UnboundedReceiver<Event>,
    /// Last event, which follows all others.
    last: Option<Event>,
}

impl Running {
    async fn next(&mut self) -> Option<Event> {
        if let Some(run) = &mut self.run {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => return Some(event),
                last = run => self.last = Some(last),
            }
            self.run = None;
        }
        self.events.try_recv().ok().or_else(|| self.last.take())
    }
}
