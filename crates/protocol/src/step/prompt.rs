use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};

use super::error::{Fault, Kind};
use crate::Body;

/// Prompt template with placeholders for context values, such as `Summarise {{ initial_input }}`.
#[derive(Clone, Debug)]
pub(super) struct Template(String);

impl Template {
    pub(super) fn new(text: &str) -> Result<Self, Fault> {
        let fault = |error: minijinja::Error| Fault::Template { reason: error.to_string() };
        Environment::new().template_from_str(text).map_err(fault)?;
        Ok(Self(text.to_owned()))
    }

    /// Renders the prompt. A missing value is an error, since the prompt would ask something else
    /// without it.
    pub(super) fn written(&self, context: &Body) -> Result<String, Kind> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(100_000));
        let fault = |error: minijinja::Error| Kind::Prompt { reason: error.to_string() };
        environment.render_str(&self.0, Serde(context)).map_err(fault)
    }
}
