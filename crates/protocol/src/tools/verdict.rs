//! Conditions for the success of a run.

use super::envelope::{Problem, codes};
use super::options::{ToolFailurePolicy, ToolUseMode};
use super::runner::Loop;
use super::shapes::Shaped;

impl Loop<'_> {
    /// Returns the requirements of the mode `enforced` that the run does not meet. Empty in other
    /// modes.
    pub(super) fn verdict(&self) -> Vec<Problem> {
        if self.mode() != ToolUseMode::Enforced {
            return Vec::new();
        }
        if self.ends.is_empty() {
            return vec![Problem::new(
                codes::NO_TOOL_CALLS,
                "a tool call is required, but the model made none",
            )];
        }
        match self.setup.options.tool_failure_policy {
            ToolFailurePolicy::Fatal => {
                let failed: Vec<&str> =
                    self.ends.iter().filter(|(_, ok)| !**ok).map(|(name, _)| name.as_str()).collect();
                if failed.is_empty() {
                    return Vec::new();
                }
                let message = format!("the last call of these tools failed: {}", failed.join(", "));
                vec![Problem::new(codes::TOOL_ERROR, message).with("tools", failed)]
            }
            ToolFailurePolicy::Tolerated if self.has_succeeded => Vec::new(),
            ToolFailurePolicy::Tolerated => {
                vec![Problem::new(codes::NO_SUCCESSFUL_TOOL_CALL, "all calls failed")]
            }
        }
    }
}

/// Returns the reason why a message has no text or only a part of it, if the provider states one: a
/// refusal of the model or a content filter.
pub(super) fn refusal(shaped: &Shaped, finish_reason: Option<&str>, has_text: bool) -> Option<Problem> {
    if finish_reason == Some("content_filter") && has_text {
        let message = "the provider's content filter cut off the answer";
        return Some(Problem::new(codes::CONTENT_FILTER_CUT, message));
    }
    if finish_reason == Some("content_filter") {
        let message = "the provider's content filter withheld the answer";
        return Some(Problem::new(codes::CONTENT_FILTER, message));
    }
    let refusal = shaped.refusal().filter(|refusal| !refusal.trim().is_empty())?;
    Some(Problem::new(codes::REFUSED, "the model refused to answer").with("refusal", refusal))
}
