use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// Cache of values derived from a vocabulary, with at most one value of each type.
#[derive(Clone, Default)]
pub(crate) struct Derived(Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>);

impl Derived {
    /// Returns the cached value of type `T`. If there is none, calls `make` to create the value.
    /// Other callers wait meanwhile.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        // A panic in `make` leaves the list unchanged, so a poisoned lock is still usable.
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.iter().find_map(|value| Arc::clone(value).downcast().ok()) {
            return known;
        }
        let value = Arc::new(make());
        values.push(Arc::clone(&value) as Arc<dyn Any + Send + Sync>);
        value
    }
}

impl std::fmt::Debug for Derived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Derived")
    }
}
