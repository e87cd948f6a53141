//! Steps: named model calls with checks, adaptation, repair and retries of the output.
//!
//! ```text
//! for each attempt, in a copy of the context, with trace events in a span of its own:
//!   precheck ──► constraint ──► call ──► adaptation ──► repair ──► validators
//!       │             │         with     with                       │      │
//!       │             │         tools    processors                 │      │
//!       │ guidance    │ response_format or grammar           errors │      │ valid output
//!       ▼             ▼                                             ▼      ▼
//!   the prompt     the request                       the prompt of the   the copy becomes
//!                                                    next attempt        the context
//! ```
//!
//! The `processing` block ([`Processing`]) selects these stages. The block comes from a steps file
//! ([`StepsFile`]) or from the API, and overrides the defaults of
//! [`config::Aros`](crate::config::Aros). With `enabled = false` in the defaults, or without the
//! block, a step only calls the model and parses the answer strictly.
//!
//! A failed step leaves its context unchanged. Interruptions of a run are passed on unchanged.
//! Quotas belong to the backend ([`Metered`](crate::quota::Metered)).
//!
//! ```
//! use std::sync::Arc;
//! use formwork_protocol::config::Aros;
//! use formwork_protocol::step::{Format, StepInput, StepsFile};
//! use formwork_protocol::trace::{MemorySink, Tracer};
//! use formwork_protocol::{Body, PromptRunner, ScriptedBackend};
//! use futures_util::FutureExt;
//! use serde_json::json;
//!
//! let steps = StepsFile::parse(
//!     "
//! agents:
//!   count:
//!     prompt: Count the words of {{ text }}.
//!     processing:
//!       aop: full
//!       schema: { type: object, properties: { count: { type: integer } }, required: [count] }
//!     ",
//!     Format::Yaml,
//! )?;
//! let answer = ScriptedBackend::says("```json\n{\"count\": \"2\"}\n```");
//! let backend = Arc::new(ScriptedBackend::new([Ok(answer)]));
//! let step =
//!     steps.build("count", &Aros::default(), &|_| PromptRunner::new(backend.clone(), "m"))?;
//! let memory = MemorySink::default();
//! let run = Tracer::default().with_sink(memory.clone()).run("example");
//! let mut context: Body = [("text".to_owned(), json!("two words"))].into_iter().collect();
//! let output =
//!     step.run(&StepInput::default(), &mut context, &run).now_or_never().expect("at once")?;
//! assert_eq!(output.value, json!({"count": 2}));
//! assert!(memory.events().iter().any(|event| event.name == "output.coercion.success"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod command;
mod constraint;
mod context;
mod cost;
mod definition;
mod effect;
mod error;
mod events;
mod progress;
mod prompt;
mod read;
mod run;
mod settings;

use std::sync::Arc;

use serde_json::Value;

pub use command::{CommandProcessor, ProcessorInput};
pub use context::{Context, StepInput, StepOutput, StepProcessor, StepValidator};
pub use definition::{Format, Processing, QuotaDefinition, StepDefinition, StepsFile};
pub use error::{Interrupted, StepError, StepsError};
pub use events::trace_adaptation;
pub use progress::Progress;
pub use settings::Settings;

use crate::adapt::Adapter;
use crate::config::Aros;
use crate::precheck::Precheck;
use crate::repair::{Counters, Shape};
use crate::tools::{ToolCallingOptions, ToolSource};
use crate::{PromptRunner, Retry};
use error::Fault;
use prompt::Template;

/// Default for the maximum number of attempts after the first one.
const RETRIES: u32 = 1;

/// Function that creates the tools for an attempt from the attempt's context. The tools may read
/// and change the context.
type Tools = Arc<dyn Fn(&Context) -> Arc<dyn ToolSource> + Send + Sync>;

/// Named call of a model, with the processing of its output.
#[derive(Clone)]
pub struct Step {
    name: String,
    agent: Option<String>,
    prompts: PromptRunner,
    system: Option<String>,
    template: Option<Template>,
    retries: u32,
    settings: Settings,
    output: Option<Output>,
    precheck: Option<Precheck>,
    processors: Vec<Arc<dyn StepProcessor>>,
    validators: Vec<Arc<dyn StepValidator>>,
    tools: Option<(Tools, ToolCallingOptions)>,
    counters: Arc<Counters>,
    progress: Arc<dyn Fn(&Retry) + Send + Sync>,
    reports: Arc<dyn Fn(&Progress<'_>) + Send + Sync>,
    keeps_failures: bool,
    /// False if the configuration disables all processing. Retries and failures are then not traced.
    traces_failures: bool,
}

/// Schema of the outputs, prepared for repair (`shape`) and adaptation (`adapter`).
#[derive(Clone)]
struct Output {
    shape: Shape,
    adapter: Arc<Adapter>,
    /// SHA-256 of the schema, in hexadecimal.
    hash: String,
}

impl Output {
    fn new(schema: &Value, settings: &Settings) -> Result<Self, Fault> {
        let shape = Shape::of_schema(schema.clone(), "output").map_err(Fault::Repair)?;
        let adapter = Adapter::new(schema, settings.adapt.clone()).map_err(Fault::Adapt)?;
        Ok(Self { shape, adapter: Arc::new(adapter), hash: constraint::hash(schema) })
    }
}

impl Step {
    /// Creates a step without a schema and without a `processing` block.
    pub fn new(name: impl Into<String>, prompts: PromptRunner) -> Self {
        Self {
            name: name.into(),
            agent: None,
            prompts,
            system: None,
            template: None,
            retries: RETRIES,
            settings: Settings::off(),
            output: None,
            precheck: None,
            processors: Vec::new(),
            validators: Vec::new(),
            tools: None,
            counters: Arc::default(),
            progress: Arc::new(|_| {}),
            reports: Arc::new(|_| {}),
            keeps_failures: false,
            traces_failures: true,
        }
    }

    /// Sets how outputs are processed: by the options of `processing`, and by the defaults of
    /// `aros` for options that `processing` does not set.
    ///
    /// If `processing` has a schema, it replaces the schema of the step.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid, an option is out of range, or options contradict
    /// each other.
    pub fn with_processing(mut self, processing: &Processing, aros: &Aros) -> Result<Self, StepsError> {
        let fault = |fault: Fault| StepsError::at(&["processing"], fault);
        processing
            .check()
            .map_err(|(path, reason)| StepsError::at(&[&["processing"], &path[..]].concat(), reason))?;
        if processing.fields.is_some() {
            let wanted = "`StepsFile::with_fields`, which reads the definition";
            return Err(StepsError::at(&["processing", "fields"], Fault::Needs { wanted }));
        }
        self.settings = Settings::resolved(processing, aros).map_err(|error| fault(Fault::Adapt(error)))?;
        self.traces_failures = self.settings.is_on;
        self.precheck = self.settings.precheck.clone().map(Precheck::new);
        let known = self.output.take().map(|output| output.shape.schema().clone());
        let schema = processing.schema.clone().or(known);
        self.output = schema.map(|schema| Output::new(&schema, &self.settings)).transpose().map_err(fault)?;
        if self.settings.is_on {
            let processors = processing.processors.iter().cloned();
            self.processors.extend(processors.map(|processor| Arc::new(processor) as Arc<dyn StepProcessor>));
        }
        Ok(self)
    }

    /// Sets the schema of the output.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid.
    pub fn with_schema(mut self, schema: &Value) -> Result<Self, StepsError> {
        let output = Output::new(schema, &self.settings);
        self.output = Some(output.map_err(|fault| StepsError::at(&["schema"], fault))?);
        Ok(self)
    }

    /// Sets the agent name for traces.
    #[must_use]
    pub fn with_agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Sets a system message, placed before the messages of the input.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets the maximum number of attempts after the first one. The default is 1.
    #[must_use]
    pub const fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Replaces the precheck with the result of `change`, for example to add a validator of plans.
    /// Does nothing if the step has no precheck; [`with_processing`](Self::with_processing) sets
    /// one if its options enable it.
    #[must_use]
    pub fn with_precheck(mut self, change: impl FnOnce(Precheck) -> Precheck) -> Self {
        self.precheck = self.precheck.map(change);
        self
    }

    /// Adds a processor of outputs, which runs after the built-in stages of adaptation and after
    /// the processors added before. Steps without a schema run no processors.
    #[must_use]
    pub fn with_processor(mut self, processor: impl StepProcessor + 'static) -> Self {
        self.processors.push(Arc::new(processor));
        self
    }

    /// Adds a check of outputs that match the schema. If the step has no schema, all outputs are
    /// checked.
    #[must_use]
    pub fn with_validator(mut self, validator: impl StepValidator + 'static) -> Self {
        self.validators.push(Arc::new(validator));
        self
    }

    /// Sets the tools that the model may call, and the options of the tool loop. For each attempt,
    /// `tools` creates the tools from the attempt's context.
    ///
    /// With tools, the output is not constrained during decoding.
    #[must_use]
    pub fn with_tools(
        mut self,
        tools: impl Fn(&Context) -> Arc<dyn ToolSource> + Send + Sync + 'static,
        options: ToolCallingOptions,
    ) -> Self {
        self.tools = Some((Arc::new(tools), options));
        self
    }

    /// Sets the counters of runs, repairs and results. Several steps may share the same counters.
    ///
    /// The counters include the runs of the step and of its [`repairer`](Self::repairer). Steps
    /// without a schema are not counted.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<Counters>) -> Self {
        self.counters = counters;
        self
    }

    /// Sets a callback that is called before each request for a repair.
    #[must_use]
    pub fn on_retry(mut self, progress: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Sets a callback that is called before each request of an attempt, and for everything else that
    /// a user may want to see.
    #[must_use]
    pub fn on_progress(mut self, reports: impl Fn(&Progress<'_>) + Send + Sync + 'static) -> Self {
        self.reports = Arc::new(reports);
        self
    }

    /// Records the texts of failed attempts in the events `step.retry` and `step.fail`. By default,
    /// traces contain no texts of models.
    #[must_use]
    pub const fn with_kept_failures(mut self, keeps_failures: bool) -> Self {
        self.keeps_failures = keeps_failures;
        self
    }

    /// Returns the name of the step.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the settings for processing the output.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the counters of runs, repairs and results.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
