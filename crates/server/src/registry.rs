//! Registry of models by name. Models are present from the start or loaded on demand.
//!
//! A source is loaded once, even if several requests wait for it. If the memory limit leaves no
//! room, idle models are unloaded, least recently used first. If that does not make enough room,
//! the request fails and may be retried.
//!
//! The memory of a model is freed when its engine's thread ends, not when the registry drops the
//! model. An idle engine ends its thread at once.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use formwork_engine::EngineHandle;
use formwork_lm::ChatTemplate;
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
    /// Estimated memory use in bytes.
    pub bytes: u64,
    /// True to load the model at startup and keep it. False to load it on demand and unload it for
    /// others.
    pub at_start: bool,
    /// Function that loads the model.
    pub load: Loader,
}

/// All models by name.
pub(crate) struct Registry {
    entries: Vec<Entry>,
    /// Maps ids and aliases to indices into `entries` and `slots`.
    places: HashMap<String, usize>,
    options: ServerOptions,
    slots: Mutex<Slots>,
}

/// Information about a model, loaded or not.
struct Entry {
    names: Vec<String>,
    created: u64,
    bytes: u64,
    at_start: bool,
    /// `None` for models that are always present.
    load: Option<Loader>,
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
    Loaded(Arc<Served>),
}

type Outcome = Result<Arc<Served>, Arc<LoadError>>;

impl Registry {
    pub(crate) fn new(
        models: Vec<ServedModel>,
        sources: Vec<ModelSource>,
        options: &ServerOptions,
    ) -> Result<Self, AppError> {
        let mut entries: Vec<Entry> = models.iter().map(Entry::of_model).collect();
        let mut states = Vec::with_capacity(models.len() + sources.len());
        states.extend(models.into_iter().map(|model| State::Loaded(Arc::new(Served::new(model, options)))));
        for source in sources {
            entries.push(Entry::of_source(source));
            states.push(State::Unloaded);
        }
        check_room(&entries, options.models_max_bytes)?;
        let slots = Mutex::new(Slots { used: vec![0; states.len()], states, clock: 0 });
        if entries.is_empty() && options.providers.names().next().is_none() {
            return Err(AppKind::NoModels.into());
        }
        Ok(Self { places: places(&entries)?, entries, options: options.clone(), slots })
    }

    /// Returns all names and aliases, each with the time at which its model became available.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries.iter().flat_map(|entry| entry.names.iter().map(|name| (name.as_str(), entry.created)))
    }

    /// Returns the time at which the model called `name` became available.
    pub(crate) fn created(&self, name: &str) -> Result<u64, ApiError> {
        Ok(self.entries[self.place(name)?].created)
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
        self.names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
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
            State::Loaded(served) => Some(Arc::clone(served)),
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
        let index = self.place(name)?;
        match self.at(index).await {
            Ok(Ok(served)) => Ok(served),
            Ok(Err(_)) => Err(Kind::Load { model: name.to_owned() }.into()),
            Err(NoRoom) => Err(Kind::NoRoom { model: name.to_owned() }.into()),
        }
    }

    fn place(&self, name: &str) -> Result<usize, ApiError> {
        let unknown = || Kind::Model { given: name.to_owned(), served: self.served() };
        Ok(*self.places.get(name).ok_or_else(unknown)?)
    }

    async fn at(self: &Arc<Self>, index: usize) -> Result<Outcome, NoRoom> {
        let mut loading = match self.find(index)? {
            Found::Loaded(served) => return Ok(Ok(served)),
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
            State::Loaded(served) => return Ok(Found::Loaded(Arc::clone(served))),
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
                Ok(served) => State::Loaded(Arc::clone(served)),
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
            Ok(Arc::new(Served::new(model, &self.options)))
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
    Loaded(Arc<Served>),
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
            Self::Loaded(served) => Arc::get_mut(served).is_some_and(|served| served.model.engine.is_idle()),
            Self::Unloaded | Self::Loading(_) => false,
        }
    }
}

impl Entry {
    fn of_model(model: &ServedModel) -> Self {
        let names = model.names().map(str::to_owned).collect();
        Self { names, created: model.created, bytes: 0, at_start: false, load: None }
    }

    fn of_source(source: ModelSource) -> Self {
        let ModelSource { id, aliases, created, bytes, at_start, load } = source;
        let names = std::iter::once(id).chain(aliases).collect();
        Self { names, created, bytes, at_start, load: Some(load) }
    }
}

fn places(entries: &[Entry]) -> Result<HashMap<String, usize>, AppError> {
    let mut places = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        for name in &entry.names {
            if places.insert(name.clone(), index).is_some_and(|other| other != index) {
                return Err(AppKind::SameName { name: name.clone() }.into());
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
