//! The probabilities of the choices within an output, for `formwork run --decisions`.

use std::fmt::Write;

use anyhow::{Context, Result};
use formwork_engine::{ChoiceTracker, EngineHandle, Request};
use formwork_openai::{DecisionScope, OptionName, OutputDecision};
use formwork_vocab::TokenId;

use crate::generation::Generator;
use crate::table;

/// Follows one output.
pub(crate) struct Choices {
    engine: EngineHandle,
    tracker: ChoiceTracker,
    scope: DecisionScope,
}

impl Choices {
    /// Starts at the beginning of the output of a request. `pointers` are the places whose choices are
    /// wanted. An empty pointer alone stands for all.
    pub(crate) fn new(generator: &Generator, request: &Request, pointers: &[String]) -> Result<Self> {
        let reader = generator.choice_reader();
        let reader =
            reader.context("--decisions needs a constraint, such as --schema, --gbnf and --choice")?;
        let scope = DecisionScope::of_pointers(pointers.to_vec()).context("--decisions")?;
        let engine = generator.engine().clone();
        Ok(Self { tracker: engine.tracker(request, reader)?, engine, scope })
    }

    pub(crate) fn token(&mut self, token: TokenId) {
        self.tracker.token(token);
    }

    /// Measures the choices in the whole text of the output. `is_cut_off` is true if the text is not complete.
    pub(crate) fn measure(mut self, text: &str, is_cut_off: bool) -> Result<Vec<OutputDecision>> {
        self.tracker.show(text);
        let mut points = self.tracker.content(text);
        if !is_cut_off {
            points.extend(self.tracker.finish());
        }
        points.retain(|point| self.scope.includes(point));
        let mut decisions = Vec::new();
        for batch in points.chunks(formwork_server::DECISION_BATCH) {
            let (choices, error) = formwork_server::questions(&mut self.tracker, batch.to_vec());
            if let Some(error) = error {
                eprintln!("formwork: warning: a choice has no probabilities: {error}");
            }
            if choices.is_empty() {
                continue;
            }
            let request = formwork_server::decision_request(&choices, None);
            let decided = self.engine.decide(request)?.blocking_result()?;
            decisions.extend(formwork_server::output_decisions(&choices, &decided));
        }
        if self.tracker.is_cut() {
            eprintln!("formwork: warning: {}", formwork_server::TOO_MANY);
        }
        Ok(decisions)
    }
}

/// Formats decisions as a table: place, chosen option, probability, probability of the sampler, and the
/// probabilities of all options.
pub(crate) fn table(decisions: &[OutputDecision]) -> String {
    let name = |option: &OptionName| match option {
        OptionName::Value(value) => value.to_string(),
        OptionName::Type(name) => format!("<{name}>"),
    };
    let mut rows = vec![["place", "kind", "chosen", "probability", "sampled", "options"].map(str::to_owned)];
    for decision in decisions {
        let mut shares: Vec<_> = decision.probabilities.iter().collect();
        shares.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let share = |share: &&_| {
            let formwork_openai::OptionShare { option, probability, .. } = *share;
            format!("{} {probability:.4}", name(option))
        };
        let others = shares.len().saturating_sub(4);
        let mut options = shares.iter().take(4).map(share).collect::<Vec<_>>().join(", ");
        if others > 0 {
            let _ = write!(options, ", and {others} more");
        }
        let place = if decision.path.is_empty() { "(root)" } else { &decision.path };
        rows.push([
            place.to_owned(),
            decision.kind.clone(),
            name(&decision.chosen),
            format!("{:.4}", decision.probability),
            decision.sampled.map_or_else(|| "-".to_owned(), |sampled| format!("{sampled:.4}")),
            options,
        ]);
    }
    table::aligned(&rows)
}
