//! The models by their names: those that are there, and those that are loaded when somebody asks for them.
//!
//! A source is loaded once, however many requests wait for it. Where the bound on memory leaves no room for one, the models that
//! were used least recently make way, as long as nothing runs in them; where that is not enough, the request is told to come back.
//! What frees a model's memory is the end of its engine's thread, which an idle engine reaches at once, not the call here.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use formwork_engine::EngineHandle;
use formwork_lm::ChatTemplate;
use tokio::sync::watch;

use crate::app::{Served, ServedModel, ServerOptions};
use crate::error::{ApiError, AppError, AppKind, Kind};

/// Why a model could not be loaded.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Loads a model. It is called off the async threads, and again after the model was unloaded.
pub type Loader = Box<dyn Fn() -> Result<LoadedModel, LoadError> + Send + Sync>;

/// What a [`Loader`] makes.
pub struct LoadedModel {
    /// The engine that runs the model.
    pub engine: EngineHandle,
    /// How it wants a conversation written down.
    pub template: Arc<dyn ChatTemplate>,
}

/// A model that can be loaded, under the names by which requests ask for it.
pub struct ModelSource {
    /// The name that answers give.
    pub id: String,
    /// Further names for it.
    pub aliases: Vec<String>,
    /// When it was made available, in seconds since 1970.
    pub created: u64,
    /// About how much memory it takes.
    pub bytes: u64,
    /// Whether it is loaded at the start and stays, or when it is asked for and while there is room.
    pub at_start: bool,
    /// How to load it.
    pub load: Loader,
}

/// All models, by their names.
pub(crate) struct Registry {
    entries: Vec<Entry>,
    /// Ids and aliases, to places in `entries` and `slots`.
    places: HashMap<String, usize>,
    options: ServerOptions,
    slots: Mutex<Slots>,
}

/// What is known of a model before it is loaded.
struct Entry {
    names: Vec<String>,
    created: u64,
    bytes: u64,
    at_start: bool,
    /// `None` for those that are there already.
    load: Option<Loader>,
}

struct Slots {
    states: Vec<State>,
    /// When each was asked for last, by `clock`.
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
        Ok(Self { places: places(&entries)?, entries, options: options.clone(), slots })
    }

    /// The ids, each with all names and the time since when there is a model of them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries.iter().flat_map(|entry| entry.names.iter().map(|name| (name.as_str(), entry.created)))
    }

    /// When the model that is served as `name` was made available.
    pub(crate) fn created(&self, name: &str) -> Result<u64, ApiError> {
        Ok(self.entries[self.place(name)?].created)
    }

    /// The id of the only model there is.
    pub(crate) fn only(&self) -> Option<&str> {
        match self.entries.as_slice() {
            [entry] => entry.names.first().map(String::as_str),
            _ => None,
        }
    }

    /// All names, for a message.
    pub(crate) fn served(&self) -> String {
        self.names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }

    /// Whether all models that are to be there from the start are.
    pub(crate) fn ready(&self) -> bool {
        let slots = self.lock();
        let there = |(entry, state): (&Entry, &State)| !entry.at_start || matches!(state, State::Loaded(_));
        self.entries.iter().zip(&slots.states).all(there)
    }

    /// The id of each model, and what serves it if it is loaded.
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
                    return Err(AppKind::Load { model: model.clone(), reason: chain(&source) }.into());
                }
                Err(NoRoom) => return Err(AppKind::NoRoom { model: model.clone() }.into()),
            }
        }
        Ok(())
    }

    /// The model that is served as `name`, loaded if need be.
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
        Ok(outcome.unwrap_or_else(|| Err(Arc::new("the load was given up".into()))))
    }

    /// What there is of a model; if there is nothing, its load is begun.
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
            // The memory first: what is unloaded must not be there beside what is loaded.
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

    /// Takes out as many idle models as are in the way of one, least recently used first; none if that would not do.
    fn make_room(&self, slots: &mut Slots, index: usize) -> Result<Vec<State>, NoRoom> {
        let Some(limit) = self.options.models_max_bytes else { return Ok(Vec::new()) };
        if self.entries[index].at_start {
            return Ok(Vec::new());
        }
        // What is to stay has its room from the start.
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
            tracing::info!(model = self.entries[other].names[0], "unloaded");
            std::mem::replace(&mut slots.states[other], State::Unloaded)
        };
        Ok(leave.into_iter().map(unload).collect())
    }

    fn load(&self, index: usize) -> Outcome {
        let entry = &self.entries[index];
        let model = entry.names[0].as_str();
        let started = Instant::now();
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            let load = entry.load.as_ref().ok_or("there is nothing to load")?;
            let LoadedModel { engine, template } = load()?;
            let (id, aliases) = (model.to_owned(), entry.names[1..].to_vec());
            let model = ServedModel { id, aliases, created: entry.created, engine, template };
            Ok(Arc::new(Served::new(model, &self.options)))
        }));
        let outcome = loaded.unwrap_or_else(|_| Err("the loader panicked".into()));
        let ms = started.elapsed().as_millis() as u64;
        match &outcome {
            Ok(_) => tracing::info!(model, ms, "loaded"),
            Err(error) => tracing::error!(model, ms, error = %chain(error), "not loaded"),
        }
        outcome.map_err(Arc::new)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // States are replaced whole, so a panic elsewhere leaves them in order.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Found {
    Loaded(Arc<Served>),
    Loading(watch::Receiver<Option<Outcome>>),
}

/// Too much of the memory is in use.
struct NoRoom;

impl State {
    /// Whether nobody holds the model, and nothing runs in it. Who asked for it holds it until its engine knows.
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
    if entries.is_empty() {
        return Err(AppKind::NoModels.into());
    }
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

/// Each model must fit beside those that stay.
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

/// An error and its causes.
fn chain(error: &LoadError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
