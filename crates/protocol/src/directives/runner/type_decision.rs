//! Choosing the type of the directives before the model writes them.

use serde_json::{Value, json};

use super::{RunRequest, Runner};
use crate::directives::{Problem, TypeDecision, TypeProbability};
use crate::{BackendError, Chosen, DecisionOption, RequestBudget};

/// Question about the type.
const INSTRUCTIONS: &str = "Which action should the app take now?";

impl Runner {
    /// Asks which of the allowed types fits, if the preset says so. Returns the request with the likeliest
    /// type only, and the record of the decision. The request is `None` if it stays as it is.
    ///
    /// Nothing is asked if there are fewer than two types, or if the limit of requests leaves none for the
    /// answer. Nothing is asked either if something is required of the answer, which may need another type.
    pub(super) async fn decided(
        &self,
        request: &RunRequest,
        budget: &RequestBudget,
    ) -> Result<(Option<RunRequest>, Option<TypeDecision>), BackendError> {
        let types = request.options.allowed().unwrap_or_default();
        let is_wanted = self.preset.type_by_decision == Some(true);
        let is_free = request.options.required().is_empty() && request.result_validator.is_none();
        let has_room = self.preset.max_requests.is_none_or(|most| most >= 2);
        if !is_wanted || types.len() < 2 || !is_free || !has_room {
            return Ok((None, None));
        }
        let options: Vec<_> = types.iter().map(|name| option(request, name)).collect();
        let before = budget.sent();
        let chosen = self.prompts.choose(&messages(request), INSTRUCTIONS, &options).await;
        // A remote backend has counted its request, others have not.
        let is_uncounted = chosen.is_ok() && budget.sent() == before;
        budget.add(u32::from(is_uncounted));
        match chosen {
            Ok(Chosen { index, probabilities, confidence, .. }) => {
                let kind = types[index].clone();
                let mut narrowed = request.clone();
                narrowed.options = request.options.with_type(&kind);
                let with = types.into_iter().zip(probabilities);
                let probabilities = with.map(|(kind, probability)| TypeProbability { kind, probability });
                let decision = TypeDecision {
                    kind: Some(kind),
                    confidence,
                    probabilities: probabilities.collect(),
                    error: None,
                };
                Ok((Some(narrowed), Some(decision)))
            }
            Err(error) if error.interruption().is_some() => Err(error),
            Err(error) => {
                tracing::info!(%error, "the type of the directives was not decided");
                let error = Some(Problem::transport(&error));
                Ok((None, Some(TypeDecision { error, ..TypeDecision::default() })))
            }
        }
    }
}

fn option(request: &RunRequest, name: &str) -> DecisionOption {
    let definition = request.options.registry().get(name);
    let description = definition.map(|definition| definition.description.clone()).unwrap_or_default();
    DecisionOption { value: name.to_owned(), description }
}

/// Returns the conversation of the request.
fn messages(request: &RunRequest) -> Vec<Value> {
    let message = |role: &str, text: &String| json!({ "role": role, "content": text });
    let mut messages: Vec<Value> = request.system.iter().map(|text| message("system", text)).collect();
    messages.extend_from_slice(&request.history);
    messages.extend(request.user.iter().map(|text| message("user", text)));
    messages
}
