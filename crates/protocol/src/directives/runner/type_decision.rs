//! Choosing the type of the directives before the model writes them.

use serde_json::{Value, json};

use super::{RunRequest, Runner};
use crate::directives::{Problem, TypeDecision, TypeProbability};
use crate::{BackendError, Chosen, DecisionOption, RequestBudget};

/// Question about the type.
const INSTRUCTIONS: &str = "Which action should the app take now?";

impl Runner {
    /// Asks which of the allowed types fits, if the preset says so and there are at least two of them.
    /// Returns the request with the likeliest type only, and the record of the decision.
    ///
    /// If the question has no answer, the record has the error, and the request stays as it is. Types that
    /// are required leave nothing to decide.
    pub(super) async fn decided(
        &self,
        request: &RunRequest,
        budget: &RequestBudget,
    ) -> Result<(RunRequest, Option<TypeDecision>), BackendError> {
        let types = request.options.allowed().unwrap_or_default();
        let is_wanted = self.preset.type_by_decision == Some(true);
        if !is_wanted || types.len() < 2 || !request.options.required().is_empty() {
            return Ok((request.clone(), None));
        }
        let options: Vec<_> = types.iter().map(|name| option(request, name)).collect();
        let before = budget.sent();
        let chosen = self.prompts.choose(&messages(request), INSTRUCTIONS, &options).await;
        // A remote backend has counted its requests, others have not.
        budget.add(u32::from(budget.sent() == before));
        match chosen {
            Ok(Chosen { index, probabilities, confidence }) => {
                let kind = types[index].clone();
                let mut narrowed = request.clone();
                narrowed.options = request.options.with_type(&kind);
                let with = types.into_iter().zip(probabilities);
                let probabilities = with.map(|(kind, probability)| TypeProbability { kind, probability });
                let decision = TypeDecision {
                    kind: Some(kind),
                    confidence: Some(confidence),
                    probabilities: probabilities.collect(),
                    error: None,
                };
                Ok((narrowed, Some(decision)))
            }
            Err(error) if error.interruption().is_some() => Err(error),
            Err(error) => {
                tracing::info!(%error, "the type of the directives was not decided");
                let error = Some(Problem::transport(&error));
                Ok((request.clone(), Some(TypeDecision { error, ..TypeDecision::default() })))
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
