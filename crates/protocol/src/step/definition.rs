//! Step definitions in YAML, TOML or JSON files.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::error::{Fault, StepsError};
use super::prompt::Template;
use super::read::read;
use super::{RETRIES, Step};
use crate::adapt::Coercion;
use crate::config::{Aros, OutputProcessing, StructuredOutput};
use crate::precheck::{InjectFeedback, PrecheckOptions, PromptPlanner, PromptValidator};
use crate::repair::{RepairOptions, Shape};
use crate::{Body, PromptRunner};

/// Step name for a file that has only a `processing` block.
const ONLY: &str = "step";

/// Format of a steps file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// Returns the format for a file extension, or YAML if the extension is unknown.
    pub fn of_extension(extension: &str) -> Self {
        match extension {
            "toml" => Self::Toml,
            "json" => Self::Json,
            _ => Self::Yaml,
        }
    }
}

/// Parsed steps file: steps under `agents` or `steps`, or a single `processing` block.
///
/// A single block defines a step named `step`. `grammars/steps.yaml` is an example.
///
/// ```
/// use formwork_protocol::step::{Format, StepsFile};
/// let error = StepsFile::parse("agents:\n  a:\n    processing:\n      aop: some\n", Format::Yaml).unwrap_err();
/// assert!(error.to_string().starts_with("line 4, column 12: unknown variant `some`"), "{error}");
/// let error = StepsFile::parse("[agents.a.processing]\nsoap = 1", Format::Toml).unwrap_err();
/// assert!(error.to_string().starts_with("line 2, `agents.a.processing.soap`: unknown field `soap`"), "{error}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepsFile {
    /// Steps by name.
    #[serde(alias = "steps")]
    pub agents: BTreeMap<String, StepDefinition>,
    processing: Option<Processing>,
}

/// Definition of one step.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepDefinition {
    /// Name of the model to call, as known to the caller.
    pub model: Option<String>,
    /// System message.
    pub system: Option<String>,
    /// Prompt template with placeholders for context values, such as
    /// `Summarise {{ initial_input }}`.
    pub prompt: Option<String>,
    /// Further request fields, such as `temperature`.
    pub options: Body,
    /// Number of further attempts after a failed one; the default is 1.
    pub retries: Option<u32>,
    /// Processing of the output; without it, the output is not processed.
    pub processing: Option<Processing>,
}

/// Processing of a step's output. Missing options come from the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processing {
    /// Constraint of the output during decoding.
    pub structured_output: Option<StructuredOutput>,
    /// Level of adaptation for outputs that do not match the schema.
    pub aop: Option<OutputProcessing>,
    /// Conversions and tolerance of the adaptation.
    pub coercion: Coercion,
    /// Checks before the generation.
    pub reasoning_precheck: PrecheckOptions,
    /// JSON Schema of the output.
    pub schema: Option<Value>,
    /// GBNF grammar that constrains the output instead of the schema.
    pub grammar: Option<String>,
    /// True to accept only outputs that match the schema without adaptation.
    pub enforce_grammar: bool,
    /// True to only report what the adaptation would do.
    pub shadow: bool,
    /// Options of the repair; without them, outputs are not repaired.
    pub repair: Option<RepairOptions>,
}

impl StepsFile {
    /// Parses and checks the text of a file.
    ///
    /// # Errors
    /// Returns an error with the position of an unknown key or an invalid value.
    pub fn parse(text: &str, format: Format) -> Result<Self, StepsError> {
        let mut file: Self = read(text, format)?;
        if let Some(processing) = file.processing.take() {
            let step = StepDefinition { processing: Some(processing), ..StepDefinition::default() };
            if file.agents.insert(ONLY.to_owned(), step).is_some() {
                return Err(StepsError::at(
                    &["processing"],
                    Fault::Needs { wanted: "a file without an agent named `step`" },
                ));
            }
        }
        for (name, step) in &file.agents {
            let check = || {
                file.check(step)
                    .map_err(|(path, fault)| StepsError::at(&[&["agents", name], &path[..]].concat(), fault))
            };
            check()?;
        }
        Ok(file)
    }

    /// Checks the grammars of all steps with `compile`, since this crate has no grammar compiler.
    ///
    /// ```
    /// use formwork_protocol::step::{Format, StepsFile};
    /// let file = StepsFile::parse("agents: { a: { processing: { grammar: 'root := x' } } }", Format::Yaml)?;
    /// let error = file.check_grammars(|_| Err("expected ::=")).unwrap_err();
    /// assert_eq!(error.to_string(), "agents.a.processing.grammar: expected ::=");
    /// # Ok::<(), formwork_protocol::step::StepsError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error with the key path of the first grammar that `compile` rejects, and its
    /// reason.
    pub fn check_grammars<E: fmt::Display>(
        &self,
        compile: impl Fn(&str) -> Result<(), E>,
    ) -> Result<(), StepsError> {
        for (name, step) in &self.agents {
            let Some(grammar) = step.processing.as_ref().and_then(|processing| processing.grammar.as_ref())
            else {
                continue;
            };
            compile(grammar).map_err(|reason| {
                let fault = Fault::Grammar { reason: reason.to_string() };
                StepsError::at(&["agents", name, "processing", "grammar"], fault)
            })?;
        }
        Ok(())
    }

    /// Returns a step of the file.
    ///
    /// # Errors
    /// Returns an error if no step has this name.
    pub fn step(&self, name: &str) -> Result<&StepDefinition, StepsError> {
        self.agents.get(name).ok_or_else(|| StepsError::at(&["agents"], self.unknown(name)))
    }

    /// Builds a step that can be run.
    ///
    /// `prompts` returns the prompt runner for a model name of the file, or for `None` if the step
    /// names no model.
    ///
    /// # Errors
    /// Returns an error if no step has this name or its definition is invalid.
    pub fn build(
        &self,
        name: &str,
        aros: &Aros,
        prompts: &dyn Fn(Option<&str>) -> PromptRunner,
    ) -> Result<Step, StepsError> {
        let definition = self.step(name)?;
        let mut step = definition.build(name, *aros, prompts)?;
        let Some(processing) = &definition.processing else { return Ok(step) };
        let precheck = &processing.reasoning_precheck;
        if let Some(agent) = self.agent(precheck.validator_agent.as_deref()) {
            let mut validator = PromptValidator::new(agent.prompts(prompts));
            if let Some(system) = &agent.system {
                validator = validator.with_system(system);
            }
            step = step.with_precheck(|precheck| precheck.with_validator(validator));
        }
        if let Some(agent) = self.agent(precheck.planner_agent.as_deref()) {
            let mut planner = PromptPlanner::new(agent.prompts(prompts));
            if let Some(system) = &agent.system {
                planner = planner.with_system(system);
            }
            step = step.with_precheck(|precheck| precheck.with_planner(planner));
        }
        Ok(step)
    }

    /// Returns an agent by its name, with or without the prefix `agents.`.
    fn agent(&self, name: Option<&str>) -> Option<&StepDefinition> {
        let name = name?;
        self.agents.get(name.strip_prefix("agents.").unwrap_or(name))
    }

    fn unknown(&self, name: &str) -> Fault {
        Fault::Unknown { given: name.to_owned(), known: self.agents.keys().cloned().collect() }
    }

    fn check(&self, step: &StepDefinition) -> Result<(), (Vec<&'static str>, Fault)> {
        if let Some(prompt) = &step.prompt {
            Template::new(prompt).map_err(|fault| (vec!["prompt"], fault))?;
        }
        let Some(processing) = &step.processing else { return Ok(()) };
        let within = |(path, fault): (Vec<&'static str>, Fault)| ([vec!["processing"], path].concat(), fault);
        processing.check().map_err(within)?;
        // A disabled precheck does not need its agents. If `enabled` is not set, the configuration
        // may enable the precheck.
        let precheck = &processing.reasoning_precheck;
        let agents =
            [("validator_agent", &precheck.validator_agent), ("planner_agent", &precheck.planner_agent)];
        for (key, name) in agents {
            if let Some(name) = name.as_ref().filter(|_| precheck.enabled != Some(false))
                && self.agent(Some(name)).is_none()
            {
                return Err(within((vec!["reasoning_precheck", key], self.unknown(name))));
            }
        }
        Ok(())
    }
}

impl StepDefinition {
    fn build(
        &self,
        name: &str,
        aros: Aros,
        prompts: &dyn Fn(Option<&str>) -> PromptRunner,
    ) -> Result<Step, StepsError> {
        let mut step = Step::new(name, self.prompts(prompts)).with_agent(name);
        step = step.with_retries(self.retries.unwrap_or(RETRIES));
        step.system.clone_from(&self.system);
        if let Some(prompt) = &self.prompt {
            let fault = |fault| StepsError::at(&["agents", name, "prompt"], fault);
            step.template = Some(Template::new(prompt).map_err(fault)?);
        }
        match &self.processing {
            Some(processing) => {
                step.with_processing(processing, &aros).map_err(|error| error.within(&["agents", name]))
            }
            None => Ok(step),
        }
    }

    /// Returns the runner for the step's model, with the step's request fields over its defaults.
    fn prompts(&self, prompts: &dyn Fn(Option<&str>) -> PromptRunner) -> PromptRunner {
        let prompts = prompts(self.model.as_deref());
        let mut defaults = prompts.defaults().clone();
        defaults.extend(self.options.clone());
        prompts.with_defaults(defaults)
    }
}

impl Processing {
    /// Parses a single `processing` block.
    ///
    /// # Errors
    /// Returns an error with the position of an unknown key or an invalid value.
    pub fn parse(text: &str, format: Format) -> Result<Self, StepsError> {
        let processing: Self = read(text, format)?;
        processing.check().map_err(|(path, fault)| StepsError::at(&path, fault))?;
        Ok(processing)
    }

    /// Checks constraints that the types cannot express.
    pub(super) fn check(&self) -> Result<(), (Vec<&'static str>, Fault)> {
        if let Some(schema) = &self.schema {
            Shape::of_schema(schema.clone(), "output")
                .map_err(|error| (vec!["schema"], Fault::Repair(error)))?;
        } else if self.enforce_grammar {
            return Err((vec!["enforce_grammar"], Fault::Needs { wanted: "a schema" }));
        }
        if self.grammar.as_ref().is_some_and(|grammar| grammar.trim().is_empty()) {
            return Err((vec!["grammar"], Fault::Needs { wanted: "at least one rule" }));
        }
        let precheck = &self.reasoning_precheck;
        let at = |key: &'static str, fault| Err((vec!["reasoning_precheck", key], fault));
        let number = |given: String, wanted| Fault::Number { given, wanted };
        if let Some(given) = precheck.score_threshold.filter(|score| !score.is_finite()) {
            return at("score_threshold", number(given.to_string(), "a finite number"));
        }
        if precheck.max_tokens == Some(0) {
            return at("max_tokens", number("0".to_owned(), "a positive number of tokens"));
        }
        let share = precheck.consensus_threshold;
        if !(0.0..=1.0).contains(&share) {
            return at("consensus_threshold", number(share.to_string(), "a number from 0 to 1"));
        }
        if precheck.inject_feedback == Some(InjectFeedback::ContextKey)
            && precheck.context_feedback_key.is_empty()
        {
            return at("context_feedback_key", Fault::Needs { wanted: "a non-empty name" });
        }
        Ok(())
    }
}
