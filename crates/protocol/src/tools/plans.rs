//! Requests of a record, each stored as its difference from the one before.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::record::Turn;
use crate::{Body, Plan};

/// Request of a turn, as its difference from the request of the turn before. The first turn differs
/// from an empty request. [`ToolRun::plan`](super::ToolRun::plan) returns the whole request.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanDelta {
    /// Number of messages that the request shares with the one before, from the first message on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_messages: usize,
    /// Messages after the shared ones.
    pub messages: Vec<Value>,
    /// All other request fields, such as tools and sampling parameters. `None` if they are those of
    /// the request before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Body>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl PlanDelta {
    /// Returns the difference of `plan` from `before`.
    pub(super) fn between(before: &Plan, plan: &Plan) -> Self {
        let kept_messages = shared(&before.messages, &plan.messages);
        let options = (before.options != plan.options).then(|| plan.options.clone());
        Self { kept_messages, messages: plan.messages[kept_messages..].to_vec(), options }
    }

    /// Changes `plan`, the request of the turn before, to the request of this turn.
    pub(super) fn apply(&self, plan: &mut Plan) {
        plan.messages.truncate(self.kept_messages);
        plan.messages.extend(self.messages.iter().cloned());
        if let Some(options) = &self.options {
            plan.options.clone_from(options);
        }
    }
}

/// Returns the number of messages at the start that are equal.
fn shared(before: &[Value], messages: &[Value]) -> usize {
    before.iter().zip(messages).take_while(|(one, other)| one == other).count()
}

/// Reads turns. Records of older versions have whole requests, which become differences.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Turn>, D::Error> {
    let mut turns = Vec::<Turn>::deserialize(deserializer)?;
    let mut plan = Plan::default();
    for turn in &mut turns {
        if turn.plan.kept_messages == 0 {
            turn.plan.kept_messages = shared(&plan.messages, &turn.plan.messages);
            turn.plan.messages.drain(..turn.plan.kept_messages);
        }
        turn.plan.options = turn.plan.options.take().filter(|options| *options != plan.options);
        turn.plan.apply(&mut plan);
    }
    Ok(turns)
}

/// Returns the size of a message as JSON, in bytes.
pub(super) fn size(message: &Value) -> usize {
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, message);
    count.0
}
