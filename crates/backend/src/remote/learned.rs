//! Findings about the models of a server.

use super::wire::address;
use super::{RemoteBackend, lock};
use crate::{Adjustment, Dialect, Feature, ModelSupport, Notice};

impl RemoteBackend {
    /// Returns the findings about a model, from this process or from the memory.
    pub(super) fn support(&self, model: &str) -> ModelSupport {
        let mut found = lock(&self.found);
        if let Some(support) = found.get(model) {
            return support.clone();
        }
        let stored = self.memory.as_ref().and_then(|memory| memory.load(&address(&self.endpoint), model));
        if stored.is_some() {
            lock(&self.recalled).insert(model.to_owned());
        }
        found.entry(model.to_owned()).or_insert(stored.unwrap_or_default()).clone()
    }

    /// Changes the findings about a model.
    pub(super) fn change(&self, model: &str, change: impl Fn(&mut ModelSupport)) {
        let mut support = self.support(model);
        change(&mut support);
        if let Some(memory) = &self.memory {
            memory.update(&address(&self.endpoint), model, &change);
        }
        lock(&self.found).insert(model.to_owned(), support);
    }

    /// Remembers the dialect with which a request succeeded.
    pub(super) fn learn(&self, model: &str, adjustments: &[Adjustment], dialect: Dialect) {
        if adjustments.is_empty() {
            return;
        }
        self.change(model, |support| support.dialect = dialect);
        for &adjustment in adjustments {
            match adjustment {
                Adjustment::NoTemperature => self.tell_once(model),
                Adjustment::TokenLimit(_) => {
                    (self.notices)(&Notice::Adjusted { model: model.to_owned(), adjustment });
                }
            }
        }
    }

    /// Reports once for each model that no temperature is sent.
    pub(super) fn tell_once(&self, model: &str) {
        if lock(&self.told).insert(model.to_owned()) {
            let adjustment = Adjustment::NoTemperature;
            (self.notices)(&Notice::Adjusted { model: model.to_owned(), adjustment });
        }
    }

    /// Returns whether a feature is supported, if that is declared or was probed.
    pub(super) fn known(&self, model: &str, feature: Feature) -> Option<bool> {
        match self.declared {
            Some(declared) => Some(declared.has(feature)),
            None => self.support(model).features.get(&feature).copied(),
        }
    }

    /// Records that an answer did not satisfy a constraint. A single answer may be an exception, so
    /// the constraint counts as unsupported from the second such answer in a row.
    pub(super) fn doubt(&self, model: &str, feature: Feature) {
        let support = self.support(model);
        if self.declared.is_some() || support.features.get(&feature) != Some(&true) {
            return;
        }
        self.change(model, |support| {
            if support.doubts.insert(feature) {
                return;
            }
            support.doubts.remove(&feature);
            support.set(feature, false);
        });
    }

    /// Records that an answer satisfied a constraint.
    pub(super) fn trust(&self, model: &str, feature: Feature) {
        if self.support(model).doubts.contains(&feature) {
            self.change(model, |support| {
                support.doubts.remove(&feature);
            });
        }
    }
}
