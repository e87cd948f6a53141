use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use formwork_chat::ChatFormat;
use formwork_engine::EngineHandle;
use formwork_grammar::{Limits, Remotes};
use formwork_lm::ChatTemplate;
use formwork_vocab::Vocabulary;
use tokio::sync::{Semaphore, oneshot};

use crate::constraints::{Compiling, Constraints};
use crate::error::{ApiError, AppError, Kind};
use crate::metrics::Counters;
use crate::registry::{ModelSource, Registry};

/// A model under the names by which requests ask for it.
pub struct ServedModel {
    /// The name that answers give.
    pub id: String,
    /// Further names for it.
    pub aliases: Vec<String>,
    /// When it was made available, in seconds since 1970.
    pub created: u64,
    /// The engine that runs it.
    pub engine: EngineHandle,
    /// How it wants a conversation written down.
    pub template: Arc<dyn ChatTemplate>,
}

/// How the server is run.
#[derive(Clone)]
pub struct ServerOptions {
    /// The keys of which requests must bring one; none lets all in.
    pub api_keys: Vec<String>,
    /// The origins whose pages may call the server from a browser, such as `https://example.com`; `*` is any.
    pub cors_origins: Vec<String>,
    /// The most bytes that a request's body may have.
    pub body_limit: usize,
    /// How long a request's head may take to arrive, how long its body may, and how long a client may take nothing of an answer.
    pub read_timeout: Duration,
    /// How long a generation may take, its time in the queue included.
    pub request_timeout: Option<Duration>,
    /// The most bytes that all models together may take by their own estimates; `None` loads whatever is asked for.
    pub models_max_bytes: Option<u64>,
    /// Bytes of compiled constraints, with their caches, that each model keeps for later requests.
    pub constraint_bytes: usize,
    /// The limits of each constraint.
    pub grammar_limits: Limits,
    /// The number of constraints that may be compiled at the same time, each on a thread of its own.
    pub compilers: NonZeroUsize,
    /// Documents that the schemas of requests may refer to.
    pub schemas: Arc<Remotes>,
    /// How long requests may go on once the server is told to stop.
    pub shutdown_limit: Duration,
}

impl Default for ServerOptions {
    /// Returns the defaults that `docs/limits.md` lists: no key, no origins, and half of the library's limits
    /// for a compilation.
    fn default() -> Self {
        let library = Limits::default();
        Self {
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
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
            shutdown_limit: Duration::from_secs(30),
        }
    }
}

/// The models that are served, and how. Cheap to clone.
#[derive(Clone)]
pub struct App {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<Registry>,
    options: ServerOptions,
    /// One permit for each piece of work off the async threads that may run at the same time.
    workers: Arc<Semaphore>,
    /// Permits for work that compiles. They are separate, so that compiling never delays other work.
    compilers: Arc<Semaphore>,
    /// Permits for work that compiles what takes little.
    quick_compilers: Arc<Semaphore>,
    counters: Counters,
}

/// A served model with what requests to it share.
pub(crate) struct Served {
    pub(crate) model: ServedModel,
    pub(crate) constraints: Constraints,
    /// How the model writes answers.
    pub(crate) format: ChatFormat,
}

impl App {
    /// An app that serves `models`.
    ///
    /// # Errors
    /// When there are none, or two have a name in common.
    pub fn new(models: Vec<ServedModel>, options: ServerOptions) -> Result<Self, AppError> {
        Self::with_sources(models, Vec::new(), options)
    }

    /// An app that serves `models`, and loads those of `sources` on its own.
    ///
    /// # Errors
    /// When there are none at all, two have a name in common, or one can never fit beside those that stay.
    pub fn with_sources(
        models: Vec<ServedModel>,
        sources: Vec<ModelSource>,
        options: ServerOptions,
    ) -> Result<Self, AppError> {
        let registry = Arc::new(Registry::new(models, sources, &options)?);
        let workers = Arc::new(Semaphore::new(cores()));
        let permits = || Arc::new(Semaphore::new(options.compilers.get()));
        let (compilers, quick_compilers) = (permits(), permits());
        let counters = Counters::default();
        Ok(Self {
            shared: Arc::new(Shared { registry, options, workers, compilers, quick_compilers, counters }),
        })
    }

    /// Loads the models that are to be there from the start; requests for them wait meanwhile.
    ///
    /// # Errors
    /// With the first that could not be loaded.
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

    /// The model that is served as `name`, loaded if need be. It stays as long as it is held or generates.
    pub(crate) async fn model(&self, name: &str) -> Result<Arc<Served>, ApiError> {
        self.shared.registry.get(name).await
    }

    /// As [`App::model`]; without a name the only model there is.
    pub(crate) async fn model_or_only(&self, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        match name.or_else(|| self.registry().only()) {
            Some(name) => self.model(name).await,
            None => Err(Kind::NoModel { served: self.registry().served() }.into()),
        }
    }

    /// Does some work off the async threads, when there is room for it. It goes on when nobody waits for it any more.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        run(Arc::clone(&self.shared.workers), work).await
    }

    /// Runs work that compiles constraints on a thread of the lowest priority.
    ///
    /// The first attempt allows little work. If that is too little, the second allows all that the limits do.
    /// Most constraints need little, and do not wait behind those that take a second.
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

    /// As [`App::offload`]. Work that needs an unknown constraint is done again as work that compiles.
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

/// Like [`run`], on a thread of the lowest priority.
async fn run_beside<T: Send + 'static>(
    permits: Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let permit = permits.acquire_owned().await;
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        let _permit = permit;
        give_way();
        // Nobody waits for it any more if this fails.
        let _ = sender.send(work());
    };
    // A thread of its own, since a thread may not raise its priority again.
    let thread = std::thread::Builder::new().name("formwork-compile".to_owned()).spawn(work);
    thread.map_err(|_| Kind::Panicked)?;
    receiver.await.map_err(|_| Kind::Panicked)?
}

/// Gives this thread the lowest priority, so that it uses idle processors and a few per cent of busy ones.
///
/// On Linux, niceness is not enough. Generating threads yield while they wait for each other. A thread of the
/// ordinary policy then takes a whole time slice, whatever its niceness.
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
        tracing::debug!(?error, "compiling at full priority");
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Served {
    /// Makes what requests share, before the first comes.
    pub(crate) fn new(model: ServedModel, options: &ServerOptions) -> Self {
        let constraints = Constraints::new(
            options.constraint_bytes,
            options.grammar_limits.clone(),
            Arc::clone(&options.schemas),
        );
        constraints.prepare(model.engine.tokenizer().vocabulary());
        let format = ChatFormat::of(&*model.template, model.engine.tokenizer().vocabulary());
        Self { model, constraints, format }
    }

    pub(crate) fn vocabulary(&self) -> &Arc<Vocabulary> {
        self.model.engine.tokenizer().vocabulary()
    }
}

impl ServedModel {
    /// The id, then the aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.id).chain(&self.aliases).map(String::as_str)
    }
}
