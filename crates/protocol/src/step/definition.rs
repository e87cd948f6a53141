//! Step definitions in YAML, TOML or JSON files.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::command::CommandProcessor;
use super::effect;
use super::error::{Fault, StepsError};
use super::prompt::Template;
use super::read::{Source, read};
use super::{RETRIES, Step};
use crate::adapt::Coercion;
use crate::config::{Aros, OutputProcessing, StructuredOutput};
use crate::directives::{Mode, repeated};
use crate::precheck::{
    DecisionValidator, InjectFeedback, JudgementForm, PrecheckOptions, PromptPlanner, PromptValidator,
};
use crate::quota::Quota;
use crate::repair::{MOST_ATTEMPTS, RepairOptions, Shape};
use crate::{Body, PromptRunner};

/// Error of a file without steps.
const NO_STEPS: &str = "the file has no steps; expected `agents` with at least one step, or `processing`";

/// Limit on attempts, for errors. See [`MOST_ATTEMPTS`].
const AT_MOST: &str = "an integer from 0 to 8";

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
    /// Returns the format for a file extension without the dot, such as `toml`. Unknown extensions
    /// are YAML.
    pub fn of_extension(extension: &str) -> Self {
        match extension {
            "toml" => Self::Toml,
            "json" => Self::Json,
            _ => Self::Yaml,
        }
    }
}

/// Parsed steps file with the definitions of steps by name, under the key `agents` or `steps`.
///
/// A `processing` block at the top level defines a step named `step`. `grammars/steps.yaml` of
/// the repository is an example of a steps file.
///
/// ```
/// use formwork_protocol::step::{Format, StepsFile};
/// let yaml = "agents:\n  a:\n    processing:\n      aop: some\n";
/// let error = StepsFile::parse(yaml, Format::Yaml).unwrap_err();
/// assert!(error.to_string().starts_with("line 4, column 12: unknown variant `some`"), "{error}");
/// let error = StepsFile::parse("[agents.a.processing]\nsoap = 1", Format::Toml).unwrap_err();
/// let expected = "line 2, `agents.a.processing.soap`: unknown field `soap`";
/// assert!(error.to_string().starts_with(expected), "{error}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepsFile {
    /// Steps by name.
    #[serde(alias = "steps")]
    pub agents: BTreeMap<String, StepDefinition>,
    processing: Option<Processing>,
    /// Text of the file, for the lines of errors.
    #[serde(skip)]
    source: Source,
}

/// Definition of one step.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StepDefinition {
    /// Name of the model to call. [`StepsFile::build`] passes the name to its argument `prompts`.
    pub model: Option<String>,
    /// System message, placed before all other messages.
    pub system: Option<String>,
    /// Template of the last user message, with placeholders for context values, such as
    /// `Summarise {{ initial_input }}`.
    pub prompt: Option<String>,
    /// Additional request fields, such as `temperature`. They override the defaults of the prompt
    /// runner.
    pub options: Body,
    /// Maximum number of attempts after the first one, from 0 to 8; the default is 1.
    pub retries: Option<u32>,
    /// Limit on all requests of the step, including those of its validator and planner. All runs of
    /// a built step share it.
    pub quota: Option<QuotaDefinition>,
    /// Processing of the output. `None` to parse the output strictly, without checks, adaptation or
    /// repair.
    pub processing: Option<Processing>,
}

/// The `processing` block of a step: how its output is constrained, adapted and repaired. The
/// configuration ([`Aros`]) has defaults for several options.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processing {
    /// Constraint of the output during decoding. If `None`, the configuration decides.
    pub structured_output: Option<StructuredOutput>,
    /// Modes in which JSON is requested, in order; all three by default. The first mode that the
    /// backend enforces is used, and a mode that the backend refuses or ignores leads to the next.
    pub modes: Option<Vec<Mode>>,
    /// True if prompts contain the schema unless the backend enforces it; the default is true. A
    /// prompt with the placeholder `{{ schema }}` contains the schema there.
    pub schema_in_prompt: Option<bool>,
    /// Level of adaptation for outputs that do not match the schema. If `None`, the configuration
    /// decides.
    pub aop: Option<OutputProcessing>,
    /// Conversions and tolerance of the adaptation. Fields that are `None` come from the
    /// configuration.
    pub coercion: Coercion,
    /// Options of the precheck, which checks the context and the plan before the model is called.
    pub reasoning_precheck: PrecheckOptions,
    /// JSON Schema of the output. If `None`, the step keeps the schema that was set before, if any.
    pub schema: Option<Value>,
    /// File with a definition of fields whose schema the output must match, instead of `schema`.
    /// [`StepsFile::with_fields`] reads the file.
    pub fields: Option<String>,
    /// GBNF grammar that constrains the output instead of the schema.
    pub grammar: Option<String>,
    /// True to accept only outputs that match the schema without adaptation. Requires a schema.
    pub enforce_grammar: bool,
    /// True to record the changes that the adaptation would make without applying them (shadow
    /// mode).
    pub shadow: bool,
    /// Options for asking the model to repair an invalid output. If `None`, outputs are not
    /// repaired. Only `enabled` and `max_attempts` can be set.
    #[serde(deserialize_with = "repair")]
    pub repair: Option<RepairOptions>,
    /// Programs that process outputs after the built-in stages, in order.
    pub processors: Vec<CommandProcessor>,
}

/// Limit on the requests of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaDefinition {
    /// Maximum number of tokens of prompts and answers.
    pub tokens: Option<u64>,
    /// Maximum time of requests, in seconds.
    pub seconds: Option<f64>,
}

impl QuotaDefinition {
    fn quota(self) -> Quota {
        let mut quota = Quota::unlimited();
        if let Some(tokens) = self.tokens {
            quota = quota.with_tokens(tokens);
        }
        if let Some(time) = self.seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            quota = quota.with_time(time);
        }
        quota
    }
}

/// Reads the block `repair` of a step. Options that have no effect in steps are errors.
fn repair<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RepairOptions>, D::Error> {
    #[derive(Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Written {
        #[serde(alias = "schemaRepairEnabled")]
        enabled: bool,
        #[serde(alias = "schemaRepairMaxAttempts")]
        max_attempts: u32,
        #[serde(alias = "schemaValidationStrict")]
        strict: Option<IgnoredAny>,
        modes: Option<IgnoredAny>,
    }
    impl Default for Written {
        fn default() -> Self {
            let RepairOptions { enabled, max_attempts, .. } = RepairOptions::default();
            Self { enabled, max_attempts, strict: None, modes: None }
        }
    }
    let Some(written) = Option::<Written>::deserialize(deserializer)? else { return Ok(None) };
    if written.strict.is_some() {
        return Err(D::Error::custom("`strict` has no effect in a step, which accepts only valid outputs"));
    }
    if written.modes.is_some() {
        return Err(D::Error::custom(
            "`modes` has no effect in `repair` of a step; set `processing.modes` instead",
        ));
    }
    let Written { enabled, max_attempts, .. } = written;
    Ok(Some(RepairOptions { enabled, max_attempts, ..RepairOptions::default() }))
}

impl StepsFile {
    /// Parses the text of a steps file and checks all its steps.
    ///
    /// # Errors
    /// Returns an error with the position of an unknown key or an invalid value.
    pub fn parse(text: &str, format: Format) -> Result<Self, StepsError> {
        let mut file: Self = read(text, format)?;
        file.source = Source::new(text, format);
        if let Some(processing) = file.processing.take() {
            let step = StepDefinition { processing: Some(processing), ..StepDefinition::default() };
            if file.agents.insert(ONLY.to_owned(), step).is_some() {
                let fault = Fault::Needs { wanted: "a file without an agent named `step`" };
                return Err(file.source.locate(StepsError::at(&["processing"], fault)));
            }
        }
        if file.agents.is_empty() {
            return Err(StepsError::syntax("line 1".to_owned(), NO_STEPS.to_owned()));
        }
        for (name, step) in &file.agents {
            let check = || {
                file.check(step).map_err(|(path, fault)| {
                    file.source.locate(StepsError::at(&[&["agents", name], &path[..]].concat(), fault))
                })
            };
            check()?;
        }
        Ok(file)
    }

    /// Reads the definitions of fields that steps name. `read` returns the JSON Schema for the path in
    /// the option `fields`, since this crate reads no files.
    ///
    /// ```
    /// use formwork_protocol::step::{Format, StepsFile};
    /// use serde_json::json;
    /// let text = "agents: { a: { processing: { fields: order.yaml } } }";
    /// let file = StepsFile::parse(text, Format::Yaml)?;
    /// let file = file.with_fields(|_| Ok::<_, String>(json!({"type": "object"})))?;
    /// let processing = file.step("a")?.processing.as_ref().unwrap();
    /// assert_eq!(processing.schema, Some(json!({"type": "object"})));
    /// # Ok::<(), formwork_protocol::step::StepsError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error with the key path of the first definition that `read` rejects, and its reason.
    pub fn with_fields<E: fmt::Display>(
        mut self,
        read: impl Fn(&str) -> Result<Value, E>,
    ) -> Result<Self, StepsError> {
        for (name, step) in &mut self.agents {
            let Some(processing) = &mut step.processing else { continue };
            let Some(path) = processing.fields.take() else { continue };
            let fault = |fault| StepsError::at(&["agents", name, "processing", "fields"], fault);
            let schema = read(&path)
                .map_err(|reason| self.source.locate(fault(Fault::Grammar { reason: reason.to_string() })))?;
            processing.schema = Some(schema);
            processing.check().map_err(|(_, wrong)| self.source.locate(fault(wrong)))?;
        }
        Ok(self)
    }

    /// Checks the grammars of all steps with `compile`, since this crate has no grammar compiler.
    ///
    /// ```
    /// use formwork_protocol::step::{Format, StepsFile};
    /// let file = StepsFile::parse("agents: { a: { processing: { grammar: 'root := x' } } }", Format::Yaml)?;
    /// let error = file.check_grammars(|_| Err("expected ::=")).unwrap_err();
    /// assert_eq!(error.to_string(), "line 1, `agents.a.processing.grammar`: expected ::=");
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
                self.source.locate(StepsError::at(&["agents", name, "processing", "grammar"], fault))
            })?;
        }
        Ok(())
    }

    /// Returns the definition of the step with this name.
    ///
    /// # Errors
    /// Returns an error if no step has this name.
    pub fn step(&self, name: &str) -> Result<&StepDefinition, StepsError> {
        self.agents
            .get(name)
            .ok_or_else(|| self.source.locate(StepsError::at(&["agents"], self.unknown(name))))
    }

    /// Builds the step with this name, so that it can be run. `aros` has defaults for the options
    /// of its `processing` block.
    ///
    /// `prompts` is called with the step's model name, or with `None` if the step names no model.
    /// It returns the prompt runner for this model.
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
        let quota = definition.quota.map(QuotaDefinition::quota);
        let prompts: &dyn Fn(Option<&str>) -> PromptRunner = &|model| match &quota {
            Some(quota) => prompts(model).with_quota(quota.clone()),
            None => prompts(model),
        };
        let mut step = definition.build(name, *aros, prompts).map_err(|error| self.source.locate(error))?;
        let Some(processing) = &definition.processing else { return Ok(step) };
        let precheck = &processing.reasoning_precheck;
        if let Some(agent) = self.agent(precheck.validator_agent.as_deref()) {
            step = match precheck.judgement {
                JudgementForm::Text => {
                    let mut validator = PromptValidator::new(agent.prompts(prompts));
                    if let Some(system) = &agent.system {
                        validator = validator.with_system(system);
                    }
                    step.with_precheck(|precheck| precheck.with_validator(validator))
                }
                JudgementForm::Decision => {
                    let mut validator = DecisionValidator::new(agent.prompts(prompts))
                        .with_threshold(precheck.score_threshold.unwrap_or(0.5));
                    if let Some(system) = &agent.system {
                        validator = validator.with_system(system);
                    }
                    step.with_precheck(|precheck| precheck.with_validator(validator))
                }
            };
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

    /// Returns the names of the models that the step with this name calls: its own, and those of
    /// its validator and planner if its precheck is enabled. `None` stands for an agent that names
    /// no model.
    ///
    /// # Errors
    /// Returns an error if no step has this name.
    pub fn models(&self, name: &str, aros: &Aros) -> Result<Vec<Option<&str>>, StepsError> {
        let step = self.step(name)?;
        let mut models = vec![step.model.as_deref()];
        if let Some(Processing { reasoning_precheck: precheck, .. }) = &step.processing
            && aros.enabled
            && precheck.enabled.unwrap_or(aros.enable_reasoning_precheck)
        {
            let agents = [&precheck.validator_agent, &precheck.planner_agent];
            let agents = agents.into_iter().filter_map(|agent| self.agent(agent.as_deref()));
            models.extend(agents.map(|agent| agent.model.as_deref()));
        }
        Ok(models)
    }

    /// Returns the error of a prompt whose context lacks values with these `names`, with the position
    /// of the prompt of step `step`. See [`StepError::undefined`](super::StepError::undefined).
    pub fn undefined(&self, step: &str, names: &[String]) -> StepsError {
        let fault = Fault::Undefined { names: names.to_vec() };
        self.source.locate(StepsError::at(&["agents", step, "prompt"], fault))
    }

    /// Returns the definition of an agent. `name` may have the prefix `agents.`.
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
        if let Some(field) = effect::reserved(&step.options) {
            return Err((vec!["options"], Fault::Reserved { field }));
        }
        if let Some(QuotaDefinition { seconds: Some(given), .. }) = step.quota
            && Duration::try_from_secs_f64(given).is_err()
        {
            let (given, wanted) = (given.to_string(), "a non-negative number of seconds");
            return Err((vec!["quota", "seconds"], Fault::Number { given, wanted }));
        }
        if let Some(given) = step.retries.filter(|&given| given > MOST_ATTEMPTS) {
            return Err((vec!["retries"], Fault::Number { given: given.to_string(), wanted: AT_MOST }));
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
                effect::check(processing, aros).map_err(|(path, fault)| {
                    StepsError::at(&[&["agents", name, "processing"], &path[..]].concat(), fault)
                })?;
                step.with_processing(processing, &aros).map_err(|error| error.within(&["agents", name]))
            }
            None => Ok(step),
        }
    }

    /// Returns the prompt runner for the step's model. The step's request fields override the
    /// defaults of the runner.
    fn prompts(&self, prompts: &dyn Fn(Option<&str>) -> PromptRunner) -> PromptRunner {
        let prompts = prompts(self.model.as_deref());
        let mut defaults = prompts.defaults().clone();
        defaults.extend(self.options.clone());
        prompts.with_defaults(defaults)
    }
}

impl Processing {
    /// Parses the text of a single `processing` block, without the key `processing`.
    ///
    /// # Errors
    /// Returns an error with the position of an unknown key or an invalid value.
    pub fn parse(text: &str, format: Format) -> Result<Self, StepsError> {
        let processing: Self = read(text, format)?;
        let source = Source::new(text, format);
        processing.check().map_err(|(path, fault)| source.locate(StepsError::at(&path, fault)))?;
        Ok(processing)
    }

    /// Checks rules that the types cannot express. The error has the path of keys to the invalid
    /// option.
    pub(super) fn check(&self) -> Result<(), (Vec<&'static str>, Fault)> {
        if let Some(schema) = &self.schema {
            Shape::of_schema(schema.clone(), "output")
                .map_err(|error| (vec!["schema"], Fault::Repair(error)))?;
            if self.fields.is_some() {
                let reason = "`schema` is given as well";
                return Err((vec!["fields"], Fault::NoEffect { reason }));
            }
        } else if self.enforce_grammar && self.fields.is_none() {
            return Err((vec!["enforce_grammar"], Fault::Needs { wanted: "a schema" }));
        }
        if self.grammar.as_ref().is_some_and(|grammar| grammar.trim().is_empty()) {
            return Err((vec!["grammar"], Fault::Needs { wanted: "at least one rule" }));
        }
        if self.modes.as_ref().is_some_and(Vec::is_empty) {
            return Err((vec!["modes"], Fault::Needs { wanted: "at least one mode" }));
        }
        if let Some(mode) = self.modes.as_deref().and_then(repeated) {
            return Err((vec!["modes"], Fault::Repeated { given: mode.name() }));
        }
        let repair = self.repair.as_ref().map(|repair| repair.max_attempts);
        if let Some(given) = repair.filter(|&given| given > MOST_ATTEMPTS) {
            let fault = Fault::Number { given: given.to_string(), wanted: AT_MOST };
            return Err((vec!["repair", "max_attempts"], fault));
        }
        for processor in &self.processors {
            processor.check().map_err(|(key, fault)| (vec!["processors", key], fault))?;
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
