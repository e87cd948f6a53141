//! Steps as data: a file of YAML, TOML or JSON.

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

/// The name of the step of a file that is a `processing` block alone.
const ONLY: &str = "step";

/// How a file of steps is written.
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
    /// By the ending of a file's name; YAML, if it is none that is known.
    pub fn of_extension(extension: &str) -> Self {
        match extension {
            "toml" => Self::Toml,
            "json" => Self::Json,
            _ => Self::Yaml,
        }
    }
}

/// A file of steps, under `agents` or `steps`; or one `processing` block alone, which is that of a step named `step`. `grammars/steps.yaml` is an example.
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
    /// The steps by their names.
    #[serde(alias = "steps")]
    pub agents: BTreeMap<String, StepDefinition>,
    processing: Option<Processing>,
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepDefinition {
    /// The model that is called, by a name of the caller's.
    pub model: Option<String>,
    /// The system message.
    pub system: Option<String>,
    /// The prompt, with places for values of the context: `Summarise {{ initial_input }}`.
    pub prompt: Option<String>,
    /// Further fields of its requests, such as `temperature`.
    pub options: Body,
    /// How many further attempts there are where one fails; one, if nothing is said.
    pub retries: Option<u32>,
    /// What is done for its output; nothing, if it is left out.
    pub processing: Option<Processing>,
}

/// What is done for a step's output. What is left out is as the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processing {
    /// Whether it is constrained while it is written.
    pub structured_output: Option<StructuredOutput>,
    /// How much is done to it where it does not fit.
    pub aop: Option<OutputProcessing>,
    /// What may be done to it.
    pub coercion: Coercion,
    /// What is checked before it is written.
    pub reasoning_precheck: PrecheckOptions,
    /// What it must be.
    pub schema: Option<Value>,
    /// A grammar in GBNF that it is held to, in place of the schema.
    pub grammar: Option<String>,
    /// Whether only an output counts that fits its schema as it came.
    pub enforce_grammar: bool,
    /// Whether only to say what would be done to it.
    pub shadow: bool,
    /// How it is repaired; it is not, if this is left out.
    pub repair: Option<RepairOptions>,
}

impl StepsFile {
    /// Reads a file's text, and checks it.
    ///
    /// # Errors
    /// With the place of a key that is not known or a value that is not taken.
    pub fn parse(text: &str, format: Format) -> Result<Self, StepsError> {
        let mut file: Self = read(text, format)?;
        if let Some(processing) = file.processing.take() {
            let step = StepDefinition { processing: Some(processing), ..StepDefinition::default() };
            if file.agents.insert(ONLY.to_owned(), step).is_some() {
                return Err(StepsError::at(&["processing"], Fault::Needs { wanted: "a step of its own" }));
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

    /// Checks the grammars of all steps by `compile`: what compiles them is not of this crate.
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
    /// With the place of the first that it refuses, and why.
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

    /// A step of the file.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn step(&self, name: &str) -> Result<&StepDefinition, StepsError> {
        self.agents.get(name).ok_or_else(|| StepsError::at(&["agents"], self.unknown(name)))
    }

    /// A step that can be run. `prompts` gives what asks a model, by the name that the file has for it.
    ///
    /// # Errors
    /// When there is none of this name, or it says what cannot be.
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

    /// An agent by its name, with `agents.` before it or without.
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
        // Agents of checks that are not made need not be here. Where nothing is said the configuration may ask for them.
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

    /// What asks its model, with its fields over the defaults.
    fn prompts(&self, prompts: &dyn Fn(Option<&str>) -> PromptRunner) -> PromptRunner {
        let prompts = prompts(self.model.as_deref());
        let mut defaults = prompts.defaults().clone();
        defaults.extend(self.options.clone());
        prompts.with_defaults(defaults)
    }
}

impl Processing {
    /// Reads one block alone.
    ///
    /// # Errors
    /// With the place of a key that is not known or a value that is not taken.
    pub fn parse(text: &str, format: Format) -> Result<Self, StepsError> {
        let processing: Self = read(text, format)?;
        processing.check().map_err(|(path, fault)| StepsError::at(&path, fault))?;
        Ok(processing)
    }

    /// What types cannot say.
    pub(super) fn check(&self) -> Result<(), (Vec<&'static str>, Fault)> {
        if let Some(schema) = &self.schema {
            Shape::of_schema(schema.clone(), "output")
                .map_err(|error| (vec!["schema"], Fault::Repair(error)))?;
        } else if self.enforce_grammar {
            return Err((vec!["enforce_grammar"], Fault::Needs { wanted: "a schema" }));
        }
        if self.grammar.as_ref().is_some_and(|grammar| grammar.trim().is_empty()) {
            return Err((vec!["grammar"], Fault::Needs { wanted: "rules" }));
        }
        let precheck = &self.reasoning_precheck;
        let at = |key: &'static str, fault| Err((vec!["reasoning_precheck", key], fault));
        let number = |given: String, wanted| Fault::Number { given, wanted };
        if let Some(given) = precheck.score_threshold.filter(|score| !score.is_finite()) {
            return at("score_threshold", number(given.to_string(), "a number"));
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
            return at("context_feedback_key", Fault::Needs { wanted: "a name" });
        }
        Ok(())
    }
}
