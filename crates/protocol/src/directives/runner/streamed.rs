//! Streams an answer while collecting it.

use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::DirectiveRun;
use crate::directives::stream::EnvelopeReader;
use crate::directives::{AttemptKind, Mode, RunEvent};
use crate::{BackendError, Feature, Plan, Reply, StreamEvent};

/// State of the answer that arrives.
#[derive(Default)]
struct Arriving {
    reader: EnvelopeReader,
    /// Number of bytes of content so far.
    bytes: usize,
}

impl DirectiveRun<'_> {
    /// Sends a request and reports the answer while it arrives. Returns the whole answer. An answer
    /// that is too large is cut off. A request that is sent again is a new attempt for the receiver.
    pub(super) async fn streamed(
        &self,
        (mode, kind): (Mode, AttemptKind),
        plan: &Plan,
        events: &(dyn Fn(RunEvent) + Send + Sync),
    ) -> Result<Reply, BackendError> {
        let prompts = &self.runner.prompts;
        let mut plan = plan.clone();
        let known = prompts.backend().known_capabilities(prompts.model());
        if known.is_some_and(|known| known.has(Feature::Grammar)) {
            // Some remote servers refuse the option, so only the engine here is asked for its usage.
            plan.options.insert("stream".to_owned(), true.into());
            plan.options.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        }
        let arriving = Mutex::new(Arriving::default());
        let receive = |event: StreamEvent<'_>| {
            let mut arriving = arriving.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                StreamEvent::Restarted => {
                    *arriving = Arriving::default();
                    events(RunEvent::Attempt { mode, kind });
                }
                StreamEvent::Chunk(chunk) => {
                    let piece = chunk.pointer("/choices/0/delta/content").and_then(Value::as_str);
                    let piece = piece.unwrap_or_default();
                    arriving.bytes += piece.len();
                    for event in arriving.reader.push(piece, &self.validator) {
                        events(event);
                    }
                }
            }
            if arriving.bytes > self.options().max_bytes {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        prompts.run_streamed(&plan, &receive).await
    }
}
