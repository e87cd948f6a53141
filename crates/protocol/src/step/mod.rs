//! Steps: a named call of a model, with all that is done for its output to be what it should be.
//!
//! ```text
//! for each attempt, in a copy of the context:
//!   precheck ──► constraint ──► call, with tools ──► adaptation, with processors ──► repair ──► validators
//!       │ guidance     │ response_format or grammar            │                                  │
//!       ▼              ▼                                       ▼ what is wrong, by its place      ▼
//!   events of the trace, in a span of the attempt          the next attempt is told       the copy becomes the context
//! ```
//!
//! How much of that is done is the `processing` block's to say ([`Processing`]), from a steps file ([`StepsFile`]) or by the API, over the
//! defaults of [`config::Aros`](crate::config::Aros); with `enabled = false` there, or without the block, a step only calls, and reads its
//! answer strictly. A step that fails leaves its context as it was. What interrupts a run passes through as it came. Quotas are the
//! backend's ([`Metered`](crate::quota::Metered)).
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
//! let backend = Arc::new(ScriptedBackend::new([Ok(ScriptedBackend::says("```json\n{\"count\": \"2\"}\n```"))]));
//! let step = steps.build("count", &Aros::default(), &|_| PromptRunner::new(backend.clone(), "m"))?;
//! let memory = MemorySink::default();
//! let run = Tracer::default().with_sink(memory.clone()).run("example");
//! let mut context: Body = [("text".to_owned(), json!("two words"))].into_iter().collect();
//! let output = step.run(&StepInput::default(), &mut context, &run).now_or_never().expect("at once")?;
//! assert_eq!(output.value, json!({"count": 2}));
//! assert!(memory.events().iter().any(|event| event.name == "output.coercion.success"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod constraint;
mod context;
mod definition;
mod error;
mod events;
mod prompt;
mod read;
mod run;
mod settings;

use std::sync::Arc;

use serde_json::Value;

pub use context::{Context, StepInput, StepOutput, StepProcessor, StepValidator};
pub use definition::{Format, Processing, StepDefinition, StepsFile};
pub use error::{StepError, StepsError};
pub use events::trace_adaptation;
pub use settings::Settings;

use crate::adapt::Adapter;
use crate::config::Aros;
use crate::precheck::Precheck;
use crate::repair::{Counters, Shape};
use crate::tools::{ToolCallingOptions, ToolSource};
use crate::{PromptRunner, Retry};
use error::Fault;
use prompt::Template;

/// How often a step that failed is tried again, unless something else is said.
const RETRIES: u32 = 1;

/// Makes the tools of an attempt, which may use its context.
type Tools = Arc<dyn Fn(&Context) -> Arc<dyn ToolSource> + Send + Sync>;

/// A named call of a model.
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
}

/// What answers must be, and what makes them so.
#[derive(Clone)]
struct Output {
    shape: Shape,
    adapter: Arc<Adapter>,
    /// SHA-256 of the schema, hexadecimal.
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
    /// A call without a schema and without a `processing` block.
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
        }
    }

    /// With a `processing` block over the defaults of a configuration. Its schema is the step's; without one, the one that the step has stays.
    ///
    /// # Errors
    /// When the block's schema is none, or it says what cannot be.
    pub fn with_processing(mut self, processing: &Processing, aros: &Aros) -> Result<Self, StepsError> {
        let fault = |fault: Fault| StepsError::at(&["processing"], fault);
        processing
            .check()
            .map_err(|(path, reason)| StepsError::at(&[&["processing"], &path[..]].concat(), reason))?;
        self.settings = Settings::resolved(processing, aros).map_err(|error| fault(Fault::Adapt(error)))?;
        self.precheck = self.settings.precheck.clone().map(Precheck::new);
        let known = self.output.take().map(|output| output.shape.schema().clone());
        let schema = processing.schema.clone().or(known);
        self.output = schema.map(|schema| Output::new(&schema, &self.settings)).transpose().map_err(fault)?;
        Ok(self)
    }

    /// With a schema for its output.
    ///
    /// # Errors
    /// When it is none.
    pub fn with_schema(mut self, schema: &Value) -> Result<Self, StepsError> {
        let output = Output::new(schema, &self.settings);
        self.output = Some(output.map_err(|fault| StepsError::at(&["schema"], fault))?);
        Ok(self)
    }

    /// With a name for who is asked, for traces.
    #[must_use]
    pub fn with_agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// With a system message before the messages of the input.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// With so many further attempts where one fails. It is one, if nothing else is said.
    #[must_use]
    pub const fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// With what else may be checked before a generation than keys: who judges plans. Nothing, where prechecks are off.
    #[must_use]
    pub fn with_precheck(mut self, change: impl FnOnce(Precheck) -> Precheck) -> Self {
        self.precheck = self.precheck.map(change);
        self
    }

    /// With one more processor of outputs, after those that are built in.
    #[must_use]
    pub fn with_processor(mut self, processor: impl StepProcessor + 'static) -> Self {
        self.processors.push(Arc::new(processor));
        self
    }

    /// With one more check of outputs that fit their schema.
    #[must_use]
    pub fn with_validator(mut self, validator: impl StepValidator + 'static) -> Self {
        self.validators.push(Arc::new(validator));
        self
    }

    /// With tools, made for each attempt over its context. The output is not constrained while it is written then.
    #[must_use]
    pub fn with_tools(
        mut self,
        tools: impl Fn(&Context) -> Arc<dyn ToolSource> + Send + Sync + 'static,
        options: ToolCallingOptions,
    ) -> Self {
        self.tools = Some((Arc::new(tools), options));
        self
    }

    /// With counters that others count in as well, of what its runs and its [`repairer`](Self::repairer) needed. Without a schema nothing is counted.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<Counters>) -> Self {
        self.counters = counters;
        self
    }

    /// Tells of every repair before it is asked for.
    #[must_use]
    pub fn on_retry(mut self, progress: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is done for its output.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How often what was needed.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
