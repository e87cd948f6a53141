use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use formwork_chat::ChatFormat;
use formwork_chat::decision::Calibration;
use formwork_engine::EngineHandle;
use formwork_grammar::{Limits, Remotes};
use formwork_lm::ChatTemplate;
use formwork_vocab::Vocabulary;
use tokio::sync::{Semaphore, oneshot};

use crate::constraints::{Compiling, Constraints};
use crate::error::{ApiError, AppError, AppKind, Kind};
use crate::infill::FillTokens;
use crate::metrics::Counters;
use crate::providers::Providers;
use crate::registry::{ModelSource, Registry};
use crate::responses::{Store, StoreLimits};
use crate::tools::HostedTools;

/// A loaded model and its names.
pub struct ServedModel {
    /// Name of the model in responses.
    pub id: String,
    /// Further names for requests.
    pub aliases: Vec<String>,
    /// Time at which the model became available, in seconds since 1970.
    pub created: u64,
    /// Engine that runs the model.
    pub engine: EngineHandle,
    /// Template that renders a conversation as a prompt.
    pub template: Arc<dyn ChatTemplate>,
}

/// Options of the server.
#[derive(Clone)]
pub struct ServerOptions {
    /// Accepted API keys. If empty, requests need no key.
    pub api_keys: Vec<String>,
    /// Origins whose pages may call the server from a browser, for example `https://example.com`.
    /// `*` allows all.
    pub cors_origins: Vec<String>,
    /// True to serve the page at `/`, for which a browser needs no API key.
    pub page: bool,
    /// Maximum size of a request body in bytes.
    pub body_limit: usize,
    /// Timeout for receiving a request's head, for receiving its body, and for a client that stops
    /// reading the response.
    pub read_timeout: Duration,
    /// Timeout for a generation, including its time in the queue. `None` sets no limit.
    pub request_timeout: Option<Duration>,
    /// Maximum total size of loaded models in bytes, by their own estimates. `None` sets no limit.
    pub models_max_bytes: Option<u64>,
    /// Maximum size of the compiled constraints that each model keeps for later requests, with
    /// their caches, in bytes.
    pub constraint_bytes: usize,
    /// Limits for compiling and running each constraint.
    pub grammar_limits: Limits,
    /// Maximum number of constraints that are compiled at the same time, each on its own thread. As many threads
    /// less one help to compile large sets of tools.
    pub compilers: NonZeroUsize,
    /// Documents that schemas in requests may reference.
    pub schemas: Arc<Remotes>,
    /// True to refuse unknown fields of a request. False to ignore those that can be neither a constraint
    /// nor a parameter.
    pub refuse_unknown_fields: bool,
    /// True if the arguments of a tool may be any JSON object when its schema cannot be enforced, for
    /// requests that do not say. False if such a tool is an error.
    pub any_object: bool,
    /// Calibration of decisions, for requests that have none.
    pub calibration: Option<Calibration>,
    /// Remote servers that requests may name.
    pub providers: Providers,
    /// Tools that requests to `/v1/tools/run` may use.
    pub tools: HostedTools,
    /// Limits of the store of responses and conversations.
    pub responses_store: StoreLimits,
    /// Time that running requests get to finish after shutdown starts.
    pub shutdown_limit: Duration,
}

impl Default for ServerOptions {
    /// Returns the defaults that `docs/limits.md` lists: no key, no origins, and half of the
    /// library's limits for a compilation.
    fn default() -> Self {
        let library = Limits::default();
        Self {
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            page: true,
            body_limit: 8 << 20,
            read_timeout: Duration::from_secs(30),
            request_timeout: None,
            models_max_bytes: None,
            constraint_bytes: 192 << 20,
            grammar_limits: Limits {
                cache_bytes: 32 << 20,
                work: library.work / 2,
                bytes: library.bytes / 2,
                ..library
            },
            compilers: NonZeroUsize::new(cores() / 2).unwrap_or(NonZeroUsize::MIN),
            schemas: Arc::default(),
            refuse_unknown_fields: false,
            any_object: false,
            calibration: None,
            providers: Providers::default(),
            tools: HostedTools::default(),
            responses_store: StoreLimits::default(),
            shutdown_limit: Duration::from_secs(30),
        }
    }
}

/// The served models and the server's options. Cheap to clone.
#[derive(Clone)]
pub struct App {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<Registry>,
    options: ServerOptions,
    /// Permits for work off the async threads, one per core.
    workers: Arc<Semaphore>,
    /// Permits for work that compiles. They are separate, so that compiling never delays other
    /// work.
    compilers: Arc<Semaphore>,
    /// Permits for compilations that need little work.
    quick_compilers: Arc<Semaphore>,
    counters: Counters,
    store: Arc<Store>,
}

/// A loaded model with the state that its requests share.
pub(crate) struct Served {
    pub(crate) model: ServedModel,
    /// Shared with the same model with and without adapters.
    pub(crate) constraints: Arc<Constraints>,
    /// Format in which the model writes answers.
    pub(crate) format: ChatFormat,
    /// The same format with calls as JSON, for tools whose arguments the format cannot express.
    pub(crate) json_format: ChatFormat,
    /// Tokens for filling in text, if the vocabulary has them.
    pub(crate) fill: Option<FillTokens>,
}

impl App {
    /// Creates an app that serves `models`.
    ///
    /// # Errors
    /// Returns an error if there are neither models nor providers, or two models share a name.
    pub fn new(models: Vec<ServedModel>, options: ServerOptions) -> Result<Self, AppError> {
        Self::with_sources(models, Vec::new(), options)
    }

    /// Creates an app that serves `models`, and loads the models of `sources` itself.
    ///
    /// # Errors
    /// - If there are neither models nor sources nor providers.
    /// - If two models share a name.
    /// - If a model can never fit in memory beside the models that stay loaded.
    pub fn with_sources(
        models: Vec<ServedModel>,
        sources: Vec<ModelSource>,
        options: ServerOptions,
    ) -> Result<Self, AppError> {
        if models.is_empty() && sources.is_empty() && options.providers.names().next().is_none() {
            return Err(AppKind::NoModels.into());
        }
        Self::build(models, sources, options)
    }

    /// Creates a server without models, for the routes that need none.
    ///
    /// # Errors
    /// Returns an error if the options are invalid.
    pub fn without_models(options: ServerOptions) -> Result<Self, AppError> {
        Self::build(Vec::new(), Vec::new(), options)
    }

    fn build(
        models: Vec<ServedModel>,
        sources: Vec<ModelSource>,
        options: ServerOptions,
    ) -> Result<Self, AppError> {
        let registry = Arc::new(Registry::new(models, sources, &options)?);
        let workers = Arc::new(Semaphore::new(cores()));
        let permits = || Arc::new(Semaphore::new(options.compilers.get()));
        let (compilers, quick_compilers) = (permits(), permits());
        let counters = Counters::default();
        let store = Arc::new(Store::new(options.responses_store));
        let shared = Shared { registry, options, workers, compilers, quick_compilers, counters, store };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Loads all models marked to load at startup. Requests for them wait until they are loaded.
    ///
    /// # Errors
    /// Returns the error of the first model that fails to load.
    pub async fn load(&self) -> Result<(), AppError> {
        self.shared.registry.load_at_start().await
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.shared.options
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.shared.store
    }

    /// Returns the model called `name`, and loads it if necessary.
    ///
    /// The model stays loaded as long as the caller holds it or a generation runs.
    pub(crate) async fn model(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        self.shared.registry.get(name).await
    }

    /// Returns the model called `name`, or the only model if `name` is `None`.
    pub(crate) async fn model_or_only(&self, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        match name.or_else(|| self.registry().only()) {
            Some(name) => self.model(name).await,
            None => Err(Kind::NoModel { served: self.registry().served() }.into()),
        }
    }

    /// Runs work off the async threads as soon as a permit is free. The work continues if the
    /// caller is dropped.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        run(Arc::clone(&self.shared.workers), work).await
    }

    /// Runs work that compiles constraints on a thread of the lowest priority.
    ///
    /// The first attempt allows little work. If that is too little, the second attempt allows all
    /// that the limits do. Most constraints need little, and do not wait behind compilations that
    /// take a second.
    pub(crate) async fn compile<T: Send + 'static>(
        &self,
        work: impl Fn(Compiling) -> Result<T, ApiError> + Send + Sync + 'static,
    ) -> Result<T, ApiError> {
        let work = Arc::new(work);
        let first = Arc::clone(&work);
        let Shared { quick_compilers, compilers, .. } = &*self.shared;
        match run_beside(Arc::clone(quick_compilers), move || first(Compiling::Quick)).await {
            Err(error) if error.is_uncompiled() || error.is_over_limit() => {
                run_beside(Arc::clone(compilers), move || work(Compiling::Allowed)).await
            }
            done => done,
        }
    }

    /// Runs work like [`App::offload`]. If the work needs an unknown constraint, runs the work
    /// again with permission to compile.
    pub(crate) async fn offload_or_compile<T: Send + 'static>(
        &self,
        work: impl Fn(Compiling) -> Result<T, ApiError> + Send + Sync + 'static,
    ) -> Result<T, ApiError> {
        let work = Arc::new(work);
        let first = Arc::clone(&work);
        match self.offload(move || first(Compiling::Deferred)).await {
            Err(error) if error.is_uncompiled() => self.compile(move |compiling| work(compiling)).await,
            done => done,
        }
    }
}

async fn run<T: Send + 'static>(
    permits: Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let permit = permits.acquire_owned().await;
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Kind::Panicked)?
}

/// Runs work like [`run`], on a thread of the lowest priority.
async fn run_beside<T: Send + 'static>(
    permits: Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let permit = permits.acquire_owned().await;
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let _permit = permit;
        give_way();
        // Sending fails if the caller is gone.
        let _ = sender.send(work());
    };
    // Uses a new thread, because a thread may not raise its priority again.
    let thread = std::thread::Builder::new().name("formwork-compile".to_owned()).spawn(work);
    thread.map_err(|_| Kind::Panicked)?;
    receiver.await.map_err(|_| Kind::Panicked)?
}

/// Gives this thread the lowest priority, so that it uses idle processors and a few per cent of
/// busy ones.
///
/// On Linux, niceness is not enough. Generating threads yield while they wait for each other. A
/// thread of the ordinary policy then takes a whole time slice, whatever its niceness.
fn give_way() {
    use thread_priority as priority;
    #[cfg(target_os = "linux")]
    let done = priority::set_thread_priority_and_policy(
        priority::thread_native_id(),
        priority::ThreadPriority::Min,
        priority::ThreadSchedulePolicy::Normal(priority::NormalThreadSchedulePolicy::Idle),
    );
    #[cfg(not(target_os = "linux"))]
    let done = priority::set_current_thread_priority(priority::ThreadPriority::Min);
    if let Err(error) = done {
        tracing::debug!(?error, "cannot lower the priority of a compile thread");
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Served {
    /// Creates the state that requests share, before the first request.
    pub(crate) fn new(model: ServedModel, options: &ServerOptions) -> Self {
        let constraints = Constraints::new(
            options.constraint_bytes,
            options.grammar_limits.clone(),
            Arc::clone(&options.schemas),
            options.compilers.get(),
        );
        constraints.prepare(model.engine.tokenizer().vocabulary());
        let format = ChatFormat::of(&*model.template, model.engine.tokenizer().vocabulary());
        let fill = FillTokens::of(model.engine.tokenizer().vocabulary());
        Self {
            model,
            constraints: Arc::new(constraints),
            json_format: format.with_json_calls(),
            format,
            fill,
        }
    }

    /// Returns the model with an adapter. Its name in responses is `MODEL:ADAPTER`.
    ///
    /// Returns `None` if the model has no adapter called `adapter`.
    pub(crate) fn with_adapter(&self, adapter: &str) -> Option<Self> {
        let model = ServedModel {
            id: format!("{}:{adapter}", self.model.id),
            aliases: Vec::new(),
            created: self.model.created,
            engine: self.model.engine.with_adapter(adapter)?,
            template: Arc::clone(&self.model.template),
        };
        let (format, fill) = (self.format.clone(), self.fill.clone());
        let (json_format, constraints) = (self.json_format.clone(), Arc::clone(&self.constraints));
        Some(Self { model, constraints, format, json_format, fill })
    }

    pub(crate) fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.model.engine.tokenizer().vocabulary()
    }
}

impl ServedModel {
    /// Returns the id, then the aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.id).chain(&self.aliases).map(String::as_str)
    }
}
