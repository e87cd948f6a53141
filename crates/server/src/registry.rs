//! Registry of models by name. Models are present from the start or loaded on demand.
//!
//! A source is loaded once, even if several requests wait for it. If the memory limit leaves no
//! room, idle models are unloaded, least recently used first. If that does not make enough room,
//! the request fails and may be retried.
//!
//! The memory of a model is freed when its engine's thread ends, not when the registry drops the
//! model. An idle engine ends its thread at once.
//!
//! A model with adapters is served once for each of them and once without. The engine and the compiled
//! constraints are shared.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use formwork_engine::EngineHandle;
use formwork_lm::ChatTemplate;
use formwork_openai::{Model, ModelMeta};
use tokio::sync::watch;

use crate::app::{Served, ServedModel, ServerOptions};
use crate::error::{ApiError, AppError, AppKind, Kind, LoadError};

/// Function that loads a model. Called off the async threads, and again after the model was
/// unloaded.
pub type Loader = Box<dyn Fn() -> Result<LoadedModel, LoadError> + Send + Sync>;

/// Result of a [`Loader`].
pub struct LoadedModel {
    /// Engine that runs the model.
    pub engine: EngineHandle,
    /// Template that renders a conversation as a prompt.
    pub template: Arc<dyn ChatTemplate>,
}

/// A model that can be loaded, and its names.
pub struct ModelSource {
    /// Name of the model in responses.
    pub id: String,
    /// Further names for requests.
    pub aliases: Vec<String>,
    /// Time at which the model became available, in seconds since 1970.
    pub created: u64,
    /// Names of the model's adapters, which requests choose by `MODEL:ADAPTER`.
    pub adapters: Vec<String>,
    /// Estimated memory use in bytes, including the adapters.
    pub bytes: u64,
    /// True to load the model at startup and keep it. False to load it on demand and unload it for
    /// others.
    pub at_start: bool,
    /// Function that loads the model.
    pub load: Loader,
}

/// Names that clients send if their user has chosen no model. The first one stands for a missing name.
const PLACEHOLDERS: [&str; 8] = ["", "default", "local-model", "local", "model", "dummy", "any", "none"];

/// All models by name.
pub(crate) struct Registry {
    entries: Vec<Entry>,
    places: HashMap<String, Place>,
    options: ServerOptions,
    slots: Mutex<Slots>,
}

/// Information about a model, loaded or not.
struct Entry {
    names: Vec<String>,
    adapters: Vec<String>,
    created: u64,
    bytes: u64,
    at_start: bool,
    /// `None` for models that are always present.
    load: Option<Loader>,
}

/// Place of a name in the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Index into `entries` and `slots`.
    model: usize,
    /// Index of the adapter. `None` for the model without an adapter.
    adapter: Option<usize>,
}

struct Slots {
    states: Vec<State>,
    /// Time of each model's last request, as a value of `clock`.
    used: Vec<u64>,
    clock: u64,
}

enum State {
    Unloaded,
    Loading(watch::Receiver<Option<Outcome>>),
    Loaded(Variants),
}

/// A loaded model without adapters, and with each of its adapters.
#[derive(Clone)]
struct Variants {
    plain: Arc<Served>,
    adapted: Vec<Arc<Served>>,
}

type Outcome = Result<Variants, Arc<LoadError>>;

impl Registry {
    pub(crate) fn new(
        models: Vec<ServedModel>,
        sources: Vec<ModelSource>,
        options: &ServerOptions,
    ) -> Result<Self, AppError> {
        let mut entries: Vec<Entry> = models.iter().map(Entry::of_model).collect();
        let mut states = Vec::with_capacity(models.len() + sources.len());
        for model in models {
            let adapters = model.engine.adapters().to_vec();
            let variants = Variants::new(Served::new(model, options), &adapters);
            states.push(variants.map_or(State::Unloaded, State::Loaded));
        }
        for source in sources {
            entries.push(Entry::of_source(source));
            states.push(State::Unloaded);
        }
        check_room(&entries, options.models_max_bytes)?;
        let slots = Mutex::new(Slots { used: vec![0; states.len()], states, clock: 0 });
        Ok(Self { places: places(&entries)?, entries, options: options.clone(), slots })
    }

    /// Returns the entries of all names, aliases and adapters for the list of models.
    pub(crate) fn models(&self) -> impl Iterator<Item = Model> {
        self.entries.iter().zip(self.facts()).flat_map(|(entry, facts)| {
            let of_adapters = facts.clone();
            let names = entry.names.iter().map(move |name| entry.listed(name, facts.clone()));
            let adapters = entry.adapters.iter().map(move |adapter| {
                let name = format!("{}:{adapter}", entry.names[0]);
                entry.listed(&name, of_adapters.clone()).with_parent(&entry.names[0])
            });
            names.chain(adapters)
        })
    }

    /// Returns the facts about each model that is loaded.
    fn facts(&self) -> Vec<Option<ModelMeta>> {
        let facts = |(state, entry): (&State, &Entry)| match state {
            State::Loaded(variants) => {
                let engine = &variants.plain.model.engine;
                Some(ModelMeta {
                    n_ctx: engine.context_len(),
                    n_vocab: engine.tokenizer().vocabulary().len(),
                    size: Some(entry.bytes).filter(|&bytes| bytes > 0),
                    architecture: engine.architecture().map(str::to_owned),
                })
            }
            State::Unloaded | State::Loading(_) => None,
        };
        self.lock().states.iter().zip(&self.entries).map(facts).collect()
    }

    /// Returns the entry of the model called `name` for the list of models.
    pub(crate) fn model(&self, name: &str) -> Result<Model, ApiError> {
        let Place { model, adapter } = self.place(name)?;
        let entry = &self.entries[model];
        let model = entry.listed(name, self.facts().swap_remove(model));
        Ok(if adapter.is_some() { model.with_parent(&entry.names[0]) } else { model })
    }

    /// Returns the estimated memory use in bytes of the model called `name`. 0 if it is not known.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        self.place(name).map_or(0, |place| self.entries[place.model].bytes)
    }

    /// Returns the model called `name` if it is loaded.
    pub(crate) fn if_loaded(&self, name: &str) -> Option<Arc<Served>> {
        let Place { model, adapter } = self.place(name).ok()?;
        match &self.lock().states[model] {
            State::Loaded(variants) => Some(variants.clone().into_one(adapter)),
            State::Unloaded | State::Loading(_) => None,
        }
    }

    /// Returns the id of the only model, or `None` if there are several.
    pub(crate) fn only(&self) -> Option<&str> {
        match self.entries.as_slice() {
            [entry] => entry.names.first().map(String::as_str),
            _ => None,
        }
    }

    /// Returns all names as a list for error messages.
    pub(crate) fn served(&self) -> String {
        self.models().map(|model| model.id).collect::<Vec<_>>().join(", ")
    }

    /// Returns true if all models to load at startup are loaded.
    pub(crate) fn ready(&self) -> bool {
        let slots = self.lock();
        let there = |(entry, state): (&Entry, &State)| !entry.at_start || matches!(state, State::Loaded(_));
        self.entries.iter().zip(&slots.states).all(there)
    }

    /// Returns the id of each model, and the model itself if it is loaded.
    pub(crate) fn loaded(&self) -> Vec<(&str, Option<Arc<Served>>)> {
        let slots = self.lock();
        let served = slots.states.iter().map(|state| match state {
            State::Loaded(variants) => Some(Arc::clone(&variants.plain)),
            State::Unloaded | State::Loading(_) => None,
        });
        self.entries.iter().map(|entry| entry.names[0].as_str()).zip(served).collect()
    }

    pub(crate) async fn load_at_start(self: &Arc<Self>) -> Result<(), AppError> {
        for (index, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.at_start) {
            let model = &entry.names[0];
            match self.at(index).await {
                Ok(Ok(_)) => {}
                Ok(Err(source)) => {
                    return Err(AppKind::Load { model: model.clone(), source }.into());
                }
                Err(NoRoom) => return Err(AppKind::NoRoom { model: model.clone() }.into()),
            }
        }
        Ok(())
    }

    /// Returns the model called `name`, and loads it if necessary.
    pub(crate) async fn get(self: &Arc<Self>, name: &str) -> Result<Arc<Served>, ApiError> {
        let Place { model, adapter } = self.place(name)?;
        match self.at(model).await {
            Ok(Ok(variants)) => Ok(variants.into_one(adapter)),
            Ok(Err(_)) => Err(Kind::Load { model: name.to_owned() }.into()),
            Err(NoRoom) => Err(Kind::NoRoom { model: name.to_owned() }.into()),
        }
    }

    /// Returns the place of a name. `NAME:latest` is a name of Ollama's clients, and a placeholder stands
    /// for the only model.
    fn place(&self, name: &str) -> Result<Place, ApiError> {
        let known = self.places.get(name).or_else(|| self.places.get(name.strip_suffix(":latest")?));
        if let Some(place) = known {
            return Ok(*place);
        }
        if !PLACEHOLDERS.contains(&name) {
            return Err(Kind::Model { given: name.to_owned(), served: self.served() }.into());
        }
        if self.entries.len() == 1 {
            return Ok(Place { model: 0, adapter: None });
        }
        Err(Kind::NoModel { served: self.served() }.into())
    }

    async fn at(self: &Arc<Self>, index: usize) -> Result<Outcome, NoRoom> {
        let mut loading = match self.find(index)? {
            Found::Loaded(variants) => return Ok(Ok(variants)),
            Found::Loading(receiver) => receiver,
        };
        let outcome = match loading.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        };
        Ok(outcome.unwrap_or_else(|| Err(Arc::new("loading was aborted".into()))))
    }

    /// Returns the model or its load in progress; starts loading if there is neither.
    fn find(self: &Arc<Self>, index: usize) -> Result<Found, NoRoom> {
        let mut slots = self.lock();
        slots.clock += 1;
        slots.used[index] = slots.clock;
        match &slots.states[index] {
            State::Loaded(variants) => return Ok(Found::Loaded(variants.clone())),
            State::Loading(receiver) => return Ok(Found::Loading(receiver.clone())),
            State::Unloaded => {}
        }
        let unloaded = self.make_room(&mut slots, index)?;
        let (sender, receiver) = watch::channel(None);
        slots.states[index] = State::Loading(receiver.clone());
        drop(slots);
        let registry = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            // Frees memory first: the unloaded models must not coexist with the new one.
            drop(unloaded);
            let outcome = registry.load(index);
            registry.lock().states[index] = match &outcome {
                Ok(variants) => State::Loaded(variants.clone()),
                Err(_) => State::Unloaded,
            };
            sender.send_replace(Some(outcome));
        });
        Ok(Found::Loading(receiver))
    }

    /// Unloads enough idle models to make room for one, least recently used first.
    ///
    /// Unloads nothing if that would not make enough room.
    fn make_room(&self, slots: &mut Slots, index: usize) -> Result<Vec<State>, NoRoom> {
        let Some(limit) = self.options.models_max_bytes else { return Ok(Vec::new()) };
        if self.entries[index].at_start {
            return Ok(Vec::new());
        }
        // Models that stay loaded have reserved room, even before they are loaded.
        let counts = |(entry, state): &(&Entry, &State)| entry.at_start || !matches!(state, State::Unloaded);
        let taken = self.entries.iter().zip(&slots.states).filter(counts);
        let mut taken: u64 = taken.map(|(entry, _)| entry.bytes).sum();
        let needed = self.entries[index].bytes;
        let mut by_use: Vec<usize> = (0..self.entries.len()).collect();
        by_use.sort_by_key(|&other| slots.used[other]);
        let mut leave = Vec::new();
        for other in by_use {
            if taken.saturating_add(needed) <= limit {
                break;
            }
            let entry = &self.entries[other];
            if entry.load.is_some() && !entry.at_start && slots.states[other].is_idle() {
                taken -= entry.bytes;
                leave.push(other);
            }
        }
        if taken.saturating_add(needed) > limit {
            return Err(NoRoom);
        }
        let unload = |other: usize| {
            tracing::info!(model = self.entries[other].names[0], "model unloaded");
            std::mem::replace(&mut slots.states[other], State::Unloaded)
        };
        Ok(leave.into_iter().map(unload).collect())
    }

    fn load(&self, index: usize) -> Outcome {
        let entry = &self.entries[index];
        let model = entry.names[0].as_str();
        let started = Instant::now();
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            let load = entry.load.as_ref().ok_or("the model has no loader")?;
            let LoadedModel { engine, template } = load()?;
            let (id, aliases) = (model.to_owned(), entry.names[1..].to_vec());
            let model = ServedModel { id, aliases, created: entry.created, engine, template };
            let variants = Variants::new(Served::new(model, &self.options), &entry.adapters);
            Ok(variants.ok_or("the model does not have all of its adapters")?)
        }));
        let outcome = loaded.unwrap_or_else(|_| Err("the loader panicked".into()));
        let ms = started.elapsed().as_millis() as u64;
        match &outcome {
            Ok(_) => tracing::info!(model, ms, "model loaded"),
            Err(error) => tracing::error!(model, ms, error = %chain(error), "cannot load the model"),
        }
        outcome.map_err(Arc::new)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // States are replaced as a whole, so a panic elsewhere leaves them consistent.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    Loaded(Variants),
    Loading(watch::Receiver<Option<Outcome>>),
}

/// Error: too much of the memory is in use.
struct NoRoom;

impl State {
    /// Returns true if the model is loaded, no caller holds it, and its engine is idle.
    ///
    /// A request holds the model until its engine has accepted the request.
    fn is_idle(&mut self) -> bool {
        match self {
            Self::Loaded(Variants { plain, adapted }) => {
                adapted.iter_mut().all(|served| Arc::get_mut(served).is_some())
                    && Arc::get_mut(plain).is_some_and(|served| served.model.engine.is_idle())
            }
            Self::Unloaded | Self::Loading(_) => false,
        }
    }
}

impl Variants {
    /// Creates a loaded model with and without its adapters. Returns `None` if the engine does not have
    /// one of them.
    fn new(plain: Served, adapters: &[String]) -> Option<Self> {
        let adapted = adapters.iter().map(|adapter| plain.with_adapter(adapter).map(Arc::new));
        let adapted = adapted.collect::<Option<_>>()?;
        Some(Self { plain: Arc::new(plain), adapted })
    }

    /// Returns the model with the given adapter.
    fn into_one(mut self, adapter: Option<usize>) -> Arc<Served> {
        match adapter {
            Some(adapter) if adapter < self.adapted.len() => self.adapted.swap_remove(adapter),
            _ => self.plain,
        }
    }
}

impl Entry {
    fn of_model(model: &ServedModel) -> Self {
        let names = model.names().map(str::to_owned).collect();
        let adapters = model.engine.adapters().to_vec();
        Self { names, adapters, created: model.created, bytes: 0, at_start: false, load: None }
    }

    /// Returns the entry of a name for the list of models.
    fn listed(&self, name: &str, facts: Option<ModelMeta>) -> Model {
        let model = Model::new(name, self.created);
        match facts {
            Some(facts) => model.with_meta(facts),
            None => model,
        }
    }

    fn of_source(source: ModelSource) -> Self {
        let ModelSource { id, aliases, created, adapters, bytes, at_start, load } = source;
        let names = std::iter::once(id).chain(aliases).collect();
        Self { names, adapters, created, bytes, at_start, load: Some(load) }
    }
}

/// Returns the places of all names. An adapter has the names `MODEL:ADAPTER` with each name of its
/// model. It also has its own name if no model and no other adapter has this name.
fn places(entries: &[Entry]) -> Result<HashMap<String, Place>, AppError> {
    let mut places: HashMap<String, Place> = HashMap::new();
    let mut insert = |name: String, place: Place| match places.insert(name.clone(), place) {
        Some(other) if other != place => Err(AppError::from(AppKind::SameName { name })),
        _ => Ok(()),
    };
    for (model, entry) in entries.iter().enumerate() {
        for name in &entry.names {
            insert(name.clone(), Place { model, adapter: None })?;
            for (adapter, own) in entry.adapters.iter().enumerate() {
                insert(format!("{name}:{own}"), Place { model, adapter: Some(adapter) })?;
            }
        }
    }
    let adapters = || entries.iter().flat_map(|entry| &entry.adapters);
    for (model, entry) in entries.iter().enumerate() {
        for (adapter, own) in entry.adapters.iter().enumerate() {
            if adapters().filter(|other| *other == own).count() == 1 {
                places.entry(own.clone()).or_insert(Place { model, adapter: Some(adapter) });
            }
        }
    }
    Ok(places)
}

/// Checks that each model fits beside the models that stay loaded.
fn check_room(entries: &[Entry], limit: Option<u64>) -> Result<(), AppError> {
    let Some(limit) = limit else { return Ok(()) };
    let staying: u64 = entries.iter().filter(|entry| entry.at_start).map(|entry| entry.bytes).sum();
    for entry in entries {
        let needed = if entry.at_start { staying } else { staying.saturating_add(entry.bytes) };
        if needed > limit {
            return Err(AppKind::DoesNotFit { name: entry.names[0].clone(), needed, limit }.into());
        }
    }
    Ok(())
}

/// Returns the messages of an error and its causes.
fn chain(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
