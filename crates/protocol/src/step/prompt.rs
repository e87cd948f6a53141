use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use super::error::{Fault, Kind};
use crate::Body;

/// Prompt template with placeholders for context values, such as `Summarise {{ initial_input }}`.
#[derive(Clone, Debug)]
pub(super) struct Template {
    text: String,
    /// True if the template has a placeholder for the schema.
    has_schema: bool,
}

/// Name of the placeholder for the step's schema.
const SCHEMA: &str = "schema";

impl Template {
    pub(super) fn new(text: &str) -> Result<Self, Fault> {
        let fault = |error: minijinja::Error| Fault::Template { reason: error.to_string() };
        let environment = Environment::new();
        let template = environment.template_from_str(text).map_err(fault)?;
        let has_schema = template.undeclared_variables(false).contains(SCHEMA);
        Ok(Self { text: text.to_owned(), has_schema })
    }

    /// Reports whether the rendered prompt contains the step's schema. A value of this name in the
    /// context replaces the schema.
    pub(super) fn shows_schema(&self, context: &Body) -> bool {
        self.has_schema && !context.contains_key(SCHEMA)
    }

    /// Renders the prompt. A missing value is an error, since the prompt would ask something else
    /// without it. The name `schema` stands for the text of the step's schema.
    pub(super) fn written(&self, context: &Body, schema: Option<&Value>) -> Result<String, Kind> {
        if let Some(schema) = schema.filter(|_| self.shows_schema(context)) {
            let mut context = context.clone();
            context.insert(SCHEMA.to_owned(), schema.to_string().into());
            return self.rendered(&context);
        }
        self.rendered(context)
    }

    fn rendered(&self, context: &Body) -> Result<String, Kind> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(100_000));
        environment.render_str(&self.text, Serde(context)).map_err(|error| {
            let names = self.missing(context);
            if error.kind() == ErrorKind::UndefinedError && !names.is_empty() {
                return Kind::Undefined { names };
            }
            Kind::Prompt { reason: error.to_string() }
        })
    }

    /// Returns the variables of the template that the context lacks, such as `user.name`, in
    /// alphabetical order.
    fn missing(&self, context: &Body) -> Vec<String> {
        let environment = Environment::new();
        let Ok(template) = environment.template_from_str(&self.text) else { return Vec::new() };
        let is_known = |name: &String| {
            let mut keys = name.split('.');
            let first = keys.next().and_then(|key| context.get(key));
            // An element of an array has no name here.
            keys.try_fold(first, |value, key| match value {
                Some(Value::Object(members)) => Ok(members.get(key)),
                Some(_) => Err(()),
                None => Ok(None),
            })
            .map_or(true, |value| value.is_some())
        };
        let mut names: Vec<String> =
            template.undeclared_variables(true).into_iter().filter(|name| !is_known(name)).collect();
        names.sort_unstable();
        names
    }
}
