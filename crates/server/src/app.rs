use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use formwork_engine::EngineHandle;
use formwork_grammar::Limits;
use formwork_lm::ChatTemplate;

use crate::constraints::Constraints;
use crate::error::{ApiError, AppError, AppKind, Kind};

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
    /// The key that requests must bring, if any.
    pub api_key: Option<String>,
    /// The most bytes that a request's body may have.
    pub body_limit: usize,
    /// How many compiled constraints each model keeps for requests to come.
    pub cached_constraints: usize,
    /// The limits of each constraint.
    pub grammar_limits: Limits,
    /// How long requests may go on once the server is told to stop.
    pub shutdown_limit: Duration,
}

impl Default for ServerOptions {
    /// No key; bodies of up to 8 MiB; 32 constraints that hold up to 32 MiB each, so that their caches stay within 1 GiB
    /// per model; 30 seconds to finish.
    fn default() -> Self {
        Self {
            api_key: None,
            body_limit: 8 << 20,
            cached_constraints: 32,
            grammar_limits: Limits { cache_bytes: 32 << 20, ..Limits::default() },
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
    models: Vec<Arc<Served>>,
    /// Ids and aliases, to places in `models`.
    names: HashMap<String, usize>,
    options: ServerOptions,
}

/// A served model with what requests to it share.
pub(crate) struct Served {
    pub(crate) model: ServedModel,
    pub(crate) constraints: Constraints,
}

impl App {
    /// An app that serves `models`.
    ///
    /// # Errors
    /// When there are none, or two have a name in common.
    pub fn new(models: Vec<ServedModel>, options: ServerOptions) -> Result<Self, AppError> {
        if models.is_empty() {
            return Err(AppKind::NoModels.into());
        }
        let mut names = HashMap::new();
        for (index, model) in models.iter().enumerate() {
            for name in model.names() {
                if names.insert(name.to_owned(), index).is_some_and(|other| other != index) {
                    return Err(AppKind::SameName { name: name.to_owned() }.into());
                }
            }
        }
        let serve = |model: ServedModel| {
            let constraints = Constraints::new(options.cached_constraints, options.grammar_limits.clone());
            constraints.prepare(model.engine.tokenizer().vocabulary());
            Arc::new(Served { model, constraints })
        };
        let models = models.into_iter().map(serve).collect();
        Ok(Self { shared: Arc::new(Shared { models, names, options }) })
    }

    pub(crate) fn options(&self) -> &ServerOptions {
        &self.shared.options
    }

    pub(crate) fn models(&self) -> impl Iterator<Item = &ServedModel> {
        self.shared.models.iter().map(|served| &served.model)
    }

    /// The model that is served as `name`.
    pub(crate) fn model(&self, name: &str) -> Result<&Arc<Served>, ApiError> {
        let index = self.shared.names.get(name).ok_or_else(|| {
            let served: Vec<_> = self.models().flat_map(ServedModel::names).collect();
            Kind::Model { given: name.to_owned(), served: served.join(", ") }
        })?;
        Ok(&self.shared.models[*index])
    }
}

impl ServedModel {
    /// The id, then the aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.id).chain(&self.aliases).map(String::as_str)
    }
}
